package spatial

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// network is a small network with a loss, an input x and a target y.
type network struct {
	name  string
	x, y  graph.Shape
	build func(b *graph.Builder, x, y graph.Value)
}

func conv(b *graph.Builder, name string, x graph.Value, out int, k [3]int, a op.Conv) graph.Value {
	w := b.Param(name, graph.Shape{out, x.Dim(1), k[0], k[1], k[2]}, graph.HeNormal(x.Dim(1)*k[0]*k[1]*k[2]))
	bias := b.Param(name+".bias", graph.Shape{out}, graph.HeNormal(out))
	return op.Bias(b, op.Conv3D(b, x, w, a), bias)
}

// single is a network of one convolution with mean absolute error.
func single(name string, x graph.Shape, k [3]int, a op.Conv) network {
	return network{name, x, nil, func(b *graph.Builder, v, _ graph.Value) {
		h := conv(b, "in", v, 3, [3]int{1, 1, 1}, op.Conv{}) // so that the data have a gradient
		h = conv(b, "conv", h, 2, k, a)
		b.Output("field", h)
		b.Loss(op.Mean(b, op.Abs(b, h)))
	}}
}

// unshared is a locally connected layer between two convolutions, with a penalty on
// differences of neighbouring filters.
func unshared(name string, x graph.Shape, a op.LocalConv) network {
	return network{name, x, nil, func(b *graph.Builder, v, _ graph.Value) {
		h := conv(b, "in", v, 3, [3]int{1, 1, 1}, op.Conv{})
		shape, err := a.Filter(h.Shape(), 2)
		if err != nil {
			b.Fail(name, err)
			return
		}
		w := b.Param("local", shape, graph.HeNormal(shape[1]))
		h = conv(b, "out", op.Conv3DLocal(b, h, w, a), 1, [3]int{1, 3, 3}, op.Conv{Pad: op.Same(1, 3, 3)})
		b.Output("field", h)
		rows := w.Dim(3)
		step := op.Abs(b, op.Sub(b, op.Slice(b, w, 3, 1, rows), op.Slice(b, w, 3, 0, rows-1)))
		b.Loss(op.Add(b, op.Mean(b, op.Abs(b, h)), op.Mean(b, step)))
	}}
}

// unet has two poolings, upsampling, concatenations, dropout and batch
// normalisation; width scales its channels.
func unet(name string, x graph.Shape, width int, periodic bool) network {
	y := x.Clone()
	y[1] = 1
	return network{name, x, y, func(b *graph.Builder, x, y graph.Value) {
		pad := op.Conv{Pad: op.Same(3, 3, 3)}
		if periodic {
			pad = op.Conv{Pad: op.SameGlobal(3, 3, 3)}
		}
		k, half := [3]int{3, 3, 3}, [3]int{1, 2, 2}
		one := op.ReLU(b, conv(b, "e0", x, 3*width, k, pad))
		two := op.MaxPool(b, op.ReLU(b, conv(b, "e1", one, 4*width, k, pad)), half)
		h := op.AvgPool(b, op.ReLU(b, conv(b, "e2", two, 5*width, k, pad)), half)
		c := graph.Shape{h.Dim(1)}
		h = op.BatchNorm(b, h, b.Param("gamma", c, graph.Ones()), b.Param("beta", c, graph.Zeros()),
			b.State("mean", c, graph.Zeros()), b.State("var", c, graph.Ones()), op.BatchNormOptions{})
		h = op.Dropout(b, h, 0.3)
		h = op.Concat(b, 1, op.Upsample(b, h, half, periodic), two)
		h = op.ReLU(b, conv(b, "d1", h, 4*width, k, pad))
		h = op.Concat(b, 1, op.Upsample(b, h, half, periodic), one)
		h = conv(b, "d0", h, 2, k, pad)
		mean := op.Slice(b, h, 1, 0, 1)
		spread := op.AddScalar(b, op.Softplus(b, op.Slice(b, h, 1, 1, 2)), 0.1)
		bias := b.Param("map", graph.Shape{1, 1, x.Dim(2), x.Dim(3), x.Dim(4)}, graph.HeNormal(1))
		mean = op.Add(b, mean, bias)
		b.Output("mean", mean)
		b.Output("spread", spread)
		weights := make([]float32, x.Dim(3))
		for i := range weights {
			weights[i] = float32(1 + i%3)
		}
		b.Loss(op.WeightedMean(b, op.GaussianCRPS(b, mean, spread, y), b.Const("", graph.Shape{1, 1, 1, x.Dim(3), 1}, weights)))
	}}
}

// members is a network whose rows are members of ensembles: their features are
// pooled in every way, processed per sample and returned to the rows, which are
// scored together and in two groups.
func members(name string, x graph.Shape, size int) network {
	y := x.Clone()
	y[0], y[1] = x[0]/size, 2
	return network{name, x, y, func(b *graph.Builder, x, y graph.Value) {
		pad := op.Conv{Pad: op.SameGlobal(1, 3, 3)}
		h := conv(b, "member", x, 3, [3]int{1, 3, 3}, pad)
		pooled := op.Concat(b, 1, op.SetMean(b, h, size), op.SetStd(b, h, size), op.SetMin(b, h, size), op.SetMax(b, h, size), op.SetSum(b, h, size))
		back := op.SetRepeat(b, conv(b, "sample", pooled, 3, [3]int{1, 3, 3}, pad), size)
		h = conv(b, "out", op.Add(b, h, back), 2, [3]int{1, 1, 1}, op.Conv{})
		b.Output("members", h)
		b.Output("pooled", pooled)
		b.Loss(op.Add(b, op.Mean(b, op.KernelCRPS(b, h, y, size, func(int) float64 { return 0.01 })), op.Mean(b, op.CrossPairCRPS(b, h, y, size, 2))))
	}}
}

// attending is a network whose rows attend to each other, with attention weights
// per field, from keys on a coarser grid, per row and column, per point and per
// cell of several points, scored at two scales.
func attending(name string, x graph.Shape, size int) network {
	y := x.Clone()
	y[0], y[1] = x[0]/size, 2
	return network{name, x, y, func(b *graph.Builder, x, y graph.Value) {
		h := conv(b, "in", x, 4, [3]int{1, 3, 3}, op.Conv{Pad: op.SameGlobal(1, 3, 3)})
		n := op.LayerNorm(b, h, b.Param("gamma", graph.Shape{1, 4, 1, 1, 1}, graph.HeNormal(2)), b.Param("beta", graph.Shape{1, 4, 1, x.Dim(3), x.Dim(4)}, graph.HeNormal(2)), 0)
		v := conv(b, "value", n, 4, [3]int{1, 1, 1}, op.Conv{})
		keys := func(name string, stride int, cells [3]int) graph.Value {
			a := op.Attention{Set: size, Heads: 2, Cells: cells}
			of := op.Conv{Stride: [3]int{1, stride, stride}}
			k := op.ReLU(b, conv(b, name+".key", n, 4, [3]int{1, stride, stride}, of))
			return op.SetAttention(b, k, conv(b, name+".query", n, 4, [3]int{1, stride, stride}, of), a)
		}
		all := op.PerPoint
		a := op.Attention{Set: size, Heads: 2}
		h = op.Add(b, h, op.Attend(b, v, a, keys("global", 1, [3]int{}), keys("coarse", 3, [3]int{}), keys("row", 1, [3]int{1, all, 1}),
			keys("column", 1, [3]int{1, 1, all}), keys("point", 1, [3]int{all, all, all}), keys("cell", 1, [3]int{1, 2, 3}), keys("coarse point", 3, [3]int{all, all, all})))
		h = op.ConvTranspose3D(b, op.MaxPool(b, h, [3]int{1, 2, 2}), b.Param("up", graph.Shape{4, 2, 1, 2, 2}, graph.HeNormal(4)), op.Conv{Stride: [3]int{1, 2, 2}},
			graph.Shape{x.Dim(0), 2, x.Dim(2), x.Dim(3), x.Dim(4)})
		b.Output("members", h)
		smooth := []op.Smoothing{op.Gaussian(2, x.Dim(3), x.Dim(4), true)}
		b.Loss(op.Mean(b, op.MultiScaleCRPS(b, h, y, size, func(int) float64 { return 0.02 }, smooth, nil)))
	}}
}

// leads is a network whose rows are trajectories: a recurrent state passes from
// lead to lead, filters cover leads, and members of a lead are combined.
func leads(name string, x graph.Shape, members, size int) network {
	return network{name, x, nil, func(b *graph.Builder, x, _ graph.Value) {
		h := conv(b, "in", x, 3, [3]int{1, 3, 3}, op.Conv{Pad: op.SameGlobal(1, 3, 3)})
		h = op.SetSwap(b, conv(b, "time", op.SetSwap(b, h, size), 2, [3]int{3, 1, 1}, op.Conv{Pad: op.Same(3, 1, 1)}), x.Dim(2))
		s := h.Shape()
		side := op.Reshape(b, h, graph.Shape{s[0] / size, size * s[1], s[2], s[3], s[4]})
		w := b.Param("state", graph.Shape{2, 2, 3, 3, 3}, graph.HeNormal(54))
		var states []graph.Value
		for t := range size {
			now := op.Slice(b, side, 1, 2*t, 2*t+2)
			if t > 0 {
				before := states[t-1]
				if t%2 == 0 {
					before = op.StopGradient(b, before)
				}
				now = op.Add(b, now, op.Tanh(b, op.Conv3D(b, before, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)})))
			}
			states = append(states, now)
		}
		h = op.Reshape(b, op.Concat(b, 1, states...), s)
		turned := op.SetTranspose(b, h, members, size)
		turned = op.Add(b, turned, op.SetRepeat(b, op.SetMean(b, turned, members), members))
		h = op.SetTranspose(b, turned, size, members)
		b.Output("field", h)
		b.Loss(op.Mean(b, op.Square(b, h)))
	}}
}

// axial is a network with attention along leads, levels, latitudes and longitudes,
// in windows that wrap around.
func axial(name string, x graph.Shape, size int) network {
	return network{name, x, nil, func(b *graph.Builder, x, _ graph.Value) {
		h := conv(b, "in", x, 4, [3]int{1, 3, 3}, op.Conv{Pad: op.SameGlobal(1, 3, 3)})
		for i, a := range []op.AxisAttention{
			{Axis: 0, Set: size, Starts: []int{0}}, {Axis: 2, Starts: []int{0}},
			{Axis: 3, Starts: op.WindowStarts(x.Dim(3), 3, false, false)}, {Axis: 3, Starts: op.WindowStarts(x.Dim(3), 4, true, false)},
			{Axis: 4, Starts: op.WindowStarts(x.Dim(4), 5, false, true)}, {Axis: 4, Starts: op.WindowStarts(x.Dim(4), 5, true, true)},
			{Axis: 4, Starts: []int{0}},
		} {
			a.Heads = 2
			of := conv(b, fmt.Sprint("qkv", i), h, 12, [3]int{1, 1, 1}, op.Conv{})
			h = op.Add(b, h, op.AttendAxis(b, of, b.Param(fmt.Sprint("offsets", i), graph.Shape{2, 5}, graph.HeNormal(2)), a))
		}
		b.Output("field", h)
		b.Loss(op.Mean(b, op.Square(b, h)))
	}}
}

var networks = []network{
	axial("along axes", graph.Shape{4, 2, 2, 8, 12}, 2),
	axial("along axes, one set", graph.Shape{3, 2, 3, 8, 13}, 3),
	leads("leads", graph.Shape{12, 2, 2, 8, 12}, 2, 3),
	leads("leads, as many as levels", graph.Shape{4, 2, 2, 8, 12}, 1, 2),
	leads("leads, one level", graph.Shape{12, 2, 1, 8, 12}, 2, 3),
	single("1×1×1", graph.Shape{2, 2, 2, 6, 8}, [3]int{1, 1, 1}, op.Conv{}),
	single("3×3×3", graph.Shape{2, 2, 4, 8, 12}, [3]int{3, 3, 3}, op.Conv{Pad: op.Same(3, 3, 3)}),
	single("5×5, periodic", graph.Shape{2, 2, 2, 8, 12}, [3]int{1, 5, 5}, op.Conv{Pad: op.SameGlobal(1, 5, 5)}),
	single("7×7, periodic", graph.Shape{2, 1, 2, 8, 9}, [3]int{1, 7, 7}, op.Conv{Pad: op.SameGlobal(1, 7, 7)}),
	single("stride 2", graph.Shape{2, 2, 3, 13, 16}, [3]int{3, 3, 3}, op.Conv{Stride: [3]int{1, 2, 2}, Pad: op.Same(3, 3, 3)}),
	single("stride 2, periodic", graph.Shape{2, 2, 2, 12, 16}, [3]int{1, 3, 3}, op.Conv{Stride: [3]int{1, 2, 2}, Pad: op.SameGlobal(1, 3, 3)}),
	single("stride 3, no padding", graph.Shape{2, 2, 2, 14, 17}, [3]int{1, 3, 2}, op.Conv{Stride: [3]int{1, 3, 3}}),
	single("dilation 2", graph.Shape{2, 2, 2, 10, 12}, [3]int{1, 3, 3},
		op.Conv{Dilation: [3]int{1, 2, 2}, Pad: [3]op.Pad{{}, {Size: 2}, {Size: 2, Periodic: true}}}),
	unshared("own filters", graph.Shape{2, 2, 2, 8, 12}, op.LocalConv{Size: [3]int{1, 1, 1}}),
	unshared("own filters 3×3, periodic", graph.Shape{2, 2, 2, 8, 12}, op.LocalConv{Size: [3]int{1, 3, 3}, Pad: op.SameGlobal(1, 3, 3)}),
	unshared("own filters 3×3×5", graph.Shape{2, 2, 4, 8, 12}, op.LocalConv{Size: [3]int{3, 3, 5}, Pad: op.Same(3, 3, 5)}),
	unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, 1, false),
	unet("U-Net, periodic", graph.Shape{2, 2, 2, 12, 16}, 1, true),
	{"resampling", graph.Shape{2, 2, 4, 9, 12}, graph.Shape{2, 2, 4, 9, 12}, func(b *graph.Builder, x, y graph.Value) {
		h := conv(b, "in", x, 2, [3]int{3, 3, 3}, op.Conv{Pad: op.Same(3, 3, 3)})
		h = op.Upsample(b, op.MaxPool(b, h, [3]int{2, 3, 2}), [3]int{2, 3, 2}, true)
		b.Output("field", h)
		b.Loss(op.MSE(b, h, y))
	}},
	{"MS-SSIM", graph.Shape{2, 2, 1, 23, 26}, graph.Shape{2, 2, 1, 23, 26}, func(b *graph.Builder, x, y graph.Value) {
		h := op.Add(b, x, conv(b, "in", x, 2, [3]int{1, 3, 3}, op.Conv{Pad: op.SameGlobal(1, 3, 3)}))
		b.Output("field", h)
		b.Loss(op.AddScalar(b, op.Scale(b, op.MSSSIM(b, h, y, op.SimilarityOptions{Range: 3}), -1), 1))
	}},
	members("members", graph.Shape{6, 2, 2, 8, 12}, 3),
	members("members, one sample", graph.Shape{4, 2, 1, 8, 12}, 4),
	attending("attention", graph.Shape{6, 2, 1, 9, 12}, 3),
	attending("attention, levels", graph.Shape{4, 2, 2, 8, 12}, 2),
	{"slices", graph.Shape{2, 2, 2, 8, 12}, nil, func(b *graph.Builder, x, _ graph.Value) {
		h := conv(b, "in", x, 3, [3]int{1, 3, 3}, op.Conv{Pad: op.Same(1, 3, 3)})
		h = op.PadZeros(b, op.Slice(b, h, 4, 2, 11), 3, 1, 2)
		b.Output("field", h)
		b.Loss(op.Mean(b, op.Square(b, op.Sum(b, h, 2, 4))))
	}},
}

var meshes = []Mesh{
	{{Name: "lon", Size: 2}}, {{Name: "lon", Size: 3}}, {{Name: "lon", Size: 4}}, {{Name: "lat", Size: 2}}, {{Name: "lat", Size: 3}}, {{Name: "data", Size: 2}}, {{Name: "level", Size: 2}},
	{{Name: "lat", Size: 2}, {Name: "lon", Size: 2}}, {{Name: "data", Size: 2}, {Name: "lon", Size: 2}}, {{Name: "data", Size: 2}, {Name: "lat", Size: 2}, {Name: "lon", Size: 2}}, {{Name: "level", Size: 2}, {Name: "lat", Size: 2}}, {{Name: "lat", Size: 1}, {Name: "lon", Size: 2}},
}

// result holds the results of a step.
type result struct {
	loss    float64
	outputs map[string][]float32
	grads   []float32
	states  []float32
	links   string // of the devices
}

// field returns a field of reproducible values.
func field(seed uint64, s graph.Shape) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	x := make([]float32, s.Size())
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func (n network) graph(t testing.TB) *graph.Graph {
	t.Helper()
	g, err := n.built()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (n network) built() (*graph.Graph, error) {
	b := graph.New(11)
	x := b.Input("x", n.x)
	var y graph.Value
	if n.y != nil {
		y = b.Input("y", n.y)
	}
	n.build(b, x, y)
	return b.Build()
}

// run computes two steps on a mesh of ranks of this process, the second with the
// statistics of the first. It returns the result of rank 0 with outputs gathered
// from all shards.
func (n network) run(t testing.TB, m Mesh, mode comm.Mode, o engine.Options) (result, error) {
	return n.runCompiled(t, m, mode, o, nil)
}

// runCompiled is run with plans that change adjusts.
func (n network) runCompiled(t testing.TB, m Mesh, mode comm.Mode, o engine.Options, change func(*Plan)) (result, error) {
	g := n.graph(t)
	shapes := map[string]graph.Shape{}
	for _, out := range g.Outputs {
		shapes[out.Name] = g.Nodes[out.ID].Shape
	}
	r := result{outputs: map[string][]float32{}}
	for name, s := range shapes {
		r.outputs[name] = make([]float32, s.Size())
	}
	var mu sync.Mutex // of r.outputs
	err := comm.Run(m.Size(), mode, func(c *comm.Comm) error {
		o := o
		o.Store = engine.NewStore()
		p, err := compile(g, c, m, o, change)
		if err != nil {
			return err
		}
		defer p.Close()
		for name, s := range map[string]graph.Shape{"x": n.x, "y": n.y} {
			if s != nil {
				ExtractBox(p.Input(name), field(uint64(len(name)+int(name[0])), s), s, p.OwnedBox(name, s))
			}
		}
		if engine.ScalesLoss(o.Precision) {
			p.ScaleLoss(0x1p10)
		}
		for step := range uint64(2) {
			if err := p.Run(context.Background(), step); err != nil {
				return err
			}
		}
		for name, s := range shapes { // several ranks may own all of an output
			mu.Lock()
			InsertBox(r.outputs[name], p.Output(name), s, m.Owned(p.Outputs[name], s, c.Rank()))
			mu.Unlock()
		}
		if err := comm.Barrier(c); err != nil || c.Rank() > 0 {
			return err
		}
		for _, l := range p.Plan.Factors() {
			if l.Form != pass.NoFactors {
				r.outputs[l.RowsName()], r.outputs[l.ColsName()] = slices.Clone(p.Output(l.RowsName())), slices.Clone(p.Output(l.ColsName()))
			}
		}
		r.loss, r.links = p.Loss(), p.Transport()
		r.grads, r.states = slices.Clone(p.Store().Grads()), slices.Clone(p.Store().States())
		return nil
	})
	return r, err
}

// distance is the norm of the difference relative to that of want.
func distance(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var d, w float64
	for i := range want {
		d += math.Pow(float64(got[i])-float64(want[i]), 2)
		w += math.Pow(float64(want[i]), 2)
	}
	if w == 0 {
		return math.Sqrt(d)
	}
	return math.Sqrt(d / w)
}

// compare returns an error if a result differs from that of one rank by more than
// the tolerances.
func (r result) compare(one result, forward, gradient float64) error {
	if d := math.Abs(r.loss-one.loss) / math.Abs(one.loss); !(d <= forward) {
		return fmt.Errorf("loss %v, on one rank %v", r.loss, one.loss)
	}
	for name, want := range one.outputs {
		if d := distance(r.outputs[name], want); !(d <= forward) {
			return fmt.Errorf("output %s differs by %.2g", name, d)
		}
	}
	if d := distance(r.states, one.states); !(d <= forward) {
		return fmt.Errorf("states differ by %.2g", d)
	}
	if d := distance(r.grads, one.grads); !(d <= gradient) {
		return fmt.Errorf("gradient differs by %.2g", d)
	}
	return nil
}

// fits reports whether a network has enough elements for a mesh.
func (n network) fits(m Mesh) bool {
	for _, a := range m {
		if n.x[fieldAxes[a.Name]] < a.Size {
			return false
		}
	}
	return true
}

// In float64 on the reference backend every network gives the same result on every
// mesh, within rounding, Kronecker factors in both forms included.
func TestShard(t *testing.T) { shard(t, aThird) }

// aThird selects a third of the combinations of networks and meshes: every network
// with several meshes, and every mesh with several networks. The long tests cover
// all.
func aThird(network, mesh int) bool { return (network+mesh)%3 == 0 }

// every selects all combinations.
func every(network, mesh int) bool { return true }

func shard(t *testing.T, take func(network, mesh int) bool) {
	o := engine.Options{MaxFactorSide: 64, Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}}
	for k, n := range networks {
		one, err := n.run(t, Mesh{{Name: "lon", Size: 1}}, comm.Parallel, o)
		if err != nil {
			t.Fatal(n.name, err)
		}
		for i, m := range meshes {
			if !n.fits(m) || !take(k, i) {
				continue
			}
			mode := comm.Parallel
			if i%2 == 1 {
				mode = comm.Replay(uint64(i))
			}
			t.Run(fmt.Sprintf("%s on %v", n.name, m), func(t *testing.T) {
				many, err := n.run(t, m, mode, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := many.compare(one, 1e-7, 1e-7); err != nil { // stored as float32
					t.Error(err)
				}
			})
		}
	}
}

// On the CPU backend, with Winograd convolutions in the blocked layout, a mesh
// gives the result of one rank within the rounding of float32; in bfloat16 within
// that of bfloat16.
func TestShardOnCPU(t *testing.T) { shardOnCPU(t, aThird) }

func shardOnCPU(t *testing.T, take func(network, mesh int) bool) {
	nets := []network{
		unet("U-Net", graph.Shape{2, 17, 2, 32, 64}, 6, false),
		unet("U-Net, periodic", graph.Shape{2, 6, 3, 32, 48}, 6, true), // with 5 channels rounding decides a ReLU
		named(t, "MS-SSIM"), named(t, "resampling"), named(t, "members"), named(t, "attention"),
	}
	for p, c := range []struct {
		precision         string
		forward, gradient float64
	}{{"f32", 1e-6, 1e-5}, {"bf16", 1e-2, 5e-2}} {
		o := engine.Options{Numerics: engine.Numerics{Winograd: true, UseHeuristics: true, Precision: c.precision}}
		for k, n := range nets {
			one, err := n.run(t, Mesh{{Name: "lon", Size: 1}}, comm.Parallel, o)
			if exit.CodeOf(err) == exit.NoDevice {
				t.Skip("skipped: no device: ", err)
			}
			if err != nil {
				t.Fatal(n.name, err)
			}
			for i, m := range meshes {
				if !n.fits(m) || !take(k+p, i) {
					continue
				}
				t.Run(fmt.Sprintf("%s in %s on %v", n.name, c.precision, m), func(t *testing.T) {
					many, err := n.run(t, m, comm.Parallel, o)
					if err != nil {
						t.Fatal(err)
					}
					if err := many.compare(one, c.forward, c.gradient); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
