package conformance

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Kernels keep the meaning of special values. Where the reference is NaN or infinite, every
// kernel is; where it is a number, every kernel is that number, within rounding. An infinity
// keeps its sign. Values near the limits of float32 give the number of the reference or an
// infinity or NaN, never another number. promises lists what is weaker.

// A promise is a weaker one of some operations.
type promise struct {
	op      string // of names that begin with it
	cases   string // of names that begin with it
	devices string // "" for all
	// infinityAsNaN: NaN where the reference is infinite.
	infinityAsNaN bool
	// spreads: NaN or infinite where the reference is a number.
	spreads bool
	// anyNumber: another number than that of the reference, with NaN at every fifth place, or if huge with values near the limit of
	// float32.
	anyNumber, huge bool
	// leavesOut: a number where the reference is NaN, of a product with 0.
	leavesOut bool
	why       string
}

var promises = []promise{
	{op: "channel_", infinityAsNaN: true, why: "a·x + b with the scale in a and b: Inf − Inf"},
	{op: "channel_norm_fused", spreads: true, why: "the same before ReLU, where the reference has −Inf, which becomes 0"},
	{op: "set_crps", infinityAsNaN: true, why: "distances are sums over sorted members: Inf − Inf"},
	{op: "axis_attention", infinityAsNaN: true, why: "softmax in strips: Inf − Inf"},
	{op: "combine", devices: "cuda", infinityAsNaN: true, leavesOut: true, why: "interpolation weights of 0 are left out"},
	{op: "set_std_grad", devices: "cuda", huge: true, anyNumber: true, why: "squares near the limit of float32 overflow"},
	{op: "point_norm", devices: "cuda", huge: true, anyNumber: true, why: "as set_std_grad"},
	{op: "axis_attention", devices: "cuda", spreads: true, why: "scores of −Inf in a window: Inf − Inf"},
	{op: "elementwise_chain", devices: "cuda", huge: true, anyNumber: true, why: "scores of values near the limit"},
	{op: "conv3d", devices: "cuda", huge: true, anyNumber: true, why: "sums overflow to −Inf on their way, of which ReLU is 0"},
	{op: "with_halo", devices: "cuda", huge: true, anyNumber: true, why: "as conv3d"},
	{op: "set_crps", huge: true, anyNumber: true, why: "distances near the limit of float32 cancel"},
	{op: "axis_attention", huge: true, anyNumber: true, why: "products of queries and keys overflow, and another key has all of the weight"},
	{op: "elementwise_chain", cases: "gradients", spreads: true, why: "1/x of a denormal number is infinite in float32"},
	{op: "conv3d", devices: "cuda", infinityAsNaN: true, spreads: true, why: "matrix units multiply the zeros of padding and of whole tiles"},
	{op: "with_halo", devices: "cuda", infinityAsNaN: true, spreads: true, why: "as conv3d"},
	{op: "max_pool_grad", anyNumber: true, why: "of several NaN in a window, the first or the last receives the gradient"},
	{op: "conv3d", cases: "blocks", infinityAsNaN: true, spreads: true, why: "zero blocks of filters are multiplied or left out, as the form prefers"},
}

func allowed(dev, o, c string, weaker func(p promise) bool) bool {
	return slices.ContainsFunc(promises, func(p promise) bool {
		return strings.HasPrefix(o, p.op) && strings.HasPrefix(c, p.cases) && (p.devices == "" || p.devices == dev) && weaker(p)
	})
}

// special is a change of one operand of a case.
type special struct {
	name   string
	change func(x []float64)
	// huge: results may be infinite or NaN instead of right.
	huge bool
	// whole: all values change, so that rounding errors of the operand count.
	whole bool
}

// specials are the changes: special values at single places and all over, and whole operands near the limits of float32.
func specials() (all []special) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e-40, math.MaxFloat32} {
		huge, denormal := v == math.MaxFloat32, v == 1e-40 // 16 bits hold neither as they are
		add := func(where string, change func(x []float64)) {
			all = append(all, special{name: fmt.Sprintf("%g %s", v, where), change: change, huge: huge, whole: huge || denormal})
		}
		add("first", func(x []float64) { x[0] = v })
		add("in the middle", func(x []float64) { x[len(x)/2] = v })
		add("last", func(x []float64) { x[len(x)-1] = v })
		add("at every fifth", func(x []float64) {
			for i := 0; i < len(x); i += 5 {
				x[i] = v
			}
		})
	}
	for _, f := range []struct{ scale, offset float64 }{{1e38, 0}, {1e-38, 0}, {1, 1e4}} {
		all = append(all, special{name: fmt.Sprintf("times %g plus %g", f.scale, f.offset), huge: f.scale > 1, whole: true, change: func(x []float64) {
			for i, v := range x {
				x[i] = v*f.scale + f.offset
			}
		}})
	}
	return all
}

// TestSpecialValues tries a sample of special values in every operation on the CPU; TestLongSpecialValues all of them on all backends.
func TestSpecialValues(t *testing.T) {
	for _, winograd := range []bool{true, false} {
		t.Run(fmt.Sprintf("winograd %v", winograd), func(t *testing.T) {
			dev, err := engine.Backends[0].Open(engine.Options{Device: engine.Device{Threads: 1}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: winograd}})
			if exit.CodeOf(err) == exit.NoDevice {
				t.Skip("skipped: no device:", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			specialValues(t, dev, 97)
		})
	}
}

// TestSpecialValuesOfCUDA is the same on the emulated GPU, with a smaller sample.
func TestSpecialValuesOfCUDA(t *testing.T) { specialValuesOfCUDA(t, 499) }

func specialValuesOfCUDA(t *testing.T, step int) {
	dev, err := emulated.Open(1 << 30)
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	specialValues(t, dev, step)
}

// specialValues tries one of step combinations of case, layout, storage, operand and special value.
func specialValues(t *testing.T, dev backend.Backend, step int) {
	n, tried := 0, 0
	changes := specials()
	eachCase(t, func(t *testing.T, o *graph.Op, c graph.Case) {
		for _, w := range ways(t, dev, o, c) {
			for _, d := range storages(dev, w) {
				for k, s := range c.In {
					for _, v := range changes {
						n++
						if n%step != 0 || s.Size() == 0 || d.Bytes() == 2 && v.whole {
							continue
						}
						tried++
						checkSpecial(t, dev, o, c, w, d, k, v)
					}
				}
			}
		}
	})
	t.Logf("%d of %d combinations", tried, n)
	if tried == 0 {
		t.Error("nothing was tried")
	}
}

func isFinite(v float64) bool { return v-v == 0 }

// checkSpecial runs a case with one operand changed.
func checkSpecial(t *testing.T, dev backend.Backend, o *graph.Op, c graph.Case, w backend.LayoutOption, d graph.DType, k int, v special) {
	t.Helper()
	of := func(l graph.Layout) graph.DType {
		if l != graph.Plain {
			return d
		}
		return dev.Elem()
	}
	in := draws(o, c)
	v.change(in[k])
	in = consistent(c, in)
	for i, x := range in {
		for j, y := range x {
			if x[j] = float64(float32(y)); of(w.In[i]).Bytes() == 2 && isFinite(y) {
				x[j] = halves[d].nearest(y)
			}
		}
	}
	ref, s := reference(t, o, c, in)
	tol := tolerance(o, c, s, finiteOnly(ref))
	if h, ok := halves[of(w.Out)]; ok || of(w.Out) != d && d.Bytes() == 2 {
		tol += h.least + 0x1p-6*largest(ref)
	}
	if d.Bytes() == 2 {
		tol += 0x1p-6 * largest(ref)
	}
	if v.whole {
		tol += 16 * rounding(t, o, c, in, ref)
	}
	q := backend.Request{Op: o, Attrs: c.Attrs, Seed: seed, Step: new(uint64)}
	*q.Step = step
	var bufs []*guarded
	for i, x := range in {
		g := newGuarded(of(w.In[i]), stored(x, c.In[i], w.In[i]))
		bufs = append(bufs, g)
		q.In = append(q.In, g.tensor(c.In[i], w.In[i]))
	}
	out := newGuarded(of(w.Out), slices.Repeat([]float64{12345}, int(w.Out.Elems(s))))
	bufs = append(bufs, out)
	q.Out = out.tensor(s, w.Out)
	back := func() {}
	if r, ok := dev.(backend.Remote); ok {
		q, back = onDevice(t, dev, r, q, bufs)
	}
	kernel, free := withScratch(t, dev, q)
	defer free()
	if err := dev.Do(kernel.Run); err != nil {
		t.Fatalf("kernel %s: %v", kernel.Name, err)
	}
	back()
	asNaN := allowed(dev.Name(), o.Name, c.Name, func(p promise) bool { return p.infinityAsNaN })
	spreads := allowed(dev.Name(), o.Name, c.Name, func(p promise) bool { return p.spreads })
	if (v.huge || strings.HasPrefix(v.name, "NaN at every")) && allowed(dev.Name(), o.Name, c.Name, func(p promise) bool { return p.anyNumber && p.huge == v.huge }) {
		tol = math.Inf(1)
	}
	leavesOut := allowed(dev.Name(), o.Name, c.Name, func(p promise) bool { return p.leavesOut })
	for i, want := range stored(ref, s, w.Out) {
		if leavesOut && math.IsNaN(want) {
			continue
		}
		if got := out.at(i); !agrees(got, want, tol, asNaN, spreads || v.huge) {
			t.Errorf("kernel %s (%v, %v), operand %d %s: element %d is %v, want %v ± %.2g", kernel.Name, w.In, d, k, v.name, i, got, want, tol)
			return
		}
	}
}

// agrees reports whether a result is that of the reference. asNaN permits NaN for an infinity, spreads NaN or an infinity for a
// number. A number beyond float32 is an infinity of its sign.
func agrees(got, want, tol float64, asNaN, spreads bool) bool {
	if math.Abs(want) > math.MaxFloat32 && !math.IsInf(want, 0) && !isFinite(got) {
		want = math.Inf(int(math.Copysign(1, want)))
	}
	switch {
	case isFinite(got) && isFinite(want):
		return math.Abs(got-want) <= tol
	case isFinite(got):
		return false
	case isFinite(want):
		return spreads
	}
	return asNaN || spreads || math.IsNaN(got) == math.IsNaN(want) && (math.IsNaN(got) || got == want)
}

func finiteOnly(x []float64) (out []float64) {
	for _, v := range x {
		if isFinite(v) {
			out = append(out, v)
		}
	}
	return out
}

// largest is the largest absolute value among the finite ones.
func largest(x []float64) (m float64) {
	for _, v := range finiteOnly(x) {
		m = max(m, math.Abs(v))
	}
	return m
}

// rounding is the largest change of the reference if operands change by a few units in the last place of float32: what
// rounding of operands and intermediate values means for the result.
func rounding(t *testing.T, o *graph.Op, c graph.Case, in [][]float64, ref []float64) (m float64) {
	t.Helper()
	for draw := range 3 {
		moved := make([][]float64, len(in))
		for k, x := range in {
			moved[k] = slices.Clone(x)
			for i := range x {
				moved[k][i] += x[i] * 0x1p-22 * (2*rng.Uniform(rng.Key(rng.Hash("rounding"), uint64(draw), uint64(k)), uint64(i)) - 1)
			}
		}
		other, _ := reference(t, o, c, moved)
		for i, v := range other {
			if isFinite(v) && isFinite(ref[i]) {
				m = max(m, math.Abs(v-ref[i]))
			}
		}
	}
	return m
}

// TestPromisesHold: each promise that is weaker than the rule names operations that exist.
func TestPromisesHold(t *testing.T) {
	for _, p := range promises {
		if p.why == "" || !slices.ContainsFunc(op.Table, func(o *graph.Op) bool {
			return strings.HasPrefix(o.Name, p.op) && slices.ContainsFunc(o.Cases, func(c graph.Case) bool { return strings.HasPrefix(c.Name, p.cases) })
		}) {
			t.Errorf("no reason, or no operation: %+v", p)
		}
	}
}
