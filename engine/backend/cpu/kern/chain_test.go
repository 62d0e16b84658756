//go:build cgo && linux

package kern

import (
	"fmt"
	"math"
	"testing"
)

// sameBits fails unless both tensors have the same bits, or both NaN.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, v := range got {
		if math.Float32bits(v) != math.Float32bits(want[i]) && !(v != v && want[i] != want[i]) {
			t.Fatalf("%s[%d]: got %g, want %g", what, i, v, want[i])
		}
	}
}

// TestChainLinks: every function gives in a chain the bits that it gives alone,
// behind another link and into a register as well as alone and into the result.
func TestChainLinks(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, n := range lengths {
			a, b, c := random(uint64(n), n, -3, 3), random(uint64(n)+1, n, 0.1, 2), random(uint64(n)+2, n, -3, 3)
			a[0], b[n/2] = 0, 0
			x := []Stored{Float32(a), Float32(b), Float32(c)}
			want := make([]float32, n)
			check := func(name string, f ChainFunc, operands int, alone func()) {
				args, scale, shift := []int{0, 1, 2}[:operands], float32(1.7), float32(-0.3)
				alone()
				one := NewChain(n, false, make([]ChainOperand, 3), []ChainLink{{F: f, Args: args, Scale: scale, Shift: shift}})
				got, ok := guarded(t, n)
				p.Chain(one, Float32(got), x)
				ok()
				sameBits(t, name, got, want)
				// −(−f) through two registers
				neg := ChainUnary(Neg)
				more := NewChain(n, false, make([]ChainOperand, 3),
					[]ChainLink{{F: f, Args: args, Scale: scale, Shift: shift}, {F: neg, Args: []int{3}}, {F: neg, Args: []int{4}}})
				p.Chain(more, Float32(got), x)
				ok()
				sameBits(t, name+" behind others", got, want)
			}
			for _, u := range unaryTwin {
				check(u.name, ChainUnary(u.f), 1, func() { p.Unary(u.f, want, a) })
				check(u.name+" gradient", ChainGrad(u.f), 2, func() { p.UnaryGrad(u.f, want, b, a, a) })
			}
			for _, u := range binaryTwin {
				check(u.name, ChainBinary(u.op), 2, func() { p.Binary(u.op, want, a, b) })
			}
			check("affine", ChainAffine, 1, func() { p.Affine(want, a, 1.7, -0.3) })
			check("crps", ChainCRPS, 3, func() { p.GaussianCRPS(want, nil, nil, nil, a, b, c) })
			check("crps dmu", ChainCRPSdMu, 3, func() { p.GaussianCRPS(nil, want, nil, nil, a, b, c) })
			check("crps dsigma", ChainCRPSdSigma, 3, func() { p.GaussianCRPS(nil, nil, want, nil, a, b, c) })
			check("safe_div", ChainSafeDiv, 2, func() {
				p.Binary(Div, want, a, b)
				want[n/2] = 0
			})
		}
	})
}

// TestChainOperands: operands stretched along any axes, in rows that are shorter
// and longer than a strip, over an operand and beside it.
func TestChainOperands(t *testing.T) {
	sum := []ChainLink{{F: ChainBinary(Add), Args: []int{0, 1}}}
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, c := range []struct {
			o    ChainOperand
			read int // values of the operand
		}{
			{ChainOperand{[]int{2100}, []int{0}}, 1},
			{ChainOperand{[]int{3, 700}, []int{700, 1}}, 2100},
			{ChainOperand{[]int{3, 700}, []int{0, 1}}, 700},
			{ChainOperand{[]int{3, 700}, []int{1, 0}}, 3},
			{ChainOperand{[]int{2, 3, 1400}, []int{1, 0, 0}}, 2},
			{ChainOperand{[]int{5, 3, 4, 5, 7}, []int{20, 0, 5, 1, 0}}, 100},
			{ChainOperand{[]int{2, 3, 70, 16}, []int{0, 16, 0, 1}}, 48},
			{ChainOperand{[]int{40000, 3}, []int{1, 0}}, 40000},
		} {
			n := 1
			for _, d := range c.o.Dims {
				n *= d
			}
			x, y, want := random(1, n, -1, 1), random(2, c.read, -1, 1), make([]float32, n)
			for i := range want {
				at, rest := 0, i
				for k := len(c.o.Dims) - 1; k >= 0; k-- {
					at += rest % c.o.Dims[k] * c.o.Steps[k]
					rest /= c.o.Dims[k]
				}
				want[i] = x[i] + y[at]
			}
			chain := NewChain(n, false, []ChainOperand{{}, c.o}, sum)
			got, ok := guarded(t, n)
			p.Chain(chain, Float32(got), []Stored{Float32(x), Float32(y)})
			ok()
			sameBits(t, fmt.Sprint(c.o), got, want)
			p.Chain(chain, Float32(x), []Stored{Float32(x), Float32(y)})
			sameBits(t, fmt.Sprint(c.o, " in place"), x, want)
		}
	})
}

// TestChainStored: bfloat16 is read exactly, and rounded once at the end.
func TestChainStored(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, n := range lengths {
			x, y := make([]uint16, n), make([]uint16, n)
			a := random(uint64(n), n, -1, 1)
			p.Convert(BFloat16(x), Float32(a))
			p.Convert(Float32(a), BFloat16(x))
			third := []float32{1.0 / 3}
			p.Chain(NewChain(n, true, []ChainOperand{{}, {[]int{n}, []int{0}}}, []ChainLink{
				{F: ChainBinary(Mul), Args: []int{0, 1}}, {F: ChainUnary(Square), Args: []int{2}}, {F: ChainBinary(Add), Args: []int{3, 0}},
			}), BFloat16(y), []Stored{BFloat16(x), Float32(third)})
			want, want16 := make([]float32, n), make([]uint16, n)
			p.Affine(want, a, third[0], 0)
			p.Unary(Square, want, want)
			p.Binary(Add, want, want, a)
			p.Convert(BFloat16(want16), Float32(want))
			for i := range y {
				if y[i] != want16[i] {
					t.Fatalf("[%d]: got %04x, want %04x", i, y[i], want16[i])
				}
			}
		}
	})
}

// TestChainRegisters: a chain of the greatest length in which as many results as
// can be are alive at one time.
func TestChainRegisters(t *testing.T) {
	const n = 1000
	x := random(1, n, 0.5, 1)
	var links []ChainLink
	half := MaxChain / 2
	for k := range half {
		links = append(links, ChainLink{F: ChainAffine, Args: []int{0}, Scale: 1, Shift: float32(k)})
	}
	last := 1
	for k := 1; k < half; k++ {
		links = append(links, ChainLink{F: ChainBinary(Mul), Args: []int{last, half - k + 1}})
		last = len(links)
	}
	links = append(links, ChainLink{F: ChainUnary(Neg), Args: []int{last}})
	want := make([]float32, n)
	for i, v := range x {
		w := v
		for k := 1; k < half; k++ {
			w *= v + float32(half-k)
		}
		want[i] = -w
	}
	everywhere(t, func(t *testing.T, p *Pool) {
		got, ok := guarded(t, n)
		p.Chain(NewChain(n, false, make([]ChainOperand, 1), links), Float32(got), []Stored{Float32(x)})
		ok()
		sameBits(t, "product", got, want)
	})
}

// BenchmarkChain compares a gate of a recurrent network, f·c + i·g with three
// functions before, and an affine map with stretched operands, in one sweep and
// operation by operation; bytes are those of the sweep.
func BenchmarkChain(b *testing.B) {
	const n, channels = 1 << 19, 32
	in := make([]Stored, 4)
	raw := make([][]float32, 4)
	for i := range in {
		raw[i] = random(uint64(i), n, -2, 2)
		in[i] = Float32(raw[i])
	}
	s, t, u, y := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	gate := NewChain(n, false, make([]ChainOperand, 4), []ChainLink{
		{F: ChainUnary(Sigmoid), Args: []int{0}}, {F: ChainBinary(Mul), Args: []int{4, 1}}, {F: ChainUnary(Sigmoid), Args: []int{2}},
		{F: ChainUnary(Tanh), Args: []int{3}}, {F: ChainBinary(Mul), Args: []int{6, 7}}, {F: ChainBinary(Add), Args: []int{5, 8}},
	})
	slope, shift := random(5, channels, 1, 2), random(6, channels, 1, 2)
	mid := Dims{Outer: 4, Mid: channels, Inner: n / channels / 4}
	per := ChainOperand{[]int{mid.Outer, mid.Mid, mid.Inner}, []int{0, 1, 0}}
	line := NewChain(n, false, []ChainOperand{{}, per, per, {}}, []ChainLink{
		{F: ChainBinary(Mul), Args: []int{0, 1}}, {F: ChainBinary(Add), Args: []int{4, 2}}, {F: ChainBinary(Add), Args: []int{5, 3}},
		{F: ChainUnary(ReLU), Args: []int{6}},
	})
	lineIn := []Stored{in[0], Float32(slope), Float32(shift), in[1]}
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
			{"gate/chain", 20, func() { p.Chain(gate, Float32(y), in) }},
			{"gate/alone", 20, func() {
				p.Unary(Sigmoid, s, raw[0])
				p.Binary(Mul, s, s, raw[1])
				p.Unary(Sigmoid, t, raw[2])
				p.Unary(Tanh, u, raw[3])
				p.Binary(Mul, t, t, u)
				p.Binary(Add, y, s, t)
			}},
			{"line/chain", 12, func() { p.Chain(line, Float32(y), lineIn) }},
			{"line/alone", 12, func() {
				p.Broadcast(Mul, s, raw[0], slope, mid, 0, 1, 0)
				p.Broadcast(Add, s, s, shift, mid, 0, 1, 0)
				p.Binary(Add, s, s, raw[1])
				p.Unary(ReLU, y, s)
			}},
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
