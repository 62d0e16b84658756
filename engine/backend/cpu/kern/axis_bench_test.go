//go:build cgo && linux

package kern

import "testing"

// axisCases are attention along each axis of a field of 64×128 points, six leads and 32 channels in four heads, within windows of 8.
func axisCases() map[string]Axis {
	const leads, h, w, channels = 6, 64, 128, 32
	windows := func(n int) (of []int) {
		for at := 0; at < n; at += 8 {
			of = append(of, (at+4)%n, 8)
		}
		return of
	}
	around := func(n int) []int { // as those that are shifted
		of := windows(n)
		return append([]int{0, 4}, append(of[:len(of)-2], n-4, 4)...)
	}
	a := Axis{PerRow: 1, RowStride: 1, Channels: channels, Plane: h * w, Heads: 4, Reach: 7}
	lead, lat, lon, whole := a, a, a, a
	lead.Blocks, lead.RowStride, lead.Width, lead.LineStride, lead.ElemRows, lead.Length, lead.Windows = 1, leads, h*w, 1, 1, leads, []int{0, leads}
	lat.Blocks, lat.Width, lat.LineStride, lat.ElemPoints, lat.Length, lat.Windows = leads, w, 1, w, h, around(h)
	lon.Blocks, lon.Width, lon.LineStride, lon.ElemPoints, lon.Length, lon.Windows = leads, h, w, 1, w, windows(w)
	whole = lon
	whole.Windows = []int{0, w}
	return map[string]Axis{"lead": lead, "lat": lat, "lon": lon, "whole": whole}
}

// BenchmarkAxis reports the rate of the products that attention along an axis and its gradients need: two for the result,
// five for the gradient by queries, keys and values, and two for that by weights of offsets.
func BenchmarkAxis(b *testing.B) {
	p, err := NewPool(1)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for _, name := range []string{"lead", "lat", "lon", "whole"} {
		a, pairs := axisCases()[name], 0
		n := a.Channels * a.Blocks * a.Width * a.Length
		for i := 1; i < len(a.Windows); i += 2 {
			pairs += a.Blocks * a.Width * a.Windows[i] * a.Windows[i] * a.Channels
		}
		x, dy, offsets, y := random(1, 3*n, -2, 2), random(2, n, -1, 1), random(3, a.Heads*(2*a.Reach+1), -1, 1), make([]float32, 3*n)
		scratch := make([]float32, a.ScratchLen(AxisGradBias, 1))
		for _, c := range []struct {
			part     string
			of       AxisPart
			values   int
			products int
		}{{"result", AxisResult, n, 2}, {"gradient", AxisGrad, 3 * n, 5}, {"offsets", AxisGradBias, len(offsets), 2}} {
			b.Run(name+"/"+c.part, func(b *testing.B) {
				for b.Loop() {
					p.Axis(c.of, y[:c.values], x, offsets, dy, scratch, a)
				}
				b.ReportMetric(2*float64(c.products*pairs)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
