package command_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/internal/command"
)

// tree is a command with two below it.
func tree(result error) *cobra.Command {
	root := &cobra.Command{Use: "prog"}
	sub := &cobra.Command{Use: "serve", RunE: func(*cobra.Command, []string) error { return result }}
	sub.Flags().Int("port", 0, "")
	root.AddCommand(sub)
	return root
}

func TestExecute(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		result error
		code   int
		stderr string
	}{
		{"well", []string{"serve"}, nil, command.OK, ""},
		{"failed", []string{"serve"}, errors.New("port in\nuse"), command.Failure, "error: port in use\n"},
		{"long", []string{"serve"}, errors.New("bad " + strings.Repeat("a", 60_000) + ": want b"), command.Failure, "error: bad " + strings.Repeat("a", 996) + " ... " + strings.Repeat("a", 992) + ": want b\n"},
		{"too late", []string{"serve"}, errors.WithType(errors.New("late"), command.ErrTimeout), command.Timeout, "error: late\n"},
		{"unknown flag", []string{"serve", "--nope"}, nil, command.Usage, "error: unknown flag: --nope (see \"prog serve --help\")\n"},
		{"bad value", []string{"serve", "--port", "x"}, nil, command.Usage, "invalid argument \"x\""},
		{"unknown command", []string{"serv"}, nil, command.Usage, "error: unknown command \"serv\"; did you mean \"serve\"? (see \"prog --help\")\n"},
		{"argument", []string{"serve", "x"}, nil, command.Usage, "serve does not take \"x\""},
		{"nothing", nil, nil, command.OK, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			err := command.Execute(context.Background(), tree(test.result), test.args, &stdout, &stderr)
			if got := command.ExitCode(err); got != test.code {
				t.Errorf("exit code %d, want %d", got, test.code)
			}
			if got := stderr.String(); !strings.Contains(got, test.stderr) || strings.Count(got, "\n") > 1 {
				t.Errorf("stderr %q, want one line with %q", got, test.stderr)
			}
		})
	}
}

func TestLoggingConfig(t *testing.T) {
	for env, want := range map[string]string{"": "<root>=INFO", "<root>=DEBUG": "<root>=DEBUG"} {
		got := command.LoggingConfig(func(name string) string { return map[string]string{"SLIPWAY_LOGGING_CONFIG": env}[name] })
		if got != want {
			t.Errorf("with %q: %q, want %q", env, got, want)
		}
	}
}

func TestLogging(t *testing.T) {
	var stderr bytes.Buffer
	if err := command.Logging(&stderr, "<root>=NOISE"); !errors.Is(err, command.ErrUsage) {
		t.Errorf("Logging with a bad level = %v, want ErrUsage", err)
	}
	if err := command.Logging(&stderr, "<root>=INFO"); err != nil {
		t.Fatal(err)
	}
	defer loggo.ResetLogging()
	loggo.GetLogger("x").Infof("hello")
	if !strings.Contains(stderr.String(), "hello") {
		t.Errorf("stderr %q, want the message", stderr.String())
	}
}
