package setuptest

import (
	"go/ast"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// finder collects looked-up programs and the files that look them up.
type finder struct {
	t     *testing.T
	found map[string][]string // by program: files
	stale map[string]bool     // rows of indirect that nothing needed
}

func (f *finder) add(name, file string) {
	switch {
	case name == "" || strings.HasPrefix(name, unclear):
		return // this program, or one that a test makes
	case strings.Contains(name, "build/"):
		name = name[strings.Index(name, "build/"):]
	case path.IsAbs(name):
		name = path.Base(name)
	case strings.Contains(name, "/"):
		return // of the folder
	}
	if !slices.Contains(f.found[name], file) {
		f.found[name] = append(f.found[name], file)
	}
}

func (f *finder) script(text, file string) {
	names, err := shell(text)
	if err != nil {
		f.t.Errorf("%s: %v", file, err)
	}
	for _, name := range names {
		f.add(name, file)
	}
}

// follow adds the programs that an expression names.
func (f *finder) follow(m *module, in *function, e ast.Expr, add func(text, file string)) {
	texts, unknown := m.values(in, e)
	for _, text := range texts {
		add(text, in.file)
	}
	for _, where := range unknown {
		names, ok := indirect[where]
		if !ok {
			f.t.Errorf("%s: which program is %s? State it in the table indirect, under %q", in.file, m.text(e), where)
		}
		delete(f.stale, where)
		for _, name := range names {
			f.add(name, in.file)
		}
	}
}

// golang adds the programs that Go files look up, and those of scripts in them.
func (f *finder) golang(files map[string]string) {
	m := parse(f.t, files)
	for name, at := range map[string]int{"CommandContext": 1, "Command": 0, "LookPath": 0} {
		for _, s := range m.calls[name] {
			if of, _ := called(s.call); of == "exec" {
				f.follow(m, s.in, s.call.Args[at], f.add)
			}
		}
	}
	for _, d := range m.folders {
		for _, in := range d.all {
			within := map[ast.Expr]bool{} // of a text that was taken whole
			inspect(in.body, func(n ast.Node) {
				if e, ok := n.(ast.Expr); ok && strings.HasPrefix(first(e), "#!/bin/sh\n") {
					within[begin(e)] = true
					if !within[e] {
						f.follow(m, in, e, f.script)
					}
				}
				var words []ast.Expr
				switch n := n.(type) {
				case *ast.CallExpr:
					words = n.Args
				case *ast.CompositeLit:
					words = n.Elts
				}
				for i, e := range words {
					isShell := func(e ast.Expr) bool { return first(e) == "sh" || first(e) == "bash" }
					if i+1 < len(words) && first(e) == "-c" && slices.ContainsFunc(words[:i], isShell) {
						f.follow(m, in, words[i+1], f.script)
					}
				}
			})
		}
	}
}

// files returns the files of the repository that git tracks or would add, by path.
func files(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	all := map[string]string{}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSuffix(name, "\n")
		if info, err := os.Lstat(filepath.Join(root, name)); err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			continue // it was removed, is a link, or is data
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// script reports whether a file is a shell script.
var script = regexp.MustCompile(`^#! ?/(usr/)?bin/(env )?(ba|da)?sh\b`)

// find collects the programs that the repository looks up.
func find(t *testing.T) *finder {
	t.Helper()
	f := &finder{t: t, found: map[string][]string{}, stale: map[string]bool{}}
	for where := range indirect {
		f.stale[where] = true
	}
	golang := map[string]string{}
	for name, text := range files(t) {
		switch {
		case strings.HasSuffix(name, ".go"):
			golang[name] = text
		case name == "Makefile":
			f.script(rules(text), name)
		case strings.HasSuffix(name, ".cylc"):
			f.script(workflow(text), name)
		case name == "docs/quickstart.md" || name == "docs/data.md" || name == "docs/netcdf.md":
			f.script(page(text), name)
		case script.MatchString(text) || strings.HasPrefix(name, "docs/ops/ecflow/include/"):
			f.script(text, name)
		}
	}
	f.golang(golang)
	return f
}

// lists returns the packages of each stage of scripts/setup.sh.
func lists(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../scripts/setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?sm)^(\w+)_packages=\((.*?)\)`).FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = strings.Fields(m[2])
	}
	if len(all) != 3 {
		t.Fatalf("scripts/setup.sh has packages of the stages %q", slices.Collect(maps.Keys(all)))
	}
	return all
}

// TestPrograms: every looked-up program is in the table, and scripts/setup.sh
// installs it in the stage that needs it.
func TestPrograms(t *testing.T) {
	f := find(t)
	for where := range f.stale {
		t.Errorf("the table indirect has %q, which nothing needs", where)
	}
	for name, in := range f.found {
		if !slices.ContainsFunc(programs, func(p program) bool { return p.name == name }) {
			t.Errorf("%s, looked up in %q, is not in the table programs: add its origin", name, in)
		}
	}
	stages := lists(t)
	always := append(slices.Clone(stages["build"]), stages["test"]...)
	brings := map[string]bool{}
	for _, p := range programs {
		in := f.found[p.name]
		if in == nil {
			t.Errorf("the table programs has %s, which nothing looks up", p.name)
		}
		if (p.from == missing) != (p.why != "") {
			t.Errorf("the table programs has for %s the consequence %q: it must be set for optional programs, and only for these", p.name, p.why)
		}
		brings[p.from] = true
		switch {
		case strings.HasPrefix(p.from, "build/") || p.from == debian || p.from == ours || p.from == missing:
		case slices.Contains(always, p.from):
		case slices.Contains(stages["deb"], p.from) && !slices.ContainsFunc(in, func(file string) bool { return file != "scripts/deb.sh" }):
		default:
			t.Errorf("%s, looked up in %q, comes from the package %s, which scripts/setup.sh does not install", p.name, in, p.from)
		}
	}
	for stage, packages := range stages {
		for _, p := range packages {
			if others[p] != "" == brings[p] {
				t.Errorf("scripts/setup.sh installs %s for the stage %s: it is to be in one of the tables programs and others", p, stage)
			}
		}
	}
}

// TestPages: pages that list build prerequisites name what scripts/setup.sh
// installs.
func TestPages(t *testing.T) {
	text, err := os.ReadFile("../../notebooks/README.md")
	if want := "apt-get install " + strings.Join(lists(t)["build"], " ") + "\n"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("notebooks/README.md has no line %q: %v", want, err)
	}
}

// TestInstalled: packages and folders contain the programs that the table states.
func TestInstalled(t *testing.T) {
	if release, _ := os.ReadFile("/etc/os-release"); !regexp.MustCompile(`(?m)^ID=debian$`).Match(release) {
		t.Skip("skipped: the packages of the table are those of Debian")
	}
	stages := lists(t)
	for _, p := range programs {
		switch {
		case strings.HasPrefix(p.name, "build/"):
			if _, err := os.Stat(filepath.Join("..", "..", p.name)); err != nil {
				t.Errorf("scripts/setup.sh test makes no %s: %v", p.name, err)
			}
		case p.from == debian || slices.Contains(stages["build"], p.from) || slices.Contains(stages["test"], p.from):
			_, err := exec.LookPath(p.name)
			if _, inSbin := os.Stat("/usr/sbin/" + p.name); err != nil && inSbin != nil {
				t.Errorf("%s is missing: does %s contain it?", p.name, p.from)
			}
		}
	}
}

// TestFind checks the search on a few lines of each kind of file.
func TestFind(t *testing.T) {
	f := &finder{t: t, found: map[string][]string{}, stale: map[string]bool{}}
	f.golang(map[string]string{"a/a.go": `package a

import "os/exec"

const compiler = "constant"

var All = []string{"ranged"}

var global = exec.Command("initial")

func judge(name string) { look("", name) }

func look(first, second string) { exec.LookPath(second) }

func here() {
	exec.Command("literal")
	exec.Command(compiler)
	judge("parameter")
	for _, a := range All {
		exec.CommandContext(nil, a)
	}
	found, _ := exec.LookPath("/usr/bin/absolute")
	exec.Command(found)
	exec.Command(os.Args[0])
	exec.Command(filepath.Join(t.TempDir(), "made"))
	exec.Command(filepath.Join("..", "build", "venv", "bin", "python"))
	act("inscript\n")
}

func act(text string) { write([]byte("#!/bin/sh\n" + text)) }
`, "b/b.go": `package b

func there() { exec.Command("sh", "-c", fmt.Sprintf("inner %s", a.All)) }
`})
	f.script(`own() { twice; }
own && nohup env A=b timeout 5 wrapped "$variable"
for p in one two; do command -v "$p"; command -v $p; done
x=$(substituted) ./here /usr/sbin/there cd`, "script")
	f.script(rules("x:\n\t@made $(GO) $$(evaluated)\n\t-$(GO) run\n"), "Makefile")
	f.script(workflow("script = \"\"\"\n workflow {{ X }}\n\"\"\"\n"), "flow.cylc")
	f.script(page("text\n```sh\npage\n```\n"), "page.md")
	want := strings.Fields("absolute build/go/bin/go build/venv/bin/python constant env evaluated initial inner inscript literal made nohup one page parameter ranged sh substituted timeout twice two workflow wrapped")
	if got := slices.Sorted(maps.Keys(f.found)); !slices.Equal(got, want) {
		t.Errorf("found %q\nwant  %q", got, want)
	}
}
