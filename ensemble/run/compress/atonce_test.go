package compress

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir/rundirtest"
)

// TestPruneAtOnce prunes a trained network without training. By obs every layer loses as many weights as by
// magnitude, and the CRPS is lower. The run directories have models that load.
func TestPruneAtOnce(t *testing.T) {
	f := demotest.Files(t)
	dirs := t.TempDir()
	dense := filepath.Join(dirs, "dense")
	c := demotest.Config(t, f, "train.networks=1", "train.epochs=4", "model.base=8", "baselines=[climatology]")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: dense, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	var rows []EfficiencyRow
	var layers [][]model.LayerSparsity
	for _, method := range []string{"magnitude", "obs"} {
		text := "version: 1\nrun_dir: %s\nprune: {method: %s, structure: block, target: 0.6, block: {out: 4, in: 4}, scope: uniform}\n"
		text += map[string]string{"magnitude": "epochs: 0\n", "obs": "calibration: {inits: 4, max_side: 512}\n"}[method]
		dir := filepath.Join(dirs, method)
		r, err := Prune(context.Background(), pruneJob(t, text, dense, method), RetrainOptions{RunDir: dir, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if s := m.Sparsity[0].Sparsity; s < 0.5 || s > 0.6 {
			t.Errorf("%s: sparsity %g", method, s)
		}
		layers = append(layers, m.Sparsity[0].Layers)
		if rows = append(rows, r.Table.Rows[1]); r.Table.Rows[0].Nonzeros <= r.Table.Rows[1].Nonzeros {
			t.Errorf("%s: %+v", method, r.Table.Rows)
		}
	}
	for i, l := range layers[0] {
		if other := layers[1][i]; l.Name != other.Name || l.Nonzeros-other.Nonzeros > 4*4*27 || other.Nonzeros-l.Nonzeros > 4*4*27 { // blocks at the end are smaller
			t.Errorf("%+v by magnitude, %+v by obs", l, other)
		}
	}
	if rows[1].CRPS[0].CRPS >= rows[0].CRPS[0].CRPS {
		t.Errorf("CRPS %g by obs, %g by magnitude", rows[1].CRPS[0].CRPS, rows[0].CRPS[0].CRPS)
	}
	again := pruneJob(t, "version: 1\nrun_dir: %s\nprune: {method: obs, structure: block, target: 0.6, block: {out: 4, in: 4}, scope: uniform}\ncalibration: {inits: 4, max_side: 512}\n", dense)
	var r *RetrainResult
	var err error
	to := filepath.Join(dirs, "again")
	rundirtest.CheckPublished(t, to, func() { r, err = Prune(context.Background(), again, RetrainOptions{RunDir: to, Version: "test"}) })
	if err != nil {
		t.Fatal(err)
	}
	if r.Table.Rows[1].CRPS[0] != rows[1].CRPS[0] {
		t.Errorf("CRPS %v, then %v", rows[1].CRPS, r.Table.Rows[1].CRPS)
	}
	job := pruneJob(t, "version: 1\nrun_dir: %s\nprune: {method: obs, structure: block, target: 0.99, block: {out: 4, in: 4}, scope: uniform}\n", dense)
	if _, err := Prune(context.Background(), job, RetrainOptions{RunDir: filepath.Join(dirs, "empty"), Version: "test"}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "would remove layer") {
		t.Errorf("%v, want a refusal of an empty layer", err)
	}
}
