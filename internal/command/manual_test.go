package command_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/internal/buildinfo"
	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/internal/golden"
)

// documented is a tree of commands with everything that a page shows.
func documented(epoch string) *cobra.Command {
	root := &cobra.Command{Use: "prog", Short: "Be a program"}
	root.PersistentFlags().String("logging", "<root>=INFO", "what to log: `NAME=LEVEL`;...")
	sub := &cobra.Command{
		Use: "serve-it FILE", Short: "Serve something",
		Long:    "serve-it serves.\n\n.It does, with a \\ in it.\n\n  as it is\n",
		Example: "  prog serve-it --port 1\n",
		RunE:    func(*cobra.Command, []string) error { return nil },
	}
	sub.Flags().IntP("port", "p", 17070, "where to serve")
	sub.Flags().Bool("secret", false, "not for people")
	_ = sub.Flags().MarkHidden("secret") // it is there
	root.AddCommand(sub, command.Manual(8, func(string) string { return epoch }))
	return root
}

func TestManual(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := command.Execute(context.Background(), documented("1767323045"), []string{"manual", dir}, &out, &out); err != nil {
		t.Fatal(err)
	}
	var pages bytes.Buffer
	for _, name := range []string{"prog.8", "prog-serve-it.8"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(text)
	}
	golden.Check(t, "manual.golden", string(bytes.ReplaceAll(pages.Bytes(), []byte("Slipway "+buildinfo.Version), []byte("Slipway VERSION"))))
	if _, err := os.Stat(filepath.Join(dir, "prog-manual.8")); !os.IsNotExist(err) {
		t.Errorf("there is a page of a hidden command: %v", err)
	}
}

func TestManualWantsADate(t *testing.T) {
	var out bytes.Buffer
	err := command.Execute(context.Background(), documented(""), []string{"manual", t.TempDir()}, &out, &out)
	if !errors.Is(err, command.ErrUsage) {
		t.Errorf("without a date: %v, want ErrUsage", err)
	}
}
