// Package site is one controllerd and its data directory: it prepares the
// directory, opens what is in it, serves, and ends it all again.
//
//	DIR/controller.yaml          what the controller was prepared with
//	DIR/ca.pem                   the authority that clients trust
//	DIR/ca-key.pem, server*.pem  its key, and what the server proves its name with (0600)
//	DIR/hosts.key                what seals the credentials of hosts, for every controller (0600)
//	DIR/store/                   the embedded store, unless the state is in MongoDB
//	DIR/client/                  the operator's client files (0600)
//	DIR/agents/machine-0.yaml    the identity of the site's first worker (0600)
//	DIR/backups/                 what was there before an upgrade (0600)
//	DIR/rack/                    the simulated rack of controllerd dev
//
// The directory is private (0700). Everything that a site is, is in it, and one
// process at a time may use it.
package site
