//go:build !linux

package upgrader

import "syscall"

// childAttributes has a child be the head of a group.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
