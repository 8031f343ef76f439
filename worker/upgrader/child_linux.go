package upgrader

import "syscall"

// childAttributes has a child be the head of a group, and end with this process.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
