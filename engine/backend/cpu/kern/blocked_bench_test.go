//go:build cgo && linux

package kern

import (
	"fmt"
	"testing"
)

// BenchmarkBlocked reports bytes moved per second (reads and writes of the
// tensors, once each; a tensor that is added to counts twice) in both storages
// on a tensor of 64 channels at 2×128²: 8 MiB of float32, beyond the second
// cache. The plain copy of the same run is the reference rate.
func BenchmarkBlocked(b *testing.B) {
	fine, k := Blocked{1, 64, [3]int{2, 128, 128}}, [3]int{1, 2, 2}
	coarse, wide := fine.windows(k), Blocked{1, 96, fine.S}
	n, nc := fine.Len(), coarse.Len()
	plain, copied := random(1, n, -1, 1), make([]float32, n)
	half := make([]uint16, n)
	a, ch := random(2, fine.C, 1, 2), make([]float32, fine.C)
	for _, b16 := range []bool{false, true} {
		size := 4
		tensor := func(d Blocked, seed uint64) Stored { return Float32(random(seed, d.Len(), -1, 1)) }
		if b16 {
			size = 2
			tensor = func(d Blocked, seed uint64) Stored {
				h := make([]uint16, d.Len())
				(*Pool)(nil).Convert(BFloat16(h), Float32(random(seed, d.Len(), -1, 1)))
				return BFloat16(h)
			}
		}
		x, y, z, gate := tensor(fine, 1), tensor(fine, 2), tensor(fine, 3), tensor(fine, 7)
		s, ds, w := tensor(coarse, 4), tensor(coarse, 5), tensor(wide, 6)
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
				{"copy", 8 * n, func() { p.CopyRows(copied, 4096, plain, 4096, n/4096, 4096) }},
				{"block", (4 + size) * n, func() { p.Block(x, fine, plain, 0, fine.C) }},
				{"unblock", (4 + size) * n, func() { p.Unblock(copied, x, fine, 0, fine.C) }},
				{"copy_blocks", 2 * size * n, func() { p.CopyChannels(w, wide, 32, x, fine, 0, 64) }},
				{"copy_lanes", 2 * size * n, func() { p.CopyChannels(w, wide, 5, x, fine, 0, 64) }},
				{"add_lanes", 3 * size * n, func() { p.AddChannels(x, fine, 0, w, wide, 5, 64) }},
				{"add", 3 * size * n, func() { p.AddStored(z, StoredSum{A: x, B: y}) }},
				{"add_gate", 4 * size * n, func() { p.AddStored(z, StoredSum{A: x, B: y, Gate: gate}) }},
				{"relu", 2 * size * n, func() { p.AddStored(z, StoredSum{A: x, ReLU: true}) }},
				{"maxpool", size * (n + nc), func() { p.BlockedWindow(Maximum, s, x, fine, k) }},
				{"maxpool_grad", size * (2*n + nc), func() { p.BlockedWindowGrad(Maximum, z, s, x, fine, k, 0) }},
				{"maxpool_grad_add_gate", size * (3*n + nc), func() { p.BlockedWindowGrad(Maximum, z, s, x, fine, k, Accumulate|Gated) }},
				{"meanpool", size * (n + nc), func() { p.BlockedWindow(Mean, s, x, fine, k) }},
				{"upsample", size * (n + nc), func() { p.BlockedUpsample(z, s, coarse, k, true) }},
				{"upsample_grad", size * (n + nc), func() { p.BlockedUpsampleGrad(s, z, Stored{}, coarse, k, true, 0) }},
				{"upsample_grad_gate", size * (n + 2*nc), func() { p.BlockedUpsampleGrad(s, z, ds, coarse, k, true, Gated) }},
				{"sum", size * n, func() { p.BlockedSums(ch, nil, x, Stored{}, Gate{}, fine) }},
				{"sum_dot_gate", 2 * size * n, func() { p.BlockedSums(ch, ch, x, y, Gate{a, a}, fine) }},
				{"moments", size * n, func() { p.BlockedMoments(ch, ch, x, fine) }},
				{"affine_relu", 2 * size * n, func() { p.BlockedAffine(z, x, a, a, fine, true) }},
				{"combine_gate", 3 * size * n, func() { p.BlockedCombine(z, x, y, Gate{a, a}, a, a, a, fine) }},
				{"narrow", 6 * n, func() { p.Convert(BFloat16(half), Float32(plain)) }},
				{"widen", 6 * n, func() { p.Convert(Float32(copied), BFloat16(half)) }},
			} {
				b.Run(fmt.Sprintf("%s/%s/%d", []string{"f32", "bf16"}[4/size-1], c.name, threads), func(b *testing.B) {
					b.SetBytes(int64(c.bytes))
					for b.Loop() {
						c.run()
					}
				})
			}
		}
	}
}
