package topk

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// BenchmarkSelect is a step on one rank: selection and residual of a bucket of a million values.
func BenchmarkSelect(b *testing.B) {
	const n = 1 << 20
	for _, density := range []float64{0.01, 0.05} {
		b.Run(fmt.Sprint(density), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 3))
			base, x := make([]float32, n), make([]float32, n)
			for i := range base {
				base[i] = float32(rng.NormFloat64() * rng.ExpFloat64())
			}
			r, err := New(n, Options{Density: density})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(4 * n)
			err = comm.Run(1, comm.Parallel, func(c *comm.Comm) error {
				for range b.N {
					copy(x, base)
					if _, err := r.Sum(c, comm.Parts[float32]{x}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}
