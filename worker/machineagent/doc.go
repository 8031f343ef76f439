// Package machineagent is the agent of a machine: it runs on the machine itself
// and is how the controller hears of it.
//
// The agent logs in with what its agent file says, and goes on trying until that
// works. The first time it then replaces the password that the machine was
// provisioned with by one that only it knows. While it is connected it reports
// the machine's addresses and that it has started, keeps in mind where the
// controllers are, and watches the life of its machine. When that is dying it
// reports that it has stopped, calls the machine dead, removes its agent file and
// ends.
//
// # What it survives
//
//   - A crash at any moment of the change of password: the new one is in the
//     agent file before the controller hears of it, and the old one stays there
//     until the controller has taken it. Either is tried.
//   - An agent file that is missing or cut off, a full disk, a controller that is
//     away, refuses it, or has a certificate that is not valid by this machine's
//     clock: it says so in one line, once, and tries again.
//
// A refusal is never taken for the machine's end. Only the controller's word,
// over a connection that is logged in, has the agent clean up.
package machineagent
