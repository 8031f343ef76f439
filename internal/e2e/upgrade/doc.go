// Package upgrade tests upgrades of a machine's agent: a real controller, a real
// agent, real packages, with an init that does nothing but start the agent again.
package upgrade
