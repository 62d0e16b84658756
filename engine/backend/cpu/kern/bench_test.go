//go:build cgo && linux

package kern

import (
	"fmt"
	"testing"
)

// BenchmarkKernels reports bytes moved per second (reads and writes of the
// tensors, once each) on tensors of 2 MiB: out of the first caches, as
// activations are.
func BenchmarkKernels(b *testing.B) {
	const n = 1 << 19
	in, k := [3]int{2, 64, 128}, [3]int{1, 2, 2}
	planes := n / volume(in)
	x, y, z, u := random(1, n, 0.1, 2), random(2, n, 0.1, 2), make([]float32, n), random(3, n, 0.1, 2)
	small, arg := make([]float32, n/4), make([]uint8, n/4)
	ch, mid := random(4, 32, 1, 2), Dims{Outer: 8, Mid: 32, Inner: n / 256}
	pad := [3]Padding{{}, {}, {Lo: 1, Hi: 1, Mode: Periodic}}
	padded := make([]float32, n/128*130)
	e, pieces := random(5, n, 0.1, 2), piecesOf([][2]int{{0, n}}, 16384, 0)
	adamw := OptStep{Rule: RuleAdamW, LR: 1e-9, Beta1: 0.9, Beta2: 0.999, Eps: 1, GradScale: 1, EMAWeight: 0.001, Correct1: 1, Correct2: 1,
		Decay: []float32{0}, Ratio: []float32{1}}
	for _, threads := range []int{1, 2} {
		p, err := NewPool(threads)
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		for _, c := range []struct {
			name  string
			bytes int
			run   func()
		}{
			{"relu", 8, func() { p.Unary(ReLU, z, x) }},
			{"relu_grad", 12, func() { p.UnaryGrad(ReLU, z, x, nil, y) }},
			{"exp", 8, func() { p.Unary(Exp, z, x) }},
			{"log", 8, func() { p.Unary(Log, z, x) }},
			{"softplus", 8, func() { p.Unary(Softplus, z, x) }},
			{"erf", 8, func() { p.Unary(Erf, z, x) }},
			{"add", 12, func() { p.Binary(Add, z, x, y) }},
			{"bias", 8, func() { p.Broadcast(Add, z, x, ch, mid, 0, 1, 0) }},
			{"sum", 4, func() { p.Sum(x) }},
			{"dot", 8, func() { p.Dot(x, y) }},
			{"sum_mid", 4, func() { p.SumMid(ch, x, nil, mid) }},
			{"moments", 8, func() { p.MomentsMid(ch, ch, x, mid) }},
			{"crps", 16, func() { p.GaussianCRPS(z, nil, nil, nil, x, y, u) }},
			{"adamw", 28, func() { p.OptUpdate(pieces, &OptArena{W: x, M: y, V: u, G: z}, &adamw) }},
			{"adamw_average", 36, func() { p.OptUpdate(pieces, &OptArena{W: x, M: y, V: u, G: z, E: e}, &adamw) }},
			{"copy", 8, func() { p.CopyRows(z, 4096, x, 4096, n/4096, 4096) }},
			{"pad", 8, func() { p.Pad(padded, x, planes, in, pad) }},
			{"pad_grad", 8, func() { p.PadGrad(z, padded, planes, in, pad) }},
			{"maxpool", 6, func() { p.MaxPool(small, arg, x, planes, in, k) }},
			{"maxpool_grad", 6, func() { p.MaxPoolGrad(z, small, arg, planes, in, k) }},
			{"upsample", 5, func() { p.Upsample(z, small, planes, [3]int{2, 32, 64}, k, true) }},
			{"upsample_grad", 5, func() { p.UpsampleGrad(small, z, planes, [3]int{2, 32, 64}, k, true) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, threads), func(b *testing.B) {
				b.SetBytes(int64(c.bytes * n))
				for b.Loop() {
					c.run()
				}
			})
		}
	}
}

// BenchmarkFork is the cost of handing an empty job to the pool.
func BenchmarkFork(b *testing.B) {
	x := make([]float32, 2*16384)
	for _, threads := range []int{1, 2} {
		p, err := NewPool(threads)
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			for b.Loop() {
				p.Fill(x, 0)
			}
		})
	}
}
