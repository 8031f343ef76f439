// Command bad is a version of the agent that does not work.
package main

import (
	"fmt"
	"os"
	"time"
)

// Set by the linker.
var version, fault string

func main() {
	if os.Args[1] == "version" {
		fmt.Println("provisionerd", version)
		return
	}
	if fault == "crash" {
		panic("this version is broken")
	}
	time.Sleep(time.Hour)
}
