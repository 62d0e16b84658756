package conformance

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/rng"
)

// Result is the result of Compare.
type Result struct {
	Operations int // number of operations compared
	Kernels    int // number of kernel runs, one for each case and layout option
	// Wrong lists the kernels that differ from the reference, one line each.
	Wrong []string
	// Refused lists the kernels that could not be prepared, with the reason, such as
	// convolutions that need oneDNN.
	Refused []error
}

// Compare runs every case of every operation on a backend in the memory of the host, in
// every layout option, and compares with the reference in float64. Unlike TestValues it
// uses no guard values, no in-place execution and no other storage types: it checks
// whether kernels are correct on this processor.
//
// Errors: a kernel that fails; that of stop, which is called before each operation.
func Compare(dev backend.Backend, stop func() error) (Result, error) {
	var found Result
	for _, o := range op.Table {
		if err := stop(); err != nil {
			return found, err
		}
		found.Operations++
		for _, c := range o.Cases {
			ways, err := layoutOptionsOf(dev, o, c)
			if err != nil {
				return found, err
			}
			for _, w := range ways {
				found.Kernels++
				wrong, err := compare(dev, o, c, w)
				if r := (refusal{}); errors.As(err, &r) {
					found.Refused = append(found.Refused, fmt.Errorf("%s, case %s: %w", o.Name, c.Name, r.error))
					continue
				}
				if err != nil {
					return found, fmt.Errorf("%s, case %s: %w", o.Name, c.Name, err)
				}
				if wrong != "" {
					found.Wrong = append(found.Wrong, fmt.Sprintf("%s, case %s, %s", o.Name, c.Name, wrong))
				}
			}
		}
	}
	return found, nil
}

// refusal is the error of a kernel that cannot be prepared.
type refusal struct{ error }

// compare runs one case in one layout option. wrong describes a difference from the
// reference; "" if there is none.
//
// The result is filled with NaN before, so an element that the kernel does not write
// differs.
//
// Errors: refusal if the kernel cannot be prepared; that of a kernel that fails.
func compare(dev backend.Backend, o *graph.Op, c graph.Case, w backend.LayoutOption) (wrong string, err error) {
	in := operands(o, c)
	want, s, err := evalReference(o, c, in)
	if err != nil {
		return "", err
	}
	tensor := func(x []float64, s graph.Shape, l graph.Layout) backend.Tensor {
		t := backend.Tensor{Shape: s, Layout: l, F32: make([]float32, len(x))}
		for i, v := range x {
			t.F32[i] = float32(v)
		}
		return t
	}
	q := backend.Request{Op: o, Attrs: c.Attrs, Seed: seed, Step: new(uint64)}
	*q.Step = step
	for k, x := range in {
		q.In = append(q.In, tensor(stored(x, c.In[k], w.In[k]), c.In[k], w.In[k]))
	}
	q.Out = tensor(slices.Repeat([]float64{math.NaN()}, int(w.Out.Elems(s))), s, w.Out)
	var k backend.Kernel
	err = dev.Do(func() (err error) {
		if k, err = dev.Prepare(q); err != nil {
			return refusal{err}
		}
		if k.Close != nil {
			defer k.Close()
		}
		if b, ok := dev.(backend.ScratchSetter); ok {
			b.SetScratch(make([]float32, k.Scratch/4))
		}
		return k.Run()
	})
	if err != nil {
		return "", err
	}
	tol := tolerance(o, c, s, want)
	for i, v := range stored(want, s, w.Out) {
		if got := float64(q.Out.F32[i]); !(math.Abs(got-v) <= tol) {
			return fmt.Sprintf("kernel %s: element %d is %v, want %v ± %.2g", k.Name, i, got, v, tol), nil
		}
	}
	return "", nil
}

// layoutOptionsOf returns the layout options of an operation, and checks that the first
// one is plain.
func layoutOptionsOf(dev backend.Backend, o *graph.Op, c graph.Case) ([]backend.LayoutOption, error) {
	plain := backend.LayoutOption{In: make([]graph.Layout, len(c.In))}
	l, ok := dev.(backend.Layouts)
	if !ok {
		return []backend.LayoutOption{plain}, nil
	}
	s, err := o.Shape(c.In, c.Attrs)
	if err != nil {
		return nil, fmt.Errorf("%s: shape rule: %w", o.Name, err)
	}
	if _, ok := c.Attrs.(op.ToLayout); ok { // the pass choose-layouts sets its layouts
		return []backend.LayoutOption{plain, {In: []graph.Layout{graph.Plain}, Out: l.InnerLayout()}, {In: []graph.Layout{l.InnerLayout()}}}, nil
	}
	all := l.LayoutOptions(o, c.Attrs, c.In, s)
	if len(all) == 0 || !slices.Equal(all[0].In, plain.In) || all[0].Out != graph.Plain {
		return nil, fmt.Errorf("%s: the first layout option is not plain: %+v", o.Name, all)
	}
	for _, w := range all {
		if len(w.In) != len(c.In) || !(w.Cost >= 0) {
			return nil, fmt.Errorf("%s: invalid layout option %+v", o.Name, w)
		}
	}
	return all, nil
}

// operands draws the operands of a case. They are rounded to float32, so that all
// backends use the same numbers.
func operands(o *graph.Op, c graph.Case) [][]float64 { return consistent(c, draws(o, c)) }

// draws draws the operands of a case without making them consistent.
func draws(o *graph.Op, c graph.Case) [][]float64 {
	low, high := c.Low, c.High
	if low == 0 && high == 0 {
		low, high = -1, 1
	}
	in := make([][]float64, len(c.In))
	for k, s := range c.In {
		key := rng.Key(rng.Hash(o.Name), rng.Hash(c.Name), uint64(k))
		in[k] = make([]float64, s.Size())
		for i := range in[k] {
			in[k][i] = float64(float32(low + (high-low)*rng.Uniform(key, uint64(i))))
		}
	}
	return in
}

// consistent adjusts operands as the case demands (graph.Case.Make), and returns them.
func consistent(c graph.Case, in [][]float64) [][]float64 {
	if c.Make != nil {
		c.Make(in)
		for _, x := range in {
			for i, v := range x {
				x[i] = float64(float32(v))
			}
		}
	}
	return in
}

const seed, step = 5, 11 // keys of random operations

// evalReference runs the reference kernel.
func evalReference(o *graph.Op, c graph.Case, in [][]float64) ([]float64, graph.Shape, error) {
	s, err := o.Shape(c.In, c.Attrs)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: shape rule: %w", o.Name, err)
	}
	out := make([]float64, s.Size())
	for i := range out {
		out[i] = math.NaN() // kernels must write every element
	}
	o.Ref(graph.Call{In: in, InShape: c.In, Out: out, OutShape: s, Seed: seed, Step: step}, c.Attrs)
	return out, s, nil
}

// tolerance is the largest permitted difference between float32 and float64 results of
// an operation that sums k terms.
//
//	2⁻²³·(8 + 4·√k)·max|want|
//
// Rounding errors of the terms grow like √k for terms of either sign. The constant 8
// covers functions accurate to a few units in the last place, the factor 4 the
// reordered products of Winograd convolutions.
func tolerance(o *graph.Op, c graph.Case, out graph.Shape, want []float64) float64 {
	var largest float64
	for _, v := range want {
		largest = max(largest, math.Abs(v))
	}
	k := float64(o.FLOPs(c.In, out, c.Attrs)) / float64(out.Size())
	return 0x1p-23 * (8 + 4*math.Sqrt(k)) * max(largest, 1e-3)
}

// stored returns the elements of a value in the order of a layout; padding is zero.
func stored(x []float64, s graph.Shape, l graph.Layout) []float64 {
	if l == graph.Plain {
		return x
	}
	cells := s[2:].Size()
	if l == graph.ChannelsLast {
		y := make([]float64, l.Elems(s))
		for i, v := range x {
			n, c, p := i/cells/s[1], i/cells%s[1], i%cells
			y[(n*cells+p)*l.PaddedChannels(s[1])+c] = v
		}
		return y
	}
	blocks := (s[1] + graph.BlockSize - 1) / graph.BlockSize
	y := make([]float64, l.Elems(s))
	for i, v := range x {
		n, c, p := i/cells/s[1], i/cells%s[1], i%cells
		y[((n*blocks+c/graph.BlockSize)*cells+p)*graph.BlockSize+c%graph.BlockSize] = v
	}
	return y
}
