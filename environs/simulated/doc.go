// Package simulated is a data centre that is not there: a Rack with zones and a
// catalogue of hardware, whose instances are started as slowly, and fail as
// often, as it is told, and run agents that really log in to the API.
//
// A Rack runs in the process of its user, or as a process of its own behind
// NewServer, which Dial reaches. Its Provider makes either of them an Environ.
//
// What the Rack does is decided by a Behaviour: a distribution of delays and a
// rate of each kind of fault, per kind of call. The dice are thrown from a seed,
// the call, the machine and how often the call was made for that machine, so a
// run can be repeated whatever the order in which machines come. A single
// machine can be told to fail with AddFault, or with its placement "fail=N".
//
// Instances outlive the process: they are kept in a journal in the data
// directory, and their agents start again with the Rack.
package simulated
