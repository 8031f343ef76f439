package apiserver_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	caseLine = regexp.MustCompile(`(?:#|//) [Cc]ases: (.*)`)
	caseCell = regexp.MustCompile("`([a-z]+/[A-Za-z]+)`")
)

// shown returns where each case is shown, by its id: tests, files of the conformance
// tables, and pages that say why one is not so here.
func shown(t *testing.T) map[string][]string {
	t.Helper()
	out := make(map[string][]string)
	for _, pattern := range []string{
		"*_test.go", "*/*_test.go", "testdata/conformance/*.txt", "../rpc/*_test.go", "../params/*_test.go", "../api/provisioner/*_test.go",
		"../docs/decisions/*.md",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %q, %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				var ids []string
				if m := caseLine.FindStringSubmatch(line); m != nil && filepath.Base(file) != "cases_test.go" {
					ids = strings.Fields(m[1])
				}
				if filepath.Ext(file) == ".md" {
					for _, m := range caseCell.FindAllStringSubmatch(line, -1) {
						ids = append(ids, m[1])
					}
				}
				for _, id := range ids {
					out[id] = append(out[id], file)
				}
			}
		}
	}
	return out
}

// TestEveryCaseIsShown compares the index of cases with the tables and tests that
// show them: none is lost, and none is there that the index does not explain.
func TestEveryCaseIsShown(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	places := shown(t)
	var index []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		id, about, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || about == "" {
			t.Errorf("%q in the index is no case with what it is about", line)
		}
		if slices.Contains(index, id) {
			t.Errorf("case %s is in the index twice", id)
		}
		index = append(index, id)
		if len(places[id]) == 0 {
			t.Errorf("case %s (%s) is shown nowhere", id, about)
		}
	}
	for id, where := range places {
		if !slices.Contains(index, id) {
			if md := strings.HasSuffix(where[0], ".md"); md && !regexp.MustCompile(`^(provisioner|info|images|addresses|mixins|server|client)/`).MatchString(id) {
				continue // a path or the like
			}
			t.Errorf("case %s in %q is not in the index", id, where)
		}
	}
	if len(index) < 120 {
		t.Errorf("%d cases in the index, want all of them", len(index))
	}
}

// TestTheIndexOfProvisionerIsPlayed holds the methods of Provisioner(3) to their index:
// each has the shape and the callers that it says, and is called in a case of the
// conformance tables.
func TestTheIndexOfProvisionerIsPlayed(t *testing.T) {
	callers := make(map[string][]string) // by method
	for _, who := range []string{"agent", "manager"} {
		for name := range callable(t, who) {
			if method, ok := strings.CutPrefix(name, "Provisioner(3)."); ok {
				callers[method] = append(callers[method], who)
			}
		}
	}
	facades, err := os.ReadFile("testdata/facades.golden")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(facades), "\nProvisioner(3)")
	_, section, _ = strings.Cut(section, "\n")
	var lines []string
	for line := range strings.Lines(section) {
		shape, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "\t")
		if !ok {
			break
		}
		method, _, _ := strings.Cut(shape, "(")
		lines = append(lines, shape+": "+strings.Join(callers[method], " "))
	}
	index, err := os.ReadFile("testdata/provisioner.index")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(index), "\n")
	if got := strings.Join(lines, "\n") + "\n"; got != want {
		t.Errorf("the methods are\n%s\nand the index says\n%s", got, want)
	}
	var tables strings.Builder
	files, err := filepath.Glob("testdata/conformance/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tables.Write(text)
	}
	for _, line := range lines {
		method, _, _ := strings.Cut(line, "(")
		if !regexp.MustCompile(`(?m)^` + method + `\b`).MatchString(tables.String()) {
			t.Errorf("%s is called in no case of the conformance tables", method)
		}
	}
}
