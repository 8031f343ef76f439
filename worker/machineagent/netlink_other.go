//go:build !linux

package machineagent

import "context"

// Changes implements System: here nothing is told.
func (ThisMachine) Changes(context.Context) <-chan struct{} {
	out := make(chan struct{})
	close(out)
	return out
}
