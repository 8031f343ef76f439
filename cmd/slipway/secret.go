package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slipway-project/slipway/params"
)

// maxPassword bounds what is read of a password file.
const maxPassword = 4096

// passwordFlag gives a command the flag that names a file with a password.
func passwordFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("password-file", "", "file with the password in its first line; - is the standard input")
}

// newPassword returns a new password from a file, or else from a person who
// types it twice.
func (a *app) newPassword(file, whose string) (params.Secret, error) {
	if file != "" {
		return a.passwordFrom(file)
	}
	if !isTerminal(a.stdin) {
		return "", usagef("no terminal to ask for a password on: give --password-file FILE, or - for the standard input")
	}
	first, err := a.ask(fmt.Sprintf("new password for %s: ", whose))
	if err != nil {
		return "", err
	}
	second, err := a.ask("type it again: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the two passwords differ")
	}
	return first, nil
}

// passwordFrom reads the first line of a file.
func (a *app) passwordFrom(file string) (params.Secret, error) {
	from := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", errors.Annotate(err, "cannot read the password")
		}
		defer f.Close() // only read
		from = f
	}
	line, err := bufio.NewReader(io.LimitReader(from, maxPassword)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", errors.Annotate(err, "cannot read the password")
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("the password is empty")
	}
	return params.Secret(line), nil
}

// ask asks for a password on the terminal, which does not show it.
func (a *app) ask(prompt string) (params.Secret, error) {
	fmt.Fprint(a.stderr, prompt)
	text, err := term.ReadPassword(int(a.stdin.(*os.File).Fd()))
	fmt.Fprintln(a.stderr)
	if err != nil {
		return "", errors.Annotate(err, "cannot read the password")
	}
	if len(text) == 0 {
		return "", errors.New("the password is empty")
	}
	return params.Secret(text), nil
}

// confirm asks a person whether to go on. Without a terminal nobody is asked.
func (a *app) confirm(question string) error {
	if !isTerminal(a.stdin) {
		return nil
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return errors.Trace(err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done")
}
