package archtest

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pkg is the output of `go list -json` for a package.
type pkg struct {
	ImportPath                string
	Name                      string
	Dir                       string
	GoFiles                   []string
	CgoFiles                  []string
	TestGoFiles, XTestGoFiles []string
	Imports                   []string
	Deps                      []string
}

// short returns the path relative to the module.
func (p pkg) short() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, Module), "/") }

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,Deps", Module+"/...")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		var e *exec.ExitError
		if errors.As(err, &e) {
			t.Fatalf("go list: %v\n%s", err, e.Stderr)
		}
		t.Fatal(err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !ignored(p.Dir) {
			all = append(all, p)
		}
	}
	if len(all) < 10 {
		t.Fatalf("only %d packages were listed", len(all))
	}
	return all
}

// ignored removes packages that git ignores, such as scratch packages of a
// developer.
func ignored(dir string) bool {
	return exec.Command("git", "-C", filepath.Dir(dir), "check-ignore", "-q", dir).Run() == nil
}

// matches reports whether a package matches a pattern.
func matches(pattern, path string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == folder || strings.HasPrefix(path, folder+"/")
	}
	return path == pattern
}

func layerOf(path string) *layer {
	var best *layer
	for i := range layers {
		if l := &layers[i]; matches(l.pattern, path) && (best == nil || len(l.pattern) > len(best.pattern)) {
			best = l
		}
	}
	return best
}

func TestImports(t *testing.T) {
	for _, p := range list(t) {
		if p.short() == "" {
			continue
		}
		l := layerOf(p.short())
		if l == nil {
			t.Errorf("%s has no layer: add it to rules.go, or move it", p.short())
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, Module+"/")
			if !ours || strings.HasSuffix(l.pattern, "/...") && matches(l.pattern, to) {
				continue
			}
			if !slices.ContainsFunc(l.may, func(m string) bool { return matches(m, to) }) {
				t.Errorf("%s imports %s, but %s may import only %v of this module\n\tbecause %s", p.short(), to, l.pattern, l.may, l.why)
			}
		}
	}
}

// TestRows: every package imports exactly the packages of this module that its row
// lists.
func TestRows(t *testing.T) {
	known := map[string][]string{}
	for _, r := range rows {
		if _, twice := known[r.pkg]; twice {
			t.Errorf("rows.go has two rows of %s", r.pkg)
		}
		known[r.pkg] = r.imports
	}
	for _, p := range list(t) {
		if p.short() == "" {
			continue
		}
		want, ok := known[p.short()]
		if !ok {
			t.Errorf("%s has no row in rows.go", p.short())
			continue
		}
		delete(known, p.short())
		var got []string
		for _, imp := range p.Imports {
			if to, ours := strings.CutPrefix(imp, Module+"/"); ours {
				got = append(got, to)
			}
		}
		for _, to := range got {
			if !slices.Contains(want, to) {
				t.Errorf("%s imports %s, which its row in rows.go lacks", p.short(), to)
			}
		}
		for _, to := range want {
			if !slices.Contains(got, to) {
				t.Errorf("%s imports %s no more, which its row in rows.go names", p.short(), to)
			}
		}
	}
	for pkg := range known {
		t.Errorf("rows.go has a row of %s, which does not exist", pkg)
	}
}

func TestHomes(t *testing.T) {
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			for _, h := range homes {
				if (imp == h.module || strings.HasPrefix(imp, h.module+"/")) && !inside(h.homes, p.short()) {
					t.Errorf("%s imports %s, which only %v may import\n\tbecause %s", p.short(), imp, h.homes, h.why)
				}
			}
		}
		for _, h := range cgo {
			if len(p.CgoFiles) > 0 && !inside(h.homes, p.short()) {
				t.Errorf("%s imports \"C\" in %v, which only %v may\n\tbecause %s", p.short(), p.CgoFiles, h.homes, h.why)
			}
		}
		for _, h := range unsafePackages {
			if slices.Contains(p.Imports, "unsafe") && !inside(h.homes, p.short()) {
				t.Errorf("%s imports unsafe, which only %v may\n\tbecause %s", p.short(), h.homes, h.why)
			}
		}
	}
}

func inside(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(m string) bool { return matches(m, path) })
}

func TestUnreachable(t *testing.T) {
	for _, p := range list(t) {
		for _, u := range forbiddenLinks {
			if p.short() != u.from {
				continue
			}
			for _, dep := range p.Deps {
				if dep == u.to || strings.HasPrefix(dep, u.to+"/") {
					t.Errorf("%s links %s, and must not\n\tbecause %s", u.from, dep, u.why)
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, p := range list(t) {
		for part := range strings.SplitSeq(p.short(), "/") {
			if slices.Contains(vagueNames, part) || slices.Contains(vagueNames, p.Name) {
				t.Errorf("%s: the name is vague: name the purpose of the package", p.short())
				break
			}
		}
		for _, file := range slices.Concat(p.GoFiles, p.CgoFiles, p.TestGoFiles, p.XTestGoFiles) {
			checkAlias(t, filepath.Join(p.Dir, file))
		}
	}
}

// checkAlias: package io of this module would hide that of the standard library, so
// it is imported as fio.
func checkAlias(t *testing.T, file string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	for _, imp := range f.Imports {
		if path, err := strconv.Unquote(imp.Path.Value); err == nil && path == Module+"/io" && (imp.Name == nil || imp.Name.Name != "fio") {
			t.Errorf("%s imports %s under another name than fio", file, path)
		}
	}
}

// TestTableIsTrue: every pattern of the rules matches a package, and every rule has
// a reason.
func TestTableIsTrue(t *testing.T) {
	all := list(t)
	exists := func(pattern string) bool {
		return slices.ContainsFunc(all, func(p pkg) bool { return matches(pattern, p.short()) })
	}
	var patterns []string
	for _, l := range layers {
		patterns = append(append(patterns, l.pattern), l.may...)
		if l.why == "" {
			t.Errorf("layer %s has no reason", l.pattern)
		}
	}
	for _, h := range slices.Concat(homes, cgo, unsafePackages) {
		patterns = append(patterns, h.homes...)
		if h.why == "" {
			t.Errorf("home of %s has no reason", h.module)
		}
	}
	for _, u := range forbiddenLinks {
		patterns = append(patterns, u.from)
		if to, ours := strings.CutPrefix(u.to, Module+"/"); ours {
			patterns = append(patterns, to)
		}
	}
	for _, pattern := range patterns {
		if !exists(pattern) {
			t.Errorf("rules.go names %s, which does not exist", pattern)
		}
	}
}

// TestMatches checks the meaning of patterns, and that the most specific layer
// applies.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"io/...", "io", true}, {"io/...", "io/grib", true}, {"io/...", "iodine", false}, {"ensemble", "ensemble/run", false}, {"ensemble", "ensemble", true},
	} {
		if got := matches(c.pattern, c.path); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.pattern, c.path, got)
		}
	}
	if l := layerOf("postproc/dist"); l.pattern != "postproc/dist" {
		t.Errorf("postproc/dist is in layer %s", l.pattern)
	}
	if l := layerOf("ensemble/run/runtest"); l.pattern != "ensemble/run/runtest" {
		t.Errorf("ensemble/run/runtest is in layer %s", l.pattern)
	}
}

// Ignored files are made by builds and must not be committed: a committed tool
// chain would replace that of every user.
func TestNothingIgnoredIsTracked(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "--cached", "--ignored", "--exclude-standard")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("skipped: no git repository: %v", err)
	}
	if files := strings.Fields(string(out)); len(files) > 0 {
		t.Errorf("tracked, and ignored: %v; git rm --cached takes them out", files)
	}
}
