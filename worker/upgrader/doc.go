// Package upgrader has the agent of a machine become another version of itself,
// when the controller says so, and go back if that one does not work.
//
// # Where the agent is
//
// One directory, by default /var/lib/slipway/agent, has a directory for each
// version, named as its package is ("2.0.1-jammy-amd64"), with the program
// "provisionerd" in it. The link "current" points to the one that runs; it is what
// the machine's init starts. Where a provider laid "current" down as a directory,
// the program in it becomes a link with the first upgrade instead. An agent that
// was installed elsewhere, such as by a package of the system, is never touched.
//
// # How a version is changed
//
//  1. The package is fetched over TLS that the site's CA alone vouches for, and
//     must have the size and SHA-256 that were announced. Its program must be for
//     this architecture and say that it is the version it is called by.
//  2. The new program is run beside the old one, to log in once. It changes
//     nothing. If it ends otherwise, or takes longer than the deadline, it is
//     called bad, and not tried again until another version is offered.
//  3. The link is pointed at it, the agent ends its connection and replaces itself
//     in its own process, so that it makes no difference which init runs it.
//  4. If it then does not log in within the deadline, or has been started three
//     times without having done so, it points the link back, replaces itself by
//     the old program, and is called bad.
//
// What is going on is in the file upgrade.json, which is written before the step
// that it is about. All files are written whole, and made durable before they are
// pointed to. So an agent that loses power, at any moment, finds one version or
// the other in place, and never one that has not logged in.
//
// An agent does not go back to an older version than it runs unless the operator
// asked for that.
package upgrader
