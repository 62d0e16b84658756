package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestFiles: outside of fileHomes no package creates, writes, renames or removes files but by internal/filesystem, and
// only tests replace its System. Every exception is needed.
func TestFiles(t *testing.T) {
	needed := map[string]bool{}
	for _, p := range list(t) {
		allowed := slices.ContainsFunc(fileHomes, func(h home) bool { return slices.Contains(h.homes, p.short()) })
		for _, file := range slices.Concat(p.GoFiles, p.CgoFiles) {
			calls := fileCallsOf(t, filepath.Join(p.Dir, file))
			needed[p.short()] = needed[p.short()] || len(calls) > 0
			for _, call := range calls {
				if !allowed && (call != "filesystem.Replace" || !onlyForTests(p)) {
					t.Errorf("%s/%s calls %s: use internal/filesystem, so that its failure can be tested (filepath.Abs: filesystem.Absolute)", p.short(), file, call)
				}
			}
		}
	}
	for _, h := range fileHomes {
		for _, pkg := range h.homes {
			if !needed[pkg] {
				t.Errorf("files.go allows %s calls that it does not make", pkg)
			}
		}
		if h.why == "" {
			t.Errorf("files.go: %v have no reason", h.homes)
		}
	}
}

// onlyForTests reports whether a package is one of testOnly.
func onlyForTests(p pkg) bool { return slices.Contains(testOnly, p.short()) }

// TestTestOnly: no program links a package that is only for tests.
func TestTestOnly(t *testing.T) {
	all := list(t)
	for _, only := range testOnly {
		if !slices.ContainsFunc(all, func(p pkg) bool { return p.short() == only }) {
			t.Errorf("files.go names %s, which does not exist", only)
		}
		for _, p := range all {
			if p.Name == "main" && slices.Contains(p.Deps, Module+"/"+only) {
				t.Errorf("%s links %s, which is only for tests", p.short(), only)
			}
		}
	}
}

// fileCallsOf returns the names of fileCalls, and filesystem.Replace, that a file mentions.
func fileCallsOf(t *testing.T, name string) (calls []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, imp := range f.Imports {
		full, _ := strconv.Unquote(imp.Path.Value)
		local := path.Base(full)
		if imp.Name != nil {
			local = imp.Name.Name
		}
		if of := fileCalls[full]; of != nil {
			names[local] = of
		}
		if full == Module+"/internal/filesystem" {
			names[local] = []string{"Replace"}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, is := n.(*ast.SelectorExpr); is {
			if x, is := sel.X.(*ast.Ident); is && slices.Contains(names[x.Name], sel.Sel.Name) {
				calls = append(calls, x.Name+"."+sel.Sel.Name)
			}
		}
		return true
	})
	return calls
}
