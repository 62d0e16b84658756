//go:build cgo && linux

package cuda_test

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/cudnn"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass/workspace"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// sums is a fake of cuDNN: it computes convolutions on the emulated device with loops, and
// checks its arguments.
type sums struct {
	dev   *emulate.Device
	plans int // calls of Plans
	named int // calls of Plan
	kept  int
	runs  int
	each  int64 // bytes of workspace for an element of x; 0 is 40 for all
	apart bool  // plans leave bias and ReLU to the caller
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

func (s *sums) CachePlan(cudnn.Convolution, cuda.ConvPlan) { s.kept++ }

type sumPlan struct {
	s *sums
	c cudnn.Convolution
}

func (*sums) Version() string { return "0" }

func (*sumPlan) Name() string { return "sums" }
func (p *sumPlan) Workspace() int64 {
	if p.s.each == 0 {
		return 40
	}
	return p.s.each * int64(p.c.N*p.c.Size[0]*p.c.Size[1]*p.c.Size[2]*p.c.In)
}
func (p *sumPlan) Fused() bool { return !p.s.apart }
func (*sumPlan) Close() error  { return nil }

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
	rows, outRows := max(c.PlaneRowsX, c.Size[1]), max(c.PlaneRowsY, out[1]) // of a plane
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
						x = x*[3]int{c.Size[0], rows, c.Size[2]}[i] + q
					}
					if !inside {
						continue
					}
					for ch := range c.In {
						y := ((n*out[0]+at[0])*outRows+at[1])*out[2] + at[2]
						visit(x*c.In+ch, (k*c.Filter[0]*c.Filter[1]*c.Filter[2]+r)*c.In+ch, y*c.Out+k)
					}
				}
			}
		}
	}
}

func (p *sumPlan) Run(o cudnn.Operands) error {
	p.s.runs++
	return p.s.dev.RunInOrder(func() error {
		half, out, c := p.c.Type == cudnn.BFloat16, p.c.Result(), p.c
		x, w, y := array{o.X, half}, array{o.W, half}, array{o.Y, half}
		if c.Pass == cudnn.FilterGrad {
			w.half = half && !c.FilterGradFloat32
			g := make([]float64, c.Out*c.Filter[0]*c.Filter[1]*c.Filter[2]*c.In)
			p.each(func(i, r, k int) { g[r] += x.at(i) * y.at(k) })
			for i, v := range g {
				if c.Add {
					v += w.at(i)
				}
				w.set(i, v)
			}
			return nil
		}
		rows := max(c.PlaneRowsY, out[1])
		z := make([]float64, c.N*out[0]*rows*out[2]*c.Out)
		p.each(func(i, r, k int) { z[k] += x.at(i) * w.at(r) })
		for i, v := range z {
			if i/c.Out/out[2]%rows >= out[1] { // of another slab
				continue
			}
			if c.Bias && p.Fused() {
				v += array{o.Bias, half && !c.BiasFloat32}.at(i % c.Out)
			}
			if c.ReLU && p.Fused() {
				v = max(v, 0)
			}
			y.set(i, v)
		}
		return nil
	})
}

// clocked is a device on which the library is always faster, and its pieces slower than the whole.
type clocked struct {
	*emulate.Device
	s *sums
}

func (c clocked) Time(f func() error) (seconds float64, err error) {
	before := c.s.runs
	if err := f(); err != nil || c.s.runs > before {
		return 1 + 0.01*float64(c.s.runs-before), err
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
	b, err := cuda.New(func() (device.Device, error) { return clocked{dev, s}, nil })
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
					if s.apart = arithmetic == "float32"; s.apart { // exact, although the sum is stored in between
						compareConv(t, b, k, arithmetic)
						s.apart = false
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

// TestTimingsReused: the fastest variant in the timing table is used without asking the
// library for all plans; its plan is made from its name, and if that fails all plans
// are requested.
func TestTimingsReused(t *testing.T) {
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
			b.SetTimings(tune.Open(dir, m, nil))
		}, 1, 0},
		{"nothing is remembered", "float32", func(b *cuda.Backend) { b.SetTimings(nil) }, 1, 0},
		{"plans that are gone", "float32", func(b *cuda.Backend) {
			table := tune.Open(t.TempDir(), b.Machine(), nil)
			for key, e := range tune.Open(dir, b.Machine(), nil).All() {
				e.Choice, e.Candidates[0].Name = "cuDNN 0 others", "cuDNN 0 others"
				table.Record(key, e)
			}
			b.SetTimings(table)
		}, 1, 1},
	} {
		dev, err := emulate.Open(1 << 28)
		if err != nil {
			t.Fatal(err)
		}
		s := &sums{dev: dev}
		b, err := cuda.New(func() (device.Device, error) { return clocked{dev, s}, nil })
		if err != nil {
			t.Fatal(err)
		}
		b.UseLibrary(s)
		b.SetTimings(tune.Open(dir, b.Machine(), nil))
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

// TestPieces: a convolution in pieces, samples or slabs of rows, gives the bits of the
// whole, a gradient of a filter but for rounding; convolutions of too few rows are not
// divided.
func TestPieces(t *testing.T) {
	dev, err := emulate.Open(1 << 28)
	if err != nil {
		t.Fatal(err)
	}
	s := &sums{dev: dev, each: 4096}
	b, err := cuda.New(func() (device.Device, error) { return clocked{dev, s}, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	b.UseLibrary(s)
	zero := op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.Same(3, 3, 3)}
	stride, wide, global := zero, zero, zero
	stride.Stride = [3]int{1, 2, 2}
	wide.Dilation, wide.Pad = [3]int{1, 3, 1}, [3]op.Pad{{Size: 1}, {Size: 3}, {Size: 1, Periodic: true}}
	global.Pad = op.SameGlobal(3, 3, 3)
	for _, c := range []struct {
		name string
		n    int
		h    int
		a    op.Conv
		most int // pieces
	}{
		{"samples", 4, 5, zero, 4}, {"slabs", 1, 33, zero, 8}, {"samples and slabs", 2, 17, global, 8}, {"strides", 1, 35, stride, 4}, {"dilation", 1, 17, wide, 4}, {"three samples", 3, 9, zero, 2},
	} {
		for _, arithmetic := range []string{"float32", "bf16"} {
			if arithmetic == "bf16" && c.name != "slabs" {
				continue
			}
			for _, k := range convCasesOf(c.name, []graph.Shape{{c.n, 8, 2, c.h, 6}}, graph.Shape{8, 8, 3, 3, 3}, c.a) {
				t.Run(arithmetic+"/"+c.name+"/"+k.op, func(t *testing.T) {
					clear(b.Choices())
					name, want := compareConv(t, b, k, arithmetic)
					if !strings.HasPrefix(name, "cuDNN") {
						if k.op != "conv3d_fused_grad_data" || c.name != "strides" && arithmetic != "bf16" { // an adjoint of strides, or to which something is added in bfloat16, is ours
							t.Errorf("no plan of cuDNN is chosen, but %s", name)
						}
						return
					}
					for _, n := range []int{2, c.most, 2 * c.most} {
						k.cut = name + ", pieces " + strconv.Itoa(n)
						runs := s.runs
						cut, got := compareConv(t, b, k, arithmetic)
						if (cut == k.cut) != (n <= c.most) {
							t.Errorf("%d pieces: %s", n, cut)
						}
						if ran := s.runs - runs; cut == k.cut && ran%n != 0 {
							t.Errorf("%d pieces ran %d times", n, ran)
						}
						if !strings.Contains(k.op, "filter") && !slices.Equal(got, want) {
							t.Errorf("%d pieces have other bits than the whole", n)
						}
					}
				})
			}
		}
	}
}

// lastOnly is a backend whose fields always have channels last, however small they are.
type lastOnly struct{ *cuda.Backend }

func (b lastOnly) LayoutOptions(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []backend.LayoutOption {
	ways := b.Backend.LayoutOptions(o, attrs, in, out)
	if len(ways) > 1 {
		ways[1].Cost = 0
	}
	return ways
}

// TestPiecesUnderLimits: the pass takes the whole where its scratch is within the limit, else the
// fewest pieces that are, else our kernel, and the result stays.
func TestPiecesUnderLimits(t *testing.T) {
	const name = "library of tests"
	dir := t.TempDir()
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	engine.Backends = append(slices.Clone(before), engine.Backend{Name: name, Open: func(engine.Options) (backend.Backend, error) {
		dev, err := emulate.Open(1 << 28)
		s := &sums{dev: dev, each: 1 << 14}
		if err != nil {
			return nil, err
		}
		b, err := cuda.New(func() (device.Device, error) { return clocked{dev, s}, nil })
		if err != nil {
			return nil, err
		}
		b.UseLibrary(s)
		b.SetTimings(tune.Open(dir, b.Machine(), nil))
		return lastOnly{b}, nil
	}})
	b := graph.New(7)
	x := b.Input("x", graph.Shape{2, 8, 1, 16, 4})
	y := x
	for _, name := range []string{"first", "second"} { // one convolution, twice
		y = op.Conv3D(b, y, b.Param(name, graph.Shape{8, 8, 3, 3, 3}, graph.HeNormal(8*27)), op.Conv{Pad: op.Same(3, 3, 3)})
		y = op.ReLU(b, op.Bias(b, y, b.Param(name+".bias", graph.Shape{8}, graph.Zeros())))
	}
	b.Output("y", y)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	run := func(limit int64) (kernel string, scratch int64, out []float32, err error) {
		p, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: name}, Mode: engine.Infer, Memory: engine.Memory{Workspace: limit}})
		if err != nil {
			return "", 0, nil, err
		}
		defer p.Close()
		in := p.Input("x")
		for i := range in {
			in[i] = float32(i%17) - 8
		}
		if err := p.Run(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for _, m := range p.Movement(engine.Peaks{}) {
			if m.Op == "conv3d_fused" {
				kernel = m.Kernel
			}
		}
		return kernel, p.ScratchBytes(), slices.Clone(p.Output("y")), nil
	}
	kernel, scratch, want, err := run(0)
	if err != nil || kernel != "cuDNN 0 sums" {
		t.Fatalf("without a limit: %s, %v", kernel, err)
	}
	for _, next := range []string{"cuDNN 0 sums, pieces 2", "cuDNN 0 sums, pieces 4", "cuDNN 0 sums, pieces 8", "conv float float 64×32"} {
		limit := scratch - 1
		var got []float32
		if kernel, scratch, got, err = run(limit); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(kernel, next[:10]) || strings.HasPrefix(next, "cuDNN") && kernel != next || scratch > limit {
			t.Errorf("within %d bytes: %s with %d, want %s", limit, kernel, scratch, next)
		}
		for i := range want {
			if strings.HasPrefix(kernel, "cuDNN") && got[i] != want[i] || math.Abs(float64(got[i]-want[i])) > 1e-4 {
				t.Fatalf("%s: element %d is %v, of the whole %v", kernel, i, got[i], want[i])
			}
		}
	}
	if _, _, _, err := run(1); !errors.Is(err, workspace.ErrLimit) {
		t.Errorf("within one byte: %v", err)
	}
}
