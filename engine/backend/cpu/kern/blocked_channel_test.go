//go:build cgo && linux

package kern

import (
	"math"
	"slices"
	"testing"
)

// channelShapes reach one part and many, one round of blocks and two.
var channelShapes = []Blocked{
	{1, 1, [3]int{1, 1, 1}}, {3, 15, [3]int{1, 5, 7}}, {2, 17, [3]int{2, 23, 31}}, {1, 40, [3]int{2, 30, 36}}, {2, 4200, [3]int{1, 1, 3}},
}

func TestBlockedSums(t *testing.T) {
	everyStorage(t, func(t *testing.T, p *Pool, b16 bool, keep func(string, *tensor)) {
		for _, b := range channelShapes {
			x := tensorOf(t, b, b16, random(1, b.Plain(), -1, 3))
			z := tensorOf(t, b, b16, random(2, b.Plain(), 0.5, 1))
			open := Gate{random(3, b.C, 1, 2), random(4, b.C, -2, 0)} // z is at least 0.5
			for _, gate := range []bool{false, true} {
				s, d, q := make([]float64, b.C), make([]float64, b.C), make([]float64, b.C)
				for i := range b.Plain() {
					if c := i / b.Cells() % b.C; !gate || open.Scale[c]*z.at(i)+open.Shift[c] > 0 {
						s[c] += float64(x.at(i))
						d[c] += float64(x.at(i)) * float64(z.at(i))
					}
				}
				n := float64(b.N * b.Cells())
				gated := Gate{}
				if gate {
					gated = open
				} else {
					for i := range b.Plain() {
						c := i / b.Cells() % b.C
						q[c] += math.Pow(float64(x.at(i))-s[c]/n, 2) / n
					}
				}
				sum, ok := guarded(t, b.C)
				dot, ok2 := guarded(t, b.C)
				p.BlockedSums(sum, dot, x.stored(), z.stored(), gated, b)
				ok()
				ok2()
				alone := slices.Clone(sum)
				if !gate {
					p.BlockedSums(alone, nil, x.stored(), Stored{}, Gate{}, b)
				}
				// The same bits for every number of threads: the sums are a tensor of their own.
				keep(shapeKey("sums", b, gate), tensorOf(t, Blocked{1, b.C, [3]int{1, 1, 1}}, false, sum))
				for c := range b.C {
					near(t, "sum", c, sum[c], s[c], 1e-7) // rounded once
					near(t, "dot", c, dot[c], d[c], 1e-7)
					if alone[c] != sum[c] {
						t.Fatalf("sum alone [%d]: got %g, want %g", c, alone[c], sum[c])
					}
				}
				if gate {
					continue
				}
				p.BlockedMoments(sum, dot, x.stored(), b)
				ok()
				ok2()
				keep(shapeKey("moments", b, gate), tensorOf(t, Blocked{1, b.C, [3]int{1, 1, 1}}, false, dot))
				for c := range b.C {
					near(t, "mean", c, sum[c], s[c]/n, 1e-7)
					near(t, "variance", c, dot[c], q[c], 1e-7)
				}
			}
		}
	})
}

func shapeKey(what string, b Blocked, gate bool) string {
	if gate {
		what += " gated"
	}
	return what + string(rune(b.C))
}

// A variance next to a large mean keeps its digits, whatever stands first.
func TestBlockedMomentsLargeMean(t *testing.T) {
	b := Blocked{1, 3, [3]int{1, 1, 5000}}
	v := random(1, b.Plain(), 100000, 100001)
	v[5000] = -3e5 // the first value of channel 1 is far from all others
	v[10000] = float32(math.Inf(1))
	var p *Pool
	mean, variance := make([]float32, 3), make([]float32, 3)
	p.BlockedMoments(mean, variance, tensorOf(t, b, false, v).stored(), b)
	for c := range 2 {
		x := v[c*5000 : (c+1)*5000]
		var s, q float64
		for _, v := range x {
			s += float64(v) / 5000
		}
		for _, v := range x {
			q += (float64(v) - s) * (float64(v) - s) / 5000
		}
		near(t, "mean", c, mean[c], s, 1e-7)
		near(t, "variance", c, variance[c], q, 1e-6)
	}
	near(t, "mean", 2, mean[2], math.Inf(1), 0)
	near(t, "variance", 2, variance[2], math.NaN(), 0)
}

func TestBlockedNorm(t *testing.T) {
	everyStorage(t, func(t *testing.T, p *Pool, b16 bool, keep func(string, *tensor)) {
		for _, d := range channelShapes[:4] {
			x := tensorOf(t, d, b16, random(1, d.Plain(), -1, 1))
			y := tensorOf(t, d, b16, random(2, d.Plain(), -1, 1))
			open := Gate{random(3, d.C, 1, 2), random(7, d.C, -1, 1)}
			a, b, c := random(4, d.C, 1, 2), random(5, d.C, -2, 2), random(6, d.C, -1, 1)
			for _, relu := range []bool{false, true} {
				z := newTensor(t, d, b16)
				p.BlockedAffine(z.stored(), x.stored(), a, c, d, relu)
				keep(shapeKey("affine", d, relu), z)
				gate := Gate{}
				if relu {
					gate = open
				}
				u := newTensor(t, d, b16)
				p.BlockedCombine(u.stored(), x.stored(), y.stored(), gate, a, b, c, d)
				keep(shapeKey("combine", d, relu), u)
				for i := range d.Plain() {
					m := i / d.Cells() % d.C
					want := float64(a[m])*float64(x.at(i)) + float64(c[m])
					if relu {
						want = max(want, 0)
					}
					rounded(t, "affine", i, b16, z.at(i), want, 5e-7)
					want = float64(b[m])*float64(y.at(i)) + float64(c[m])
					if !relu || open.Scale[m]*y.at(i)+open.Shift[m] > 0 {
						want += float64(a[m]) * float64(x.at(i))
					}
					rounded(t, "combine", i, b16, u.at(i), want, 5e-7)
				}
				in := tensorOf(t, d, b16, x.plain())
				p.BlockedCombine(in.stored(), in.stored(), y.stored(), gate, a, b, c, d)
				for k := range d.Len() {
					if in.raw(k) != u.raw(k) {
						t.Fatalf("combine in place [%d]: got %g, want %g", k, in.raw(k), u.raw(k))
					}
				}
			}
		}
		// ReLU keeps NaN.
		d := Blocked{1, 1, [3]int{1, 1, 1}}
		x := tensorOf(t, d, b16, []float32{float32(math.NaN())})
		p.BlockedAffine(x.stored(), x.stored(), []float32{1}, []float32{1}, d, true)
		if v := x.at(0); v == v {
			t.Errorf("ReLU of NaN: got %g", v)
		}
	})
}
