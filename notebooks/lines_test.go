package notebooks

import (
	"bytes"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestPictures: maps with a shared scale, meteograms and lines of scores are complete PNG, PDF and SVG files.
func TestPictures(t *testing.T) {
	d := data(t, Cached())
	r, err := Train("pictures", d, Target("t850"), tiny)
	if err != nil {
		t.Fatal(err)
	}
	c := d.Init("2001-02-19T00Z")
	mean := c.Mean("t850", "48h")
	p := r.MustPredict(c, Lead("48h"), CalibratedMembers())
	scores := r.Scores()
	for name, picture := range map[string]*Picture{
		"maps":       Maps(Europe, mean, c.Analysis("t850", "48h"), c.Member(0, "t850", "48h")),
		"difference": Maps(Globe, mean.Minus(c.Analysis("t850", "48h"))),
		"calibrated": Maps(Globe, p.Member(0, "t850"), p.Member(1, "t850")),
		"meteogram":  c.Meteogram("t850", 52, 13),
		"leads":      one(scores.ByLead("crps_gauss")),
		"dates":      one(scores.Select("network").ByDate()),
	} {
		if picture.Err() != nil {
			t.Errorf("%s: %v", name, picture.Err())
			continue
		}
		dir := t.TempDir()
		for _, ending := range []string{"png", "pdf"} {
			path := filepath.Join(dir, name+"."+ending)
			if err := picture.Write(path); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			switch {
			case err != nil || len(text) > 500_000:
				t.Errorf("%s: %d bytes, %v", path, len(text), err)
			case ending == "pdf" && (!bytes.HasPrefix(text, []byte("%PDF-")) || !bytes.Contains(text, []byte("/FontFile2"))):
				t.Errorf("%s is no PDF with embedded fonts", path)
			case ending == "png":
				if m, err := png.Decode(bytes.NewReader(text)); err != nil || m.Bounds().Dx() < 500 {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
	}
	if s := string(one(scores.Select("network").ByDate()).SVG); strings.Contains(s, ">raw") || !strings.Contains(s, ">network") {
		t.Error("a selection of systems does not select lines")
	}
	if err := scores.ByLead("crps_gaus").Err(); exit.CodeOf(err) != exit.Usage {
		t.Errorf("an unknown score: %v", err)
	}
}

// one returns the first of several pictures.
func one(p *Pictures) *Picture {
	if p.err != nil {
		return &Picture{err: p.err}
	}
	return p.All[0]
}

// TestFailedDeclarations builds notebooks as the kernel does: declarations of all cells and the code of one. A failed
// declaration ends only programs that use it, and the error names the command that removes it.
func TestFailedDeclarations(t *testing.T) {
	dir, err := os.MkdirTemp(".", "_cells-") // in the module; the underscore hides it from ./...
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const declarations = `package main

import (
	"flag"
	"fmt"
	"os"

	ens "github.com/ensemble-weather/ensemble/notebooks"
)

var (
	_      = fmt.Println
	_      = os.Args
	ds     = ens.MustOpen("nothing/*.grib2")
	run    = ens.MustTrain("quick", ds, ens.Target("t850"))
	p      = run.MustPredict(ds.Init("first"))
)
`
	programs := map[string]string{"declarations": "", "code": `switch os.Args[1] {
	case "another":
		fmt.Println(1 + 1)
	case "use":
		p.Spread("t850").Map(ens.Europe).Show()
		fmt.Println(3)
	case "Err":
		fmt.Println(run.Err() != nil, p.Err() != nil)
	}`}
	for name, code := range programs {
		folder := filepath.Join(dir, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		source := declarations + "\nfunc main() {\n\tflag.Parse()\n" + code + "\n}\n" // the kernel adds flag.Parse
		if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(folder, "cell"), "./"+folder).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, c := range []struct {
		program, arg, out string
		exit              exit.Code
		has, hasNot       string
		lines             int // printed to stderr
	}{
		{"declarations", "", "", exit.OK, "`%rm ds` removes the declaration", "run", 4},
		{"declarations", "", "", exit.OK, "warning: ds has no value: no such file; correct the path", "error[", 1}, // again, in a later cell
		{"code", "another", "2\n", exit.OK, "warning: ds has no value: no such file", "error[", 1},
		{"code", "use", "", exit.NotYet, "error[E066]: no such file", "%rm p", 5},
		{"code", "Err", "true true\n", exit.OK, "warning: ds has no value", "error[", 1},
	} {
		folder := value(filepath.Abs(filepath.Join(dir, c.program)))
		cmd := exec.Command(filepath.Join(folder, "cell"), c.arg)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "GONB_TMP_DIR="+folder)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run() // the exit code is compared
		if code := exit.Code(cmd.ProcessState.ExitCode()); code != c.exit || out.String() != c.out || !strings.Contains(errs.String(), c.has) ||
			strings.Contains(errs.String(), c.hasNot) || strings.Count(errs.String(), "\n") != c.lines {
			t.Errorf("%s %s: exit %d, printed %q and\n%s", c.program, c.arg, code, out.String(), errs.String())
		}
	}
}
