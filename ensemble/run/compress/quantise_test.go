package compress

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir/rundirtest"
)

func quantiseJob(t *testing.T, from, text string) *config.QuantiseConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "quantise.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, "version: 1\nrun_dir: %s\n%s", from, text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadQuantise(config.Sources{Files: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The networks of a training are quantised with the requested number of samples: the result is a run
// directory, its skill is nearly that of the original, and its predictions differ.
func TestQuantiseARun(t *testing.T) {
	f := demotest.Files(t)
	dirs := t.TempDir()
	dense, codes := filepath.Join(dirs, "dense"), filepath.Join(dirs, "int8")
	c := demotest.Config(t, f, "train.networks=2", "train.epochs=2", "baselines=[climatology]")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: dense, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	r, err := Quantise(context.Background(), QuantiseOptions{Config: quantiseJob(t, dense, "calibration: {inits: 3}\ninput_layers: false\nkeep: [dec_conv1b]\n"), RunDir: codes, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.CalibrationInits) != 3 || r.CalibrationInits[0] == r.CalibrationInits[2] || len(r.Layers) == 0 || r.NotQuantised["dec_conv1b.weight"] == "" || r.NotQuantised["enc_conv0.weight"] == "" {
		t.Errorf("calibrated on %v, layers %v, kept %v", r.CalibrationInits, r.Layers, r.NotQuantised)
	}
	last := len(r.Table.Rows) - 1
	if r.Ladder[0].Name != "f32" || r.Ladder[0].Speedup != 1 || r.Ladder[last].Name != "int8" || len(r.Ladder) != last+1 {
		t.Errorf("the ladder of a dense network is %+v", r.Ladder)
	}
	a, b := r.Table.Rows[0], r.Table.Rows[last]
	if d := math.Abs(float64(a.Skill - b.Skill)); d > 0.02 || d == 0 || b.Milliseconds <= 0 {
		t.Errorf("skill %v, in int8 %v; %v ms", a.Skill, b.Skill, b.Milliseconds)
	}
	if k := r.Ladder[last].Retained; len(k) < 2 || !(k[0].Retained > -9) {
		t.Errorf("retained skill %+v", k)
	}
	var text strings.Builder
	if err := r.Sections().WriteText(&text); err != nil || !strings.Contains(text.String(), "% retained") || !strings.Contains(text.String(), "dec_conv1b: named in keep") {
		t.Errorf("table %s, %v", &text, err)
	}
	m, err := model.Load(filepath.Join(codes, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(m.Int8) != len(r.Layers) || m.Int8[r.Layers[0]].Factors == nil {
		t.Errorf("the model has scales of %d layers, want %d", len(m.Int8), len(r.Layers))
	}
	if _, err := trained.ReadFinished(codes); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{"keep: [dec_cnv1b]\n": "keep lists a layer"} {
		_, err := Quantise(context.Background(), QuantiseOptions{Config: quantiseJob(t, dense, text), RunDir: filepath.Join(dirs, fmt.Sprint(len(text))), Version: "test"})
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Quantise(context.Background(), QuantiseOptions{Config: quantiseJob(t, codes, ""), RunDir: filepath.Join(dirs, "again"), Version: "test"}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("quantised twice: %v", err)
	}
}

// A network pruned by blocks keeps its zeros when it is quantised: the ladder ends with int8 that skips them,
// of the same scores as int8 of all blocks. Each file is published while no other process can take the run over.
func TestQuantiseANetworkPrunedByBlocks(t *testing.T) {
	f := demotest.Files(t)
	dirs := t.TempDir()
	pruned, codes := filepath.Join(dirs, "pruned"), filepath.Join(dirs, "int8")
	c := demotest.Config(t, f, "train.epochs=1", "model.base=16", "prune.method=magnitude", "prune.structure=block", "prune.scope=uniform", "prune.target=0.5", "prune.to=60%", "prune.every=1")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: pruned, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	var r *QuantiseResult
	var err error
	rundirtest.CheckPublished(t, codes, func() {
		r, err = Quantise(context.Background(), QuantiseOptions{Config: quantiseJob(t, pruned, "calibration: {inits: 2}\nweights: int8\n"), RunDir: codes, Version: "test", Timings: setup.Timings{Dir: filepath.Join(dirs, "timings")}})
	})
	if err != nil {
		t.Fatal(err)
	}
	last := len(r.Ladder) - 1
	if r.Ladder[last].Name != "sparse_int8" || r.Ladder[last-1].Name != "int8" || r.Ladder[last].Speedup <= 0 {
		t.Fatalf("the ladder of a pruned network is %+v", r.Ladder)
	}
	if a, b := r.Table.Rows[last-1], r.Table.Rows[last]; fmt.Sprint(a.CRPS) != fmt.Sprint(b.CRPS) || a.Nonzeros > r.Table.Rows[0].Nonzeros || 4*a.Nonzeros > 3*a.Parameters || a.Bytes >= r.Table.Rows[0].Bytes {
		t.Errorf("CRPS of int8 %v, without zero blocks %v; %d of %d weights are not zero, in the original %d", a.CRPS, b.CRPS, a.Nonzeros, a.Parameters, r.Table.Rows[0].Nonzeros)
	}
	var text strings.Builder
	if err := r.Sections().WriteText(&text); err != nil || !strings.Contains(text.String(), "sparse_int8") {
		t.Errorf("ladder %s, %v", &text, err)
	}
	checksTimings(t, pruned, setup.Timings{Dir: filepath.Join(dirs, "others")})
}

// checksTimings compares a run that is pruned by blocks with itself: its kernels are chosen by times, also those that skip blocks of zeros, and
// the times are kept.
func checksTimings(t *testing.T, pruned string, timings setup.Timings) {
	t.Helper()
	if _, err := CompareEfficiency(context.Background(), []string{pruned, pruned}, 1, timings); err != nil {
		t.Fatal(err)
	}
	sparse := 0
	for key, e := range timings.Open(1).All() {
		if strings.Contains(key, " kept ") && slices.ContainsFunc(e.Candidates, func(c tune.Timing) bool { return strings.HasPrefix(c.Name, "wino sparse") }) {
			sparse++
		}
	}
	if sparse == 0 {
		t.Error("no kernel that skips blocks of zeros was timed")
	}
}

func TestEvenIndices(t *testing.T) {
	for _, c := range []struct {
		n, of int
		want  string
	}{{3, 9, "[0 4 8]"}, {1, 9, "[0]"}, {5, 3, "[0 1 2]"}, {2, 0, "[]"}} {
		if got := fmt.Sprint(evenIndices(c.n, c.of)); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.n, c.of, got, c.want)
		}
	}
}
