package network

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Fields of spread on which losses lose digits or overflow: the predicted one and that of the full ensemble, in units of the spread
// scale, by row and column.
var spreadEdges = []struct {
	name       string
	have, want func(i, j int) float64
}{
	{"ordinary", wavy(1, 0.3, 0), wavy(1, 0.3, 0.4)},
	{"equal", wavy(1, 0.3, 0), wavy(1, 0.3, 0)},
	{"one constant", wavy(1, 0, 0), wavy(1, 0.3, 0)},
	{"both constant", wavy(1, 0, 0), wavy(1.1, 0, 0)},
	{"both 0", wavy(0, 0, 0), wavy(0, 0, 0)},
	{"predicted 0", wavy(0, 0, 0), wavy(1, 0.3, 0)},
	{"spread 1e-6", wavy(1e-6, 3e-7, 0), wavy(1e-6, 3e-7, 0.4)},
	{"spread 1e-12 against 1", wavy(1e-12, 0, 0), wavy(1, 0.3, 0)},
	{"spread 1e6 against 1", wavy(1e6, 3e5, 0), wavy(1, 0.3, 0)},
	{"opposite", wavy(1, 0.3, 0), wavy(1, -0.3, 0)},
	{"offset 1e4", wavy(1e4, 0.3, 0), wavy(1e4, 0.3, 0.4)},
	{"one outlier", func(i, j int) float64 {
		if i == 7 && j == 9 {
			return 1e3
		}
		return wavy(1, 0.3, 0)(i, j)
	}, wavy(1, 0.3, 0.4)},
}

const spreadRows, spreadColumns = 24, 32 // two scales of MS-SSIM

// wavy is a field with a mean, an amplitude and a phase.
func wavy(mean, amplitude, phase float64) func(i, j int) float64 {
	return func(i, j int) float64 {
		return mean + amplitude*math.Sin(0.9*float64(i)+phase)*math.Cos(0.7*float64(j)-phase)
	}
}

// spreadEdgeError bounds how far a loss of spreads in float32 is from the reference in float64: the loss relative to 1 + |loss|, and
// the derivatives by the predicted spread relative to the largest of them, or to 1e-3 over the number of points if that is larger.
type spreadEdgeError struct {
	Loss   float64 `json:"loss"`
	Spread float64 `json:"d_spread"`
}

// spreadGraph builds a loss and its derivative by the predicted spread, as outputs.
func spreadGraph(t *testing.T, loss config.Loss) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	shape := graph.Shape{1, 1, 1, spreadRows, spreadColumns}
	have, want := b.Input("have", shape), b.Input("want", shape)
	value := spreadLossFuncs[loss](b, have, want, b.Input("weight", shape), op.SimilarityOptions{Range: 1.3})
	grads := graph.Gradients(b, value, []graph.Value{have}, op.Add)
	b.Output("loss", value)
	b.Output("d_spread", grads[0])
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// spreadInputs are the inputs of the loss at an edge. Weights are areas of rows.
func spreadInputs(have, want func(i, j int) float64) map[string][]float64 {
	in := map[string][]float64{}
	for i := range spreadRows {
		for j := range spreadColumns {
			in["have"] = append(in["have"], float64(float32(have(i, j))))
			in["want"] = append(in["want"], float64(float32(want(i, j))))
			in["weight"] = append(in["weight"], float64(float32(math.Cos(math.Pi*(float64(i)+0.5-spreadRows/2)/spreadRows))))
		}
	}
	return in
}

// TestSpreadLossesAtTheirEdges holds testdata/spreadedges.json, the table of errors of all losses of spreads, and compares derivatives
// with central differences. -update writes the table.
func TestSpreadLossesAtTheirEdges(t *testing.T) {
	const file = "testdata/spreadedges.json"
	bounds := map[config.Loss]map[string]spreadEdgeError{}
	if !*update {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &bounds); err != nil {
			t.Fatal(err)
		}
	}
	for _, loss := range config.SpreadLosses {
		t.Run(string(loss), func(t *testing.T) {
			g := spreadGraph(t, loss)
			p, err := engine.Compile(g, engine.Options{Mode: engine.Infer, Numerics: engine.Numerics{UseHeuristics: true}})
			if exit.CodeOf(err) == exit.NoDevice {
				t.Skip("skipped: no device:", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			found := map[string]spreadEdgeError{}
			for _, e := range spreadEdges {
				in := spreadInputs(e.have, e.want)
				for name, x := range in {
					for i := range p.Input(name) { // none of weights that a loss does not use
						p.Input(name)[i] = float32(x[i])
					}
				}
				if err := p.Run(context.Background(), 0); err != nil {
					t.Fatal(err)
				}
				want := referenceOutputs(t, g, in)
				found[e.name] = spreadErrors(t, e.name, p, want)
				spreadDifferences(t, g, e.name, in, want)
			}
			if *update {
				bounds[loss] = found
			}
			for name, got := range found {
				if limit := bounds[loss][name]; !(got.Loss <= limit.Loss && got.Spread <= limit.Spread) {
					t.Errorf("%s: errors %+v, want at most %+v", name, got, limit)
				}
			}
		})
	}
	if *update {
		text, err := json.MarshalIndent(bounds, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// spreadErrors compares the outputs of a plan with the reference.
func spreadErrors(t *testing.T, edge string, p *engine.Plan, want map[string][]float64) (e spreadEdgeError) {
	t.Helper()
	e.Loss = math.Abs(float64(p.Output("loss")[0])-want["loss"][0]) / (1 + math.Abs(want["loss"][0]))
	scale := 1e-3 / (spreadRows * spreadColumns)
	for _, v := range want["d_spread"] {
		scale = max(scale, math.Abs(v))
	}
	for i, v := range want["d_spread"] {
		d := math.Abs(float64(p.Output("d_spread")[i])-v) / scale
		if !(d < math.MaxFloat32) {
			t.Errorf("%s: derivative %d is %v, the reference %v", edge, i, p.Output("d_spread")[i], v)
			return e
		}
		e.Spread = max(e.Spread, d)
	}
	if !(e.Loss < math.MaxFloat32) {
		t.Errorf("%s: the loss is %v, the reference %v", edge, p.Output("loss")[0], want["loss"][0])
	}
	if *update {
		e.Loss, e.Spread = errorBound(e.Loss), errorBound(e.Spread)
	}
	return e
}

// spreadDifferences compares derivatives of the reference with central differences, at points of which none is at the
// kink of an absolute value.
func spreadDifferences(t *testing.T, g *graph.Graph, edge string, in, at map[string][]float64) {
	t.Helper()
	for _, i := range []int{0, 7*spreadColumns + 9, 13*spreadColumns + 5, spreadRows*spreadColumns - 1} {
		x := in["have"][i]
		h := 1e-4 * max(math.Abs(x), 1e-3)
		if math.Abs(x-in["want"][i]) < 2*h {
			continue
		}
		of := func(v float64) float64 {
			in["have"][i] = v
			return referenceOutputs(t, g, in)["loss"][0]
		}
		got, want := (of(x+h)-of(x-h))/(2*h), at["d_spread"][i]
		in["have"][i] = x
		rounding := 1e-15 * (1 + math.Abs(at["loss"][0])) / h
		if !(math.Abs(got-want) <= 1e-4*math.Abs(want)+10*rounding+1e-9) {
			t.Errorf("%s, point %d: difference %g, the gradient %g", edge, i, got, want)
		}
	}
}
