package unet3d

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
)

// prunable lists networks small enough for the reference backend, each with the number of layers
// that lose channels if half of the channels are removed, and a reason why others do not.
var prunable = []struct {
	name   string
	input  graph.Shape
	build  func(b *graph.Builder, x graph.Value) graph.Value
	layers int
	pinned string
}{
	{"unet", graph.Shape{1, 3, 2, 4, 8}, UNet{Base: 2, Stages: 2, Periodic: true, Out: 3}.Build, 7, "output y"},
	{"unet, one stage, padded", graph.Shape{1, 3, 2, 7, 9}, UNet{Base: 2, Stages: 1, Periodic: true}.BuildPadded, 4, "output y"},
	{"unet, full levels", graph.Shape{1, 3, 2, 4, 6}, UNet{Base: 2, Stages: 1, Levels: FullLevels}.Build, 8, "output y"},
	{"unet, affine levels", graph.Shape{1, 3, 2, 4, 6}, UNet{Base: 2, Stages: 1, Levels: AffineLevels}.Build, 4, "output y"},
	{"unet, separable levels", graph.Shape{1, 3, 2, 4, 6}, UNet{Base: 2, Stages: 1, Levels: SeparableLevels}.Build, 12, "output y"},
	{"bias", graph.Shape{2, 3, 2, 5, 6}, BiasUNet{Base: 2, Stages: 0, Out: 2}.Build, 4, "output y"},
	{"bias, two stages", graph.Shape{1, 3, 2, 8, 7}, BiasUNet{Base: 2, Stages: 2, Out: 2, Periodic: true}.Build, 12, "output y"},
	{"correction", graph.Shape{2, 2, 2, 6, 8}, func(b *graph.Builder, x graph.Value) graph.Value {
		y, _ := Correction{UNet: BiasUNet{Base: 2, Stages: 1}, Local: 3}.Build(b, x, x)
		return y
	}, 7, "input x"},
	{"resnet2d", graph.Shape{2, 4, 1, 4, 5}, ResNet2D{Widths: []int{4, 4, 8, 8, 8}, Reinject: 2}.Build, 26, ""},
	{"inception", graph.Shape{2, 3, 1, 2, 4}, func(b *graph.Builder, x graph.Value) graph.Value {
		return Inception{Width: 16, Target: 1}.Build(b, x, x)
	}, 44, ""},
	{"inception, figure", graph.Shape{2, 3, 1, 2, 4}, func(b *graph.Builder, x graph.Value) graph.Value {
		return Inception{Width: 16, Figure: true}.Build(b, x, x)
	}, 44, ""},
	{"unet2d", graph.Shape{2, 3, 2, 6, 7}, func(b *graph.Builder, x graph.Value) graph.Value { return UNet2D{Base: 4}.Build(b, x, 2) }, 12, "output y"},
	{"drn, learned fields", graph.Shape{2, 3, 1, 4, 5}, func(b *graph.Builder, x graph.Value) graph.Value {
		return DRN{Hidden: 8}.Build(b, Embedding(b, x, 2), 2)
	}, 1, "output y"},
	{"lenet", graph.Shape{1, 3, 1, 6, 7}, func(b *graph.Builder, x graph.Value) graph.Value {
		return LeNet{Widths: []int{4, 6, 8, 4}}.Build(b, x, 2)
	}, 4, "output y"},
	{"members, mean and deviation", graph.Shape{6, 3, 2, 4, 6}, func(b *graph.Builder, x graph.Value) graph.Value {
		return UNet{Base: 2, Stages: 1}.Build(b, MemberEncoder{Channels: 4, Pool: MeanStdPool}.Build(b, x, 3))
	}, 6, "output y"},
	{"members, attention", graph.Shape{6, 3, 2, 4, 6}, func(b *graph.Builder, x graph.Value) graph.Value {
		return UNet{Base: 2, Stages: 1}.Build(b, MemberEncoder{Channels: 8, Pool: AttentionPool}.Build(b, x, 3))
	}, 7, "set_mix at unet3d/memberencoder.go"},
	{"poet", graph.Shape{4, 3, 1, 12, 14}, PoET{Attention: Attention{SetSize: 2, Heads: 2}, Widths: []int{4, 6, 8}, AttentionStages: 1}.Build, 10, "sum at unet3d/attention.go"},
	{"poet of places", graph.Shape{4, 3, 1, 8, 9}, PoET{Attention: Attention{SetSize: 2, Heads: 2, Positional: true, Norm: NoNorm}, Widths: []int{4, 6}, AttentionStages: 1}.Build, 6, "reshape at unet3d/attention.go"},
	{"transformer without norm", graph.Shape{4, 3, 1, 5, 6}, MemberTransformer{Attention: Attention{SetSize: 2, Norm: NoNorm}, Width: 4, Layers: 2}.Build, 3, "set_dot at unet3d/attention.go"},
	{"leads as depth", graph.Shape{4, 3, 1, 4, 6}, TimeUNet{UNet: UNet{Base: 2, Stages: 1}, Leads: 2}.Build, 4, "output y"},
	{"leads, factorised", graph.Shape{4, 3, 2, 4, 6}, TimeUNet{UNet: UNet{Base: 2, Stages: 1}, Leads: 2, Factorised: true}.Build, 8, "output y"},
	{"leads, GRU", graph.Shape{4, 3, 1, 4, 6}, RecurrentUNet{UNet: UNet{Base: 2, Stages: 1}, Cell: ConvGRU, Leads: 2}.Build, 7, "reshape at unet3d/leads.go"},
	{"leads, LSTM both ways", graph.Shape{4, 3, 1, 4, 6}, RecurrentUNet{UNet: UNet{Base: 2, Stages: 1}, Leads: 2, Bidirectional: true}.Build, 9, "reshape at unet3d/leads.go"},
	{"trajectories", graph.Shape{4, 3, 1, 12, 14}, PoET{Attention: Attention{SetSize: 2, Heads: 2}, Leads: Attention{SetSize: 2, Heads: 2}, Widths: []int{4, 6, 8}, AttentionStages: 1}.Build, 10, "set_transpose at unet3d/poet.go"},
	{"axial", graph.Shape{2, 3, 2, 4, 6}, AxialTransformer{Leads: 2, Width: 4, Heads: 2, Blocks: 1, Stages: -1}.Build, 4, "axis_attention at unet3d/axial.go"},
	{"calibrated", graph.Shape{2, 3, 2, 7, 9}, func(b *graph.Builder, x graph.Value) graph.Value {
		v := func(name string, s graph.Shape) graph.Value { return b.Input(name, s) }
		s := graph.Shape{2, 1, 2, 7, 9}
		out := Calibrated{Body: UNetKind.Body(Layout{Base: 2, Stages: 1}), SpreadAffine: make([][2]float64, 2), SpreadScale: []float64{1, 2}}.Build(b,
			CalibratedInput{Features: x, Spread: v("spread", s), Anomaly: v("anomaly", s), Season: v("season", graph.Shape{2, 2, 1, 1, 1})})
		return op.Concat(b, 1, out.Shift, out.Sigma, out.Spread)
	}, 4, "input spread"},
}

// buildPrunable builds the graph of a network with a loss.
func buildPrunable(t *testing.T, input graph.Shape, build func(*graph.Builder, graph.Value) graph.Value) *graph.Graph {
	t.Helper()
	b := graph.New(3)
	y := build(b, b.Input("x", input))
	b.Output("y", y)
	b.Loss(op.Mean(b, op.Square(b, y)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestShrunkIsMasked: a network without the removed channels has the outputs, loss and gradients of
// the network with these weights set to 0, in training and prediction, on both backends.
func TestShrunkIsMasked(t *testing.T) {
	for _, n := range prunable {
		t.Run(n.name, func(t *testing.T) {
			g := buildPrunable(t, n.input, n.build)
			values := randomValues(g)
			c := channels.Find(g)
			kept, err := c.Choose(channels.Goal{Fraction: 0.5}, c.Magnitudes(func(name string) []float32 { return values[name] }))
			if err != nil {
				t.Fatal(err)
			}
			small, cut, err := c.Shrink(kept)
			if err != nil {
				t.Fatal(err)
			}
			var why []string
			for _, f := range c.Groups() {
				why = append(why, f.Reasons...)
			}
			if len(kept) != n.layers || !strings.Contains(strings.Join(why, "\n"), n.pinned) {
				t.Errorf("%d layers lose channels, want %d: %v\npinned: %v", len(kept), n.layers, kept, why)
			}
			masked, part := map[string][]float32{}, map[string][]float32{}
			for _, nd := range g.Nodes {
				if v := values[nd.Name]; v != nil {
					masked[nd.Name], part[nd.Name] = maskedBy(cut, nd, v), v
					if nd.Kind != graph.KindInput {
						part[nd.Name], _ = cut.Take(nd.Name, nd.Shape, v)
					}
				}
			}
			for _, backend := range backends(t) {
				o := engine.Options{Device: engine.Device{Backend: backend}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}}
				for _, o.Mode = range []engine.Mode{engine.Train, engine.Infer} {
					want, got := runWith(t, g, masked, o), runWith(t, small, part, o)
					for name, w := range want {
						if x, _ := cut.Take(name, shapeOf(g, name), w); !near(got[name], x, name) {
							t.Errorf("%s, mode %v: %s differs: %v and %v …", o.Backend, o.Mode, name, head(got[name]), head(x))
						}
					}
				}
			}
		})
	}
}

// randomValues returns inputs, parameters and states without zeros; variances are positive.
func randomValues(g *graph.Graph) map[string][]float32 {
	r, values := rand.New(rand.NewPCG(5, 6)), map[string][]float32{}
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp || n.Kind == graph.KindConst {
			continue
		}
		v := make([]float32, n.Shape.Size())
		scale := 1.
		if len(n.Shape) > 1 && n.Kind == graph.KindParam {
			scale = 1 / math.Sqrt(float64(n.Shape[1:].Size()))
		}
		for i := range v {
			v[i] = float32(scale * r.NormFloat64())
			if n.Kind == graph.KindState || n.Name == "spread" {
				v[i] = float32(0.5 + r.Float64())
			}
		}
		values[n.Name] = v
	}
	return values
}

// maskedBy sets the values that a selection leaves out to 0.
func maskedBy(cut channels.Selection, n *graph.Node, v []float32) []float32 {
	keep, ok := cut[n.Name]
	if !ok || n.Kind == graph.KindState {
		return v
	}
	out := slices.Clone(v)
	strides := n.Shape.Strides()
	for i := range out {
		for axis, some := range keep {
			if some != nil && !slices.Contains(some, i/strides[axis]%n.Shape[axis]) {
				out[i] = 0
			}
		}
	}
	return out
}

// runWith returns output, loss and gradients.
func runWith(t *testing.T, g *graph.Graph, values map[string][]float32, o engine.Options) map[string][]float32 {
	t.Helper()
	o.Store = engine.NewStore()
	p, err := engine.Compile(g, o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for name, v := range values {
		if to := p.Input(name); to != nil {
			copy(to, v)
		} else if err := o.Store.Set(name, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Run(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	out := map[string][]float32{"": slices.Clone(p.Output("y")), "loss": {float32(p.Loss())}}
	if o.Mode == engine.Train {
		for _, name := range o.Store.Names() {
			out[name], _ = o.Store.Grad(name)
		}
		for _, name := range o.Store.StateNames() {
			out[name], _, _ = o.Store.Get(name)
		}
	}
	return out
}

func shapeOf(g *graph.Graph, name string) graph.Shape {
	if n := g.Find(name); n != nil {
		return n.Shape
	}
	return nil
}

func head(v []float32) string { return fmt.Sprint(v[:min(4, len(v))]) }

// near reports whether values agree to 1e-6 of the largest, and gradients to 1e-5: the order of
// sums over all points depends on the widths.
func near(a, b []float32, name string) bool {
	if len(a) != len(b) {
		return false
	}
	top, tolerance := 1., 1e-6
	for _, v := range b {
		top = max(top, math.Abs(float64(v)))
	}
	if name != "" && name != "loss" {
		tolerance = 1e-5
	}
	for i := range a {
		if !(math.Abs(float64(a[i])-float64(b[i])) <= tolerance*top) {
			return false
		}
	}
	return true
}

// TestOracleOfWidths: parameters and operations of the 3-D U-Net of Çiçek et al. 2016 with base 32,
// with biases, without norms, with three poolings and no convolution after upsampling, if all
// widths are multiplied by rho. The last 1×1×1 layer is not counted.
func TestOracleOfWidths(t *testing.T) {
	b := graph.New(1)
	u := BiasUNet{}
	h := b.Input("x", graph.Shape{1, 42, 2, 352, 704})
	layer := func(name string, out int) { h = op.ReLU(b, u.conv(b, name, h, out, [3]int{3, 3, 3})) }
	var skips []graph.Value
	for s, width := 0, 32; s <= 3; s, width = s+1, 2*width {
		if s > 0 {
			skips = append(skips, h)
			h = op.MaxPool(b, h, [3]int{1, 2, 2})
		}
		layer(fmt.Sprintf("enc%da", s), width)
		layer(fmt.Sprintf("enc%db", s), 2*width)
	}
	for s := 2; s >= 0; s-- {
		h = op.Concat(b, 1, skips[s], op.Upsample(b, h, [3]int{1, 2, 2}, false))
		layer(fmt.Sprintf("dec%da", s), skips[s].Dim(1))
		layer(fmt.Sprintf("dec%db", s), skips[s].Dim(1))
	}
	body := h.Dim(1)
	w := b.Param("out.weight", graph.Shape{1, body, 1, 1, 1}, graph.Zeros())
	b.Output("y", op.Conv3D(b, h, w, op.Conv{}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	// Convolutions alone, without the last.
	count := func(g *graph.Graph) (parameters int, flops int64) {
		for _, n := range g.Nodes {
			if n.Kind == graph.KindParam && n.Name != "out.weight" {
				parameters += n.Shape.Size()
			}
			if n.Kind == graph.KindOp && n.Op.Name == "conv3d" && n.Shape[1] > 1 {
				flops += n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs)
			}
		}
		return parameters, flops
	}
	dense, all := count(g)
	if dense != 16350944 {
		t.Errorf("%d parameters, want 16350944", dense)
	}
	c := channels.Find(g)
	for _, o := range []struct {
		rho        float64
		parameters int
		fewer      float64
	}{{0.75, 9204648, 1.765}, {0.5, 4097392, 3.915}, {0.25, 1029176, 15.019}} {
		kept, err := c.Choose(channels.Goal{Fraction: o.rho, Multiple: 8}, c.EqualScores())
		if err != nil {
			t.Fatal(err)
		}
		small, _, err := c.Shrink(kept)
		if err != nil {
			t.Fatal(err)
		}
		parameters, flops := count(small)
		if fewer := float64(all) / float64(flops); parameters != o.parameters || math.Abs(fewer-o.fewer) > 5e-4 {
			t.Errorf("rho %v: %d parameters, %.4f times fewer operations; want %d, %.3f", o.rho, parameters, fewer, o.parameters, o.fewer)
		}
	}
}
