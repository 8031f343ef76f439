// Command agent stands in for the program of an agent in tests. The environment
// says how it behaves.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	switch os.Args[1] {
	case "version":
		self, _ := os.Executable() // it is where it was started from
		number, _, _ := strings.Cut(filepath.Base(filepath.Dir(self)), "-")
		if v := os.Getenv("SLIPWAY_UPGRADER_TEST_VERSION"); v != "" {
			number = v
		}
		fmt.Println("provisionerd", number)
	case "machine":
		switch os.Getenv("SLIPWAY_UPGRADER_TEST") {
		case "crash":
			fmt.Fprintln(os.Stderr, "some log\npanic: something is nil")
			os.Exit(2)
		case "hang":
			fmt.Fprintln(os.Stderr, "trying again: permission denied")
			time.Sleep(time.Hour)
		}
	}
}
