//go:build cgo && linux

package cudnn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/devicetest"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
)

// plan is the part of Plan that a trial uses.
type plan interface {
	Name() string
	Fused() bool
	Workspace() int64
	Run(Operands) error
}

// triples calls f for each product of a convolution, with where its factors lie in x, w
// and y.
func triples(c *Convolution, f func(x, w, y int)) {
	stride, dilation := c.stridesAndDilations()
	out := c.Result()
	for n := range c.N {
		for o0 := range out[0] {
			for o1 := range out[1] {
				for o2 := range out[2] {
					for r0 := range c.Filter[0] {
						for r1 := range c.Filter[1] {
							for r2 := range c.Filter[2] {
								i := [3]int{o0*stride[0] + r0*dilation[0] - c.Pad[0], o1*stride[1] + r1*dilation[1] - c.Pad[1], o2*stride[2] + r2*dilation[2] - c.Pad[2]}
								if i[0] < 0 || i[1] < 0 || i[2] < 0 || i[0] >= c.Size[0] || i[1] >= c.Size[1] || i[2] >= c.Size[2] {
									continue
								}
								x := (((n*c.Size[0]+i[0])*c.Size[1]+i[1])*c.Size[2] + i[2]) * c.In
								y := (((n*out[0]+o0)*out[1]+o1)*out[2] + o2) * c.Out
								for k := range c.Out {
									w := (((k*c.Filter[0]+r0)*c.Filter[1]+r1)*c.Filter[2] + r2) * c.In
									for ch := range c.In {
										f(x+ch, w+ch, y+k)
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// lengths are those of x, w and y.
func lengths(c *Convolution) (x, w, y int) {
	volume := func(s [3]int) int { return s[0] * s[1] * s[2] }
	return c.N * c.In * volume(c.Size), c.Out * c.In * volume(c.Filter), c.N * c.Out * volume(c.Result())
}

// answer is what a plan should write, in float64, and the sum of the absolute values of
// what is added up for each.
func answer(c *Convolution, fused bool, x, w, y, bias []float32) (want, size []float64) {
	result := [...][]float32{Forward: y, DataGrad: x, FilterGrad: w}[c.Pass]
	want, size = make([]float64, len(result)), make([]float64, len(result))
	if c.Add {
		for i, v := range result {
			want[i], size[i] = float64(v), math.Abs(float64(v))
		}
	}
	triples(c, func(ix, iw, iy int) {
		at := [...]int{Forward: iy, DataGrad: ix, FilterGrad: iw}[c.Pass]
		p := [...]float64{Forward: float64(x[ix]) * float64(w[iw]), DataGrad: float64(w[iw]) * float64(y[iy]), FilterGrad: float64(x[ix]) * float64(y[iy])}[c.Pass]
		want[at] += p
		size[at] += math.Abs(p)
	})
	for i := range want {
		if fused && c.Bias {
			want[i] += float64(bias[i%c.Out])
			size[i] += math.Abs(float64(bias[i%c.Out]))
		}
		if fused && c.ReLU {
			want[i] = max(0, want[i])
		}
	}
	return want, size
}

// try runs a plan on a device and judges what it writes: the values, that nothing is
// written beside them, and that a second run and a recording write the same bits.
func try(t *testing.T, d device.Device, recorded bool, c Convolution, find func(m *devicetest.Memory) plan) error {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	lx, lw, ly := lengths(&c)
	x, w, y, bias := devicetest.Numbers(r, lx), devicetest.Numbers(r, lw), devicetest.Numbers(r, ly), devicetest.Numbers(r, c.Out)
	m := devicetest.New(t, d)
	p := find(m)
	kind, wide := devicetest.Kind(c.Type), devicetest.Kind(c.Type)
	if c.FilterGradFloat32 {
		wide = devicetest.Float32
	}
	biasKind := kind
	if c.BiasFloat32 {
		biasKind = devicetest.Float32
	}
	o := Operands{X: m.Put(x, kind), W: m.Put(w, wide), Y: m.Put(y, kind), Bias: m.Put(bias, biasKind), Workspace: m.Alloc(p.Workspace())}
	to, before, stored := o.Y, y, kind
	switch c.Pass {
	case DataGrad:
		to, before = o.X, x
	case FilterGrad:
		to, before, stored = o.W, w, wide
	}
	clear := make([]float32, len(before)) // what a run must not depend on, or must add to
	for i := range clear {
		clear[i] = float32(math.NaN())
	}
	if c.Add {
		clear = before
	}
	want, size := answer(&c, p.Fused(), x, w, y, bias)
	var first []float32
	run := func(how string, ask func() error) error {
		m.Set(to, clear, stored)
		if err := ask(); err != nil {
			return fmt.Errorf("%s: %w", how, err)
		}
		got := m.Get(to, len(want), stored)
		for i, v := range got {
			// Sums of these numbers are exact in float32, in any order; engines that transform
			// (FFT, Winograd) round on the way. Then the result is rounded to its type, once
			// before it is added to what is there, and once after.
			tolerance := stored.Rounding()*math.Abs(want[i]) + 0x1p-18*size[i]
			if c.Add {
				tolerance += stored.Rounding() * math.Abs(want[i]-float64(before[i]))
			}
			if !(math.Abs(float64(v)-want[i]) <= tolerance) {
				return fmt.Errorf("%s: element %d: got %g, want %g within %g", how, i, v, want[i], tolerance)
			}
		}
		if first == nil {
			first = got
		}
		if !slices.Equal(got, first) {
			return fmt.Errorf("%s: other bits than before", how)
		}
		return m.CheckGuards()
	}
	err := errors.Join(
		run("first run", func() error { return p.Run(o) }),
		run("second run", func() error { return p.Run(o) }))
	if err != nil || !recorded {
		return err
	}
	recording, err := d.Record(func() error { return p.Run(o) })
	if err != nil {
		return err
	}
	return errors.Join(run("recorded run", recording.Run), recording.Close())
}

// trials are small convolutions with other numbers in each place.
func trials() map[string]Convolution {
	base := Convolution{N: 2, In: 16, Out: 24, Size: [3]int{3, 9, 11}, Filter: [3]int{3, 3, 5}, Pad: [3]int{1, 1, 2}}
	all := map[string]Convolution{}
	add := func(name string, set func(*Convolution)) {
		c := base
		set(&c)
		all[name] = c
	}
	for t, name := range []string{"float32", "bfloat16", "float16"} {
		kind := Type(t)
		for p, pass := range []string{"forward", "data", "filter"} {
			add(name+" "+pass, func(c *Convolution) { c.Type, c.Pass = kind, Pass(p) })
			add(name+" "+pass+", stride and dilation", func(c *Convolution) {
				c.Type, c.Pass, c.Stride, c.Dilation = kind, Pass(p), [3]int{1, 2, 3}, [3]int{1, 2, 1}
			})
		}
		add(name+" bias", func(c *Convolution) { c.Type, c.Bias = kind, true })
		add(name+" bias, ReLU", func(c *Convolution) { c.Type, c.Bias, c.ReLU = kind, true, true })
		add(name+" wide bias, ReLU", func(c *Convolution) { c.Type, c.Bias, c.BiasFloat32, c.ReLU = kind, true, true, true })
		add(name+" add to filter", func(c *Convolution) { c.Type, c.Pass, c.Add = kind, FilterGrad, true })
		add(name+" add to data", func(c *Convolution) { c.Type, c.Pass, c.Add = kind, DataGrad, true })
	}
	add("TF32", func(c *Convolution) { c.TF32 = true })
	add("bfloat16 wide filter", func(c *Convolution) { c.Type, c.Pass, c.FilterGradFloat32 = BFloat16, FilterGrad, true })
	add("bfloat16, one cell", func(c *Convolution) { c.Type, c.Filter, c.Pad = BFloat16, [3]int{1, 1, 1}, [3]int{} })
	return all
}

// On a device every plan gives the result of the formula. Skipped without one.
func TestDevice(t *testing.T) {
	d := devicetest.GPU(t)
	l, err := Open(nil)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	h, err := l.New(d.(device.NativeHandles))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range trials() {
		t.Run(name, func(t *testing.T) {
			plans, err := h.Plans(c, Limits{Workspace: 64 << 20, MaxPlans: 8})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range plans {
				if err := try(t, d, true, c, func(*devicetest.Memory) plan { return p }); err != nil {
					t.Errorf("%s (%s): %v", p.Name(), strings.Join(p.Notes(), ", "), err)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// slow is a plan that computes in float32, product by product, and may do something wrong.
type slow struct {
	c       Convolution
	m       *devicetest.Memory
	fault   func(result []float32, runs int)
	outside int // elements that it writes beyond its result
	runs    int
}

func (s *slow) Name() string     { return "slow" }
func (s *slow) Fused() bool      { return s.c.Bias || s.c.ReLU }
func (s *slow) Workspace() int64 { return 0 }

func (s *slow) Run(o Operands) error {
	kind, wide, bias := devicetest.Kind(s.c.Type), devicetest.Kind(s.c.Type), devicetest.Kind(s.c.Type)
	if s.c.FilterGradFloat32 {
		wide = devicetest.Float32
	}
	if s.c.BiasFloat32 {
		bias = devicetest.Float32
	}
	lx, lw, ly := lengths(&s.c)
	x, w, y, b := s.m.Get(o.X, lx, kind), s.m.Get(o.W, lw, wide), s.m.Get(o.Y, ly, kind), s.m.Get(o.Bias, s.c.Out, bias)
	to, result, stored := o.Y, y, kind
	switch s.c.Pass {
	case DataGrad:
		to, result = o.X, x
	case FilterGrad:
		to, result, stored = o.W, w, wide
	}
	sum := make([]float32, len(result)+s.outside)
	if s.c.Add {
		copy(sum, result)
	}
	triples(&s.c, func(ix, iw, iy int) {
		switch s.c.Pass {
		case Forward:
			sum[iy] += x[ix] * w[iw]
		case DataGrad:
			sum[ix] += w[iw] * y[iy]
		case FilterGrad:
			sum[iw] += x[ix] * y[iy]
		}
	})
	for i := range result {
		if s.c.Bias {
			sum[i] += b[i%s.c.Out]
		}
		if s.c.ReLU {
			sum[i] = max(0, sum[i])
		}
	}
	if s.fault != nil {
		s.fault(sum, s.runs)
	}
	s.runs++
	s.m.Set(to, sum, stored)
	return nil
}

// The trial itself accepts a plan that is right and notices each thing that can be wrong.
func TestTrial(t *testing.T) {
	d, err := emulate.Open(1 << 24)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	judge := func(name string, c Convolution, outside int, fault func([]float32, int)) {
		t.Run(name, func(t *testing.T) {
			c.N, c.In, c.Out, c.Size = 1, 8, 8, [3]int{2, 3, 4}
			err := try(t, d, false, c, func(m *devicetest.Memory) plan { return &slow{c: c, m: m, outside: outside, fault: fault} })
			if right := outside == 0 && fault == nil; right && err != nil {
				t.Error(err)
			} else if !right && err == nil {
				t.Error("the trial does not notice")
			}
		})
	}
	for name, c := range trials() {
		judge(name, c, 0, nil)
	}
	c := trials()["bfloat16 bias, ReLU"]
	judge("element", c, 0, func(x []float32, _ int) { x[7]++ })
	judge("NaN", c, 0, func(x []float32, _ int) { x[0] = float32(math.NaN()) })
	judge("other bits", trials()["bfloat16 data"], 0, func(x []float32, runs int) { x[1] *= 1 + float32(runs)/0x1p8 })
	judge("other byte", c, 1, nil)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
