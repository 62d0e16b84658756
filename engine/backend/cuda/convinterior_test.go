//go:build cgo && linux

package cuda_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// inside reports whether element i of a plain value is in a box.
func inside(i int, s graph.Shape, box *backend.Region) bool {
	for k := len(s) - 1; k >= 0; k-- {
		if at := i%s[k] - box.Lo[k]; at < 0 || at >= box.Size[k] {
			return false
		}
		i /= s[k]
	}
	return true
}

// TestConvBeginsWithTheInterior: a convolution and its adjoint that begin while what surrounds a box of their field is no
// number give the bits of those that begin when all is there: so nothing that is computed before reads it, and all else is
// computed behind. Boxes lack rows, columns and levels on one side or both; fields are one or two parts, of which one may be
// there as a whole.
func TestConvBeginsWithTheInterior(t *testing.T) {
	b := emulatedGPU(t)
	box := func(s graph.Shape, first, last [3]int) *backend.Region {
		r := &backend.Region{Lo: make(graph.Shape, 5), Size: s.Clone()}
		for k := range 3 {
			r.Lo[k+2], r.Size[k+2] = first[k], s[k+2]-first[k]-last[k]
		}
		return r
	}
	sides := [][2][3]int{{{0, 1, 0}, {0, 1, 0}}, {{0, 0, 2}}, {{0, 1, 1}, {0, 2, 1}}}
	for i, c := range largerCases() {
		if strings.HasSuffix(c.op, "filter") {
			continue
		}
		operand := 0
		if strings.Contains(c.op, "data") {
			operand = 1
		}
		arithmetic := []string{"bf16", "float32"}[(i/3+operand)%2]
		t.Run(arithmetic+"/"+c.op+"/"+c.name, func(t *testing.T) {
			_, want := compareConv(t, b, c, arithmetic)
			side := sides[i/3%len(sides)]
			if c.in[operand][2] > 2 { // levels that do not all read each other
				side[0][0] = 1
			}
			c.late = make([]*backend.Region, len(c.in))
			c.late[operand] = box(c.in[operand], side[0], side[1])
			name, got := compareConv(t, b, c, arithmetic)
			if !slices.Equal(got, want) || !strings.HasSuffix(name, "the interior first") {
				t.Errorf("%s: other bits than of the whole: %v", name, !slices.Equal(got, want))
			}
		})
	}
	c := largerCases()[0]
	for name, late := range map[string]map[int]*backend.Region{
		"nothing is there":   {0: {Lo: make(graph.Shape, 5), Size: make(graph.Shape, 5)}},
		"some channels":      {0: {Lo: make(graph.Shape, 5), Size: graph.Shape{1, 40, 2, 7, 37}}},
		"the filter is late": {0: box(c.in[0], [3]int{}, [3]int{0, 1, 0}), 1: {Lo: make(graph.Shape, 5), Size: make(graph.Shape, 5)}},
	} {
		q := backend.Request{Op: op.Find(c.op), Attrs: c.a, Ready: make([]*backend.Region, len(c.in))}
		for k, s := range c.in {
			if q.In = append(q.In, backend.Tensor{Shape: s}); len(s) == 5 && k == 0 {
				q.In[k].Layout = graph.ChannelsLast
			}
		}
		q.Out = backend.Tensor{Shape: graph.Shape{1, 70, 2, 7, 37}, Layout: graph.ChannelsLast}
		for k, r := range late {
			q.Ready[k] = r
		}
		if k, err := preparedOver(b, q); err != nil || k.RunEarly != nil {
			t.Errorf("%s: begins early, %v", name, err)
		}
	}
}

// preparedOver is the kernel of a request that is given memory.
func preparedOver(b *cuda.Backend, q backend.Request) (k backend.Kernel, err error) {
	err = b.Do(func() error {
		for i := range q.In {
			if q.In[i].F32, err = b.Alloc(q.In[i].Layout.Elems(q.In[i].Shape)); err != nil {
				return err
			}
		}
		if q.Out.F32, err = b.Alloc(q.Out.Layout.Elems(q.Out.Shape)); err != nil {
			return err
		}
		k, err = b.Prepare(q)
		return err
	})
	return k, err
}

// full is an emulated device with the properties of a GPU with many multiprocessors.
type full struct{ *emulate.Device }

func (d full) Properties() device.Properties {
	p := d.Device.Properties()
	p.Emulated, p.Architecture, p.Multiprocessors, p.SharedBytes = false, 90, 132, 227<<10
	return p
}

// TestInteriorFirstWhereItPays: on a GPU convolutions begin with the interior where it and the halo take long, not where
// the rim does, and where nothing is under way never.
func TestInteriorFirstWhereItPays(t *testing.T) {
	b := gpuOf(t, func() (device.Device, error) {
		d, err := emulate.Open(1 << 20)
		return full{d}, err
	})
	for _, c := range []struct {
		name string
		s    graph.Shape // with a row of halo on both sides
		rows int         // that are under way, on both sides
		want bool
	}{
		{"11 levels of half a globe", graph.Shape{1, 64, 11, 182, 720}, 1, true},
		{"two rows of rim on both sides", graph.Shape{1, 64, 11, 182, 720}, 2, true},
		{"nothing is under way", graph.Shape{1, 64, 11, 182, 720}, 0, false},
		{"a deep field of few points", graph.Shape{1, 512, 2, 13, 45}, 1, false},
		{"a shallow field", graph.Shape{1, 8, 2, 26, 90}, 1, false},
		{"every row reads the halo", graph.Shape{1, 64, 11, 6, 720}, 2, false},
	} {
		y := c.s.Clone()
		y[3] -= 2
		field := func(s graph.Shape) backend.Tensor {
			return backend.Tensor{Shape: s, Layout: graph.ChannelsLast, U16: make([]uint16, graph.ChannelsLast.Elems(s))} // never accessed
		}
		w := graph.Shape{c.s[1], c.s[1], 3, 3, 3}
		a := op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.SameGlobal(3, 3, 3)}
		a.Pad[1] = op.Pad{}
		q := backend.Request{Op: op.Find("conv3d"), Attrs: a, In: []backend.Tensor{field(c.s), {Shape: w, F32: make([]float32, w.Size())}}, Out: field(y)}
		if c.rows > 0 {
			r := &backend.Region{Lo: graph.Shape{0, 0, 0, c.rows, 0}, Size: c.s.Clone()}
			r.Size[3] -= 2 * c.rows
			q.Ready = []*backend.Region{r, nil}
		}
		var k backend.Kernel
		if err := b.Do(func() (err error) { k, err = b.Prepare(q); return err }); err != nil {
			t.Fatal(err)
		}
		if (k.RunEarly != nil) != c.want {
			t.Errorf("%s: %s, begins with the interior: %v", c.name, k.Name, k.RunEarly != nil)
		}
	}
}

// paced is a device on which our kernels are slower than a library's by behind seconds.
type paced struct {
	*emulate.Device
	s      *sums
	behind float64
}

func (p paced) Time(f func() error) (seconds float64, err error) {
	before := p.s.runs
	if err = f(); p.s.runs > before {
		return 1, err
	}
	return 1 + p.behind, err
}

func (paced) FreeBytes() (int64, error) { return 1 << 28, nil }

// TestInteriorBeforeLibrary: one of our kernels that begins early is taken in place of a faster plan of a library that waits, if
// what it saves is more than what it is slower by, whether that plan was chosen in the race or before; and only where something
// is under way.
func TestInteriorBeforeLibrary(t *testing.T) {
	a := op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.Same(1, 3, 3)}
	s := graph.Shape{1, 64, 1, 5, 3}
	for _, c := range []struct {
		behind float64 // an exchange takes 20 µs and more
		late   bool
		ours   bool
	}{{1e-5, true, true}, {4e-5, true, false}, {1e-5, false, false}} {
		for _, cut := range []string{"", "cuDNN 0 sums"} {
			dev, err := emulate.Open(1 << 28)
			if err != nil {
				t.Fatal(err)
			}
			lib := &sums{dev: dev}
			b := gpuOf(t, func() (device.Device, error) { return paced{dev, lib, c.behind}, nil })
			b.UseLibrary(lib)
			k := convCasesOf("beside a library", []graph.Shape{s}, graph.Shape{64, 64, 1, 3, 3}, a)[0]
			if cut != "" { // times are known from a race, as choose-workspaces has one
				if name, _ := compareConv(t, b, k, "float32"); name != cut {
					t.Fatalf("the race is won by %s", name)
				}
				k.cut = cut
			}
			if c.late {
				k.late = []*backend.Region{{Lo: make(graph.Shape, 5), Size: graph.Shape{1, 64, 1, 4, 3}}, nil, nil}
			}
			name, _ := compareConv(t, b, k, "float32")
			if strings.HasSuffix(name, "the interior first") != c.ours {
				t.Errorf("ours is %v behind, something is under way: %v, chosen before: %q: taken is %s", c.behind, c.late, cut, name)
			}
		}
	}
}
