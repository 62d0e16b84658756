//go:build cgo && linux

package kern

import (
	"math"
	"testing"
)

// The functions and their derivatives in float64, and an interval to try.
var unaryTwin = []struct {
	f      Unary
	name   string
	lo, hi float64
	y, dy  func(x float64) float64
	tol    float64 // of the derivative where it is taken from a rounded y
}{
	{ReLU, "relu", -2, 2, func(x float64) float64 { return math.Max(x, 0) }, func(x float64) float64 { return step(x) }, ulp4},
	{Exp, "exp", -20, 20, math.Exp, math.Exp, ulp4},
	{Log, "log", 1e-6, 50, math.Log, func(x float64) float64 { return 1 / x }, ulp4},
	{Sqrt, "sqrt", 1e-6, 50, math.Sqrt, func(x float64) float64 { return 0.5 / math.Sqrt(x) }, ulp4},
	{Square, "square", -9, 9, func(x float64) float64 { return x * x }, func(x float64) float64 { return 2 * x }, ulp4},
	{Abs, "abs", -9, 9, math.Abs, func(x float64) float64 { return step(x) - step(-x) }, ulp4},
	{Neg, "neg", -9, 9, func(x float64) float64 { return -x }, func(float64) float64 { return -1 }, ulp4},
	{Reciprocal, "reciprocal", 0.1, 9, func(x float64) float64 { return 1 / x }, func(x float64) float64 { return -1 / (x * x) }, ulp4},
	{Softplus, "softplus", -60, 60, func(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }, logistic, ulp4},
	// 1−y loses digits where y is near 1: relative to the value 6e-8/(1−y), at 4 that is 3e-6.
	{Sigmoid, "sigmoid", -30, 4, logistic, func(x float64) float64 { return logistic(x) * logistic(-x) }, 4e-6},
	{Tanh, "tanh", -3, 3, math.Tanh, func(x float64) float64 { return 1 / (math.Cosh(x) * math.Cosh(x)) }, 2e-5},
	{Erf, "erf", -5, 5, math.Erf, func(x float64) float64 { return 2 / math.Sqrt(math.Pi) * math.Exp(-x*x) }, ulp4},
}

func step(x float64) float64 {
	if x > 0 {
		return 1
	}
	return 0
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func TestUnary(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, c := range unaryTwin {
			for _, n := range lengths {
				x := random(uint64(n), n, c.lo, c.hi)
				dy := random(uint64(n)+1, n, 0.5, 2)
				y, ok := guarded(t, n)
				p.Unary(c.f, y, x)
				ok()
				dx, ok := guarded(t, n)
				p.UnaryGrad(c.f, dx, dy, x, y)
				ok()
				for i := range x {
					near(t, c.name, i, y[i], c.y(float64(x[i])), ulp4)
					near(t, c.name+" gradient", i, dx[i], float64(dy[i])*c.dy(float64(x[i])), c.tol)
				}
				p.Unary(c.f, x, x) // in place
				for i := range x {
					if x[i] != y[i] {
						t.Fatalf("%s in place [%d]: got %g, want %g", c.name, i, x[i], y[i])
					}
				}
			}
		}
	})
}

// The ends of the range: infinities, NaN, zero, tiny arguments.
func TestUnaryLimits(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, c := range unaryTwin {
			x := []float32{float32(nan), float32(inf), 0, 1e-7, 3e-20, 88, 100}
			if c.lo < 0 {
				x = append(x, float32(-inf), -1e-7, -88, -100, -200)
			}
			for len(x) < 40 { // reach the vector loop, not its tail alone
				x = append(x, x[len(x)-5])
			}
			y := make([]float32, len(x))
			p.Unary(c.f, y, x)
			for i, v := range x {
				want := c.y(float64(v))
				if c.f == ReLU && v != v {
					want = nan
				}
				near(t, c.name, i, y[i], want, ulp4)
			}
		}
		y := make([]float32, 20)
		x := make([]float32, 20)
		for i := range x {
			x[i] = -1
		}
		p.Unary(Log, y, x)
		near(t, "log of -1", 0, y[0], nan, 0)
		near(t, "log of -1", 19, y[19], nan, 0)
	})
}

var binaryTwin = []struct {
	op   Binary
	name string
	f    func(a, b float64) float64
}{
	{Add, "add", func(a, b float64) float64 { return a + b }},
	{Sub, "sub", func(a, b float64) float64 { return a - b }},
	{Mul, "mul", func(a, b float64) float64 { return a * b }},
	{Div, "div", func(a, b float64) float64 { return a / b }},
	{Min, "min", math.Min},
	{Max, "max", math.Max},
	{RSub, "rsub", func(a, b float64) float64 { return b - a }},
	{RDiv, "rdiv", func(a, b float64) float64 { return b / a }},
}

func TestBinary(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, c := range binaryTwin {
			for _, n := range lengths {
				a, b := random(1, n, 1, 2), random(2, n, -4, -3)
				y, ok := guarded(t, n)
				p.Binary(c.op, y, a, b)
				ok()
				for i := range y {
					near(t, c.name, i, y[i], c.f(float64(a[i]), float64(b[i])), ulp4)
				}
				p.Binary(c.op, b, a, b) // in place
				for i := range y {
					if b[i] != y[i] {
						t.Fatalf("%s in place [%d]: got %g, want %g", c.name, i, b[i], y[i])
					}
				}
			}
		}
	})
}

func TestBroadcast(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, d := range []Dims{{5, 6, 7}, {3, 1, 2000}, {2, 40, 53}, {1, 1, 20001}, {700, 3, 1}} {
			a := random(1, d.Len(), 1, 2)
			for _, st := range [][3]int{{0, 1, 0}, {1, 0, 0}, {d.Inner, 0, 1}, {0, d.Inner, 1}, {0, 0, 1}, {0, 0, 0}, {d.Mid, 1, 0}} {
				b := random(2, (d.Outer-1)*st[0]+(d.Mid-1)*st[1]+(d.Inner-1)*st[2]+1, -4, -3)
				for _, c := range binaryTwin {
					y, ok := guarded(t, d.Len())
					p.Broadcast(c.op, y, a, b, d, st[0], st[1], st[2])
					ok()
					for i := range y {
						o, m, k := i/d.Inner/d.Mid, i/d.Inner%d.Mid, i%d.Inner
						near(t, c.name, i, y[i], c.f(float64(a[i]), float64(b[o*st[0]+m*st[1]+k*st[2]])), ulp4)
					}
				}
			}
			scale, shift, c := random(3, d.Mid, 1, 2), random(4, d.Mid, 1, 2), random(5, d.Mid, 1, 2)
			z := random(6, d.Len(), 1, 2)
			y, ok := guarded(t, d.Len())
			p.AffineMid(y, a, scale, shift, d)
			ok()
			g, ok := guarded(t, d.Len())
			p.CombineMid(g, a, z, scale, shift, c, d)
			ok()
			for i := range y {
				m := i / d.Inner % d.Mid
				near(t, "affine_mid", i, y[i], float64(a[i])*float64(scale[m])+float64(shift[m]), ulp4)
				near(t, "combine_mid", i, g[i], float64(a[i])*float64(scale[m])+float64(z[i])*float64(shift[m])+float64(c[m]), ulp4)
			}
		}
	})
}

func TestAffineAXPYFill(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, n := range lengths {
			x, y0 := random(1, n, 1, 2), random(2, n, 1, 2)
			y, ok := guarded(t, n)
			p.Affine(y, x, 3, 0.25)
			ok()
			for i := range y {
				near(t, "affine", i, y[i], 3*float64(x[i])+0.25, ulp4)
			}
			copy(y, y0)
			p.AXPY(y, x, 0.5)
			ok()
			for i := range y {
				near(t, "axpy", i, y[i], float64(y0[i])+0.5*float64(x[i]), ulp4)
			}
			p.Fill(y, 7)
			ok()
			for i := range y {
				near(t, "fill", i, y[i], 7, 0)
			}
		}
	})
}
