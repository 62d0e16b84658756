//go:build cgo && linux

package unet3d

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// resultsWithout compiles a kind on the CPU without a pass (none if empty), runs it once, and returns
// the outputs with the loss, and the gradients.
func resultsWithout(t *testing.T, k *Kind, mode engine.Mode, without string) (out [2][]float32) {
	t.Helper()
	l := layoutOf(k)
	rows := 2 * max(l.Members, 1) * max(l.Leads, 1)
	b := graph.New(1)
	y := k.Build(b, b.Input("x", graph.Shape{rows, kindChannels, 1, kindH, kindW}), l)
	b.Output("y", y)
	b.Loss(op.L1(b, y, b.Input("target", y.Shape())))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Mode: mode, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}}
	if without != "" {
		o.Without = []string{without}
	}
	plan, err := engine.Compile(g, o)
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"x", "target"} {
		for i := range plan.Input(name) {
			plan.Input(name)[i] = float32(random.NormFloat64())
		}
	}
	if err := plan.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	out[0] = append(slices.Clone(plan.Output("y")), float32(plan.Loss()))
	if mode == engine.Train {
		out[1] = slices.Clone(plan.Store().Grads())
	}
	return out
}

// relativeDistance is |a − b|₂/|b|₂; sameBits whether all values are equal.
func relativeDistance(a, b []float32) (relative float64, sameBits bool) {
	var d, whole float64
	for i := range a {
		d += float64(a[i]-b[i]) * float64(a[i]-b[i])
		whole += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(d / max(whole, 1e-300)), slices.Equal(a, b)
}

// TestOptionalPassesOnKinds: without an optional pass every kind computes the same bits where pass.List states so, and the same but
// for rounding otherwise: up to 1.7e-5 was seen, where tiles of eight points round in six layers one after the other. A gradient at a kink of
// ReLU or |x| may move by more than rounding, hence its larger bound. All but fold-norms, which acts on predictions, are left out of a training step.
// (Each pass on every kind, and that rounding is claimed of no pass without need: TestLongOptionalPassesOnKinds.)
func TestOptionalPassesOnKinds(t *testing.T) { leaveOutPasses(t, 4) }

// leaveOutPasses leaves each pass out of one in every kinds. It returns the passes without which bits changed.
func leaveOutPasses(t *testing.T, every int) (changed map[string]bool) {
	changed = map[string]bool{}
	for i, k := range Kinds {
		whole := map[engine.Mode][2][]float32{}
		for _, mode := range []engine.Mode{engine.Train, engine.Infer} {
			whole[mode] = resultsWithout(t, k, mode, "")
		}
		for j, p := range pass.List {
			if p.Absence == pass.Required || (i+j)%every > 0 {
				continue
			}
			mode := engine.Train
			if p.Name == "fold-norms" {
				mode = engine.Infer
			}
			got := resultsWithout(t, k, mode, p.Name)
			far, same := relativeDistance(got[0], whole[mode][0])
			farGrad, sameGrad := relativeDistance(got[1], whole[mode][1])
			if far > 3e-5 || farGrad > 1e-3 || !(same && sameGrad) && p.Absence == pass.SameBits {
				t.Errorf("%s, mode %d without %s (%v): results differ by %.1e, gradients by %.1e", k.Name, mode, p.Name, p.Absence, far, farGrad)
			}
			changed[p.Name] = changed[p.Name] || !(same && sameGrad)
		}
	}
	return changed
}
