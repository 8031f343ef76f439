// Package hosts takes hundreds of simulated bare-metal hosts, some of which go wrong,
// from their addition to their end over the real API, and kills the process that
// cares for them in every state. Its tests have the build tag e2e.
package hosts
