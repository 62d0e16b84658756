//go:build long

package demo

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	rundemo "github.com/ensemble-weather/ensemble/ensemble/run/demo"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// TestLongDemo runs the experiment with its five seeds, timed. Scores and skill scores are the expected ones, all
// seeds reach the quality within the expected epochs, a training that stops at the quality takes the same steps,
// and the first training has the weights of `ensemble demo`.
func TestLongDemo(t *testing.T) {
	testdecoder.Path(t)
	e, err := experimentfile.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	o := experiment.Options{Experiment: e, Dir: t.TempDir(), Version: "test", MLLog: true}
	r, err := experiment.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := r.Sections().WriteText(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
	if !r.Passed() {
		t.Error("a check failed")
	}
	q := r.Record.Quality[0]
	if q.Result != q.Result || slices.ContainsFunc(q.Loss, func(x score.Number) bool { return float64(x) > e.Quality.Target }) {
		t.Errorf("times to the quality: %+v", q)
	}

	alone := *e
	alone.Quality.Seeds, alone.Quality.Epochs, alone.Quality.Tolerance = e.Seeds[:1], 0, 0
	o.Experiment, o.MLLog, o.ToQuality = &alone, false, true
	a, err := experiment.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if b := a.Record.Quality[0]; b.Steps[0] != q.Steps[0] || b.Loss[0] != q.Loss[0] || b.Epochs[0] != q.Epochs[0] {
		t.Errorf("alone %+v, in the whole training %+v", b, q)
	}

	root := t.TempDir()
	if _, err := rundemo.Run(context.Background(), rundemo.Options{Root: root, Threads: e.Threads, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	const weights = "model/weights-00.safetensors"
	f, err := manifest.SumFile(filepath.Join(root, "demo", weights))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Record.Runs[0].Outputs, func(own manifest.File) bool { return own.Path == weights && own.SHA256 == f.SHA256 }) {
		t.Errorf("the demo's weights have SHA-256 %s, those of this training differ: %+v", f.SHA256, r.Record.Runs[0].Outputs)
	}
}
