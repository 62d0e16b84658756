//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"testing"
)

// Result and gradients of standardised points are those of plain sums in float64, for points that fill no vector, channels that fill
// no strip, and a mean that is far larger than what differs.
func TestPointNorm(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, n := range []PointNorm{{2, 5, 37, 1e-5}, {3, 32, 600, 1e-5}, {1, 700, 19, 1e-3}, {4, 1, 3, 1e-5}} {
			size := n.Rows * n.Channels * n.Points
			x, dy := random(1, size, 9, 11), random(2, size, -1, 1)
			gamma, beta := random(3, n.Channels, 0.5, 2), random(4, n.Channels, -1, 1)
			wantY, wantX, wantSums := make([]float64, size), make([]float64, size), make([]float64, 2*n.Channels)
			for i := range n.Rows * n.Points {
				at := func(k int) int { return i/n.Points*n.Channels*n.Points + k*n.Points + i%n.Points }
				var mean, variance, sum, dot float64
				c := float64(n.Channels)
				for k := range n.Channels {
					mean += float64(x[at(k)]) / c
				}
				for k := range n.Channels {
					variance += math.Pow(float64(x[at(k)])-mean, 2) / c
				}
				unit := func(k int) float64 { return (float64(x[at(k)]) - mean) / math.Sqrt(variance+n.Eps) }
				slope := func(k int) float64 { return float64(dy[at(k)]) * float64(gamma[k]) }
				for k := range n.Channels {
					wantY[at(k)] = unit(k)*float64(gamma[k]) + float64(beta[k])
					sum += slope(k) / c
					dot += slope(k) * unit(k) / c
					wantSums[k] += float64(dy[at(k)])
					wantSums[n.Channels+k] += float64(dy[at(k)]) * unit(k)
				}
				for k := range n.Channels {
					wantX[at(k)] = (slope(k) - sum - unit(k)*dot) / math.Sqrt(variance+n.Eps)
				}
			}
			check := func(name string, got []float32, want []float64, tolerance float64) {
				for i := range want {
					if d := math.Abs(float64(got[i]) - want[i]); d > tolerance*(1+math.Abs(want[i])) {
						t.Fatalf("%+v: %s [%d]: got %v, want %v", n, name, i, got[i], want[i])
					}
				}
			}
			y, ok := guarded(t, size)
			p.PointNorm(y, x, gamma, beta, n)
			ok()
			// A float32 sum of c values of 10 moves their mean by up to 10·c/2·2⁻²⁴, in standard deviations of 0.58, times gamma, 1e-6·c.
			mean := 1e-6 * float64(n.Channels)
			check("result", y, wantY, 2e-5+mean)
			p.PointNormGrad(y, x, dy, gamma, n)
			ok()
			check("gradient", y, wantX, 5e-5+mean)
			sums, ok := guarded(t, 2*n.Channels)
			p.PointNormSums(sums, x, dy, make([]float32, n.ScratchLen()), n)
			ok()
			check("sums", sums, wantSums, 2e-5+mean)
		}
	})
}

// BenchmarkPointNorm reports bytes read and written, once each, on fields that no first cache holds.
func BenchmarkPointNorm(b *testing.B) {
	p, err := NewPool(1)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	n := PointNorm{6, 32, 64 * 128, 1e-5}
	size := n.Rows * n.Channels * n.Points
	x, dy, y, gamma, scratch := random(1, size, -1, 1), random(2, size, -1, 1), make([]float32, size), random(3, n.Channels, 0, 1), make([]float32, n.ScratchLen())
	for _, c := range []struct {
		name   string
		fields int
		run    func()
	}{
		{"result", 2, func() { p.PointNorm(y, x, gamma, gamma, n) }},
		{"gradient", 3, func() { p.PointNormGrad(y, x, dy, gamma, n) }},
		{"sums", 2, func() { p.PointNormSums(y[:2*n.Channels], x, dy, scratch, n) }},
	} {
		b.Run(fmt.Sprint(c.name), func(b *testing.B) {
			b.SetBytes(int64(4 * c.fields * size))
			for b.Loop() {
				c.run()
			}
		})
	}
}
