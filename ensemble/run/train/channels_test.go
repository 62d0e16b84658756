package train

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Networks that start with the channels of a pruned network have its shape and can be averaged; mismatches
// are refused before the first step.
func TestPretrainedWithFewerChannels(t *testing.T) {
	f, dirs := demotest.Files(t), t.TempDir()
	train := func(name string, c *config.TrainConfig) error {
		_, err := Run(context.Background(), Options{Config: c, RunDir: filepath.Join(dirs, name), Version: "test"})
		return err
	}
	if err := train("pruned", runtest.ChannelPruning(t, f, "train.epochs=2", "prune.every=1", "baselines=[climatology]")); err != nil {
		t.Fatal(err)
	}
	if err := train("whole", demotest.Config(t, f, "train.networks=1", "train.epochs=1", "baselines=[climatology]")); err != nil {
		t.Fatal(err)
	}
	of := "model.channels_from=" + filepath.Join(dirs, "pruned")
	if err := train("same", demotest.Config(t, f, "train.networks=2", "train.epochs=1", "baselines=[climatology]", of)); err != nil {
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
		"that training removed no channels": {"model.channels_from=" + filepath.Join(dirs, "whole")},
		"no convolution":                    {of, "model.base=3"},
	} {
		if err := train("bad", demotest.Config(t, f, set...)); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A training that stops again before its first step keeps the channel scores of the checkpoint.
func TestChannelScoresSurviveRestarts(t *testing.T) {
	m := &importance{}
	if err := m.restore(model.Weights{{Name: "b.weight", Shape: []int{2}, Data: []float32{3, 4}}, {Name: "a.weight", Shape: []int{1}, Data: []float32{5}}}); err != nil {
		t.Fatal(err)
	}
	want := []ckpt.Tensor{{Name: "prune.a.weight", Shape: []int{1}, Data: []float32{5}}, {Name: "prune.b.weight", Shape: []int{2}, Data: []float32{3, 4}}}
	if got := m.tensors(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// An unreachable target is refused before the first step, with the channels that cannot be removed.
func TestUnreachableChannelTarget(t *testing.T) {
	f := demotest.Files(t)
	c := runtest.ChannelPruning(t, f, "prune.target=0.9")
	steps := 0
	_, err := Run(context.Background(), Options{Config: c, RunDir: filepath.Join(t.TempDir(), "r"), Version: "test", Stop: func() error { steps++; return nil }})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "channels of layer enc_conv0") || steps > 0 {
		t.Errorf("%v after %d steps", err, steps)
	}
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	k := setup.PlaceholderTask(setup.TaskOf(c))
	for want, change := range map[string]func(*config.Prune){
		"2 of 2 of dec_conv0 (input": func(p *config.Prune) { p.TargetUnit, p.Target = config.OperationsUnit, 0.99 },
		"no channel can be removed":  func(p *config.Prune) { p.Keep = []string{"*"} },
	} {
		other := *c
		change(&other.Prune)
		if err := newChannelRemoval(&other, 16).check(setup.SpecOf(&other), &k, grid); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
