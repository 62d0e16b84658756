//go:build cgo && linux

package kern

import (
	"math"
	"testing"
)

// Sums of products along runs of each row, against float64, with rows that no run meets.
func TestProducts(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, row := range []int{1, 7, 33, 720} {
			const rows = 6
			outer := [3]ProductAxis{{2, 3 * rows * row, 0, 5 * row}, {3, rows * row, 11 * row, 0}, {4, 0, 2 * row, 3 * row}}
			var runs []ProductRun
			for r := range rows - 1 { // the last row has none
				runs = append(runs, ProductRun{r * row, r * row / 2, (r + 1) * row / 3, row}, ProductRun{r*row + row/2, row, 2 * row, row - row/2})
			}
			plan := NewProducts(outer, rows, row, runs)
			a, b := random(1, plan.a, -1, 1), random(2, plan.b, -1, 1)
			z, ok := guarded(t, plan.z)
			want, terms := make([]float64, len(z)), make([]float64, len(z))
			for i := range outer[0].N {
				for j := range outer[1].N {
					for k := range outer[2].N {
						for _, r := range runs {
							for n := range r.N {
								at := i*outer[0].Z + j*outer[1].Z + r.Z + n
								v := float64(a[i*outer[0].A+j*outer[1].A+k*outer[2].A+r.A+n]) * float64(b[i*outer[0].B+j*outer[1].B+k*outer[2].B+r.B+n])
								want[at] += v
								terms[at] += math.Abs(v)
							}
						}
					}
				}
			}
			p.Products(z, a, b, plan)
			ok()
			for i := range z {
				// At most eight products a value, each rounded once or twice.
				if d := math.Abs(float64(z[i]) - want[i]); !(d <= 16*0x1p-24*terms[i]) {
					t.Fatalf("rows of %d [%d]: got %g, want %g", row, i, z[i], want[i])
				}
			}
		}
	})
}
