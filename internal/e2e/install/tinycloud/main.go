// Command tinycloud stands for cloud-init in the tiny system that the tests of the whole
// chain install: it writes the files of the user data in the NoCloud seed, and becomes the
// machine's agent, as the service does that the user data enables.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/environs/userdata"
)

func main() {
	err := writeFiles("/var/lib/cloud/seed/nocloud/user-data")
	if err == nil {
		fmt.Println("TINY-CLOUD-OK")
		command := userdata.Command()
		err = syscall.Exec(command[0], command, os.Environ())
	}
	fmt.Println("TINY-CLOUD-FAIL", err)
	os.Exit(1)
}

// writeFiles writes what the user data's write_files lists.
func writeFiles(seed string) error {
	text, err := os.ReadFile(seed)
	if err != nil {
		return err
	}
	var data struct {
		Files []struct{ Path, Permissions, Content string } `yaml:"write_files"`
	}
	if err := yaml.Unmarshal(text, &data); err != nil {
		return fmt.Errorf("%s is no YAML", seed)
	}
	for _, f := range data.Files {
		mode, err := strconv.ParseUint(f.Permissions, 8, 32)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(f.Path, []byte(f.Content), os.FileMode(mode)); err != nil {
			return err
		}
	}
	return nil
}
