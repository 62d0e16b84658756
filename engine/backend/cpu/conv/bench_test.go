//go:build cgo && linux

package conv

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
)

// unetShape is a 3×3×3 convolution over depth 2 as in the 3-D U-Net, with
// longitude periodic or not.
func unetShape(n, cin, cout, h, w int, periodic bool) Spec {
	s := Spec{N: n, Cin: cin, Cout: cout, In: [3]int{2, h, w}, Kernel: [3]int{3, 3, 3},
		Pad: [3]kern.Padding{same(3), same(3), same(3)}}
	if periodic {
		s.Pad[2].Mode = kern.Periodic
	}
	return s
}

// BenchmarkForms reports the useful GFLOP/s of every form of every pass:
//
//	go test -bench Forms -benchtime 20x ./engine/backend/cpu/conv
func BenchmarkForms(b *testing.B) {
	for _, threads := range []int{1, 2} {
		pool, err := kern.NewPool(threads)
		if err != nil {
			b.Fatal(err)
		}
		defer pool.Close()
		for _, hw := range [][2]int{{32, 64}, {16, 32}, {8, 16}, {4, 8}} {
			for _, c := range [][2]int{{12, 32}, {32, 32}, {64, 64}, {96, 32}} {
				s := unetShape(8, c[0], c[1], hw[0], hw[1], true)
				for _, pass := range []Pass{Forward, BackwardData, BackwardWeights} {
					for _, f := range forms {
						r, err := f.build(s.normal(), pass, Options{Pool: pool, Bias: true, ReLU: true})
						if err != nil {
							continue
						}
						b.Run(fmt.Sprintf("t%d/%dx%d/%d-%d/%s/%s", threads, hw[0], hw[1], c[0], c[1], pass, f.name), func(b *testing.B) {
							t := newBench(s)
							scratch := make([]float32, r.ScratchLen())
							for b.Loop() {
								if err := r.Run(t.src, t.filter, t.bias, t.dst, scratch); err != nil {
									b.Fatal(err)
								}
							}
							b.ReportMetric(t.flops/float64(b.Elapsed().Nanoseconds())*float64(b.N), "GFLOP/s")
						})
						if err := r.Close(); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
		}
	}
}

// BenchmarkChosen reports what a plan gets: the form chosen for each pass, with
// its rate, and the time that choosing took.
func BenchmarkChosen(b *testing.B) {
	pool, err := kern.NewPool(2)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	for _, s := range []Spec{
		unetShape(8, 12, 32, 32, 64, true), unetShape(8, 32, 32, 32, 64, true), unetShape(8, 64, 64, 16, 32, true),
		unetShape(8, 96, 32, 32, 64, true), unetShape(8, 64, 96, 8, 16, true), unetShape(8, 96, 96, 4, 8, true),
		unetShape(8, 32, 1, 32, 64, true), unetShape(1, 320, 320, 22, 44, true), unetShape(1, 42, 64, 352, 704, true),
	} {
		for _, wino := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d-%d/%dx%d/wino=%v", s.Cin, s.Cout, s.In[1], s.In[2], wino), func(b *testing.B) {
				var c *Conv
				for b.Loop() {
					if c, err = Prepare(s, Options{Pool: pool, Bias: true, ReLU: true, Backward: true, Winograd: wino}); err != nil {
						b.Fatal(err)
					}
					if err := c.Close(); err != nil {
						b.Fatal(err)
					}
				}
				for p, f := range c.form {
					b.ReportMetric(c.gflops[p], fmt.Sprintf("%s:%s", Pass(p), f))
				}
			})
		}
	}
}
