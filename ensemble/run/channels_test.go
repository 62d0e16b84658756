package run

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// losingChannels is quick with half of the channels removed between steps 4 and 12 of 16.
func losingChannels(t *testing.T, f *demo.Files, set ...string) *config.TrainConfig {
	return quick(t, f, append([]string{"train.networks=1", "prune.structure=channel", "prune.method=magnitude", "prune.target=0.5", "prune.from=25%", "prune.to=75%",
		"prune.every=2", "prune.multiple=1"}, set...)...)
}

// A training that removes channels, stopped before, amid and behind the removal and resumed, ends with the
// bits of one that never stopped; its model is the smaller network, which predicts with the scores
// that the training gave.
func TestChannelsGoWhileTraining(t *testing.T) {
	f := smallData(t)
	runDir := resumesToTheSameBits(t, losingChannels(t, f, "prune.method=taylor", "train.ema=0.5", "train.accumulate=1", "baselines=[climatology]"), 7, 3)
	m, err := model.Load(filepath.Join(runDir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	kept, of := 0, 0
	for _, k := range m.Spec.Kept {
		kept, of = kept+len(k.Channels), of+k.Of
	}
	// All layers together keep half; those that lost nothing are not listed.
	whole, err := m.Spec.Whole(&m.Task, m.Grid)
	if err != nil {
		t.Fatal(err)
	}
	all, pinned := 0, 0
	for _, fam := range whole.Families() {
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
	if _, err := Predict(context.Background(), PredictOptions{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	explained := map[string]*ExplainResult{}
	for _, dir := range []string{"", runDir} {
		e, err := Explain(context.Background(), ExplainOptions{Config: losingChannels(t, f), Mode: "predict", RunDir: dir, Threads: 1, Peaks: engine.Peaks{FLOPs: 1e11, Bytes: 1e10}})
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

// Networks that begin with the channels that another one was left are of its shape, and are averaged like others; what
// does not fit is refused before the first step.
func TestBeginWithFewerChannels(t *testing.T) {
	f, dirs := smallData(t), t.TempDir()
	train := func(name string, c *config.TrainConfig) error {
		_, err := Train(context.Background(), TrainOptions{Config: c, RunDir: filepath.Join(dirs, name), Version: "test"})
		return err
	}
	if err := train("pruned", losingChannels(t, f, "train.epochs=2", "prune.every=1", "baselines=[climatology]")); err != nil {
		t.Fatal(err)
	}
	if err := train("whole", quick(t, f, "train.networks=1", "train.epochs=1", "baselines=[climatology]")); err != nil {
		t.Fatal(err)
	}
	of := "model.channels_of=" + filepath.Join(dirs, "pruned")
	if err := train("same", quick(t, f, "train.networks=2", "train.epochs=1", "baselines=[climatology]", of)); err != nil {
		t.Fatal(err)
	}
	pruned, err := model.Load(filepath.Join(dirs, "pruned", "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	same, err := model.Load(filepath.Join(dirs, "same", "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(same.Networks) != 2 || !reflect.DeepEqual(same.Spec.Kept, pruned.Spec.Kept) {
		t.Fatalf("%d networks with channels %v, want those of %v", len(same.Networks), same.Spec.Kept, pruned.Spec.Kept)
	}
	for i, w := range pruned.Networks[0] {
		for _, n := range same.Networks {
			if n[i].Name != w.Name || !slices.Equal(n[i].Shape, w.Shape) {
				t.Errorf("%s has shape %v, want that of %s, %v", n[i].Name, n[i].Shape, w.Name, w.Shape)
			}
		}
	}
	for want, set := range map[string][]string{
		"no channel was removed there":   {"model.channels_of=" + filepath.Join(dirs, "whole")},
		"the network has no convolution": {of, "model.base=3"},
	} {
		if err := train("bad", quick(t, f, set...)); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Ranks that share an optimiser remove as many channels as one alone, and take the same steps before and
// after.
func TestRanksLoseTheSameChannels(t *testing.T) {
	f := smallData(t)
	options := func(dir string, more ...string) TrainOptions {
		return TrainOptions{Config: losingChannels(t, f, append(more, "prune.method=taylor", "train.epochs=3", "train.ema=0.5", "prune.of=operations", "baselines=[climatology]")...), RunDir: dir, Version: "test"}
	}
	alone, shared := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "shared")
	if _, err := Train(context.Background(), options(alone)); err != nil {
		t.Fatal(err)
	}
	if err := trainOnRanks(2, func(int) TrainOptions { return options(shared, "train.mesh=lon:2", "train.shard_optimizer=true") }); err != nil {
		t.Fatal(err)
	}
	var left [2][]channels.Kept
	for i, dir := range []string{alone, shared} {
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		left[i] = m.Spec.Kept
	}
	for i, k := range left[0] {
		if len(left[1]) != len(left[0]) || len(left[1][i].Channels) != len(k.Channels) {
			t.Fatalf("alone %v are left, on ranks %v", left[0], left[1])
		}
	}
	want, got := losses(t, alone), losses(t, shared)
	for i := range want {
		if d := got[i] - want[i]; d*d > 1e-6*want[i]*want[i] {
			t.Fatalf("step %d: loss %v on ranks, %v alone", i+1, got[i], want[i])
		}
	}
}

// A training that stops again before its first step keeps the scores that it found in the checkpoint.
func TestScoresOutliveTwoStops(t *testing.T) {
	r := &removal{}
	if err := r.restore(model.Weights{{Name: "b.weight", Shape: []int{2}, Data: []float32{3, 4}}, {Name: "a.weight", Shape: []int{1}, Data: []float32{5}}}); err != nil {
		t.Fatal(err)
	}
	want := []ckpt.Tensor{{Name: "prune.a.weight", Shape: []int{1}, Data: []float32{5}}, {Name: "prune.b.weight", Shape: []int{2}, Data: []float32{3, 4}}}
	if got := r.tensors(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What cannot be removed is refused before the first step, with what is pinned.
func TestRemovalThatCannotBe(t *testing.T) {
	f := smallData(t)
	c := losingChannels(t, f, "prune.target=0.9")
	steps := 0
	_, err := Train(context.Background(), TrainOptions{Config: c, RunDir: filepath.Join(t.TempDir(), "r"), Version: "test", Stop: func() error { steps++; return nil }})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "leaves nothing of layer enc_conv0") || steps > 0 {
		t.Errorf("%v after %d steps", err, steps)
	}
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	k := unfitted(taskOf(c))
	for want, change := range map[string]func(*config.Prune){
		"2 of 2 of dec_conv0: it is the input": func(p *config.Prune) { p.Of, p.Target = config.OfOperations, 0.99 },
		"no channel can go":                    func(p *config.Prune) { p.Keep = []string{"*"} },
	} {
		other := *c
		change(&other.Prune)
		if err := removalOf(&other, 16).check(specOf(&other), &k, grid); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
