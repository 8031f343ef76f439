// Package storetest holds what every store has to do, as one suite of tests,
// and stores made for testing.
//
// RunConformance is the suite. A new store is right when it passes:
//
//	func TestConformance(t *testing.T) {
//		storetest.RunConformance(t, func(t *testing.T) storetest.Subject {
//			dir := t.TempDir()
//			return storetest.Subject{Open: func(t *testing.T, o storetest.Options) store.Store { ... }}
//		})
//	}
//
// New returns a store in memory, which passes the suite too. Failing returns a
// store whose every call fails, and Tap counts calls and injects faults.
package storetest
