//go:build cgo && linux

package kern

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// The kernel's convolution against the float64 sum, for every instruction set
// and thread count; package conv tests more shapes with the best set.
func TestConv(t *testing.T) {
	for _, s := range []ConvSpec{
		{N: 2, Cin: 3, Cout: 11, In: [3]int{5, 6, 7}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1},
			Pad: [3]Padding{{1, 1, Zeros}, {1, 1, Zeros}, {1, 1, Periodic}}},
		{N: 1, Cin: 2, Cout: 1, In: [3]int{2, 9, 70}, Kernel: [3]int{1, 5, 2}, Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 2, 3},
			Pad: [3]Padding{{}, {4, 1, Zeros}, {0, 3, Zeros}}},
		{N: 1, Cin: 9, Cout: 6, In: [3]int{5, 4, 3}, Kernel: [3]int{3, 1, 1}, Stride: [3]int{2, 1, 1}, Dilation: [3]int{1, 1, 1},
			Pad: [3]Padding{{1, 1, Zeros}, {}, {}}},
	} {
		for i := range 3 {
			s.Out[i] = (s.In[i]+s.Pad[i].Lo+s.Pad[i].Hi-s.Dilation[i]*(s.Kernel[i]-1)-1)/s.Stride[i] + 1
		}
		t.Run(fmt.Sprintf("%d to %d", s.Cin, s.Cout), func(t *testing.T) {
			nx, nw, ny := s.N*s.Cin*volume(s.In), s.Cin*s.Cout*volume(s.Kernel), s.N*s.Cout*volume(s.Out)
			x, w, g, bias := random(1, nx, -1, 1), random(2, nw, -1, 1), random(3, ny, -1, 1), random(4, s.Cout, -1, 1)
			y, dx, dw := make([]float64, ny), make([]float64, nx), make([]float64, nw)
			for o := range y {
				at := [3]int{o / s.Out[2] / s.Out[1] % s.Out[0], o / s.Out[2] % s.Out[1], o % s.Out[2]}
				n, co := o/volume(s.Out)/s.Cout, o/volume(s.Out)%s.Cout
				y[o] = float64(bias[co])
				for k := range s.Cin * volume(s.Kernel) {
					tap := [3]int{k / s.Kernel[2] / s.Kernel[1] % s.Kernel[0], k / s.Kernel[2] % s.Kernel[1], k % s.Kernel[2]}
					i, inside := n*s.Cin+k/volume(s.Kernel), true
					for a := range 3 {
						q := at[a]*s.Stride[a] + tap[a]*s.Dilation[a] - s.Pad[a].Lo
						if s.Pad[a].Mode == Periodic {
							q = (q%s.In[a] + s.In[a]) % s.In[a]
						}
						inside = inside && q >= 0 && q < s.In[a]
						i = i*s.In[a] + q
					}
					if inside {
						f := co*s.Cin*volume(s.Kernel) + k
						y[o] += float64(x[i]) * float64(w[f])
						dx[i] += float64(g[o]) * float64(w[f])
						dw[f] += float64(g[o]) * float64(x[i])
					}
				}
			}
			everywhere(t, func(t *testing.T, p *Pool) {
				run := func(pass ConvPass, relu bool, src, filter, b, dst []float32) {
					t.Helper()
					c, err := NewConv(p, s, pass, pass != ConvBackwardData, relu)
					if err != nil {
						t.Fatal(err)
					}
					scratch, ok := guarded(t, c.ScratchLen())
					for i := range scratch { // results must not depend on the contents of scratch
						scratch[i] = float32(math.NaN())
					}
					if err := c.Run(src, filter, b, dst, scratch); err != nil {
						t.Fatal(err)
					}
					ok()
				}
				// Up to 300 terms below 1: rounding stays below 300·6e-8.
				check := func(what string, got []float32, want func(i int) float64) {
					t.Helper()
					for i := range got {
						if d := float64(got[i]) - want(i); !(math.Abs(d) < 2e-5) {
							t.Fatalf("%s[%d]: got %g, want %g", what, i, got[i], want(i))
						}
					}
				}
				gy, ok := guarded(t, ny)
				run(ConvForward, false, x, w, bias, gy)
				ok()
				check("forward", gy, func(i int) float64 { return y[i] })
				run(ConvForward, true, x, w, bias, gy)
				ok()
				check("forward relu", gy, func(i int) float64 { return max(y[i], 0) })
				gx, ok := guarded(t, nx)
				run(ConvBackwardData, false, gx, w, nil, g)
				ok()
				check("backward data", gx, func(i int) float64 { return dx[i] })
				gw, ok := guarded(t, nw)
				gb, okB := guarded(t, s.Cout)
				run(ConvBackwardWeights, false, x, gw, gb, g)
				ok()
				okB()
				check("backward weights", gw, func(i int) float64 { return dw[i] })
				var p0 *Pool
				for co := range gb {
					want := 0.0
					for n := range s.N {
						want += p0.Sum(g[(n*s.Cout+co)*volume(s.Out) : (n*s.Cout+co+1)*volume(s.Out)])
					}
					near(t, "bias", co, gb[co], want, 1e-5)
				}
			})
		})
	}
}

func TestConvRefuses(t *testing.T) {
	one := [3]int{1, 1, 1}
	base := ConvSpec{N: 1, Cin: 1, Cout: 1, In: [3]int{1, 6, 7}, Out: [3]int{1, 6, 7}, Kernel: [3]int{1, 3, 3}, Stride: one,
		Dilation: one, Pad: [3]Padding{{}, {1, 1, Zeros}, {1, 1, Zeros}}}
	for _, c := range []struct {
		name string
		pass ConvPass
		edit func(*ConvSpec)
	}{
		{"stride in width", ConvForward, func(s *ConvSpec) { s.Stride[2] = 2; s.Out[2] = 4 }},
		{"padding beyond reach", ConvBackwardData, func(s *ConvSpec) { s.Pad[1].Lo = 3; s.Out[1] = 8 }},
		{"periodic to another size", ConvBackwardData, func(s *ConvSpec) { s.Pad[2] = Padding{1, 0, Periodic}; s.Out[2] = 6 }},
		{"huge filter", ConvBackwardWeights, func(s *ConvSpec) {
			s.Kernel, s.Pad[1], s.Pad[2] = [3]int{1, 19, 19}, Padding{9, 9, Zeros}, Padding{9, 9, Zeros}
		}},
	} {
		s := base
		c.edit(&s)
		if _, err := NewConv(nil, s, c.pass, false, false); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: got %v, want ErrNotServed", c.name, err)
		}
		if _, err := NewConv(nil, base, c.pass, false, false); err != nil {
			t.Errorf("%s: the plain shape is refused too: %v", c.name, err)
		}
	}
}
