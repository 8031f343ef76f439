package doccheck_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// document is one Markdown file: its path from the root, and its lines.
type document struct {
	path  string
	lines []string
}

// documents returns the README, the changelog and everything under docs.
func documents(t *testing.T) []document {
	t.Helper()
	paths := []string{"README.md", "CHANGELOG.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".md") {
			rel, _ := filepath.Rel(root, p)
			paths = append(paths, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var docs []document
	for _, p := range paths {
		text, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, document{path: p, lines: strings.Split(string(text), "\n")})
	}
	return docs
}

// commands returns the command lines that a document shows: every line of a
// sh block, and the lines of a console block that start with a prompt.
func commands(d document) []string {
	var out []string
	block := ""
	continued := false // the line before ended with a backslash
	for _, line := range d.lines {
		if lang, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			if block != "" {
				block = ""
			} else if block = lang; block == "" {
				block = "text"
			}
			continue
		}
		switch {
		case block == "sh" && continued:
			out[len(out)-1] += " " + strings.TrimSuffix(strings.TrimSpace(line), "\\")
			continued = strings.HasSuffix(line, "\\")
		case block == "sh":
			out = append(out, strings.TrimSuffix(strings.TrimSpace(line), "\\"))
			continued = strings.HasSuffix(line, "\\")
		case block == "console" && strings.HasPrefix(line, "$ "):
			out = append(out, strings.TrimSpace(line[2:]))
		}
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, d := range documents(t) {
		for i, line := range d.lines {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target := filepath.Join(root, filepath.Dir(d.path), m[1])
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s:%d: link to %s, which is not there", d.path, i+1, m[1])
				}
			}
		}
	}
}

var target = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `)

func TestMakeTargetsExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range target.FindAllStringSubmatch(string(text), -1) {
		known[m[1]] = true
	}
	for _, d := range documents(t) {
		for _, c := range commands(d) {
			words := strings.Fields(c)
			for i, w := range words {
				if w != "make" || (i > 0 && !strings.Contains(words[i-1], "=") && words[i-1] != "&&") {
					continue
				}
				for _, arg := range words[i+1:] {
					if arg == "&&" || strings.HasPrefix(arg, "#") {
						break
					}
					if !strings.Contains(arg, "=") && !known[arg] {
						t.Errorf("%s: %q: the Makefile has no target %q", d.path, c, arg)
					}
				}
			}
		}
	}
}

// programs are the commands whose command lines are tried.
var programs = []string{"slipway", "controllerd", "provisionerd"}

func TestShownCommandsAreAccepted(t *testing.T) {
	bin := t.TempDir()
	tried := 0
	for _, d := range documents(t) {
		for _, c := range commands(d) {
			words := commandWords(c)
			if len(words) == 0 {
				continue
			}
			name := filepath.Base(words[0])
			if !contains(programs, name) {
				continue
			}
			tried++
			path := build(t, bin, name)
			out, err := exec.Command(path, append(words[1:], "--help")...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %q is not accepted: %v\n%s", d.path, c, err, out)
				continue
			}
			if sub := subcommand(words); sub != "" && !strings.Contains(string(out), name+" "+sub) {
				t.Errorf("%s: %q: %s has no command %q", d.path, c, name, sub)
			}
		}
	}
	if tried == 0 {
		t.Error("no command of ours is shown in any document")
	}
}

// commandWords splits a command line into words, without variables before it,
// redirections, comments and what follows a pipe or &.
func commandWords(line string) []string {
	var out []string
	for _, w := range strings.Fields(line) {
		if strings.HasPrefix(w, "#") || w == "|" || w == "&" || w == "&&" || w == ">" || w == "<" || strings.HasPrefix(w, "2>") {
			break
		}
		if len(out) == 0 && (strings.Contains(w, "=") || w == "sudo") {
			continue
		}
		out = append(out, strings.Trim(w, `"'`))
	}
	return out
}

// subcommand returns the first word after the program that is no flag.
func subcommand(words []string) string {
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") {
			return w
		}
		if !strings.Contains(w, "=") && len(w) == 2 {
			return "" // a short flag with a value: not worth guessing
		}
	}
	return ""
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// build builds a program once a test, and returns its path.
func build(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	out, err := exec.Command("go", "build", "-o", path, "github.com/slipway-project/slipway/cmd/"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("cannot build %s: %v\n%s", name, err, out)
	}
	return path
}
