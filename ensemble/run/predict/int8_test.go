//go:build cgo && linux

package predict

import (
	"errors"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
)

// TestSlowInt8Warning: int8 models on a processor without fast int8 are warned about where that processor predicts: also if no GPU was
// found, and not on a GPU, with a fallback, or for other models.
func TestSlowInt8Warning(t *testing.T) {
	runtest.EmulatedGPU(t)
	scales := map[string]*op.Int8Scales{"w": {}}
	for _, c := range []struct {
		name, requested, found string
		scales                 map[string]*op.Int8Scales
		fast                   bool
		failure                error
		want                   bool
	}{
		{"processor by default", "", "cpu", scales, false, nil, true},
		{"processor", "cpu", "cpu", scales, false, nil, true},
		{"processor with fast int8", "cpu", "cpu", scales, true, nil, false},
		{"float model", "cpu", "cpu", nil, false, nil, false},
		{"GPU", "cuda", "cuda", scales, false, nil, false},
		{"GPU that was found", "auto", "cuda", scales, false, nil, false},
		{"no GPU found", "auto", "cpu", scales, false, nil, true},
		{"damaged network", "auto", "", scales, false, errors.New("damaged"), false},
	} {
		f := &forecaster{model: &model.Model{Metadata: model.Metadata{Int8: c.scales}}, opening: make(chan struct{}), openErr: c.failure, engine: network.Options(1, c.requested)}
		if c.found != "" {
			b := graph.New(1)
			b.Output("y", op.Scale(b, b.Input("x", graph.Shape{1, 1}), 2))
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			o := network.Options(1, c.found)
			o.Mode = engine.Infer
			plan, err := engine.Compile(g, o)
			if err != nil {
				t.Fatal(err)
			}
			f.model.Network = &network.Network{Plan: plan}
		}
		close(f.opening)
		if got := f.slowInt8(c.fast); slices.Contains(got, setup.SlowInt8Warning) != c.want {
			t.Errorf("%s: warnings %v", c.name, got)
		}
		if f.model.Network != nil {
			if err := f.model.Network.Plan.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
