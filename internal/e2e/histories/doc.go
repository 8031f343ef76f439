// Package histories kills a controller on the embedded store again and again while
// clients change machines and others watch them, and looks for an order of deeds
// that explains what all of them saw: what was acknowledged before a kill is there
// after it, whole or not at all what was not. The tests need the tag e2e.
package histories
