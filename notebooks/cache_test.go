package notebooks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// TestChangedSource: the same program finds its results, and a program with a changed source makes new ones. Programs
// of this module without a revision have the digest of their executable as version; internal/version tests that of
// the sources, which cells of other modules have.
func TestChangedSource(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	weather := value(weather())
	results := t.TempDir()
	dir, err := os.MkdirTemp(".", "_cells-") // in the module; the underscore hides it from ./...
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	folder := value(filepath.Abs(dir))
	build := func(constant int) {
		source := fmt.Sprintf(`package main

import (
	"fmt"

	ens "github.com/ensemble-weather/ensemble/notebooks"
)

func main() {
	ds := ens.MustOpen(%q, ens.Analyses(%q), ens.Cached(), ens.In(%q))
	run := ens.MustTrain("changed", ds, ens.Target("t850"), ens.Set("model.base=2", "model.stages=1", "train.epochs=1", "train.threads=1", "baselines=[climatology]"))
	fmt.Println(run.Dir, %d)
}
`, filepath.Join(weather, "demo-data", "demo_fc_*.grib2"), filepath.Join(weather, "demo-data", "demo_an_*.nc"), results, constant)
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(folder, "cell"), "./"+dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	run := func() string {
		out, err := exec.Command(filepath.Join(folder, "cell")).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))[0]
	}
	build(1)
	first := run()
	at := changed(t, first)
	if again := run(); again != first {
		t.Errorf("the same program has the runs %s and %s", first, again)
	}
	for path, now := range changed(t, first) {
		if !now.Equal(at[path]) {
			t.Errorf("the same program wrote %s again", path)
		}
	}
	build(2)
	if other := run(); other == first {
		t.Errorf("a changed program uses the run %s", first)
	}
	if runs, err := filepath.Glob(filepath.Join(results, "changed-*")); err != nil || len(runs) != 2 {
		t.Errorf("the runs are %s, %v; want two", runs, err)
	}
}
