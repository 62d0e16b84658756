package network

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/ref/reftest"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

var update = flag.Bool("update", false, "write testdata/edges.json")

// edges are outputs of a network and observations where heads lose digits or overflow, in units of the error scale; as an example
// geopotential is 5e5 and pressure 1e5 without normalisation.
var edges = []struct {
	name                         string
	shift, sigma, centre, y, raw float64 // y: analysis minus centre; raw: all extra outputs
}{
	{"ordinary", 0.3, 0.8, 20, 0.5, 0.1},
	{"spread 1e-3", 0.25, 1e-3, 20, 0.2507, 0.1},
	{"spread 1e-6", 0.25, 1e-6, 20, 0.25, 0.1},
	{"spread 1e-12", 0, 1e-12, 20, 0.5, 0.1},
	{"spread 1e6", 0.3, 1e6, 20, 0.5, 0.1},
	{"observation far above", 0.3, 0.8, 20, 1000, 0.1},
	{"observation at 0", 0.3, 0.8, 20, -20, 0.1},
	{"mass at 0 near 1", -30, 0.8, 20, -20, 10},
	{"mass at 0 near 0", 30, 0.1, 20, 30, -10},
	{"mean 0", -20, 0.8, 20, -19.5, 0.1},
	{"dry", 0, 1e-3, 0, 0, 0.1},
	{"extra outputs -60", 0.3, 0.8, 20, 0.5, -60},
	{"extra outputs 60", 0.3, 0.8, 20, 0.5, 60},
	{"pressure 1e5", 0.3, 0.8, 1e5, 0.5, 0.1},
	{"geopotential 5e5", 0.3, 0.8, 5e5, 0.5, 0.1},
}

// edgeError bounds how far the head in float32 is from the reference in float64, at one edge: the score relative to 1 + |score|,
// and the derivatives with respect to shift and spread relative to 1 + |derivative|.
type edgeError struct {
	Score float64 `json:"score"`
	Shift float64 `json:"d_shift"`
	Sigma float64 `json:"d_sigma"`
}

// edgeInputs are the inputs of the head, by name.
func edgeInputs() map[string][]float64 {
	in := map[string][]float64{}
	for _, e := range edges {
		for name, v := range map[string]float64{"shift": e.shift, "sigma": e.sigma, "centre": e.centre, "y": e.y, "raw": e.raw} {
			in[name] = append(in[name], float64(float32(v)))
		}
	}
	return in
}

// scoreGraph builds score, and the derivatives of its sum with respect to shift and sigma, as outputs.
func scoreGraph(t *testing.T, score func(b *graph.Builder, in map[string]graph.Value) graph.Value) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	in := map[string]graph.Value{}
	for _, name := range []string{"shift", "sigma", "centre", "y", "raw"} {
		in[name] = b.Input(name, graph.Shape{1, 1, 1, 1, len(edges)})
	}
	s := score(b, in)
	grads := graph.Gradients(b, op.Sum(b, s), []graph.Value{in["shift"], in["sigma"]}, op.Add)
	b.Output("score", s)
	for i, name := range []string{"d_shift", "d_sigma"} {
		if !grads[i].Valid() {
			t.Fatalf("no gradient %s", name)
		}
		b.Output(name, grads[i])
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// familyEdges is the score of the head of a family; of a variable without values below 0 if the family has none.
func familyEdges(r dist.Row, rule dist.Rule) func(b *graph.Builder, in map[string]graph.Value) graph.Value {
	return func(b *graph.Builder, in map[string]graph.Value) graph.Value {
		f := r.New(5)
		l := linkOf(f)
		out := distributionOutputs{shift: in["shift"], sigma: in["sigma"], centre: in["centre"],
			edge: func(i int) graph.Value { return b.Scalar(float64(i) - 2.5) }}
		if l.extra != nil {
			for range l.extra(f) {
				out.extra = append(out.extra, in["raw"])
			}
		}
		par, y := l.parameters(b, f, out), in["y"]
		if rule == dist.CrossEntropyRule {
			bin := op.AtLeast(b, y, out.edge(1))
			for i := 2; i < len(par); i++ {
				bin = op.Add(b, bin, op.AtLeast(b, y, out.edge(i)))
			}
			return op.DistributionScore(b, op.Concat(b, 1, par...), bin, op.ScoreSpec{Rule: rule, Family: f.ID, Parameters: len(par)})
		}
		if l.censored {
			f = f.Censored()
		}
		if f.Positive {
			y = op.Add(b, y, in["centre"])
			for i, role := range f.Roles {
				if role == dist.Location {
					par[i] = op.Add(b, par[i], in["centre"])
				}
			}
		}
		s := Spec{Head: HeadSpec{Distribution: &DistributionSpec{Rule: rule}}}
		return s.familyScore(b, f, par, y)
	}
}

// memberEdges is the kernel CRPS of three members around centre + shift, sigma apart: equal ones where the spread is lost in float32.
func memberEdges(b *graph.Builder, in map[string]graph.Value) graph.Value {
	mean := op.Add(b, in["centre"], in["shift"])
	members := op.Concat(b, 0, op.Sub(b, mean, in["sigma"]), mean, op.Add(b, mean, in["sigma"]))
	return op.KernelCRPS(b, members, op.Add(b, in["centre"], in["y"]), 3, dist.AlmostFair(alphaFair))
}

// ordinaryError bounds the errors of heads that the table lacks; larger ones are printed.
const ordinaryError = 1e-5

// TestHeadsAtTheirEdges holds testdata/edges.json, the table of errors of the heads, and compares derivatives with central differences.
// -update writes the table.
func TestHeadsAtTheirEdges(t *testing.T) {
	const file = "testdata/edges.json"
	bounds := map[string]map[string]edgeError{}
	if b, err := os.ReadFile(file); err != nil && !*update {
		t.Fatal(err)
	} else if err == nil && !*update {
		if err := json.Unmarshal(b, &bounds); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name string, score func(b *graph.Builder, in map[string]graph.Value) graph.Value) {
		t.Run(name, func(t *testing.T) {
			g := scoreGraph(t, score)
			found := headErrors(t, g)
			if *update {
				bounds[name] = found
			}
			var worst strings.Builder
			for _, e := range edges {
				got, limit := found[e.name], edgeError{ordinaryError, ordinaryError, ordinaryError}
				if row, ok := bounds[name]; ok {
					limit = row[e.name]
				}
				if !(got.Score <= limit.Score && got.Shift <= limit.Shift && got.Sigma <= limit.Sigma) {
					t.Errorf("%s: errors %+v, want at most %+v", e.name, got, limit)
				}
				if got.Score > ordinaryError || got.Shift > ordinaryError || got.Sigma > ordinaryError {
					worst.WriteString("\n" + e.name + ": ")
					b, _ := json.Marshal(got)
					worst.Write(b)
				}
			}
			t.Logf("errors above %g:%s", ordinaryError, worst.String())
			differences(t, g)
		})
	}
	for _, r := range dist.Table {
		for _, rule := range r.Rules {
			if r.Head {
				check(r.ID+" "+string(rule), familyEdges(r, rule))
			}
		}
	}
	check("members", memberEdges)
	if *update {
		b, err := json.MarshalIndent(bounds, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// headErrors runs the head in float32 and returns its errors, rounded up to one digit, with room of a factor of 4 for processors that round in
// another order and a floor of 1e-6.
func headErrors(t *testing.T, g *graph.Graph) map[string]edgeError {
	t.Helper()
	p, err := engine.Compile(g, engine.Options{Mode: engine.Infer, Numerics: engine.Numerics{UseHeuristics: true}})
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in := edgeInputs()
	for name, x := range in {
		for i, v := range x {
			p.Input(name)[i] = float32(v)
		}
	}
	if err := p.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	want := referenceOutputs(t, g, in)
	errorOf := func(name string, i int) float64 {
		got, v := float64(p.Output(name)[i]), want[name][i]
		e := math.Abs(got-v) / (1 + math.Abs(v))
		if !(e < math.MaxFloat32) || !(v-v == 0) {
			t.Errorf("%s: %s is %v, the reference %v", edges[i].name, name, got, v)
			return math.MaxFloat32
		}
		if *update {
			e = errorBound(e)
		}
		return e
	}
	found := map[string]edgeError{}
	for i, e := range edges {
		found[e.name] = edgeError{errorOf("score", i), errorOf("d_shift", i), errorOf("d_sigma", i)}
	}
	return found
}

// errorBound is a bound of an error: rounded up to one digit, with room of a factor of 4 and a floor of 1e-6.
func errorBound(e float64) float64 {
	e = max(4*e, 1e-6)
	exponent := math.Floor(math.Log10(e))
	bound, err := strconv.ParseFloat(fmt.Sprintf("%ge%g", math.Ceil(e/math.Pow(10, exponent)), exponent), 64)
	if err != nil {
		panic(err)
	}
	return bound
}

// referenceOutputs evaluates the outputs of a graph in float64.
func referenceOutputs(t *testing.T, g *graph.Graph, in map[string][]float64) map[string][]float64 {
	t.Helper()
	v, err := reftest.Eval(g, in, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float64{}
	for _, o := range g.Outputs {
		out[o.Name] = v[o.ID]
	}
	return out
}

// differences compares the derivatives of the reference with central differences, where a step of the difference
// changes the score by more than float64 rounds.
func differences(t *testing.T, g *graph.Graph) {
	t.Helper()
	in := edgeInputs()
	at := referenceOutputs(t, g, in)
	for _, name := range []string{"shift", "sigma"} {
		x := in[name]
		h := make([]float64, len(x))
		moved := func(sign float64) []float64 {
			own := map[string][]float64{}
			for k, v := range in {
				own[k] = v
			}
			own[name] = make([]float64, len(x))
			for i := range x {
				h[i] = 1e-5 * min(in["sigma"][i], 1)
				own[name][i] = x[i] + sign*h[i]
			}
			return referenceOutputs(t, g, own)["score"]
		}
		up, down := moved(1), moved(-1)
		for i, e := range edges {
			if h[i] < 1e-9*(1+math.Abs(e.centre)+math.Abs(e.shift)) {
				continue
			}
			got, want := (up[i]-down[i])/(2*h[i]), at["d_"+name][i]
			if tol := 1e-4 * (1 + math.Abs(want)); !(math.Abs(got-want) <= tol) {
				t.Errorf("%s: difference of %s is %g, the gradient %g", e.name, name, got, want)
			}
		}
	}
}
