package optim

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// BenchmarkStep measures a step on the 17 million parameters of a U-Net with base 32. It reports
// bytes/s, each array of the step counted once.
func BenchmarkStep(b *testing.B) {
	const side = 1030
	lay := func() *engine.Store {
		return laidOut(b, []string{"a", "b"}, nil, []graph.Shape{{8, side, side}, {8, side, side}}, nil)
	}
	for _, threads := range []int{1, 2} {
		for _, c := range []struct {
			name   string
			o      Options
			arrays int64
		}{
			{"sgd", Options{Kind: SGD, Momentum: 0.9}, 3}, {"adamw", Options{Kind: AdamW}, 4}, {"adamw_average", Options{Kind: AdamW, EMA: 0.999}, 5},
			{"lars", Options{Kind: LARS, Momentum: 0.9}, 3}, {"lamb", Options{Kind: LAMB}, 4},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, threads), func(b *testing.B) {
				s := lay()
				c.o.Threads = threads
				if c.o.EMA > 0 {
					c.o.Average = lay()
				}
				p, err := New(s, c.o)
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				for i := range s.Grads() {
					s.Grads()[i] = float32(i%7 - 3)
				}
				b.SetBytes(c.arrays * 4 * int64(len(s.Params())))
				for b.Loop() {
					if _, err := p.Step(1e-6); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
