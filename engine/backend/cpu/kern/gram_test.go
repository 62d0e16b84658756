//go:build cgo && linux

package kern

import (
	"math"
	"testing"
)

// Sums of outer products of patches, with several pieces of patches and matrices with several register tiles,
// against float64.
func TestGram(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, c := range []int{1, 5, 19} {
			s := &Gram{N: 2, C: c, In: [3]int{2, 5, 31}, Out: [3]int{2, 5, 31}, Taps: [3]int{1, 1, 3}, Ones: c != 5}
			for i := range 3 {
				for o := range s.Out[i] {
					for k := range s.Taps[i] {
						j := o + k - s.Taps[i]/2
						if j < 0 || j >= s.In[i] {
							j = -1
						}
						s.Index[i] = append(s.Index[i], j)
					}
				}
			}
			s.Scale[1] = []float32{1, 2, 1, .5, 1}
			s.Prepare()
			x, scratch := random(uint64(c), s.length, -1, 1), make([]float32, s.ScratchLen())
			y, ok := guarded(t, s.side*(s.side+1)/2)
			p.Gram(y, x, s, scratch)
			ok()
			want, terms := gramOf(s, x)
			for i, v := range want {
				// Products are added in float32 within 256 patches.
				if d := math.Abs(float64(y[i]) - v); !(d <= 256*0x1p-24*terms[i]) {
					t.Fatalf("%d channels [%d]: got %g, want %g", c, i, y[i], v)
				}
			}
		}
	})
}

// gramOf is the reference, with the sums of magnitudes.
func gramOf(s *Gram, x []float32) (sums, terms []float64) {
	sums, terms = make([]float64, s.side*(s.side+1)/2), make([]float64, s.side*(s.side+1)/2)
	cells := s.In[0] * s.In[1] * s.In[2]
	for n := range s.N {
		for at := range s.Out[0] * s.Out[1] * s.Out[2] {
			d, h, l := at/s.Out[2]/s.Out[1], at/s.Out[2]%s.Out[1], at%s.Out[2]
			var patch []float64
			for c := range s.C {
				for k := range s.Taps[2] {
					v := 0.0
					if j := s.Index[2][l*s.Taps[2]+k]; j >= 0 {
						v = float64(x[(n*s.C+c)*cells+(d*s.In[1]+h)*s.In[2]+j])
					}
					patch = append(patch, v*float64(s.Scale[1][h]))
				}
			}
			if s.Ones {
				patch = append(patch, float64(s.Scale[1][h]))
			}
			for i := range patch {
				for j := range i + 1 {
					sums[i*(i+1)/2+j] += patch[i] * patch[j]
					terms[i*(i+1)/2+j] += math.Abs(patch[i] * patch[j])
				}
			}
		}
	}
	return sums, terms
}

// BenchmarkGram is the input factor of a 3×3×3 convolution of 32 channels.
func BenchmarkGram(b *testing.B) {
	p, err := NewPool(1)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	s := &Gram{N: 1, C: 32, In: [3]int{2, 32, 64}, Out: [3]int{2, 32, 64}, Taps: [3]int{3, 3, 3}, Ones: true}
	for i := range 3 {
		for o := range s.Out[i] {
			for k := range 3 {
				j := o + k - 1
				if j >= s.In[i] {
					j = -1
				}
				s.Index[i] = append(s.Index[i], j)
			}
		}
	}
	s.Prepare()
	x, y, scratch := random(1, s.length, -1, 1), make([]float32, s.side*(s.side+1)/2), make([]float32, s.ScratchLen())
	for b.Loop() {
		p.Gram(y, x, s, scratch)
	}
	b.ReportMetric(float64(s.side)*float64(s.side+1)*4096*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
