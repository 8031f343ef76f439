// Package userdata says how a new instance becomes a machine: what lies on its
// disk before its first boot, and what cloud-init does at that boot.
//
// There are two ways, which agree on every path:
//
//   - an image with cloud-init gets the text that CloudInit returns. If the
//     provider can write to the instance's disk, it lays down the agent file
//     itself (AgentFileLaid), and then the user data holds no secret at all. The
//     agent waits for it, so it may come after the boot has begun;
//   - an image without cloud-init has Files and a static agent, at AgentPath,
//     written to its disk (AgentLaid). With systemd nothing else is needed; any
//     other init has to run Command.
//
// # Secrets
//
// The agent file holds the agent's password and nonce. It belongs to root and
// nobody else may read it, as on every path of this package. The password is
// good until the agent has logged in once: it then sets one that only it knows,
// so what is left in an instance's metadata opens nothing.
//
// # The agent's package
//
// An agent that is not laid down is downloaded from the controller: over TLS
// that the site's CA alone vouches for and under the name that all controllers
// have, so neither a proxy nor another machine can take a controller's place,
// and only if its size and SHA-256 are as announced. A package is a gzip'd tar
// archive with the program "provisionerd" at its root. The download runs before
// the agent's service starts, and again every few seconds until it succeeds,
// with one line in the system's log each time.
package userdata
