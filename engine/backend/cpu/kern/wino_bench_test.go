//go:build cgo && linux

package kern

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkWinoFilter reports useful operations per second of gradients of filters: the layers of a U-Net with few channels
// at its full resolution and below, on one and two threads, in the variants that divide the work in different ways.
func BenchmarkWinoFilter(b *testing.B) {
	for _, c := range []struct {
		parts [2]int
		k     int
		size  [3]int
	}{
		{[2]int{42, 0}, 16, [3]int{2, 128, 128}},
		{[2]int{16, 0}, 16, [3]int{2, 128, 128}},
		{[2]int{32, 0}, 16, [3]int{2, 128, 128}},
		{[2]int{32, 42}, 32, [3]int{2, 128, 128}},
		{[2]int{32, 16}, 32, [3]int{2, 64, 64}},
		{[2]int{64, 32}, 64, [3]int{2, 64, 64}},
		{[2]int{128, 64}, 128, [3]int{2, 64, 64}},
	} {
		in := c.parts[0] + c.parts[1]
		s := WinoSpec{N: 1, Parts: c.parts, K: c.k, Size: c.size, KD: 3, Side: 3, FilterIn: in}
		field := func(channels int) Stored {
			if channels == 0 {
				return Stored{}
			}
			return Float32(random(uint64(channels), Blocked{N: 1, C: channels, S: c.size}.Len(), -1, 1))
		}
		x0, x1, dy, dw := field(c.parts[0]), field(c.parts[1]), field(c.k), make([]float32, c.k*in*27)
		flops := 2 * 27 * float64(in*c.k*volume(c.size))
		for _, threads := range []int{1, 2} {
			p, err := NewPool(threads)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			for _, w := range []WinoVariant{{Tiles: 64}, {Tiles: 32}, {Tiles: 16}, {Tiles: 64, Rows: 3}, {Tiles: 32, Rows: 3}, {Tiles: 16, Rows: 3}, {Tiles: 32, Rows: 1}} {
				j, err := NewWinoFilter(p, s, w)
				if err != nil {
					b.Fatal(err)
				}
				scratch := make([]float32, j.ScratchLen())
				b.Run(fmt.Sprintf("%v-%d on %v/tiles %d rows %d/threads %d", c.parts, c.k, c.size, w.Tiles, w.Rows, threads), func(b *testing.B) {
					for b.Loop() {
						j.RunFilter(dw, x0, x1, dy, scratch)
					}
					b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}

// BenchmarkWinoFew reports useful operations per second of convolutions of many channels on few tiles, those of the deep stages
// of a U-Net, in which the transform of the filter is a large part; and of their gradients with respect to the input.
func BenchmarkWinoFew(b *testing.B) {
	for _, c := range []struct {
		channels int
		size     [3]int
	}{{320, [3]int{2, 4, 4}}, {224, [3]int{2, 8, 8}}, {192, [3]int{2, 16, 16}}, {192, [3]int{4, 8, 8}}, {192, [3]int{1, 8, 8}}} {
		for _, flip := range []bool{false, true} {
			s := WinoSpec{N: 1, Parts: [2]int{c.channels, 0}, K: c.channels, Size: c.size, KD: 3, Side: 3, FilterIn: c.channels, Flip: flip}
			j, err := NewWino(nil, s, WinoVariant{Tiles: 14, Whole: true})
			if err != nil {
				b.Fatal(err)
			}
			n := Blocked{N: 1, C: c.channels, S: c.size}.Len()
			v := WinoValues{Y: Float32(make([]float32, n)), X0: Float32(random(1, n, -1, 1)), Filter: random(2, c.channels*c.channels*27, -1, 1), Scratch: make([]float32, j.ScratchLen())}
			b.Run(fmt.Sprintf("%d on %v/flip %v", c.channels, c.size, flip), func(b *testing.B) {
				for b.Loop() {
					j.Run(v)
				}
				b.ReportMetric(2*27*float64(c.channels*c.channels*volume(c.size)*b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// BenchmarkWinoHalo reports the times of convolutions whose rows in the north and south are separate tensors, whole and in two
// parts, as shares of the time of the same convolution without them. The three follow each other in every round.
func BenchmarkWinoHalo(b *testing.B) {
	for _, c := range []struct {
		parts [2]int
		k     int
		size  [3]int
	}{{[2]int{42, 0}, 16, [3]int{2, 128, 512}}, {[2]int{16, 0}, 16, [3]int{2, 128, 512}}, {[2]int{32, 42}, 32, [3]int{2, 128, 512}}, {[2]int{32, 32}, 32, [3]int{2, 64, 256}}} {
		for _, tiles := range []int{6, 14} {
			b.Run(fmt.Sprintf("%v-%d on %v/tiles %d", c.parts, c.k, c.size, tiles), func(b *testing.B) {
				plain := newHaloBench(b, c.parts, c.k, c.size, tiles, false)
				halo := newHaloBench(b, c.parts, c.k, c.size, tiles, true)
				var took [3]time.Duration
				for b.Loop() {
					for i, f := range []func(){
						func() { plain.wino.Run(plain.values) },
						func() { halo.wino.Run(halo.values) },
						func() { halo.wino.RunPart(Inner, halo.values); halo.wino.RunPart(Outer, halo.values) },
					} {
						began := time.Now()
						f()
						took[i] += time.Since(began)
					}
				}
				b.ReportMetric(float64(took[1])/float64(took[0]), "with-halo")
				b.ReportMetric(float64(took[2])/float64(took[0]), "in-two-parts")
			})
		}
	}
}

// haloBench is a prepared convolution of four samples and its operands.
type haloBench struct {
	wino   *Wino
	values WinoValues
}

func newHaloBench(b *testing.B, parts [2]int, k int, size [3]int, tiles int, halo bool) haloBench {
	const samples = 4
	in := parts[0] + parts[1]
	s := WinoSpec{N: samples, Parts: parts, K: k, Size: size, KD: 3, Side: 3, FilterIn: in}
	if halo {
		s.Before, s.After, s.Halo = [3]int{0, 1, 0}, [3]int{0, 1, 0}, [4]int{1, 1, 0, 0}
	}
	field := func(channels int) Stored {
		if channels == 0 {
			return Stored{}
		}
		return Float32(random(uint64(channels), Blocked{N: samples, C: channels, S: size}.Len(), -1, 1))
	}
	j, err := NewWino(nil, s, WinoVariant{Tiles: tiles})
	if err != nil {
		b.Fatal(err)
	}
	if halo {
		edge := func(channels int) Stored {
			if channels == 0 {
				return Stored{}
			}
			return Float32(random(3, s.HaloLen(channels), -1, 1))
		}
		j.SetHalos(edge(parts[0]), edge(parts[1]))
	}
	return haloBench{j, WinoValues{Y: field(k), X0: field(parts[0]), X1: field(parts[1]), Filter: random(2, k*in*27, -1, 1), Scratch: make([]float32, j.ScratchLen())}}
}
