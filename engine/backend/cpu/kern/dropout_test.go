//go:build cgo && linux

package kern

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/rng"
)

// TestDropout: against the stream of package rng, element by element, in both layouts.
func TestDropout(t *testing.T) {
	everyStorage(t, func(t *testing.T, p *Pool, b16 bool, keep func(string, *tensor)) {
		for _, b := range blockedShapes {
			for _, rate := range []float64{0, 0x1p-53, 0.3, 0.5, 1 - 0x1p-53} {
				d := DropoutSpec{Key: rng.Key(7, uint64(b.C)), Threshold: uint64(rate * 0x1p53), Keep: 1.25}
				x := random(1, b.Plain(), 0.5, 1)
				tx, ty := tensorOf(t, b, b16, x), newTensor(t, b, b16)
				p.BlockedDropout(ty.stored(), tx.stored(), d, b)
				ty.ok()
				what := fmt.Sprint("blocked ", b, rate)
				keep(what, ty)
				y, ok := guarded(t, len(x))
				p.Dropout(y, x, d)
				ok()
				for i := range x {
					want, plain := float64(tx.at(i))*1.25, x[i]*1.25
					if rng.Uniform(d.Key, uint64(i)) < rate {
						want, plain = 0, 0
					}
					rounded(t, what, i, b16, ty.at(i), want, 0x1p-24)
					if y[i] != plain {
						t.Fatalf("%+v, rate %g [%d]: got %g, want %g", b, rate, i, y[i], plain)
					}
				}
				p.BlockedDropout(tx.stored(), tx.stored(), d, b) // in place
				for k := range b.Len() {
					if tx.raw(k) != ty.raw(k) {
						t.Fatalf("%+v, rate %g in place [%d]: got %g, want %g", b, rate, k, tx.raw(k), ty.raw(k))
					}
				}
			}
		}
	})
}

func BenchmarkDropout(b *testing.B) {
	p, err := NewPool(1)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	s := Blocked{1, 224, [3]int{2, 32, 32}}
	x := make([]float32, s.Len())
	d := DropoutSpec{Key: 1, Threshold: 1 << 51, Keep: 4. / 3}
	for name, run := range map[string]func(){
		"plain": func() { p.Dropout(x, x, d) }, "blocked": func() { p.BlockedDropout(Float32(x), Float32(x), d, s) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(8 * len(x)))
			for b.Loop() {
				run()
			}
		})
	}
}
