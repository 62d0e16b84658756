package kfac

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// linear is a graph whose loss is Σ y·dy with an input dy, so that the gradient of the result y is dy. y is
// made of x by layers.
func linear(t *testing.T, x, dy graph.Shape, layers func(b *graph.Builder, x graph.Value) graph.Value) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	y := layers(b, b.Input("x", x))
	b.Loss(op.Sum(b, op.Mul(b, y, b.Input("dy", dy)), 0, 1, 2, 3, 4))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// compile compiles a training step with factors on a backend.
func compile(t *testing.T, g *graph.Graph, backend string, maxSide int) *engine.Plan {
	t.Helper()
	p, err := engine.Compile(g, engine.Options{MaxFactorSide: maxSide, Device: engine.Device{Backend: backend, Threads: 2}, Numerics: engine.Numerics{UseHeuristics: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// run fills the inputs and runs the plan once.
func run(t *testing.T, p *engine.Plan, in map[string][]float32) {
	t.Helper()
	for name, v := range in {
		copy(p.Input(name), v)
	}
	if err := p.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
}

// preconditioner returns a preconditioner of the plan's store, without averages.
func preconditioner(t *testing.T, p *engine.Plan, o Options) *Preconditioner {
	t.Helper()
	k, err := New(p.Store(), p.Factors(), o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// stateOf is the state of a preconditioner.
func stateOf(t *testing.T, k *Preconditioner) []Tensor {
	t.Helper()
	x, err := k.State()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// near fails unless got is want within tolerance times the largest value of want.
func near(t *testing.T, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	most := 0.0
	for _, v := range want {
		most = math.Max(most, math.Abs(v))
	}
	for i, v := range want {
		if !(math.Abs(float64(got[i])-v) <= tolerance*most) {
			t.Errorf("%s[%d] = %g, want %g", what, i, got[i], v)
		}
	}
}

// gradient returns the gradient of a parameter.
func gradient(p *engine.Plan, name string) []float32 {
	g, _ := p.Store().Grad(name)
	return g
}

// The oracle of a convolution: a 3×4 field, a 2×2 filter without padding, a bias, two results, one sample.
// Values of an independent program; U also solves the whole Kronecker system (relative difference 3e-15).
func TestConvolution(t *testing.T) {
	for _, backend := range []string{"ref", "cpu"} {
		t.Run(backend, func(t *testing.T) {
			g := linear(t, graph.Shape{1, 1, 1, 3, 4}, graph.Shape{1, 2, 1, 2, 3}, func(b *graph.Builder, x graph.Value) graph.Value {
				y := op.Conv3D(b, x, b.Param("w", graph.Shape{2, 1, 1, 2, 2}, graph.HeNormal(4)), op.Conv{})
				return op.Bias(b, y, b.ParamOf(graph.Bias, "b", graph.Shape{2}, graph.Zeros()))
			})
			p := compile(t, g, backend, 5)
			run(t, p, map[string][]float32{"x": {1, 2, 0, 1, 0, 1, 3, -1, 2, 0, 1, 1}, "dy": {1, 0, -1, .5, 0, 1, 0, 2, 0, -1, 1, 0}})
			near(t, "A", p.Output("factor_columns.w"), []float64{15, 2, 16, 5, 4, 15, 11, 3, 1, 13, 7, 6, 7, 5, 6}, 0)
			near(t, "G", p.Output("factor_rows.w"), []float64{3.25 / 6, -.5 / 6, 1}, 1e-7)
			near(t, "gradient", gradient(p, "w"), []float64{4, .5, -1, 3, 5, 2, 0, 7}, 0)
			near(t, "gradient of the bias", gradient(p, "b"), []float64{1.5, 2}, 0)

			k := preconditioner(t, p, Options{Damping: .01, Absolute: true})
			if err := k.Update(p.Output); err != nil {
				t.Fatal(err)
			}
			damp, _ := k.dampings(&k.layers[0], &k.layers[0].now)
			rows, cols := damp[0], damp[1]
			if pi := math.Sqrt(cols / rows); math.Abs(pi-4.106685) > 5e-7 || math.Abs(rows*cols-.01) > 1e-15 {
				t.Errorf("π = %.7f with dampings %g and %g, want 4.106685 and a product of 0.01", pi, rows, cols)
			}
			u := make([]float32, len(p.Store().Grads()))
			k.Apply(u, p.Store().Grads())
			l := &k.layers[0]
			near(t, "U", u[l.filter.Offset:][:8], []float64{.361912, -.166155, -.646123, -.115854, .094240, .163076, .114965, .620958}, 1e-6)
			near(t, "U of the bias", u[l.bias.Offset:][:2], []float64{1.019992, -.523089}, 1e-6)
		})
	}
}

// A dense layer is a filter of one point: A = diag(4, 1) and G = diag(1, 9) give the exact result, without damping.
func TestDense(t *testing.T) {
	g := linear(t, graph.Shape{2, 2, 1, 1, 1}, graph.Shape{2, 2, 1, 1, 1}, func(b *graph.Builder, x graph.Value) graph.Value {
		return op.Conv3D(b, x, b.Param("w", graph.Shape{2, 2, 1, 1, 1}, graph.HeNormal(2)), op.Conv{})
	})
	p := compile(t, g, "cpu", 2)
	r := float32(math.Sqrt2)
	run(t, p, map[string][]float32{"x": {2 * r, 0, 0, r}, "dy": {r / 2, 0, 0, 3 * r / 2}})
	near(t, "A", p.Output("factor_columns.w"), []float64{4, 0, 1}, 3e-7)
	near(t, "G", p.Output("factor_rows.w"), []float64{1, 0, 9}, 3e-7)
	k := preconditioner(t, p, Options{})
	if err := k.Update(p.Output); err != nil {
		t.Fatal(err)
	}
	u := make([]float32, len(p.Store().Grads()))
	copy(gradient(p, "w"), []float32{2, 3, 18, 27})
	k.Apply(u, p.Store().Grads())
	near(t, "U", u[:4], []float64{.5, 3, .5, 3}, 1e-6)
}

// randomNetwork is a convolution with padding, stride and bias, a transposed convolution, a filter of one point
// used twice, and a normalised convolution.
func randomNetwork(t *testing.T) (*graph.Graph, map[string][]float32) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	x := graph.Shape{3, 4, 2, 5, 6}
	g := linear(t, x, graph.Shape{3, 2, 2, 5, 6}, func(b *graph.Builder, x graph.Value) graph.Value {
		h := op.Conv3D(b, x, b.Param("first", graph.Shape{3, 4, 3, 3, 3}, graph.HeNormal(108)), op.Conv{Pad: op.SameGlobal(3, 3, 3)})
		h = op.Softplus(b, op.Bias(b, h, b.ParamOf(graph.Bias, "first.bias", graph.Shape{3}, graph.HeNormal(3))))
		twice := b.Param("twice", graph.Shape{3, 3, 1, 1, 1}, graph.HeNormal(3))
		h = op.Softplus(b, op.Conv3D(b, op.Conv3D(b, h, twice, op.Conv{}), twice, op.Conv{}))
		return op.Conv3D(b, h, b.Param("last", graph.Shape{2, 3, 1, 3, 3}, graph.HeNormal(27)), op.Conv{Pad: op.Same(1, 3, 3)})
	})
	return g, map[string][]float32{"x": random(x.Size()), "dy": random(3 * 2 * 2 * 5 * 6)}
}

// The choice of forms depends on the largest side.
func TestChoice(t *testing.T) {
	g, _ := randomNetwork(t)
	want := func(maxSide int, forms ...string) {
		t.Helper()
		var got []string
		for _, l := range compile(t, g, "ref", maxSide).Factors() {
			got = append(got, fmt.Sprintf("%s %s %s %d×%d", l.Param, l.Bias, l.Form, l.Rows, l.Cols))
		}
		if !slices.Equal(got, forms) {
			t.Errorf("largest side %d: %q, want %q", maxSide, got, forms)
		}
	}
	want(200, "first first.bias exact 3×109", "twice  none 0×0", "last  exact 2×27")
	want(108, "first  channels 3×4", "twice  none 0×0", "last  exact 2×27")
	want(3, "first  none 3×0", "twice  none 0×0", "last  channels 2×3")
}

// The factors of the compiled step are those of brute force in float64 from patches and gradients, and U solves the
// damped Kronecker system.
func TestBruteForce(t *testing.T) {
	for _, maxSide := range []int{200, 10} {
		for _, backend := range []string{"ref", "cpu"} {
			t.Run(fmt.Sprintf("%s-%d", backend, maxSide), func(t *testing.T) {
				g, in := randomNetwork(t)
				p := compile(t, g, backend, maxSide)
				run(t, p, in)
				a := Options{Damping: .03}
				k := preconditioner(t, p, a)
				if err := k.Update(p.Output); err != nil {
					t.Fatal(err)
				}
				u := make([]float32, len(p.Store().Grads()))
				k.Apply(u, p.Store().Grads())
				for i := range k.layers {
					solves(t, k, &k.layers[i], u, p.Store().Grads())
				}
				first := in["x"]
				near(t, "A", p.Output("factor_columns.first"), bruteForce(first, graph.Shape{3, 4, 2, 5, 6}, maxSide == 200), 1e-6)
			})
		}
	}
}

// bruteForce is the input factor of a periodic 3×3×3 convolution with bias, or averaged over the taps.
func bruteForce(x []float32, s graph.Shape, exact bool) []float64 {
	at := func(n, c, d, h, l int) float64 {
		if d < 0 || d >= s[2] || h < 0 || h >= s[3] {
			return 0
		}
		return float64(x[(((n*s[1]+c)*s[2]+d)*s[3]+h)*s[4]+(l+s[4])%s[4]])
	}
	side := s[1]
	if exact {
		side = 27*s[1] + 1
	}
	sums := make([]float64, side*(side+1)/2)
	add := func(p []float64, by float64) {
		for i := range p {
			for j := range i + 1 {
				sums[i*(i+1)/2+j] += by * p[i] * p[j]
			}
		}
	}
	for n := range s[0] {
		for d := range s[2] {
			for h := range s[3] {
				for l := range s[4] {
					patch := make([]float64, 27*s[1]+1)
					patch[27*s[1]] = 1
					for t := range 27 {
						vector := make([]float64, s[1])
						for c := range s[1] {
							vector[c] = at(n, c, d+t/9-1, h+t/3%3-1, l+t%3-1)
							patch[c*27+t] = vector[c]
						}
						if !exact {
							add(vector, 1./27/float64(s[0]))
						}
					}
					if exact {
						add(patch, 1/float64(s[0]))
					}
				}
			}
		}
	}
	return sums
}

// solves checks that (G + …) U (A + …) is the gradient, in float64.
func solves(t *testing.T, k *Preconditioner, l *layer, u, g []float32) {
	t.Helper()
	damp, ok := k.dampings(l, &l.now)
	rows, cols := damp[0], damp[1]
	if !ok {
		t.Fatalf("%s has no curvature", l.Param)
	}
	element := func(triangle []float32, i, j int, damping float64) float64 {
		if i == j {
			return float64(triangle[i*(i+3)/2]) + damping
		}
		return float64(triangle[max(i, j)*(max(i, j)+1)/2+min(i, j)])
	}
	l.load(u)
	direction := slices.Clone(l.gradient)
	l.load(g)
	taps := 1
	if l.Form == pass.ChannelFactors {
		taps = l.Taps
	}
	width := l.Cols * taps
	half, got, want := make([]float64, l.Rows*width), make([]float32, l.Rows*width), make([]float64, l.Rows*width)
	for r := range l.Rows {
		for c := range width {
			for q := range l.Rows {
				half[r*width+c] += element(l.now.average[0], r, q, rows) * float64(direction[q*width+c])
			}
		}
	}
	for r := range l.Rows {
		for c := range width {
			sum := 0.0
			for q := range l.Cols {
				sum += half[r*width+q*taps+c%taps] * element(l.now.average[1], q, c/taps, cols)
			}
			got[r*width+c], want[r*width+c] = float32(sum), float64(l.gradient[r*width+c])
		}
	}
	near(t, l.Param, got, want, 2e-4) // inverses in float32 of matrices with a condition of some hundreds
}

// With a large damping the direction is the gradient divided by it; with identities as factors and no damping the
// bits of the gradient are kept.
func TestLimits(t *testing.T) {
	g, in := randomNetwork(t)
	p := compile(t, g, "ref", 200)
	run(t, p, in)
	grads := p.Store().Grads()
	u := make([]float32, len(grads))
	k := preconditioner(t, p, Options{Damping: 1e20, Absolute: true})
	if err := k.Update(p.Output); err != nil {
		t.Fatal(err)
	}
	k.Apply(u, grads)
	for i := range k.layers {
		l := &k.layers[i]
		l.load(grads)
		want := make([]float64, len(l.gradient))
		for j, v := range l.gradient {
			want[j] = float64(v) * 1e-20
		}
		l.load(u)
		near(t, l.Param, l.gradient, want, 1e-6)
	}

	k = preconditioner(t, p, Options{})
	identity := func(name string) []float32 {
		out := make([]float32, len(p.Output(name)))
		for i := range out {
			if at := i * (i + 3) / 2; at < len(out) {
				out[at] = 1
			}
		}
		return out
	}
	if err := k.Update(identity); err != nil {
		t.Fatal(err)
	}
	if k.Apply(u, grads); !slices.Equal(u, grads) {
		t.Error("identities as factors change the gradient")
	}
}

// inverse is that of a matrix with damping.
func inverse(to, triangle []float32, n int, damping float64) {
	w := newSweep(triangle, n, damping)
	for !w.next() {
	}
	w.write(to)
}

// Inverses by pieces solve their systems, for sides of less than a block, one, and several.
func TestInverse(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 5, sweepBlock, sweepBlock + 1, 3*sweepBlock - 7} {
		// XᵀX of n+9 vectors
		vectors := make([]float64, (n+9)*n)
		for i := range vectors {
			vectors[i] = r.NormFloat64()
		}
		triangle, whole := make([]float32, 0, op.TriangleSize(n)), make([]float64, n*n)
		for i := range n {
			for j := range i + 1 {
				sum := 0.
				for k := range n + 9 {
					sum += vectors[k*n+i] * vectors[k*n+j]
				}
				triangle = append(triangle, float32(sum))
				whole[i*n+j], whole[j*n+i] = float64(float32(sum)), float64(float32(sum))
			}
		}
		const damping = 0.5
		got := make([]float32, n*n)
		inverse(got, triangle, n, damping)
		for i := range n {
			whole[i*n+i] += damping
		}
		for i := range n {
			for j := range n {
				sum, want := 0., 0.
				for k := range n {
					sum += whole[i*n+k] * float64(got[k*n+j])
				}
				if i == j {
					want = 1
				}
				if !(math.Abs(sum-want) < 1e-4) || got[i*n+j] != got[j*n+i] {
					t.Fatalf("side %d: the product with the inverse is %g at %d, %d", n, sum, i, j)
				}
			}
		}
	}
}

// A singular factor without damping is inverted by its eigenvalues, and a factor with NaN is refused by name.
func TestBadFactors(t *testing.T) {
	g, in := randomNetwork(t)
	p := compile(t, g, "ref", 200)
	run(t, p, in)
	inv := make([]float32, 9)
	inverse(inv, []float32{1, 1, 1, 0, 0, 2}, 3, 0)
	for _, v := range inv {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			t.Fatalf("inverse of a singular matrix: %v", inv)
		}
	}
	if math.Abs(float64(inv[8])-.5) > 1e-6 {
		t.Errorf("inverse of the regular part is %g, want 0.5", inv[8])
	}
	k := preconditioner(t, p, Options{Damping: .01})
	p.Output("factor_rows.last")[2] = float32(math.NaN())
	if err := k.Update(p.Output); !errors.Is(err, ErrNotFinite) {
		t.Errorf("NaN in a factor: %v", err)
	}
}

// Averages weight old factors with the decay; a restored state has the same bits.
func TestState(t *testing.T) {
	g, in := randomNetwork(t)
	p := compile(t, g, "ref", 200)
	run(t, p, in)
	k := preconditioner(t, p, Options{Damping: .01, Decay: .75})
	before := slices.Clone(p.Output("factor_rows.last"))
	update := func() {
		t.Helper()
		if err := k.Update(p.Output); err != nil {
			t.Fatal(err)
		}
	}
	update()
	for i := range in["dy"] {
		in["dy"][i] *= 3
	}
	run(t, p, in)
	update()
	want := make([]float64, len(before))
	for i, v := range before {
		want[i] = float64(v) * (.75 + .25*9)
	}
	near(t, "average", k.layers[1].now.average[0], want, 1e-6)

	again := preconditioner(t, p, Options{Damping: .01, Decay: .75})
	saved := map[string][]float32{}
	for _, x := range stateOf(t, k) {
		saved[x.Name] = x.Values
	}
	if err := again.Restore(k.Updates(), false, func(name string) ([]float32, error) { return saved[name], nil }); err != nil {
		t.Fatal(err)
	}
	update()
	if err := again.Update(p.Output); err != nil {
		t.Fatal(err)
	}
	a, b := make([]float32, len(p.Store().Grads())), make([]float32, len(p.Store().Grads()))
	k.Apply(a, p.Store().Grads())
	again.Apply(b, p.Store().Grads())
	if !slices.Equal(a, b) {
		t.Error("a restored state gives another direction")
	}
	if err := again.Restore(1, false, func(string) ([]float32, error) { return nil, nil }); err == nil {
		t.Error("a state without values was accepted")
	}
}

// Intervals grow as Fibonacci numbers while factors stay, are kept if they are close to the last ones only, and are halved
// when they change.
func TestSchedule(t *testing.T) {
	var s Schedule
	var got []int
	inf := math.Inf(1)
	for _, c := range [][2]float64{{inf, inf}, {.05, inf}, {.01, .02}, {.01, .02}, {.01, .02}, {.01, .02}, {.09, .1}, {.1, .01}, {math.NaN(), 0}, {.2, 0}, {.2, 0}, {.2, 0}} {
		s = s.Next(c[0], c[1])
		got = append(got, s.Interval)
	}
	if want := []int{1, 1, 2, 3, 5, 8, 8, 4, 2, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("intervals %v, want %v", got, want)
	}
}

// The changes are those of whole symmetric matrices against the last two updates, and survive a restored state.
func TestChanges(t *testing.T) {
	g, in := randomNetwork(t)
	p := compile(t, g, "ref", 200)
	run(t, p, in)
	o := Options{Damping: .01, History: true}
	k := preconditioner(t, p, o)
	scaled := func(by float32) func(string) []float32 {
		return func(name string) []float32 {
			v := slices.Clone(p.Output(name))
			for i := range v {
				v[i] *= by
			}
			return v
		}
	}
	check := func(k *Preconditioner, by float32, last, before float64) {
		t.Helper()
		if err := k.Update(scaled(by)); err != nil {
			t.Fatal(err)
		}
		a, b := k.Changes()
		if a != last && !(math.Abs(a-last) < 1e-5) || b != before && !(math.Abs(b-before) < 1e-5) {
			t.Errorf("factors times %g: changes %g and %g, want %g and %g", by, a, b, last, before)
		}
	}
	inf := math.Inf(1)
	check(k, 1, inf, inf)
	check(k, 1.5, .5, inf)
	saved := map[string][]float32{}
	for _, x := range stateOf(t, k) {
		saved[x.Name] = slices.Clone(x.Values)
	}
	check(k, 1.2, .2, .2)
	again := preconditioner(t, p, o)
	if err := again.Restore(2, false, func(name string) ([]float32, error) { return saved[name], nil }); err != nil {
		t.Fatal(err)
	}
	check(again, 1.2, .2, .2)
	if d := difference([]float32{1, 2, 3}, []float32{1, 1, 3}); math.Abs(d-2./12) > 1e-12 {
		t.Errorf("difference %g, want 2/12", d)
	}
}

// The memory is that of all arrays: two layers of 3×109 and 2×27, with inverses, those that wait, and the factors of two updates.
func TestBytes(t *testing.T) {
	g, in := randomNetwork(t)
	p := compile(t, g, "ref", 200)
	run(t, p, in)
	o := Options{Damping: .01, History: true, Delayed: true}
	k := preconditioner(t, p, o)
	if err := k.Update(p.Output); err != nil {
		t.Fatal(err)
	}
	if err := k.Begin(p.Output); err != nil {
		t.Fatal(err)
	}
	values := 0
	for _, x := range k.Pending() {
		k.Invert(x.Factor)
	}
	for _, w := range k.sweeps {
		if w != nil {
			values += 2 * (len(w.s) + len(w.panel))
		}
	}
	for _, x := range stateOf(t, k) {
		values += len(x.Values)
	}
	for _, l := range k.layers {
		values += len(l.now.inverse[0]) + len(l.now.inverse[1]) + len(l.next.inverse[0]) + len(l.next.inverse[1]) + len(l.gradient) + len(l.half)
	}
	if got := Bytes(p.Factors(), o); got != int64(4*values) {
		t.Errorf("%d bytes, the arrays have %d", got, 4*values)
	}
}

// A network whose layers all exceed the largest side has no factors, which is refused with the key to change.
func TestNoLayers(t *testing.T) {
	g, _ := randomNetwork(t)
	p := compile(t, g, "ref", 1)
	if _, err := New(p.Store(), p.Factors(), Options{}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("no layer with factors: %v", err)
	}
}

// Costs of an update and of a step, by hand: layers without factors cost nothing, and the busiest of two ranks inverts the largest factor.
func TestCosts(t *testing.T) {
	layers := []pass.LayerFactors{{Form: pass.ExactFactors, Rows: 3, Cols: 10, Taps: 3}, {Form: pass.NoFactors, Rows: 99, Cols: 99, Taps: 1}, {Form: pass.ChannelFactors, Rows: 4, Cols: 5, Taps: 2}}
	for ranks, want := range map[int]int64{1: 27 + 1000 + 64 + 125, 2: 1000, 5: 1000} {
		if got := InversionCost(layers, ranks); got != want {
			t.Errorf("%d ranks: inversions cost %d, want %d", ranks, got, want)
		}
	}
	if got, want := InverseValues(layers), int64(9+100+16+25); got != want {
		t.Errorf("%d values of inverses, want %d", got, want)
	}
	// G⁻¹·∇ has 2·3·3·10 operations, ·A⁻¹ 2·3·10·10; of channels the sides of the second are 5 for each of 4·2 columns.
	if got, want := ApplyFLOPs(layers), int64(2*(3*3*10+3*10*10)+2*(4*4*10+4*2*5*5)); got != want {
		t.Errorf("%d operations of a step, want %d", got, want)
	}
}
