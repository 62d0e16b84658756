package train

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// With all parameters unshared, one template and fixed coefficients a training equals that of the plain
// network, bit by bit.
func TestSharingAllIsTheNetworkItself(t *testing.T) {
	f := demotest.Files(t)
	var weights []model.Weights
	for _, more := range [][]string{nil, {"model.share.budget=100%", "model.share.groups=one", "model.share.coefficients=average", "model.share.templates=1"}} {
		dir := filepath.Join(t.TempDir(), "run")
		c := demotest.Config(t, f, append(more, "train.networks=1", "train.epochs=2", "data.split.fractions.validation=0.3", "baselines=[climatology]")...)
		if _, err := Run(context.Background(), Options{Config: c, RunDir: dir, Version: "test"}); err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		weights = append(weights, m.Networks[0])
	}
	for _, w := range weights[0] {
		at := slices.IndexFunc(weights[1], func(x ckpt.Tensor) bool { return x.Name == w.Name })
		if at < 0 || !slices.Equal(w.Data.([]float32), weights[1][at].Data.([]float32)) {
			t.Errorf("%s differs", w.Name)
		}
	}
	if len(weights[0]) != len(weights[1]) {
		t.Errorf("%d tensors, want %d", len(weights[1]), len(weights[0]))
	}
}

// A training with softmax coefficients learns groups, in the form in which another training takes them.
func TestLearnedGroups(t *testing.T) {
	f, root := demotest.Files(t), t.TempDir()
	train := func(name string, set ...string) (*Result, error) {
		c := demotest.Config(t, f, append(set, "train.networks=1", "train.epochs=2", "baselines=[climatology]", "model.share.budget=50%")...)
		return Run(context.Background(), Options{Config: c, RunDir: filepath.Join(root, name), Version: "test"})
	}
	found, err := train("found", "model.share.groups=one", "model.share.coefficients=softmax", "model.share.templates=4", "model.share.group_count=2")
	if err != nil {
		t.Fatal(err)
	}
	groups := found.Sharing.Learned
	layers := 0
	for _, g := range groups {
		layers += len(g)
	}
	if len(groups) != 2 || layers != len(found.Sharing.Layers) {
		t.Fatalf("groups %v of the layers %v", groups, found.Sharing.Layers)
	}
	if text := fmt.Sprint(found.Sections()); !strings.Contains(text, listed(groups)) {
		t.Errorf("%s lacks the groups %s", text, listed(groups))
	}
	used, err := train("used", "model.share.groups=learned", "model.share.learned="+listed(groups))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range used.Sharing.Layers {
		for i, g := range groups {
			if slices.Contains(g, strings.TrimSuffix(l.Name, ".weight")) && len(g) > 1 && l.Store != fmt.Sprintf("share.group%d.store", i+1) {
				t.Errorf("layer %s has store %q", l.Name, l.Store)
			}
		}
	}
	if _, err := train("other", "model.share.groups=learned", "model.share.learned=[enc_conv0 another]"); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "no layer another") {
		t.Errorf("%v", err)
	}
}

func TestUnshareableParameters(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), "model.share.budget=50%", "model.share.groups=shape") // no two filters of this small network have one shape
	_, err := Run(context.Background(), Options{Config: c, RunDir: filepath.Join(t.TempDir(), "r"), Version: "test"})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "grouping by shape: none") || !strings.Contains(err.Error(), "set model.share.groups: auto") {
		t.Errorf("%v", err)
	}
}
