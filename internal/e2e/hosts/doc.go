// Package hosts takes a rack of 200 fake BMCs, some of which go wrong, from the import of
// their hosts to their removal: over the real API, with a controller, a worker and BMCs that
// are processes of their own, Redfish over TLS, and machines that imitate the installer. The
// worker is killed while hosts are in every state. Its tests have the build tag e2e.
package hosts
