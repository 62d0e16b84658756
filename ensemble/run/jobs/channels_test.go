package jobs

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/explain"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// A training that removes channels, stopped before, during and after the removal and resumed, ends with the
// bits of an uninterrupted one. Its model is the smaller network, and predicts with the scores of the
// training.
func TestChannelsAreRemovedInTraining(t *testing.T) {
	f := demotest.Files(t)
	runDir := traintest.CheckResume(t, runtest.ChannelPruning(t, f, "prune.method=taylor", "train.ema=0.5", "train.accumulate=1", "baselines=[climatology]"), 7, 3)
	m, err := model.Load(filepath.Join(runDir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	kept, of := 0, 0
	for _, k := range m.Spec.Kept {
		kept, of = kept+len(k.Channels), of+k.Width
	}
	// All layers together keep half; those that lost nothing are not listed.
	whole, err := m.Spec.FullChannels(&m.Task, m.Grid)
	if err != nil {
		t.Fatal(err)
	}
	all, pinned := 0, 0
	for _, fam := range whole.Groups() {
		if all += fam.Width; fam.Pinned > 0 {
			pinned += fam.Width
		}
	}
	if left, want := all-pinned-(of-kept), (all-pinned)/2; left < want-2 || left > want+2 {
		t.Errorf("%d channels are left of %d, want about %d: %v", left, all-pinned, want, m.Spec.Kept)
	}
	for _, w := range m.Networks[0] {
		for _, k := range m.Spec.Kept {
			if k.Filter == w.Name && w.Shape[0] != len(k.Channels) {
				t.Errorf("%s has shape %v in the file, %d channels are left", w.Name, w.Shape, len(k.Channels))
			}
		}
	}
	out := t.TempDir()
	if _, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	explained := map[string]*explain.Result{}
	for _, dir := range []string{"", runDir} {
		e, err := explain.Run(context.Background(), explain.Options{Config: runtest.ChannelPruning(t, f), Mode: "predict", RunDir: dir, Threads: 1, Peaks: engine.Peaks{FLOPs: 1e11, Bytes: 1e10}})
		if err != nil {
			t.Fatal(err)
		}
		explained[dir] = e
	}
	if a, b := explained[""], explained[runDir]; b.FLOPs >= a.FLOPs || !strings.Contains(b.Network, "without channels of ") {
		t.Errorf("explained: %s with %d operations, %s with %d", a.Network, a.FLOPs, b.Network, b.FLOPs)
	}
	exported, err := exchange.Export(context.Background(), exchange.ExportOptions{RunDir: runDir, Out: filepath.Join(out, "exported"), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	small, err := m.Spec.Channels(&m.Task, m.Grid)
	if err != nil {
		t.Fatal(err)
	}
	if want := small.Parameters(unet3d.MapsPrefix); exported.Network.Parameters != want || want == whole.Parameters(unet3d.MapsPrefix) {
		t.Errorf("exported %+v, want %d parameters", exported.Network, want)
	}
}
