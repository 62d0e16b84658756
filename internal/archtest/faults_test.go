package archtest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/faults.md again")

var faultTest = regexp.MustCompile(`^Test(?:Long)?Fault(\d\d)(?:[A-Z]\w*)?$`)

// faultTests returns the tests of each fault by its number, as package.Test, in the order of their names.
func faultTests(t *testing.T) map[int][]string {
	tests := map[int][]string{}
	for _, p := range list(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go")) // with every build tag
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range tree.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv != nil {
					continue
				}
				if m := faultTest.FindStringSubmatch(f.Name.Name); m != nil && m[1] != "00" { // 00 is sound input
					number, _ := strconv.Atoi(m[1])
					tests[number] = append(tests[number], p.short()+"."+f.Name.Name)
				}
			}
		}
	}
	for _, names := range tests {
		slices.Sort(names)
	}
	return tests
}

// faultPage returns docs/faults.md. A fault without a test has no row.
func faultPage(tests map[int][]string) string {
	var b strings.Builder
	b.WriteString(`# Faults

For forecasters and administrators: what the program does when something breaks, and the tests that break it. Exit codes are
those of [operations](operations.md). ` + "`go test -run TestFault -v ./...`" + ` runs the tests; those named ` + "`TestLong…` are part of `make check-long`" + `.
This page is made from the tests: ` + "`go test ./internal/archtest -run Fault -update`" + `.
`)
	number := 0
	for _, g := range faultGroups {
		fmt.Fprintf(&b, "\n## %s\n\n| | fault | what happens | exit code | tests |\n|---|---|---|---|---|\n", g.name)
		for _, f := range g.faults {
			number++
			if names := tests[number]; names != nil {
				fmt.Fprintf(&b, "| %d | %s | %s | %s | `%s` |\n", number, f.what, f.outcome, f.exit, strings.Join(names, "`, `"))
			}
		}
	}
	return b.String()
}

// TestFaultsOnPage: docs/faults.md has the faults and their tests as they are.
func TestFaultsOnPage(t *testing.T) {
	const path = "../../docs/faults.md"
	want := faultPage(faultTests(t))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != want {
		t.Errorf("%s differs from the tests (%v): go test ./internal/archtest -run Fault -update", path, err)
	}
}

// TestEveryFaultHasATest: each fault has a test that runs in every "make test".
func TestEveryFaultHasATest(t *testing.T) {
	tests, number := faultTests(t), 0
	var without []int
	for _, g := range faultGroups {
		for range g.faults {
			number++
			if !slices.ContainsFunc(tests[number], func(name string) bool { return strings.Contains(name, ".TestFault") }) {
				without = append(without, number)
			}
		}
	}
	if number != 50 || without != nil {
		t.Errorf("%d faults, want 50; no test of the faults %v", number, without)
	}
	for n := range tests {
		if n > number {
			t.Errorf("tests %q: there is no fault of this number", tests[n])
		}
	}
}
