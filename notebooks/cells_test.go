package notebooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// notebook is the part of a notebook that the tests read.
type notebook struct {
	Cells []struct {
		Kind    string   `json:"cell_type"`
		Source  []string `json:"source"`
		Outputs []output `json:"outputs"`
	} `json:"cells"`
}

// output is one output of a cell.
type output struct {
	Kind string                     `json:"output_type"`
	Name string                     `json:"name"`
	Text []string                   `json:"text"`
	Data map[string]json.RawMessage `json:"data"`
	// Traceback is the text of an error of the kernel.
	Traceback []string `json:"traceback"`
}

func readNotebook(t *testing.T, path string) (n notebook, size int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		t.Fatal(path, err)
	}
	return n, len(text)
}

func notebooksHere(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("*.ipynb")
	if err != nil || len(all) == 0 {
		t.Fatalf("no notebooks: %v", err)
	}
	return all
}

// TestCells: the cells of every notebook are Go code that compiles with the current package, and their stored
// outputs are small and without errors. TestLongNotebooks executes them.
func TestCells(t *testing.T) {
	dir, err := os.MkdirTemp(".", "_cells-") // in the module, so that its packages are found; the underscore hides it from ./...
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var folders []string
	for i, path := range notebooksHere(t) {
		n, size := readNotebook(t, path)
		if size > 300_000 {
			t.Errorf("%s: %d bytes with its outputs, want at most 300 kB", path, size)
		}
		var imports, code strings.Builder
		pictures, mains := 0, 0
		for j, c := range n.Cells {
			if c.Kind != "code" {
				continue
			}
			main := false
			for _, line := range c.Source {
				switch {
				case strings.HasPrefix(line, "%%"):
					main = true
					mains++
					fmt.Fprintf(&code, "func cell%d() {\n", j)
				case strings.HasPrefix(line, "!"), strings.HasPrefix(line, "%"), strings.HasPrefix(line, "  ") && !main && strings.HasPrefix(c.Source[0], "!"):
				case strings.HasPrefix(line, "import "):
					imports.WriteString(line)
				default:
					code.WriteString(line)
				}
			}
			code.WriteString("\n")
			if main {
				code.WriteString("}\n")
			}
			for _, o := range c.Outputs {
				if o.Kind == "error" || o.Name == "stderr" {
					t.Errorf("%s, cell %d: its output is %s", path, j, o.Text)
				}
				if o.Data["image/png"] != nil || o.Data["image/svg+xml"] != nil || bytes.Contains(o.Data["text/html"], []byte("<img")) {
					pictures++
				}
			}
		}
		if mains == 0 || pictures == 0 {
			t.Errorf("%s: %d cells that do something, %d pictures among the outputs; `make notebooks` executes it", path, mains, pictures)
		}
		folder := filepath.Join(dir, fmt.Sprintf("n%d", i))
		text := "package cells\n" + imports.String() + "\n" + code.String()
		if strings.Contains(text, "fmt.") {
			text = strings.Replace(text, "package cells\n", "package cells\nimport \"fmt\"\n", 1)
		}
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "cells.go"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, "./"+folder)
	}
	if out, err := exec.Command("go", append([]string{"build", "-buildvcs=false"}, folders...)...).CombinedOutput(); err != nil {
		t.Errorf("cells do not compile: %v\n%s", err, out)
	}
}

// kernel runs a Python program that starts the Go kernel, and returns its output. The path begins with the folders of
// more programs for the kernel.
func kernel(t *testing.T, programs []string, args ...string) string {
	t.Helper()
	folder := value(filepath.Abs("../build/kernel"))
	if _, err := os.Stat(filepath.Join(folder, "gonb")); err != nil {
		t.Fatalf("%v: scripts/setup.sh test installs the kernel", err)
	}
	cmd := exec.Command(testdata.Python(t), args...)
	path := strings.Join(append(programs, folder, os.Getenv("PATH")), string(os.PathListSeparator))
	cmd.Env = append(os.Environ(), "JUPYTER_DATA_DIR="+filepath.Join(folder, "jupyter"), "PATH="+path)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), log.String())
	}
	return out.String()
}

// jupyter executes a notebook with the Go kernel in a folder.
func jupyter(t *testing.T, folder string, flags []string, paths ...string) string {
	t.Helper()
	args := append([]string{"../scripts/notebooks.py"}, flags...)
	if folder != "" {
		args = append(args, "--in", folder)
	}
	return kernel(t, nil, append(args, paths...)...)
}

// moduleFolder is the folder of a module that requires this one.
func moduleFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	module := "module atmosphere\n\ngo 1.26.0\n\nrequire github.com/ensemble-weather/ensemble v0.0.0\n\nreplace github.com/ensemble-weather/ensemble => " + value(filepath.Abs("..")) + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// results returns what a cell printed and displayed, in order and without warnings, and its progress.
func results(outputs []output) (got []string, progress string) {
	for _, o := range outputs {
		switch {
		case o.Name == "stderr" && strings.HasPrefix(strings.Join(o.Text, ""), "ensemble: warning: "): // a warning: eight inits are few
		case o.Kind == "stream":
			got = append(got, o.Name+" "+strings.TrimSpace(strings.Join(o.Text, "")))
		case o.Data["image/png"] != nil:
			got = append(got, "png")
		case o.Data["image/svg+xml"] != nil:
			got = append(got, "svg")
		case o.Data["text/html"] != nil:
			got = append(got, "html")
		default:
			var lines []string
			if err := json.Unmarshal(o.Data["text/plain"], &lines); err == nil {
				progress += strings.Join(lines, "")
			}
		}
	}
	return got, progress
}

// findModule is the part of the first cell of the notebooks that finds this module: one command of the shell.
func findModule(t *testing.T) string {
	t.Helper()
	first, _ := readNotebook(t, "first-forecast.ipynb")
	command, _, found := strings.Cut(strings.Join(first.Cells[1].Source, ""), "\n!*go build")
	if !found || !strings.HasPrefix(command, "!*") {
		t.Fatalf("the first cell begins with %q", command)
	}
	return command
}

// setupCell is the first cell of the notebooks, but for the decoder, which is already built, and two settings. A version: make
// trims paths, so that cells do not find the sources whose digest is their version. A workspace, outside of the kernel's
// folder: make has compiled the packages of a main module, and with trimmed paths Go compiles those of a replacement again,
// which takes minutes. TestFindModule builds with the replacement.
func setupCell(t *testing.T) string {
	work := filepath.Join(t.TempDir(), "go.work")
	return findModule(t) + "\n!*sha256sum go.mod go.sum\n!*[ -e " + work + " ] || GOWORK=" + work + " go work init . " + value(filepath.Abs("..")) +
		"\n%env GOWORK " + work + "\n%noautoget\n%goflags \"-ldflags=-s -w -X=github.com/ensemble-weather/ensemble/internal/version.described=cells\""
}

// TestFindModule: the first cell is the same in all notebooks and on the page. Its command makes the packages of this module
// those of cells, in a checkout, in a module that requires it and below a linked folder. Executed again it changes nothing.
func TestFindModule(t *testing.T) {
	command := findModule(t)
	first, _ := readNotebook(t, "first-forecast.ipynb")
	cell := strings.Join(first.Cells[1].Source, "")
	for _, path := range append(notebooksHere(t), "testdata/gcm.ipynb") {
		n, _ := readNotebook(t, path)
		found := false
		for _, c := range n.Cells {
			found = found || c.Kind == "code" && strings.Join(c.Source, "") == cell
		}
		if !found {
			t.Errorf("%s has another first cell than first-forecast.ipynb", path)
		}
	}
	if page, err := os.ReadFile("README.md"); err != nil || !strings.Contains(string(page), "\n"+cell+"\n") {
		t.Errorf("README.md has another first cell than first-forecast.ipynb (%v)", err)
	}
	linked := filepath.Join(t.TempDir(), "linked")
	deep := filepath.Join(t.TempDir(), "a", "b", "c")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(deep, linked); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, notebook, temporary string }{
		{"checkout", value(filepath.Abs(".")), t.TempDir()},
		{"module that requires it", moduleFolder(t), t.TempDir()},
		{"below a linked folder", moduleFolder(t), linked},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(c.temporary, "gonb_0")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			// shell runs a command as the kernel does.
			shell := func(command string) string {
				cmd := exec.Command("bash", "-c", command)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "GONB_DIR="+c.notebook, "PWD="+dir)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", command, err, out)
				}
				return string(out)
			}
			shell("go mod init gonb_0")
			find := strings.ReplaceAll(strings.TrimPrefix(command, "!*"), "\\\n", " ")
			shell(find)
			shell("echo '// what the user adds' >>go.mod")
			text := shell("cat go.mod go.sum")
			if shell(find); shell("cat go.mod go.sum") != text {
				t.Error("executed again it changes go.mod or go.sum")
			}
			// The kernel opens all files of a folder that an absolute path names in the language server.
			if !strings.Contains(text, "\nreplace github.com/ensemble-weather/ensemble => ../") {
				t.Errorf("no relative path to the module: %s", text)
			}
			// go list fails if go.mod or go.sum lacks a module of a dependency.
			const packages = " github.com/ensemble-weather/ensemble/notebooks github.com/ensemble-weather/ensemble/cmd/ensemble-decode"
			shell("go list -deps" + packages)
			if got, want := shell("go list -f '{{.Dir}}'"+packages), value(filepath.Abs("."))+"\n"+value(filepath.Abs("../cmd/ensemble-decode"))+"\n"; got != want {
				t.Errorf("cells use %s, want %s", got, want)
			}
			// A cell builds with it: a package without dependencies of this module, compiled in seconds.
			if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nimport \"github.com/ensemble-weather/ensemble/postproc/dist\"\n\nfunc main() { println(len(dist.Table) > 0) }\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if got := shell("go run ."); got != "true\n" {
				t.Errorf("the cell printed %q", got)
			}
		})
	}
}

// source is a cell of a notebook that a test writes.
type source struct {
	Kind     string   `json:"cell_type"`
	ID       string   `json:"id"`
	Source   string   `json:"source"`
	Metadata struct{} `json:"metadata"`
	Outputs  []string `json:"outputs"`
	Count    *int     `json:"execution_count"`
}

// writeNotebook writes a notebook of code cells.
func writeNotebook(t *testing.T, path string, cells ...string) {
	t.Helper()
	var all []source
	for i, c := range cells {
		all = append(all, source{Kind: "code", ID: fmt.Sprintf("c%d", i), Source: c, Outputs: []string{}})
	}
	text, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "metadata": struct{}{}, "cells": all})
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestGCMNotebook executes cells of a notebook on the forecasts of a circulation model. The seventh of the notebook declares
// a prediction of a date without forecasts: it says so, and only it fails. (All cells: TestLongGCMNotebook.)
func TestGCMNotebook(t *testing.T) { executeGCM(t, []int{0, 1, 5, 6, 7, 8, 9}) }

// gcmOutputs are the outputs of the cells of the notebook but for the first, which sets the kernel up.
var gcmOutputs = []string{"", "", "html", "png, png, stdout", "svg", "", "error", "svg", "", "png", "", "html, svg"}

// executeGCM executes some of these cells, in order.
func executeGCM(t *testing.T, chosen []int) {
	data := testdata.Dir(t, "gcm")
	t.Setenv("ENSEMBLE_TEST_DATA", value(filepath.Abs(filepath.Dir(data))))
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	n, _ := readNotebook(t, "testdata/gcm.ipynb")
	if len(n.Cells) != len(gcmOutputs) {
		t.Fatalf("%d cells, want %d", len(n.Cells), len(gcmOutputs))
	}
	var cells []string
	for _, i := range chosen {
		cells = append(cells, strings.Join(n.Cells[i].Source, ""))
	}
	cells[0] = setupCell(t)
	dir := moduleFolder(t)
	path := filepath.Join(dir, "gcm.ipynb")
	writeNotebook(t, path, cells...)
	t.Log(jupyter(t, dir, []string{"--keep", "--all"}, path))
	n, _ = readNotebook(t, path)
	for k, i := range chosen {
		want := gcmOutputs[i]
		got, _ := results(n.Cells[k].Outputs)
		text := strings.Join(got, ", ")
		if i == 6 {
			for _, part := range []string{"error[E066]: initialisation time not in the files", "the nearest is 1984-03-02T00:00Z", "`%rm other` removes the declaration"} {
				if !strings.Contains(text, part) {
					t.Errorf("the failed cell printed %q, without %q", text, part)
				}
			}
			continue
		}
		for j, g := range got {
			if word, _, printed := strings.Cut(g, " "); printed {
				got[j] = word
			}
		}
		if i > 0 && strings.Join(got, ", ") != want {
			t.Errorf("cell %d: the outputs are %s; want %s", i, text, want)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "members.pdf")); err != nil || st.Size() < 50_000 {
		t.Errorf("the PDF: %v", err)
	}
}

// TestKernel executes a notebook with the real kernel, in the folder of a module that requires this one. A table,
// a map, several pictures and progress must arrive complete.
func TestKernel(t *testing.T) {
	d := data(t, Cached())
	dir := moduleFolder(t)
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	setup := setupCell(t)
	train := fmt.Sprintf(`%%%%
ds := ens.MustOpen(%q, ens.Analyses(%q), ens.Cached(), ens.In(%q))
run := ens.MustTrain("kernel", ds, ens.Target("t850"), ens.Set("model.base=2", "model.stages=1", "train.epochs=40", "train.early_stop.patience=0", "train.threads=1", "baselines=[emos]"))
`, filepath.Join(filepath.Dir(d.files[0]), "demo_fc_*.grib2"), filepath.Join(filepath.Dir(d.files[0]), "demo_an_*.nc"), d.folder)
	cell := `import ens "github.com/ensemble-weather/ensemble/notebooks"

` + train + `ds.Show()
p := run.MustPredict(ds.Init("last"))
p.Spread("t850").Map(ens.Europe).Show()
run.Loss().Show()
run.Scores().Histograms().Show()
run.Scores().Show()
fmt.Println(p.Spread("t850").Shape())`
	another := train + "fmt.Println(run.MustPredict(ds.Init(\"last\")).Spread(\"t850\").Shape())"
	path := filepath.Join(dir, "kernel.ipynb")
	// The third cell does not compile, on its second line.
	broken := "%%\nvar wrong string = 1\nfmt.Println(wrong)"
	writeNotebook(t, path, setup, cell, broken, setup, another)
	jupyter(t, dir, []string{"--keep", "--all"}, path)
	n, _ := readNotebook(t, path)
	if o := n.Cells[2].Outputs; len(o) != 1 || o[0].Kind != "error" || !strings.Contains(strings.Join(o[0].Traceback, "\n"), "Cell[3]: Line 2") ||
		!strings.Contains(strings.Join(o[0].Traceback, "\n"), "cannot use 1") {
		t.Errorf("a cell that does not compile: %+v", o)
	}
	got, progress := results(n.Cells[1].Outputs)
	if all := strings.Join(got, ", "); all != "html, png, svg, html, html, stdout [32 64]" {
		t.Errorf("the cell's outputs are %s", all)
	}
	if !strings.Contains(progress, "train 80/80 100 %") {
		t.Errorf("its progress ended with %q", progress)
	}
	files := func(cell int) (sums []string) { // checksums of go.mod and go.sum
		got, _ := results(n.Cells[cell].Outputs)
		for _, line := range strings.Split(strings.Join(got, "\n"), "\n") {
			if strings.HasSuffix(line, "  go.mod") || strings.HasSuffix(line, "  go.sum") {
				sums = append(sums, strings.TrimPrefix(line, "stdout "))
			}
		}
		return sums
	}
	if before, after := files(0), files(3); len(before) != 2 || !slices.Equal(before, after) {
		t.Errorf("the first cell, executed again, changed %v to %v", before, after)
	}
	// Another cell is another program of the same version: it finds the results of the first. Progress of opening the
	// files appears on a slow machine.
	got, progress = results(n.Cells[4].Outputs)
	if all := strings.Join(got, ", "); all != "stdout [32 64]" || strings.Contains(progress, "train") {
		t.Errorf("a second cell computed results of the first again: %s, progress %q", all, progress)
	}
}
