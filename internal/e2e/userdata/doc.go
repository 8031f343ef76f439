// Package userdata checks, with the real programs, what new instances are
// given: cloud-init's validator, and Python for the installer of the agent.
// Its tests have the build tag e2e.
package userdata
