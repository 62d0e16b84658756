//go:build cgo && linux

package cuda_test

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// ran prepares and runs the kernel of an operation over values on the device, which gives plain numbers.
func ran(t *testing.T, b *cuda.Backend, do func(func() error), name string, attrs any, in []backend.Tensor) []float32 {
	t.Helper()
	o := op.Find(name)
	q := backend.Request{Op: o, Attrs: attrs, In: in}
	s, err := o.Shape(q.InShapes(), attrs)
	if err != nil {
		t.Fatal(err)
	}
	q.Out = backend.Tensor{Shape: s, F32: there(t, b, do, make([]float32, s.Size()))}
	do(func() error {
		k, err := b.Prepare(q)
		if err != nil || k.Blocking {
			t.Fatalf("%s: %v, on the processor %v", name, err, k.Blocking)
		}
		if k.SetScratch != nil {
			scratch, err := b.Alloc(int(k.Scratch / 4))
			if err != nil {
				return err
			}
			if err := k.SetScratch(scratch); err != nil {
				return err
			}
		}
		return k.Run()
	})
	return here(t, b, do, q.Out.F32)
}

// TestSumsOverManyPoints: over a million points far from zero, in both layouts, the mean and the sum hold 1e-6 of their
// size and the variance 1e-4 of its own, though it is a millionth of the squared mean.
func TestSumsOverManyPoints(t *testing.T) {
	b, do := emulated(t)
	const n, channels = 1 << 20, 3
	shape := graph.Shape{2, channels, 1, 512, n / 1024}
	plain, last := make([]float32, shape.Size()), make([]float32, graph.ChannelsLast.Elems(shape))
	random(plain, 7)
	var mean, variance [channels]float64
	for i, v := range plain {
		c, p := i/(n/2)%channels, i/(n/2)/channels*(n/2)+i%(n/2)
		plain[i] = 250 + float32(c) + 0.25*v
		last[p*8+c] = plain[i]
		mean[c] += float64(plain[i]) / n
	}
	for i, v := range plain {
		c := i / (n / 2) % channels
		variance[c] += (float64(v) - mean[c]) * (float64(v) - mean[c]) / n
	}
	zeros := backend.Tensor{Shape: graph.Shape{channels}, F32: there(t, b, do, make([]float32, channels))}
	for _, x := range []backend.Tensor{
		{Shape: shape, F32: there(t, b, do, plain)},
		{Shape: shape, Layout: graph.ChannelsLast, F32: there(t, b, do, last)},
	} {
		mom := ran(t, b, do, "channel_moments", struct{}{}, []backend.Tensor{x, zeros, zeros})
		sum := ran(t, b, do, "channel_sum", struct{}{}, []backend.Tensor{x})
		for c := range channels {
			if math.Abs(float64(mom[c])-mean[c]) > 1e-6*mean[c] || math.Abs(float64(mom[channels+c])-variance[c]) > 1e-4*variance[c] || math.Abs(float64(sum[c])-n*mean[c]) > 1e-6*n*mean[c] {
				t.Errorf("%v, channel %d: mean %v, variance %v, sum %v; want %v, %v, %v", x.Layout, c, mom[c], mom[channels+c], sum[c], mean[c], variance[c], n*mean[c])
			}
		}
		if x.Layout == graph.Plain {
			kept := ran(t, b, do, "sum", op.Axes{Axes: []int{0, 2, 3, 4}, Keep: true}, []backend.Tensor{x})
			for c := range channels {
				if math.Abs(float64(kept[c])-n*mean[c]) > 1e-7*n*mean[c] {
					t.Errorf("sum of channel %d is %v, want %v", c, kept[c], n*mean[c])
				}
			}
		}
	}
}

// TestParts: the part of a field, packed and put back elsewhere, is there and nowhere else, in every layout and storage;
// and a part of that is cleared.
func TestParts(t *testing.T) {
	b, do := emulated(t)
	shape, lo, hi := graph.Shape{2, 11, 3, 5, 7}, graph.Shape{0, 0, 1, 0, 2}, graph.Shape{2, 11, 3, 4, 5}
	size := make(graph.Shape, 5)
	for axis := range size {
		size[axis] = hi[axis] - lo[axis]
	}
	hole := graph.Shape{1, 0, 1, 2, 3}
	cleared := func(i int) bool {
		column, row, level, sample := i%7, i/7%5, i/35%3, i/(35*3*11)
		return sample == 1 && level == 1 && row >= 2 && row < 4 && column >= 3 && column < 5
	}
	inside := func(i, steps int) (ok bool) { // element i of the shape, shifted back
		ok = true
		for axis := 4; axis >= 0; axis-- {
			at := i % shape[axis]
			i /= shape[axis]
			if axis == 3 {
				at -= steps
			}
			ok = ok && at >= lo[axis] && at < hi[axis]
		}
		return ok
	}
	for _, c := range []struct {
		layout graph.Layout
		bytes  int
	}{{graph.Plain, 4}, {graph.ChannelsLast, 4}, {graph.ChannelsLast, 2}} {
		n := c.layout.Elems(shape)
		of := func(x []float32) backend.Tensor {
			v := backend.Tensor{Shape: shape, Layout: c.layout, F32: x}
			if c.bytes == 2 {
				v.F32, v.U16 = nil, unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(x))), n)
			}
			return v
		}
		words := make([]byte, 4*n)
		for i := range n * c.bytes {
			words[i] = byte(i/c.bytes*7 + i%c.bytes)
		}
		x := there(t, b, do, unsafe.Slice((*float32)(unsafe.Pointer(&words[0])), n))
		y, packed := there(t, b, do, make([]float32, n)), there(t, b, do, make([]float32, n))
		south := func(s graph.Shape) graph.Shape { s = s.Clone(); s[3]++; return s }
		do(func() error {
			middle := of(packed)
			middle.Shape = size
			out, err := b.CopyBox(of(x), lo, middle, make(graph.Shape, 5), size)
			if err != nil {
				return err
			}
			back, err := b.CopyBox(middle, make(graph.Shape, 5), of(y), south(lo), size)
			if err != nil {
				return err
			}
			clear, err := b.ClearBox(of(y), hole, graph.Shape{1, 11, 1, 2, 2})
			if err != nil {
				return err
			}
			if err := out.Run(); err != nil {
				return err
			}
			if err := back.Run(); err != nil {
				return err
			}
			if _, err := b.CopyBox(of(x), lo, of(y), south(south(lo)), size); err == nil {
				t.Error("a box reaches beyond its value")
			}
			return clear.Run()
		})
		got := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(here(t, b, do, y)))), 4*n)
		place := func(i int) int { return i }
		if c.layout == graph.ChannelsLast {
			points := shape[2:].Size()
			place = func(i int) int { return (i/points/shape[1]*points+i%points)*16 + i/points%shape[1] }
		}
		for i := range shape.Size() {
			want := make([]byte, c.bytes)
			if inside(i, 1) && !cleared(i) {
				want = words[place(i-shape[4])*c.bytes:][:c.bytes]
			}
			if have := got[place(i)*c.bytes:][:c.bytes]; !slices.Equal(have, want) {
				t.Fatalf("%v of %d bytes: element %d is %v, want %v", c.layout, c.bytes, i, have, want)
			}
		}
	}
}
