//go:build cgo && linux

package conv

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/internal/allocs"
)

// What a plan stores rebuilds the same forms, and they give the same bits.
func TestChoiceRepeats(t *testing.T) {
	pool, err := kern.NewPool(2)
	must(t, err)
	defer pool.Close()
	s := unetShape(2, 12, 8, 16, 32, true)
	o := Options{Pool: pool, Bias: true, ReLU: true, Backward: true, Winograd: true}
	first, err := Prepare(s, o)
	must(t, err)
	defer first.Close()
	for p := range 3 {
		if first.form[p] == "" {
			t.Fatalf("choice %q leaves out %s", first.Choice(), Pass(p))
		}
	}
	o.Choice = first.Choice()
	again, err := Prepare(s, o)
	must(t, err)
	defer again.Close()
	if again.Choice() != first.Choice() {
		t.Errorf("forced choice: got %q, want %q", again.Choice(), first.Choice())
	}
	b := newBench(s)
	var seen [][]float32
	for _, c := range []*Conv{first, again} {
		scratch := make([]float32, c.ScratchLen())
		y, dx := make([]float32, s.DstLen()), make([]float32, s.SrcLen())
		dw, db := make([]float32, s.FilterLen()), make([]float32, s.Cout)
		must(t, c.Forward(y, b.src, b.filter, b.bias, scratch))
		must(t, c.BackwardData(dx, b.dst, b.filter, scratch))
		must(t, c.BackwardWeights(dw, db, b.src, b.dst, scratch))
		all := slices.Concat(y, dx, dw, db)
		seen = append(seen, all)
	}
	for i := range seen[0] {
		if seen[0][i] != seen[1][i] {
			t.Fatalf("value %d: %g in the first plan, %g in the repeated one", i, seen[0][i], seen[1][i])
		}
	}
}

// Every form gives the same bits for any number of threads.
func TestFormsIgnoreThreads(t *testing.T) {
	for _, s := range []Spec{unetShape(3, 5, 11, 13, 20, true), unetShape(2, 12, 24, 32, 48, true)} {
		b := newBench(s)
		for _, f := range forms {
			for _, pass := range []Pass{Forward, BackwardData, BackwardWeights} {
				var first []float32
				for threads := 1; threads <= 4; threads++ {
					pool, err := kern.NewPool(threads)
					must(t, err)
					r, err := f.build(s.normal(), pass, Options{Pool: pool, Bias: true})
					if err != nil {
						must(t, pool.Close())
						break // not for this shape, or there is no oneDNN
					}
					src, filter, bias, dst := slices.Clone(b.src), slices.Clone(b.filter), slices.Clone(b.bias), slices.Clone(b.dst)
					must(t, r.Run(src, filter, bias, dst, make([]float32, r.ScratchLen())))
					all := slices.Concat(src, filter, bias, dst)
					if first == nil {
						first = all
					}
					if !slices.Equal(all, first) {
						t.Errorf("form %s, %s of %v: %d threads give other bits than one", f.name, pass, s.In, threads)
					}
					must(t, r.Close())
					must(t, pool.Close())
				}
			}
		}
	}
}

// Running a prepared convolution allocates nothing in Go, in any form.
func TestRunAllocatesNothing(t *testing.T) {
	s := unetShape(1, 4, 6, 8, 16, true)
	b := newBench(s)
	for _, f := range forms {
		for _, pass := range []Pass{Forward, BackwardData, BackwardWeights} {
			r, err := f.build(s.normal(), pass, Options{Bias: true})
			if err != nil {
				continue
			}
			scratch := make([]float32, r.ScratchLen())
			got := allocs.PerRun(5, func() { must(t, r.Run(b.src, b.filter, b.bias, b.dst, scratch)) })
			if got != 0 {
				t.Errorf("form %s %s: %v allocations per run, want 0", f.name, pass, got)
			}
			must(t, r.Close())
		}
	}
}

// <y(x), g> = <x, dx(g)> = <w, dw(g)>: the three passes are adjoint to each other.
func TestPassesAreAdjoint(t *testing.T) {
	for _, c := range cases {
		if dnnlMissing() && (c.s.Stride[1] > 1 || c.s.Pad[0].Mode == kern.Periodic || c.name == "wraps to another size") {
			continue // only forms of oneDNN support it
		}
		cv, err := Prepare(c.s, Options{Backward: true, Winograd: true})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		rng := rand.New(rand.NewPCG(5, 6))
		b := newBench(c.s)
		scratch := make([]float32, cv.ScratchLen())
		y, dx, dw := make([]float32, c.s.DstLen()), make([]float32, c.s.SrcLen()), make([]float32, c.s.FilterLen())
		for i := range b.dst {
			b.dst[i] = rng.Float32()
		}
		must(t, cv.Forward(y, b.src, b.filter, nil, scratch))
		must(t, cv.BackwardData(dx, b.dst, b.filter, scratch))
		must(t, cv.BackwardWeights(dw, nil, b.src, b.dst, scratch))
		var p *kern.Pool
		a, m := p.Dot(y, b.dst), math.Sqrt(p.Dot(y, y)*p.Dot(b.dst, b.dst))
		for what, v := range map[string]float64{"data": p.Dot(dx, b.src), "weights": p.Dot(dw, b.filter)} {
			// Rounding of single results, 1e-6 with Winograd, is not correlated: far less on the sum.
			if d := a - v; d > 1e-5*m || -d > 1e-5*m {
				t.Errorf("%s (%s): forward %g, backward %s %g", c.name, cv.Choice(), a, what, v)
			}
		}
		must(t, cv.Close())
	}
}

// At 352×704 oneDNN 2.6 has only its reference loops for the filter gradient in
// channels-last order: 20 minutes a run. They must not enter the race.
func TestReferenceLoopsStayOut(t *testing.T) {
	if dnnlMissing() {
		t.Skip("skipped: no oneDNN")
	}
	c := &Conv{spec: unetShape(1, 42, 64, 352, 704, true).normal()}
	for _, pass := range []Pass{Forward, BackwardData, BackwardWeights} {
		all, err := c.candidates(pass, Options{}, "")
		must(t, err)
		for _, r := range all {
			if isReference(r.runner) {
				t.Errorf("%s: form %s is a reference loop", pass, r.form)
			}
			must(t, r.Close())
		}
	}
}

// A large convolution is benchmarked on a part; the fastest form is built for the
// whole.
func TestLargeConvolution(t *testing.T) {
	s := unetShape(3, 24, 40, 96, 160, true)
	if e := excerpt(s); e == s || e.FLOPs() > 2*excerptFLOPs || e.In[2] != s.In[2] {
		t.Fatalf("excerpt of %+v: got %+v", s, e)
	}
	c, err := PreparePass(s, Forward, Options{})
	must(t, err)
	defer c.Close()
	b := newBench(s)
	y := make([]float32, s.DstLen())
	must(t, c.Forward(y, b.src, b.filter, nil, make([]float32, c.ScratchLen())))
	// One value far into the last map, by the definition.
	out := s.Out()
	n, co, d, h, w := 2, 39, 1, 93, 159
	var want float64
	for ci := range s.Cin {
		for k := range 27 {
			kd, kh, kw := k/9, k/3%3, k%3
			z, i, j := d+kd-1, h+kh-1, (w+kw-1+s.In[2])%s.In[2]
			if z >= 0 && z < s.In[0] && i >= 0 && i < s.In[1] {
				want += float64(b.src[(((n*s.Cin+ci)*s.In[0]+z)*s.In[1]+i)*s.In[2]+j]) * float64(b.filter[(co*s.Cin+ci)*27+k])
			}
		}
	}
	got := y[(((n*s.Cout+co)*out[0]+d)*out[1]+h)*out[2]+w]
	if diff := float64(got) - want; diff > 1e-4 || diff < -1e-4 {
		t.Errorf("%s: got %g, want %g", c.Choice(), got, want)
	}
}

func TestPreparePass(t *testing.T) {
	s := unetShape(1, 3, 4, 6, 8, false)
	c, err := PreparePass(s, BackwardWeights, Options{})
	must(t, err)
	defer c.Close()
	if got := c.Choice(); !strings.HasPrefix(got, "backward_weights=") || strings.Contains(got, " ") {
		t.Errorf("choice: got %q, want backward_weights alone", got)
	}
}

func TestPrepareRefuses(t *testing.T) {
	good := unetShape(1, 3, 4, 6, 8, false)
	for _, c := range []struct {
		name string
		edit func(*Spec)
	}{
		{"no channel", func(s *Spec) { s.Cin = 0 }},
		{"kernel beyond the source", func(s *Spec) { s.Kernel[1] = 9 }},
		{"negative padding", func(s *Spec) { s.Pad[2].Lo = -1 }},
		{"negative stride", func(s *Spec) { s.Stride[0] = -1 }},
		{"empty source", func(s *Spec) { s.In[2] = 0 }},
	} {
		s := good
		c.edit(&s)
		if _, err := Prepare(s, Options{}); !errors.Is(err, ErrShape) {
			t.Errorf("%s: got %v, want ErrShape", c.name, err)
		}
	}
	for _, force := range []string{"forward=nonsense", "sideways=own", "own"} {
		if _, err := Prepare(good, Options{Choice: force}); err == nil {
			t.Errorf("Force %q: got no error", force)
		}
	}
	strided := good
	strided.Stride = [3]int{1, 2, 2}
	if _, err := Prepare(strided, Options{Choice: "forward=own"}); err == nil || !strings.Contains(err.Error(), kern.ErrUnsupported.Error()) {
		t.Errorf("own kernel with stride 2: got %v, want %v", err, kern.ErrUnsupported)
	}
}

func TestSpec(t *testing.T) {
	s := unetShape(1, 42, 64, 128, 128, false)
	// 36 of 54 depth taps meet a cell: 2·36·cin·cout·H·W.
	if got, want := s.FLOPs(), 2.*36*42*64*128*128; got != want {
		t.Errorf("FLOPs: got %g, want %g", got, want)
	}
	s.Stride, s.Dilation = [3]int{1, 2, 3}, [3]int{1, 2, 1}
	if got, want := s.Out(), [3]int{2, 63, 43}; got != want {
		t.Errorf("Out: got %v, want %v", got, want)
	}
}
