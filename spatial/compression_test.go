package spatial

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/topk"
)

// layered is a network of which two filters are summed sparsely: not the first, the last, the
// small one, and biases.
func layered() network {
	return network{"layered", graph.Shape{4, 9, 1, 4, 4}, nil, func(b *graph.Builder, x, _ graph.Value) {
		one := [3]int{1, 1, 1}
		conv := func(b *graph.Builder, name string, x graph.Value, out int, k [3]int, a op.Conv) graph.Value {
			w := b.Param(name, graph.Shape{out, x.Dim(1), k[0], k[1], k[2]}, graph.HeNormal(x.Dim(1)*k[0]*k[1]*k[2]))
			return op.Bias(b, op.Conv3D(b, x, w, a), b.ParamOf(graph.Bias, name+".bias", graph.Shape{out}, graph.HeNormal(out)))
		}
		h := conv(b, "first", x, 64, [3]int{1, 3, 3}, op.Conv{Pad: op.Same(1, 3, 3)})
		h = conv(b, "large", h, 96, one, op.Conv{})
		h = conv(b, "larger", h, 128, one, op.Conv{})
		h = conv(b, "small", h, 8, one, op.Conv{})
		h = conv(b, "last", h, 600, one, op.Conv{})
		b.Loss(op.Mean(b, op.Abs(b, h)))
	}}
}

// sparseGradients are those that layered sums sparsely, by name of the parameter.
func sparseGradients(p *Plan) (names []string) {
	for _, b := range p.sums.buckets {
		for _, g := range b.grads {
			if b.sparse {
				names = append(names, g.params...)
			}
		}
	}
	slices.Sort(names)
	return names
}

var sparseMeshes = []Mesh{{{Name: "data", Size: 2}}, {{Name: "data", Size: 4}}, {{Name: "data", Size: 2}, {Name: "lat", Size: 2}}}

// With density 1 gradients have the bits of dense sums on meshes where both add in the
// same order: two data ranks, with other axes summed first. Elsewhere they differ by
// rounding.
func TestDensityOneIsDense(t *testing.T) {
	for _, m := range sparseMeshes {
		r := training{mesh: m, steps: 2, size: smallBuckets, device: "cpu"}
		want := r.inProcess(t, layered(), comm.Parallel).grads
		r.sparse = &Compression{topk.Options{Density: 1}}
		got := r.inProcess(t, layered(), comm.Parallel).grads
		if d := distance(got, want); d > 1e-6 || d > 0 && m[0].Size == 2 {
			t.Errorf("mesh %v: gradients differ by %.2g", m, d)
		}
	}
}

// Large weights alone are sparse. All ranks have the same gradients, whatever the order of
// messages, of which about the density is not zero.
func TestSparseGradients(t *testing.T) {
	const density = 0.05
	for _, m := range sparseMeshes {
		r := training{mesh: m, steps: 3, size: smallBuckets, device: "cpu", sparse: &Compression{topk.Options{Density: density}}}
		var want []float32
		for seed := range uint64(3) {
			err := comm.Run(m.Size(), comm.Replay(seed), func(c *comm.Comm) error {
				out, err := r.on(c, layered())
				if err != nil {
					return err
				}
				all, err := comm.AllGather(c, out.grads)
				if err != nil {
					return err
				}
				if c.Rank() > 0 {
					return nil
				}
				for k := range m.Size() {
					if want = slices.Clone(all[:len(out.grads)]); !slices.Equal(all[k*len(want):][:len(want)], want) {
						return fmt.Errorf("rank %d has other gradients", k)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatalf("mesh %v: %v", m, err)
			}
			if first := r.inProcess(t, layered(), comm.Parallel).grads; !slices.Equal(first, want) {
				t.Errorf("mesh %v, seed %d: bits depend on the order of messages", m, seed)
			}
		}
		err := comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) (err error) {
			p, err := r.compile(layered(), c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			if got := sparseGradients(p); !slices.Equal(got, []string{"large", "larger"}) {
				return fmt.Errorf("sparse are %v", got)
			}
			shape := layered().x
			ExtractBox(p.Input("x"), field(1, shape), shape, p.OwnedBox("x", shape))
			if err := p.Run(context.Background(), 0); err != nil {
				return err
			}
			for _, name := range sparseGradients(p) {
				nonZero := 0
				g, _ := p.Store().Grad(name)
				for _, v := range g {
					if v != 0 {
						nonZero++
					}
				}
				if most := 1.1 * density * float64(64*96+96*128); nonZero == 0 || float64(nonZero) > most {
					return fmt.Errorf("%d values of the gradient of %s are not zero", nonZero, name)
				}
			}
			if costs := p.SumCosts(); costs.Sent == 0 || len(m) == 1 && costs.Sent >= costs.Dense {
				return fmt.Errorf("%d bytes sent, %d if dense", costs.Sent, costs.Dense)
			}
			return nil
		})
		if err != nil {
			t.Errorf("mesh %v: %v", m, err)
		}
	}
}

// A plan that continues from gathered residuals has the bits of one that did not stop.
func TestResidualsContinue(t *testing.T) {
	for _, m := range sparseMeshes {
		r := training{mesh: m, size: smallBuckets, device: "cpu", sparse: &Compression{topk.Options{Density: 0.05, BFloat16: true, Momentum: 0.9}}}
		err := comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
			shape := layered().x
			run := func(p *Plan, from, to uint64) error {
				for step := from; step < to; step++ {
					ExtractBox(p.Input("x"), field(step, shape), shape, p.OwnedBox("x", shape))
					if err := p.Run(context.Background(), step); err != nil {
						return err
					}
				}
				return nil
			}
			var plans [2]*Plan
			for i := range plans {
				var err error
				if plans[i], err = r.compile(layered(), c); err != nil {
					return err
				}
				defer plans[i].Close()
			}
			if err := run(plans[0], 0, 3); err != nil {
				return err
			}
			states, err := plans[0].GatherResiduals()
			if err != nil {
				return err
			}
			if states, err = broadcastStates(c, states); err != nil {
				return err
			}
			if err := plans[1].SetResiduals(states[:1]); !errors.Is(err, ErrOtherSums) {
				return fmt.Errorf("missing buckets: error %v", err)
			}
			if err := plans[1].SetResiduals(states); err != nil {
				return err
			}
			for _, p := range plans {
				if err := run(p, 3, 6); err != nil {
					return err
				}
			}
			if !slices.Equal(plans[0].Store().Grads(), plans[1].Store().Grads()) {
				return errors.New("gradients differ after continuing")
			}
			states[0] = states[0][:1]
			if err := plans[1].SetResiduals(states); !errors.Is(err, ErrOtherSums) {
				return fmt.Errorf("another number of data ranks: error %v", err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("mesh %v: %v", m, err)
		}
	}
}

// shared is a network of which two filters have one gradient, which is summed sparsely.
func shared() network {
	return network{"shared", graph.Shape{4, 9, 1, 4, 4}, nil, func(b *graph.Builder, x, _ graph.Value) {
		filter := func(name string, out, in int) graph.Value {
			return b.Param(name, graph.Shape{out, in, 1, 1, 1}, graph.HeNormal(in))
		}
		h := op.Conv3D(b, x, filter("first", 64, 9), op.Conv{})
		h = op.Conv3D(b, h, op.Add(b, filter("large", 96, 64), filter("larger", 96, 64)), op.Conv{})
		h = op.Conv3D(b, h, filter("last", 8, 96), op.Conv{})
		b.Loss(op.Mean(b, op.Abs(b, h)))
	}}
}

// Ranks compute with weights that their own residuals have moved, except for weights of 0, and restore them bit for bit. Weights whose
// gradients are summed do not move.
func TestShiftedWeights(t *testing.T) {
	for _, c := range []struct {
		n       network
		updates bool
	}{{layered(), true}, {layered(), false}, {shared(), true}} {
		n, updates := c.n, c.updates
		r := training{mesh: sparseMeshes[2], size: smallBuckets, device: "cpu", sparse: &Compression{topk.Options{Density: 0.05, Updates: updates}}}
		err := comm.Run(r.mesh.Size(), comm.Parallel, func(c *comm.Comm) (err error) {
			p, err := r.compile(n, c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			shape := n.x
			ExtractBox(p.Input("x"), field(1, shape), shape, p.OwnedBox("x", shape))
			p.SetRate(0.01)
			if err := p.Run(context.Background(), 0); err != nil {
				return err
			}
			s := p.Store()
			large, _, _ := s.Get("large")
			large[5] = 0
			before := slices.Clone(s.Params())
			restore := p.ShiftWeights(s)
			want := slices.Clone(before)
			moved := 0
			for _, b := range p.sums.buckets {
				if !b.sparse || !updates {
					continue
				}
				residual, at := b.reducer.State().Residual, 0
				for _, g := range b.grads {
					for _, name := range g.params {
						if grad, _ := s.Grad(name); !slices.Equal(grad, g.x.F32) {
							return fmt.Errorf("the gradient of %s has another order than its residual", name)
						}
						e := s.Entries()[slices.IndexFunc(s.Entries(), func(e engine.Entry) bool { return e.Name == name })]
						for i, w := range want[e.Offset:][:g.n] {
							if w != 0 {
								want[e.Offset+i] -= residual[at+i]
							}
							if residual[at+i] != 0 {
								moved++
							}
						}
					}
					at += g.n
				}
			}
			if !slices.Equal(s.Params(), want) || updates && (moved < 1000 || large[5] != 0) {
				return fmt.Errorf("updates %v: other weights than those that %d residuals move", updates, moved)
			}
			if restore(); !slices.Equal(s.Params(), before) {
				return errors.New("the weights are not restored")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// broadcastStates gives all ranks a copy of the states of rank 0, as a checkpoint does.
func broadcastStates(c *comm.Comm, states SparseStates) (SparseStates, error) {
	shape := []int64{int64(len(states)), 0}
	if len(states) > 0 {
		shape[1] = int64(len(states[0]))
	}
	if err := comm.Broadcast(c, 0, shape); err != nil {
		return nil, err
	}
	out := make(SparseStates, shape[0])
	for i := range out {
		for k := range int(shape[1]) {
			var s topk.State
			if c.Rank() == 0 {
				s = states[i][k]
			}
			numbers := []int64{s.Step, s.Keep, int64(math.Float32bits(s.Local)), int64(math.Float32bits(s.Global)), int64(len(s.Bounds)), int64(len(s.Residual))}
			if err := comm.Broadcast(c, 0, numbers); err != nil {
				return nil, err
			}
			bounds, values := make([]int64, numbers[4]), make([]float32, 2*numbers[5])
			copy(bounds, s.Bounds)
			copy(values, slices.Concat(s.Residual, s.Velocity))
			if err := errors.Join(comm.Broadcast(c, 0, bounds), comm.Broadcast(c, 0, values)); err != nil {
				return nil, err
			}
			out[i] = append(out[i], topk.State{Step: numbers[0], Keep: numbers[1], Local: math.Float32frombits(uint32(numbers[2])),
				Global: math.Float32frombits(uint32(numbers[3])), Bounds: bounds, Residual: values[:numbers[5]], Velocity: values[numbers[5]:]})
		}
	}
	return out, nil
}

// A gradient that is not finite is one error on all ranks, which names the parameter.
func TestSparseGradientNotFinite(t *testing.T) {
	r := training{mesh: Mesh{{Name: "data", Size: 2}}, size: smallBuckets, device: "cpu", sparse: &Compression{topk.Options{Density: 0.05}}}
	var failed [2]error
	err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		p, err := r.compile(layered(), c)
		if err != nil {
			return err
		}
		filter, _, _ := p.Store().Get("larger")
		filter[0] = float32(math.Inf(1))
		shape := layered().x
		ExtractBox(p.Input("x"), field(1, shape), shape, p.OwnedBox("x", shape))
		failed[c.Rank()] = p.Run(context.Background(), 0)
		return p.Close()
	})
	for rank, err := range failed {
		if bad := (*topk.NotFiniteError)(nil); !errors.As(err, &bad) {
			t.Errorf("rank %d: error %v", rank, err)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestCompileCompressedRefusals(t *testing.T) {
	for _, c := range []struct {
		mesh    Mesh
		density float64
		backend string
	}{
		{Mesh{{Name: "lat", Size: 2}}, 0.1, "cpu"},
		{Mesh{{Name: "data", Size: 2}}, 1.5, "cpu"},
		{Mesh{{Name: "data", Size: 2}}, 0.1, "cuda"},
		{Mesh{{Name: "data", Size: 2}}, 0.1, "ref"},
	} {
		err := comm.Run(2, comm.Parallel, func(rank *comm.Comm) error {
			g, err := layered().built()
			if err != nil {
				t.Error(err)
			}
			p, err := CompileCompressed(g, rank, c.mesh, Compression{topk.Options{Density: c.density}}, engine.Options{Device: engine.Device{Backend: c.backend}})
			if err == nil {
				t.Errorf("density %g on %v and %s is accepted", c.density, c.mesh, c.backend)
				return p.Close()
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
