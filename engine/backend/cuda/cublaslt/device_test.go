//go:build cgo && linux

package cublaslt

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/devicetest"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
)

// plan is what a trial wants of a Plan.
type plan interface {
	Name() string
	Workspace() int64
	Run(Operands) error
}

// at is where an element of a matrix lies.
func (s side) at(b, i, j int, transposed bool) int {
	if transposed {
		i, j = j, i
	}
	return b*s.next + i*s.row + j
}

// length is that of the memory of n matrices.
func (s side) length(n int) int { return (n-1)*s.next + (s.rows-1)*s.row + s.cols }

// answer is what a plan should write over d, in float64: what lies between rows and
// matrices stays.
func answer(p *Product, a, b, c, bias []float32) []float64 {
	s := p.sides()
	want := make([]float64, s[2].length(max(1, p.Batch)))
	for i := range want {
		want[i] = float64(c[i])
	}
	scale := float64(p.Scale)
	if scale == 0 {
		scale = 1
	}
	for n := range max(1, p.Batch) {
		for i := range p.M {
			for j := range p.N {
				var sum float64
				for k := range p.K {
					sum += float64(a[s[0].at(n, i, k, p.TransA)]) * float64(b[s[1].at(n, k, j, p.TransB)])
				}
				at := s[2].at(n, i, j, false)
				v := scale*sum + float64(p.Beta)*float64(c[at])
				if p.Bias {
					v += float64(bias[j])
				}
				if p.ReLU {
					v = max(0, v)
				}
				want[at] = v
			}
		}
	}
	return want
}

// try runs a plan on a device and judges what it writes: the values, that nothing is
// written beside them, and that a second run, and one that is recorded, write the same bits.
func try(t *testing.T, d device.Device, recorded bool, p Product, find func(m *devicetest.Memory) plan) error {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	s, batch := p.sides(), max(1, p.Batch)
	a, b := devicetest.Numbers(r, s[0].length(batch)), devicetest.Numbers(r, s[1].length(batch))
	c, bias := devicetest.Numbers(r, s[2].length(batch)), devicetest.Numbers(r, p.N)
	m := devicetest.New(t, d)
	plan := find(m)
	kind, stored := devicetest.Kind(p.Type), devicetest.Kind(p.Result)
	o := Operands{A: m.Put(a, kind), B: m.Put(b, kind), D: m.Put(c, stored), Bias: m.Put(bias, stored), Workspace: m.Room(plan.Workspace())}
	want := answer(&p, a, b, c, bias)
	var first []float32
	run := func(how string, ask func() error) error {
		m.Set(o.D, c, stored)
		if err := ask(); err != nil {
			return fmt.Errorf("%s: %w", how, err)
		}
		got := m.Get(o.D, len(want), stored)
		for i, v := range got {
			// Sums of these numbers are exact in float32, in any order.
			if tolerance := stored.Rounding() * math.Abs(want[i]); !(math.Abs(float64(v)-want[i]) <= tolerance) {
				return fmt.Errorf("%s: element %d: got %g, want %g within %g", how, i, v, want[i], tolerance)
			}
		}
		if first == nil {
			first = got
		}
		if !slices.Equal(got, first) {
			return fmt.Errorf("%s: other bits than before", how)
		}
		return m.Guards()
	}
	err := errors.Join(
		run("first run", func() error { return plan.Run(o) }),
		run("second run", func() error { return plan.Run(o) }))
	if err != nil || !recorded {
		return err
	}
	recording, err := d.Record(func() error { return plan.Run(o) })
	if err != nil {
		return err
	}
	return errors.Join(run("recorded run", recording.Run), recording.Close())
}

// trials are small products with other numbers in each place.
func trials() map[string]Product {
	all := map[string]Product{}
	add := func(name string, p Product, set func(*Product)) {
		set(&p)
		all[name] = p
	}
	base := Product{M: 24, N: 40, K: 56}
	for t, name := range []string{"float32", "bfloat16", "float16"} {
		p := base
		p.Type, p.Result = Type(t), Type(t)
		for _, trans := range []struct {
			name string
			a, b bool
		}{{"", false, false}, {", A transposed", true, false}, {", B transposed", false, true}, {", both transposed", true, true}} {
			add(name+trans.name, p, func(p *Product) { p.TransA, p.TransB = trans.a, trans.b })
		}
		add(name+", bias", p, func(p *Product) { p.Bias = true })
		add(name+", ReLU", p, func(p *Product) { p.ReLU = true })
		add(name+", bias, ReLU", p, func(p *Product) { p.Bias, p.ReLU = true, true })
		add(name+", scale, beta", p, func(p *Product) { p.Scale, p.Beta = 0.5, 2 })
		add(name+", wide rows", p, func(p *Product) { p.RowA, p.RowB, p.RowD = 64, 48, 72 })
		add(name+", batch", p, func(p *Product) { p.Batch, p.NextA, p.NextB, p.NextD = 3, 24*56, 56*40+8, 24*40+16 })
		add(name+", batch of one B", p, func(p *Product) { p.Batch, p.NextA, p.NextD = 3, 24*56, 24*40 })
		add(name+" to float32", p, func(p *Product) { p.Result = Float32 })
	}
	add("TF32", base, func(p *Product) { p.TF32 = true })
	add("odd float32", Product{M: 5, N: 7, K: 9}, func(*Product) {})
	return all
}

// On a device every plan gives what the formula gives. It skips where there is none.
func TestDevice(t *testing.T) {
	d := devicetest.GPU(t)
	l, err := Open(nil)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	h, err := l.New(d.(device.Loaded))
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range trials() {
		t.Run(name, func(t *testing.T) {
			plans, err := h.Plans(p, Limits{Workspace: 4 << 20})
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range plans {
				if err := try(t, d, true, p, func(*devicetest.Memory) plan { return one }); err != nil {
					t.Errorf("%s: %v", one.Name(), err)
				}
				if err := one.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// slow is a plan that computes what cuBLASLt is told of the product: in columns, with the
// factors changed. It may do something wrong.
type slow struct {
	p     Product
	m     *devicetest.Memory
	fault func(result []float32, runs int) []float32
	runs  int
}

func (s *slow) Name() string     { return "slow" }
func (s *slow) Workspace() int64 { return 0 }

func (s *slow) Run(o Operands) error {
	p, sides, batch := &s.p, s.p.sides(), max(1, s.p.Batch)
	kind, stored := devicetest.Kind(p.Type), devicetest.Kind(p.Result)
	left, right := s.m.Get(o.B, sides[1].length(batch), kind), s.m.Get(o.A, sides[0].length(batch), kind)
	d, bias := s.m.Get(o.D, sides[2].length(batch), stored), s.m.Get(o.Bias, p.N, stored)
	scale := p.Scale
	if scale == 0 {
		scale = 1
	}
	for n := range batch {
		for col := range p.M {
			for row := range p.N {
				var sum float32
				for k := range p.K {
					l, r := n*sides[1].next+k*sides[1].row+row, n*sides[0].next+col*sides[0].row+k // columns begin every row
					if p.TransB {
						l = n*sides[1].next + row*sides[1].row + k
					}
					if p.TransA {
						r = n*sides[0].next + k*sides[0].row + col
					}
					sum += left[l] * right[r]
				}
				at := n*sides[2].next + col*sides[2].row + row
				v := scale*sum + p.Beta*d[at]
				if p.Bias {
					v += bias[row]
				}
				if p.ReLU {
					v = max(0, v)
				}
				d[at] = v
			}
		}
	}
	if s.fault != nil {
		d = s.fault(d, s.runs)
	}
	s.runs++
	s.m.Set(o.D, d, stored)
	return nil
}

// The trial itself accepts a plan that is right and notices each thing that can be wrong.
func TestTrial(t *testing.T) {
	d, err := emulate.Open(1 << 24)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	judge := func(name string, p Product, fault func([]float32, int) []float32) {
		t.Run(name, func(t *testing.T) {
			err := try(t, d, false, p, func(m *devicetest.Memory) plan { return &slow{p: p, m: m, fault: fault} })
			if fault == nil && err != nil {
				t.Error(err)
			} else if fault != nil && err == nil {
				t.Error("the trial does not notice")
			}
		})
	}
	for name, p := range trials() {
		judge(name, p, nil)
	}
	p, wide := trials()["bfloat16, bias"], trials()["float32, wide rows"]
	judge("element", p, func(x []float32, _ int) []float32 { x[7]++; return x })
	judge("NaN", p, func(x []float32, _ int) []float32 { x[0] = float32(math.NaN()); return x })
	judge("other bits", p, func(x []float32, runs int) []float32 { x[1] *= 1 + float32(runs)/256; return x })
	judge("other byte", p, func(x []float32, _ int) []float32 { return append(x, 1) })
	judge("between rows", wide, func(x []float32, _ int) []float32 { x[wide.N] = 9; return x })
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
