package engine_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
)

// TestFault32: the first value of a step that is not finite is found, in an input, a parameter or a result, in plain and in
// blocked layout.
func TestFault32(t *testing.T) {
	for _, backend := range []string{"cpu", "ref"} {
		p := compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: backend}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}})
		find := func() *engine.NotFinite {
			t.Helper()
			n, err := p.FindNotFinite(context.Background(), 3)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		fill(p.Input("x"), 1)
		fill(p.Input("y"), 2)
		if n := find(); n != nil {
			t.Errorf("%s: all values are finite, found %v", backend, n)
		}
		name := p.Store().Names()[0]
		w, _, _ := p.Store().Get(name)
		w = slices.Clone(w)
		was := w[1]
		w[1] = float32(math.Inf(1))
		if err := p.Store().Set(name, w); err != nil {
			t.Fatal(err)
		}
		if n := find(); n == nil || n.Op != "parameter" || n.Layer != name || !math.IsInf(n.Value, 1) {
			t.Errorf("%s: an infinite %s, found %v", backend, name, n)
		}
		w[1] = 3e38 // finite, with results that are not
		if err := p.Store().Set(name, w); err != nil {
			t.Fatal(err)
		}
		if n := find(); backend == "cpu" && (n == nil || !strings.HasPrefix(n.Op, "conv3d") || !strings.HasPrefix(n.Layer, strings.SplitN(name, ".", 2)[0]) || len(n.Index) != 5) {
			t.Errorf("%s: %s of 3e38, found %v", backend, name, n)
		}
		w[1] = was
		if err := p.Store().Set(name, w); err != nil {
			t.Fatal(err)
		}
		shape := p.InputShape("x")
		at := shape.Size() - 1
		p.Input("x")[at] = float32(math.NaN())
		if n := find(); n == nil || n.Op != "input" || n.Layer != "x" || n.Index[4] != shape[4]-1 || n.Index[1] != shape[1]-1 {
			t.Errorf("%s: NaN at the end of x, found %v", backend, n)
		}
	}
}
