//go:build cgo && linux

package cuda_test

import (
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/cudnn"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// sums computes convolutions on the emulated device as package cudnn describes them, with
// loops: it stands in for cuDNN, which has to be given what that wants.
type sums struct {
	dev   *emulate.Device
	plans int // lists of plans that were asked for
	named int // plans that were made from their names
	kept  int
	runs  int
}

func (s *sums) Plans(c cudnn.Convolution, _ cudnn.Limits) []cuda.ConvPlan {
	s.plans++
	return []cuda.ConvPlan{&sumPlan{s, c}}
}

func (s *sums) Plan(c cudnn.Convolution, name string) cuda.ConvPlan {
	s.named++
	if name != "sums" {
		return nil
	}
	return &sumPlan{s, c}
}

func (s *sums) Keep(cudnn.Convolution, cuda.ConvPlan) { s.kept++ }

type sumPlan struct {
	s *sums
	c cudnn.Convolution
}

func (*sums) Version() string { return "0" }

func (*sumPlan) Name() string     { return "sums" }
func (*sumPlan) Workspace() int64 { return 40 }
func (*sumPlan) Fused() bool      { return true }
func (*sumPlan) Close() error     { return nil }

// array is memory of the device in the type of a convolution.
type array struct {
	p    device.Pointer
	half bool
}

func (a array) at(i int) float64 {
	if a.half {
		return float64(math.Float32frombits(uint32(*(*uint16)(unsafe.Add(a.p, 2*i))) << 16))
	}
	return float64(*(*float32)(unsafe.Add(a.p, 4*i)))
}

func (a array) set(i int, v float64) {
	if a.half {
		*(*uint16)(unsafe.Add(a.p, 2*i)) = uint16(math.Float32bits(float32(rounded(v, 8))) >> 16)
		return
	}
	*(*float32)(unsafe.Add(a.p, 4*i)) = float32(v)
}

// each visits all products of the convolution by the places of x, w and y.
func (p *sumPlan) each(visit func(x, w, y int)) {
	c, out := p.c, p.c.Result()
	step := func(n, a int) int { return max(n, 1) * a }
	for n := range c.N {
		for k := range c.Out {
			for o := range out[0] * out[1] * out[2] {
				at := [3]int{o / out[2] / out[1], o / out[2] % out[1], o % out[2]}
				for r := range c.Filter[0] * c.Filter[1] * c.Filter[2] {
					tap := [3]int{r / c.Filter[2] / c.Filter[1], r / c.Filter[2] % c.Filter[1], r % c.Filter[2]}
					x, inside := n, true
					for i := range 3 {
						q := step(c.Stride[i], at[i]) + step(c.Dilation[i], tap[i]) - c.Pad[i]
						inside = inside && q >= 0 && q < c.Size[i]
						x = x*c.Size[i] + q
					}
					if !inside {
						continue
					}
					for ch := range c.In {
						visit(x*c.In+ch, (k*c.Filter[0]*c.Filter[1]*c.Filter[2]+r)*c.In+ch, (n*out[0]*out[1]*out[2]+o)*c.Out+k)
					}
				}
			}
		}
	}
}

func (p *sumPlan) Run(o cudnn.Operands) error {
	p.s.runs++
	return p.s.dev.Program(func() error {
		half, out, c := p.c.Type == cudnn.BFloat16, p.c.Result(), p.c
		x, w, y := array{o.X, half}, array{o.W, half}, array{o.Y, half}
		if c.Pass == cudnn.FilterGrad {
			w.half = half && !c.Wide
			g := make([]float64, c.Out*c.Filter[0]*c.Filter[1]*c.Filter[2]*c.In)
			p.each(func(i, r, k int) { g[r] += x.at(i) * y.at(k) })
			for i, v := range g {
				w.set(i, v)
			}
			return nil
		}
		z := make([]float64, c.N*out[0]*out[1]*out[2]*c.Out)
		p.each(func(i, r, k int) { z[k] += x.at(i) * w.at(r) })
		for i, v := range z {
			if c.Bias {
				v += array{o.Bias, half && !c.WideBias}.at(i % c.Out)
			}
			if c.ReLU {
				v = max(v, 0)
			}
			y.set(i, v)
		}
		return nil
	})
}

// clocked is a device on which the library is always faster.
type clocked struct {
	*emulate.Device
	s *sums
}

func (c clocked) Time(f func() error) (seconds float64, err error) {
	before := c.s.runs
	if err := f(); err != nil || c.s.runs > before {
		return 1, err
	}
	return 2, nil
}

func (clocked) FreeBytes() (int64, error) { return 1 << 28, nil }

// TestLibraryConvs: convolutions by a library, with all that is done around it, agree with the
// reference, and those that it cannot do are ours.
func TestLibraryConvs(t *testing.T) {
	dev, err := emulate.Open(1 << 28)
	if err != nil {
		t.Fatal(err)
	}
	s := &sums{dev: dev}
	b, err := cuda.Over(func() (device.Device, error) { return clocked{dev, s}, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	b.UseLibrary(s)
	global := op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.SameGlobal(3, 3, 3)}
	zero := global
	zero.Pad = op.Same(3, 3, 3)
	stride := zero
	stride.Stride = [3]int{1, 2, 2}
	wide := zero
	wide.Dilation, wide.Pad = [3]int{1, 2, 1}, [3]op.Pad{{Size: 1}, {Size: 2}, {Size: 1, Periodic: true}}
	for _, c := range []struct {
		name  string
		parts []graph.Shape
		w     graph.Shape
		a     op.Conv
		ours  int // of the three, in float32
	}{
		{"periodic", []graph.Shape{{2, 10, 2, 4, 7}}, graph.Shape{5, 10, 3, 3, 3}, global, 0},
		{"two parts", []graph.Shape{{1, 3, 2, 4, 6}, {1, 9, 2, 4, 6}}, graph.Shape{4, 12, 3, 3, 3}, global, 0},
		{"zeros", []graph.Shape{{1, 5, 3, 4, 5}}, graph.Shape{9, 5, 3, 3, 3}, zero, 0},
		{"dilation", []graph.Shape{{1, 5, 2, 6, 7}}, graph.Shape{3, 5, 3, 3, 3}, wide, 0},
		{"one cell", []graph.Shape{{2, 6, 2, 3, 5}}, graph.Shape{3, 6, 1, 1, 1}, op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}}, 0},
		{"strides", []graph.Shape{{1, 4, 2, 7, 8}}, graph.Shape{3, 4, 3, 3, 3}, stride, 1}, // its adjoint
	} {
		for _, arithmetic := range []string{"bf16", "float32"} {
			ours, want := 0, c.ours
			if arithmetic == "bf16" {
				want = 1 // the adjoint, to which something is added
			}
			for _, k := range convCasesOf(c.name, c.parts, c.w, c.a) {
				t.Run(arithmetic+"/"+k.op+"/"+c.name, func(t *testing.T) {
					if name, _ := compareConv(t, b, k, arithmetic); !strings.HasPrefix(name, "cuDNN ") {
						ours++
					}
				})
			}
			if ours != want {
				t.Errorf("%s in %s: %d of three convolutions are ours, want %d", c.name, arithmetic, ours, want)
			}
		}
	}
	if s.runs == 0 {
		t.Error("the library was never asked")
	}
}

// TestRemembered: what was fastest on a machine is taken there without asking the library for all
// it knows, its plans are made from their names, and where one is not served all are asked for.
func TestRemembered(t *testing.T) {
	dir := t.TempDir()
	k := convCasesOf("small", []graph.Shape{{1, 8, 2, 4, 6}}, graph.Shape{8, 8, 3, 3, 3}, op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.Same(3, 3, 3)})[0]
	for _, c := range []struct {
		what, arithmetic string
		choose           func(b *cuda.Backend)
		lists, named     int
	}{
		{"nothing is known", "float32", nil, 1, 0},
		{"it is known", "float32", nil, 0, 1},
		{"products of TF32 are others", "tf32", nil, 1, 0},
		{"these too are known", "tf32", nil, 0, 1},
		{"another machine", "float32", func(b *cuda.Backend) {
			m := b.Machine()
			m.CPU = "another"
			b.Remember(tune.Open(dir, m, nil))
		}, 1, 0},
		{"nothing is remembered", "float32", func(b *cuda.Backend) { b.Remember(nil) }, 1, 0},
		{"plans that are gone", "float32", func(b *cuda.Backend) {
			table := tune.Open(t.TempDir(), b.Machine(), nil)
			for key, e := range tune.Open(dir, b.Machine(), nil).All() {
				e.Choice, e.Candidates[0].Name = "cuDNN 0 others", "cuDNN 0 others"
				table.Record(key, e)
			}
			b.Remember(table)
		}, 1, 1},
	} {
		dev, err := emulate.Open(1 << 28)
		if err != nil {
			t.Fatal(err)
		}
		s := &sums{dev: dev}
		b, err := cuda.Over(func() (device.Device, error) { return clocked{dev, s}, nil })
		if err != nil {
			t.Fatal(err)
		}
		b.UseLibrary(s)
		b.Remember(tune.Open(dir, b.Machine(), nil))
		if c.choose != nil {
			c.choose(b)
		}
		name, _ := compareConv(t, b, k, c.arithmetic)
		if s.plans != c.lists || s.named != c.named || s.kept != 1 || name != "cuDNN 0 sums" {
			t.Errorf("%s: %d lists, %d plans by name, %d kept, %s; want %d, %d, 1 and the library's", c.what, s.plans, s.named, s.kept, name, c.lists, c.named)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
