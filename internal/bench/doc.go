// Command bench measures a site as its users meet it: a controllerd of its own
// process, and as clients this process, slipway, and a simulated rack with its
// worker, each in a process too; so is the person who makes calls while thousands of
// agents, which are in this process, come back. Everything is on the loopback interface and in a
// temporary folder that goes away.
//
// "make bench" runs it after the benchmarks of the packages. Alone:
//
//	go run ./internal/bench -programs bin
//	go run ./internal/bench -programs bin -scale small -only life,add
//
// It prints one line for each measurement in the format of Go's benchmarks, so
// that benchstat compares two runs. CPU is user and system time as the kernel
// counts it for a process, in steps of 10 ms, and does not depend on what else
// the machine does; times and rates do.
package main
