package train

import (
	"context"
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

func TestUnshareableParameters(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), "model.share.budget=50%", "model.share.groups=shape") // no two filters of this small network have one shape
	_, err := Run(context.Background(), Options{Config: c, RunDir: filepath.Join(t.TempDir(), "r"), Version: "test"})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "grouping by shape: none") || !strings.Contains(err.Error(), "set model.share.groups: auto") {
		t.Errorf("%v", err)
	}
}
