package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// smallUNet is smallUNetOf 4 samples.
func smallUNet(t *testing.T, inner int) *graph.Graph {
	t.Helper()
	return smallUNetOf(t, 4, inner)
}

// smallUNetOf is a U-Net with one pooling on fields of 3×16×24 points and inner channels.
func smallUNetOf(t *testing.T, samples, inner int) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	conv := func(name string, x graph.Value, out int) graph.Value {
		w := b.Param(name+".weight", graph.Shape{out, x.Dim(1), 3, 3, 3}, graph.HeNormal(27))
		y := op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)})
		return op.ReLU(b, op.Bias(b, y, b.Param(name+".bias", graph.Shape{out}, graph.Zeros())))
	}
	x := b.Input("x", graph.Shape{samples, 2, 3, 16, 24})
	skip := conv("first", x, 16)
	h := conv("inner", op.MaxPool(b, skip, [3]int{1, 2, 2}), inner)
	h = conv("last", op.Concat(b, 1, op.Upsample(b, h, [3]int{1, 2, 2}, true), skip), 2)
	b.Loss(op.L1(b, h, b.Input("target", h.Shape())))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// fastLinks is a machine with one rank per node.
var fastLinks = Machine{FLOPs: 1e11, Bytes: 1e10, IntraNode: Link{cluster.Microsecond, 1e10}, InterNode: Link{2 * cluster.Microsecond, 2e9}}

// meshes are meshes of 1 to 8 ranks that smallUNet has shards for.
var meshes = []string{"", "data:4", "level:3", "lat:2 lon:2", "data:2 lon:4", "lon:4@3x8x12=lat", "lon:4@3x8x12=data", "lat:2 lon:2@3x8x12=none", "lon:4@3x8x12=channel", "lat:2 lon:4"}

// parseMesh parses a mesh.
func parseMesh(t *testing.T, text string) spatial.Mesh {
	t.Helper()
	mesh, err := spatial.ParseMesh(text)
	if err != nil {
		t.Fatal(err)
	}
	return mesh
}

// A price is the time of the simulated step of the same scripts: exactly on one rank, and nearly so on many.
func TestPricesArePlayed(t *testing.T) {
	m := fastLinks
	network := cluster.LogGP{Latency: m.InterNode.Alpha, Rate: m.InterNode.Rate}
	for _, overlap := range []bool{false, true} {
		m.OverlapGradients, m.OverlapHalos = overlap, overlap
		for _, text := range meshes {
			mesh, g := parseMesh(t, text), smallUNet(t, 64)
			played, err := Simulate(t.Context(), g, Optimiser{State: 2}, mesh, m, network)
			if err != nil {
				t.Fatal(err)
			}
			priced, err := CostOf(t.Context(), g, m, Optimiser{State: 2}, mesh)
			if err != nil {
				t.Fatal(err)
			}
			tolerance := 0.1
			if mesh.Size() == 1 {
				tolerance = 1e-9
			}
			d := played.Step.Seconds()/priced.Step.Seconds() - 1
			t.Logf("mesh %v, overlap %v: played %v, priced %v (%+.1f %%)", mesh, overlap, played.Step, priced.Step, 100*d)
			if math.Abs(d) > tolerance {
				t.Errorf("mesh %v, overlap %v: played %v, priced %v", mesh, overlap, played.Step, priced.Step)
			}
			if (played.Sent > 0) != (mesh.Size() > 1) {
				t.Errorf("mesh %v: %d bytes sent", mesh, played.Sent)
			}
		}
	}
}

// With a sharded optimiser gradients are scattered and parameters gathered, in the price and in the simulation.
func TestShardedOptimiserIsPlayed(t *testing.T) {
	m, o := fastLinks, Optimiser{State: 2, Sharded: true}
	m.OverlapGradients = true
	for _, text := range []string{"data:4", "lat:2 lon:2"} {
		mesh, g := parseMesh(t, text), smallUNet(t, 256)
		played, err := Simulate(t.Context(), g, o, mesh, m, cluster.LogGP{Latency: m.InterNode.Alpha, Rate: m.InterNode.Rate})
		if err != nil {
			t.Fatal(err)
		}
		priced, err := CostOf(t.Context(), g, m, o, mesh)
		if err != nil {
			t.Fatal(err)
		}
		if d := played.Step.Seconds()/priced.Step.Seconds() - 1; math.Abs(d) > 0.1 {
			t.Errorf("mesh %v: played %v, priced %v", mesh, played.Step, priced.Step)
		}
	}
}

// The planned memory has a moving average as it is allocated: a store of all parameters on every rank, whether or not the
// optimiser is sharded, while moments are shared.
func TestMovingAverageIsWhole(t *testing.T) {
	g := smallUNet(t, 64)
	average := engine.NewStore()
	plan, err := engine.Compile(g, engine.Options{Reuse: engine.Reuse{Store: average}})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	memory := func(o Optimiser, mesh string) int64 {
		e, err := CostOf(t.Context(), g, fastLinks, o, parseMesh(t, mesh))
		if err != nil {
			t.Fatal(err)
		}
		return e.Memory
	}
	parameters := 0
	for _, e := range average.Entries() {
		if !e.State {
			parameters += e.Shape.Size()
		}
	}
	for _, mesh := range []string{"data:1", "data:4", "lat:2 lon:2"} {
		for _, sharded := range []bool{false, true} {
			o := Optimiser{State: 2, Sharded: sharded}
			without := memory(o, mesh)
			o.Average = true
			if got := memory(o, mesh) - without; got != 4*int64(parameters) {
				t.Errorf("mesh %s, sharded %t: %d bytes for the average of %d parameters", mesh, sharded, got, parameters)
			}
		}
	}
}

// Convolutions of the compiled step are found with their passes and channels, and their FLOPs are those of the graph.
func TestWork(t *testing.T) {
	whole, err := wholeStep(smallUNet(t, 64), 0)
	if err != nil {
		t.Fatal(err)
	}
	_, step, err := newScript(whole, &fastLinks, Optimiser{}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var convs []string
	var flops int64
	for _, id := range step.Sequence {
		w := workOf(step.Graph, step.Graph.Nodes[id])
		if w.Conv != nil {
			convs, flops = append(convs, fmt.Sprintf("%s %d-%d", w.Conv.Pass, w.Conv.In, w.Conv.Out)), flops+w.FLOPs
		}
	}
	slices.Sort(convs)
	want := []string{"data 2-16", "data 2-64", "data 64-16", "filter 16-64", "filter 2-16", "filter 80-2", "forward 16-64", "forward 2-16", "forward 80-2"}
	if !slices.Equal(convs, want) {
		t.Errorf("convolutions %q, want %q", convs, want)
	}
	// Each output reads 9 points of 3 levels, 2 at the ends: 7 of 9 pairs of levels.
	per := func(in, out, points int) int64 { return int64(2 * 4 * in * out * 9 * 7 * points) }
	first, inner, last := per(2, 16, 16*24), per(16, 64, 8*12), per(80, 2, 16*24)
	want64 := 2*first + 3*inner + 3*last
	if d := float64(flops)/float64(want64) - 1; d < 0 || d > 0.01 { // biases and ReLUs on top
		t.Errorf("%d FLOPs, want %d", flops, want64)
	}
}

// The search finds the mesh that prices least, and the plan per stage is not slower.
func TestSearch(t *testing.T) {
	g := smallUNet(t, 512)
	m := fastLinks
	m.OverlapHalos, m.OverlapGradients = true, true
	for _, ranks := range []int{1, 4, 6} {
		uniform, err := Search(t.Context(), g, ranks, m, Optimiser{State: 2}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, mesh := range Meshes(g, ranks) {
			p, err := CostOf(t.Context(), g, m, Optimiser{State: 2}, mesh)
			if err == nil && float64(p.Step) < 0.99*float64(uniform.Best.Step) {
				t.Errorf("%d ranks: %v takes %v, the best plan %v takes %v", ranks, mesh, p.Step, uniform.Best.Mesh, uniform.Best.Step)
			}
		}
		r, err := Search(t.Context(), g, ranks, m, Optimiser{State: 2}, Options{PerStage: true})
		if err != nil || r.Best.Step > uniform.Best.Step {
			t.Errorf("%d ranks: %v takes %v, by stage %v takes %v: %v", ranks, uniform.Best.Mesh, uniform.Best.Step, r.Best.Mesh, r.Best.Step, err)
		}
		t.Logf("%d ranks: %v %v, by stage %v %v", ranks, uniform.Best.Mesh, uniform.Best.Step, r.Best.Mesh, r.Best.Step)
		if again, err := Search(t.Context(), g, ranks, m, Optimiser{State: 2}, Options{PerStage: true}); err != nil || again.Best.Mesh.String() != r.Best.Mesh.String() {
			t.Errorf("%d ranks: %v and then %v", ranks, r.Best.Mesh, again.Best.Mesh)
		}
	}
}

// Where splitting small fields costs more than it saves, they stay whole.
func TestSmallFieldsStayWhole(t *testing.T) {
	m := fastLinks
	m.InterNode.Alpha = 500 * cluster.Microsecond
	r, err := Search(t.Context(), smallUNet(t, 16), 2, m, Optimiser{State: 2}, Options{PerStage: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Best.Mesh, r.Best.Step)
	if p, err := CostOf(t.Context(), smallUNet(t, 16), m, Optimiser{State: 2}, parseMesh(t, "lon:2@3x8x12=none")); err != nil || r.Best.Step > p.Step {
		t.Errorf("%v takes %v, lon:2@3x8x12=none %v: %v", r.Best.Mesh, r.Best.Step, p.Step, err)
	}
}

// Plans that do not exist or do not fit are errors, and a canceled search ends.
func TestSearchErrors(t *testing.T) {
	g := smallUNet(t, 16)
	if _, err := Search(t.Context(), g, 7*11*13, fastLinks, Optimiser{}, Options{}); !errors.Is(err, ErrMesh) {
		t.Errorf("1001 ranks: %v", err)
	}
	m := fastLinks
	m.Memory = 1 << 10
	if r, err := Search(t.Context(), g, 4, m, Optimiser{State: 2}, Options{PerStage: true}); !errors.Is(err, ErrMemory) || r.Best.Memory <= m.Memory {
		t.Errorf("1 KiB: %v, %v", r.Best.Memory, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Search(ctx, g, 4, fastLinks, Optimiser{}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := Simulate(ctx, g, Optimiser{}, parseMesh(t, "lon:4"), fastLinks, cluster.LogGP{Rate: 1e9}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled simulation: %v", err)
	}
	b := graph.New(1)
	b.Output("y", op.ReLU(b, b.Input("x", graph.Shape{1, 1, 1, 8, 8})))
	if g, err := b.Build(); err != nil {
		t.Fatal(err)
	} else if _, err := Search(t.Context(), g, 2, fastLinks, Optimiser{}, Options{}); err == nil || !strings.Contains(err.Error(), "no loss") {
		t.Errorf("no loss: %v", err)
	}
}

// Layers are named, and split as package spatial splits them.
func TestLayers(t *testing.T) {
	p, err := CostOf(t.Context(), smallUNet(t, 64), fastLinks, Optimiser{}, parseMesh(t, "data:2 lon:4@3x8x12=channel"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range p.Layers {
		cuts := ""
		for axis, c := range l.Distribution.Axes {
			if c.MeshAxis != "" {
				cuts += fmt.Sprintf(" %s/%d", AxisNames[axis], len(c.Starts))
			}
		}
		got = append(got, l.Name+cuts)
	}
	want := []string{"first data/2 lon/4", "max_pool 8x12 data/2", "inner data/2 channel/4", "upsample 16x24 data/2 lon/4", "concat 16x24 data/2 lon/4", "last data/2 lon/4"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
