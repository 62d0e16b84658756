package prune

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func of(w []float32) Weights { return func() []float32 { return w } }

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.Abs(got-want) > tol {
		t.Errorf("%s is %.9g, want %.9g", what, got, want)
	}
}

// conv is a layer of 3×3×3 filters at an offset of the store.
func conv(name string, in, out, offset int) Layer {
	return Layer{Name: name, Param: name + ".weight", Offset: offset, Out: out, In: in, Kernel: [3]int{3, 3, 3}}
}

// row is a layer with one output and n inputs.
func row(n int) Layer {
	return Layer{Name: "row", Param: "row.weight", Out: 1, In: n, Kernel: [3]int{1, 1, 1}}
}

// whole is a gradient on a single rank.
type whole []float32

func (g whole) AddScaledGradient(x []float32, factor float32) {
	for i, v := range g {
		x[i] += factor * v
	}
}
func (whole) AllGather([]float32) error { return nil }

// TestCubic: the reference table, computed independently of this program.
func TestCubic(t *testing.T) {
	for _, c := range []struct {
		t, t0, t1  int
		si, sf, at float64
	}{
		{0, 1000, 11000, 0, 0.9, 0}, {1000, 1000, 11000, 0, 0.9, 0}, {2000, 1000, 11000, 0, 0.9, 0.2439}, {3500, 1000, 11000, 0, 0.9, 0.520312},
		{6000, 1000, 11000, 0, 0.9, 0.7875}, {8500, 1000, 11000, 0, 0.9, 0.885938}, {11000, 1000, 11000, 0, 0.9, 0.9}, {20000, 1000, 11000, 0, 0.9, 0.9},
		{250, 0, 1000, 0.5, 0.875, 0.716797}, {500, 0, 1000, 0.5, 0.875, 0.828125}, {750, 0, 1000, 0.5, 0.875, 0.869141},
	} {
		near(t, "sparsity", Cubic(c.t, c.t0, c.t1, c.si, c.sf), c.at, 5e-7)
	}
}

// TestFalling: the reference table of the drop fraction of RigL.
func TestFalling(t *testing.T) {
	for at, want := range map[int]float64{0: 0.3, 100: 0.299999, 18750: 0.256066, 37500: 0.15, 56250: 0.043934, 75000: 0} {
		near(t, "share", CosineDecay(at, 75000, 0.3), want, 5e-7)
	}
}

// TestERK: the reference layers; the last one would have a density above 1.
func TestERK(t *testing.T) {
	layers := []Layer{conv("a", 42, 32, 0), conv("b", 32, 64, 0), conv("c", 64, 64, 0), conv("d", 64, 128, 0), conv("e", 128, 128, 0),
		{Out: 1, In: 64, Kernel: [3]int{1, 1, 1}}}
	eps, densities := erk(layers, 0.1)
	near(t, "eps", eps, 109.374463, 5e-7)
	all, kept := 0.0, 0.0
	for i, want := range []float64{0.250168, 0.207688, 0.135492, 0.099394, 0.065521, 1} {
		near(t, "density", densities[i], want, 5e-7)
		all += float64(layers[i].Size())
		kept += densities[i] * float64(layers[i].Size())
	}
	near(t, "density of all", kept/all, 0.1, 1e-12)
	if eps, densities = erk(layers, 1); slices.ContainsFunc(densities, func(d float64) bool { return d != 1 }) {
		t.Errorf("of a dense network eps is %g and layers have %v", eps, densities)
	}
}

// TestMovement: two steps of the reference, and the different masks that magnitude and movement
// give for the same weights.
func TestMovement(t *testing.T) {
	const rate = 0.1
	w := []float32{0.9, -0.2, 0.05, -0.6}
	p := made(t, []Layer{row(4)}, 4, Options{Method: Movement, Target: 0.5, To: 1, Every: 1})
	for step, c := range []struct{ g, s []float32 }{
		{[]float32{0.5, 0.4, -0.3, 0.2}, []float32{-0.045, 0.008, 0.0015, 0.012}},
		{[]float32{0.6, 0.1, -0.5, -0.1}, []float32{-0.096, 0.0104, 0.0055, 0.0058}},
	} {
		p.UnmaskWeights(of(w))
		if _, err := p.Step(step, rate, of(w), whole(c.g)); err != nil {
			t.Fatal(err)
		}
		for i, g := range c.g {
			near(t, "score", float64(p.scores[i]), float64(c.s[i]), 1e-8)
			w[i] -= rate * g
		}
		if step == 0 {
			p.MaskWeights(of(w), of(nil))
		}
	}
	for i, want := range []float64{0.79, -0.25, 0.13, -0.61} {
		near(t, "weight", float64(w[i]), want, 1e-7)
	}
	if want := []bool{false, true, false, true}; !slices.Equal(p.Mask(), want) {
		t.Errorf("movement keeps %v, want %v", p.Mask(), want)
	}
	m := made(t, []Layer{row(4)}, 4, Options{Method: Magnitude, Target: 0.5, To: 1, Every: 1})
	if _, err := m.Step(1, rate, of(w), nil); err != nil {
		t.Fatal(err)
	}
	if want := []bool{true, false, false, true}; !slices.Equal(m.Mask(), want) {
		t.Errorf("magnitude keeps %v, want %v", m.Mask(), want)
	}
}

// made returns a pruner with valid options.
func made(t *testing.T, layers []Layer, n int, o Options) *Pruner {
	t.Helper()
	if o.Structure.Pattern == "" {
		o.Structure.Pattern = Element
	}
	p, err := New(layers, n, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTwoFour: the reference row, with the rule for equal magnitudes, and the remainders at the end
// of rows.
func TestTwoFour(t *testing.T) {
	for _, c := range []struct{ in, want []float32 }{
		{[]float32{0.1, -0.5, 0.3, -0.2, 0, 0.4, 0.4, -0.4}, []float32{0, -0.5, 0.3, 0, 0, 0.4, 0.4, 0}},
		{[]float32{4, 3, 2, 1, 5, 6, 4}, []float32{4, 3, 0, 0, 5, 6, 0}},
		{[]float32{4, 3, 2, 1, 5, 6}, []float32{4, 3, 0, 0, 5, 6}},
	} {
		p := made(t, []Layer{row(len(c.in))}, len(c.in), Options{Method: Magnitude, Structure: Structure{Pattern: TwoFour}, Target: 0.5, To: 1, Every: 1})
		if _, err := p.Step(1, 0, of(c.in), nil); err != nil {
			t.Fatal(err)
		}
		got := slices.Clone(c.in)
		for i, k := range p.Mask() {
			if !k {
				got[i] = 0
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("2:4 of %v is %v, want %v", c.in, got, c.want)
		}
	}
}

// TestTwoFourCountsChannels: the four weights are those of neighbouring input channels at one tap, so that the masked
// filter has the pattern of the kernels.
func TestTwoFourCountsChannels(t *testing.T) {
	l := Layer{Name: "conv", Param: "conv.weight", Out: 3, In: 7, Kernel: [3]int{1, 3, 3}}
	w := make([]float32, l.Size())
	for i := range w {
		w[i] = float32(rng.Normal(3, uint64(i)))
	}
	p := made(t, []Layer{l}, len(w), Options{Method: Magnitude, Structure: Structure{Pattern: TwoFour}, Target: 0.5, To: 1, Every: 1})
	if _, err := p.Step(1, 0, of(w), nil); err != nil {
		t.Fatal(err)
	}
	removed := 0
	for i, k := range p.Mask() {
		if !k {
			w[i] = 0
			removed++
		}
	}
	if want := int64(3*9*4*4 + 3*9*4*2/8); l.TwoFourBytes() != want { // four values of 4 bytes and 2 bits for 7 channels
		t.Errorf("%d bytes, want %d", l.TwoFourBytes(), want)
	}
	if want := 3 * 9 * 3; removed != want || !op.IsTwoFour(w, graph.Shape{3, 7, 1, 3, 3}) {
		t.Errorf("%d weights are removed, want %d; 2:4: %v", removed, want, op.IsTwoFour(w, graph.Shape{3, 7, 1, 3, 3}))
	}
}

// TestStorage: the reference table of bytes, 64 rows of 1728.
func TestStorage(t *testing.T) {
	const rows, columns = 64, 1728
	for _, c := range []struct {
		density              float64
		csr32, csr16, bitmap int64
	}{
		{0.5, 442628, 332036, 235008}, {0.2, 177204, 132968, 102296}, {0.1, 88732, 66614, 58060}, {0.05, 44492, 33434, 35940},
	} {
		nnz := int(c.density * rows * columns)
		for f, want := range map[Format]int64{DenseFormat: 442368, CSR32: c.csr32, CSR16: c.csr16, Bitmap: c.bitmap, TwoFourFormat: 235008} {
			if got := f.Bytes(rows, columns, nnz); got != want {
				t.Errorf("%s of density %g takes %d bytes, want %d", f, c.density, got, want)
			}
		}
	}
	if got, want := CSR16.Bytes(1, 70000, 10), CSR32.Bytes(1, 70000, 10); got != want {
		t.Errorf("columns that two bytes cannot count take %d bytes, want %d", got, want)
	}
}

// TestEfficiency: computed by hand, for a million weights and a skill of one half.
func TestEfficiency(t *testing.T) {
	near(t, "e", Efficiency(0.5, 2e6), 0.25, 1e-15)
	near(t, "e_h", HardEfficiency(0.75, 500000), 8, 1e-12)
}

// TestTies: of equal magnitudes the lower index remains, and ⌊S·n⌋ weights are removed.
func TestTies(t *testing.T) {
	w := []float32{1, -1, 1, 0, 1, -1, 1}
	for target, want := range map[float64]string{0.3: "1110110", 0.5: "1110100", 0.8: "1100000", 0.1: "1111111"} {
		p := made(t, []Layer{row(7)}, 7, Options{Method: Magnitude, Target: target, To: 1, Every: 1})
		if _, err := p.Step(1, 0, of(w), nil); err != nil {
			t.Fatal(err)
		}
		if got := bits(p.Mask()); got != want {
			t.Errorf("sparsity %g keeps %s, want %s", target, got, want)
		}
	}
	for n, want := range map[int]int{10: 9, 100: 90, 1000: 900, 7: 6} {
		if got := removedCount(0.9, n); got != want {
			t.Errorf("0.9 of %d removes %d, want %d", n, got, want)
		}
	}
	if removedCount(0.29, 100) != 29 {
		t.Error("rounding loses a weight")
	}
}

func bits(keep []bool) string {
	var b strings.Builder
	for _, k := range keep {
		b.WriteByte("01"[map[bool]int{true: 1}[k]])
	}
	return b.String()
}

// weights returns random weights for a store with these layers and padding between them.
func weights(n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(rng.Normal(7, uint64(i)))
	}
	return w
}

// network has layers of several shapes with padding between them, the first at the input.
func network() (layers []Layer, n int) {
	layers = []Layer{conv("first", 6, 8, 16), conv("second", 8, 20, 0), {Name: "up", Param: "up.weight", Out: 8, In: 20, Kernel: [3]int{1, 2, 2}, Transposed: true},
		conv("third", 16, 8, 0), {Name: "out", Param: "out.weight", Out: 3, In: 8, Kernel: [3]int{1, 1, 1}}}
	layers[0].ReadsInput = true
	n = 16
	for i := range layers {
		layers[i].Offset = n
		n += (layers[i].Size() + 31) / 16 * 16
	}
	return layers, n
}

// structures lists one structure of each pattern.
var structures = map[string]Structure{
	"element": {Pattern: Element},
	"blocks":  {Pattern: Blocks, Block: Block{4, 4}},
	"uneven":  {Pattern: Blocks, Block: Block{3, 2}},
	"2:4":     {Pattern: TwoFour},
}

// TestLaws: for every method, scope and structure the target is reached to within a unit; only
// filters are masked; every layer and every input channel keeps a weight; the number of nonzeros
// does not increase (except with movement and soft thresholds, where it follows the schedule) and is constant with SET
// and RigL, and with SR-STE but for blocks of different sizes; a restored state gives the same masks.
func TestLaws(t *testing.T) {
	layers, n := network()
	for name, s := range structures {
		for _, scope := range []Scope{Global, Uniform, ERK} {
			for _, method := range []Method{Magnitude, Random, Movement, SET, RigL, SRSTE, SoftThreshold, Lottery, EarlyBird} {
				regrows, uneven := method == SET || method == RigL || method == SRSTE, method == SRSTE && s.Pattern == Blocks
				refused := regrows && (method != SRSTE || s.Pattern != TwoFour) && (s.Pattern == TwoFour || scope == Global)
				refused = refused || method == SoftThreshold && (s.Pattern == TwoFour || scope != Global)
				if refused || s.Pattern == TwoFour && scope == ERK {
					continue
				}
				t.Run(name+" "+string(scope)+" "+string(method), func(t *testing.T) {
					o := Options{Method: method, Structure: s, Scope: scope, Target: 0.5, From: 2, To: 20, Every: 3, DropFraction: 0.3, MaskedDecay: 0.1, Stability: MaskStability{0.01, 50}, Seed: 3}
					p := made(t, layers, n, o)
					w, average := weights(n), weights(n)
					p.MaskWeights(of(w), of(average))
					gone, resumed := 0.0, 0
					for step := range 24 {
						g := make(whole, n)
						for i := range g {
							g[i] = float32(rng.Normal(rng.Key(9, uint64(step)), uint64(i)))
						}
						if step == 11 { // as a run that is resumed
							c, tensors, err := p.State(g)
							if err != nil {
								t.Fatal(err)
							}
							p = made(t, layers, n, o)
							if err := p.Restore(c, func(name string) any {
								for _, x := range tensors {
									if x.Name == name {
										resumed++
										return x.Data
									}
								}
								return nil
							}); err != nil {
								t.Fatal(err)
							}
							if resumed != len(tensors) {
								t.Errorf("%d of %d parts of the state are read", resumed, len(tensors))
							}
						}
						p.UnmaskWeights(of(w))
						if _, err := p.Step(step, 0.1, of(w), g); err != nil {
							t.Fatal(err)
						}
						fixed := p.FixedMask()
						for i := range w {
							if w[i] -= 0.1 * g[i]; fixed != nil && !fixed[i] {
								w[i] = 0
							}
							average[i] = w[i]
						}
						p.MaskWeights(of(w), of(average))
						if _, err := p.EndEpoch(step+1, of(w)); err != nil {
							t.Fatal(err)
						}
						for i, k := range p.Mask() {
							if !k && (w[i] != 0 && step < 20 || p.IsFinal() && fixed != nil && w[i] != 0 || (method == Movement || method == SRSTE) && average[i] != 0) {
								t.Fatalf("step %d: weight %d is masked and %g, in the average %g", step, i, w[i], average[i])
							}
						}
						now := p.Sparsity()
						if now < gone-1e-12 && !uneven {
							t.Errorf("step %d: sparsity falls from %g to %g", step, gone, now)
						}
						if regrows && !uneven && step > 0 && now != gone {
							t.Errorf("step %d: sparsity is %g, was %g", step, now, gone)
						}
						gone = now
					}
					if !p.IsFinal() {
						t.Error("the mask is not final")
					}
					all, unit, most := 0, 0, 0 // most weights that the pattern removes
					for _, l := range p.Layers() {
						all += l.Size()
						most += l.Size() - s.minKept(l)
						unit += len(s.unitElements(nil, l, 0, w[l.Offset:]))
						kept := slices.Index(p.Mask()[l.Offset:l.Offset+l.Size()], true)
						if kept < 0 {
							t.Errorf("layer %s is removed", l.Name)
						}
						for c := range l.In {
							found := !l.ReadsInput || s.Pattern == TwoFour
							for o := range l.Out {
								for tap := range l.Taps() {
									found = found || p.Mask()[l.Offset+l.index(o, c, tap)]
								}
							}
							if !found {
								t.Errorf("input %d of layer %s is removed", c, l.Name)
							}
						}
					}
					if short := min(0.5*float64(all), float64(most)) - gone*float64(all); short < -1e-9 || short > float64(unit)+float64(len(p.Layers())) {
						t.Errorf("sparsity is %g of %d weights", gone, all)
					}
					masked := 0
					for _, k := range p.Mask() {
						if !k {
							masked++
						}
					}
					if float64(masked) != math.Round(gone*float64(all)) {
						t.Errorf("%d elements are masked, of layers %g", masked, gone*float64(all))
					}
				})
			}
		}
	}
}

// TestNested: a mask of magnitude contains the earlier ones, for any change of the weights.
func TestNested(t *testing.T) {
	layers, n := network()
	for name, s := range structures {
		p := made(t, layers, n, Options{Method: Magnitude, Structure: s, Target: 0.5, To: 10, Every: 1})
		w := make([]float32, n) // equal weights, as of a layer that starts with 0
		before := slices.Clone(p.Mask())
		for step := range 11 {
			if _, err := p.Step(step, 0, of(w), nil); err != nil {
				t.Fatal(err)
			}
			for i, k := range p.Mask() {
				if k && !before[i] {
					t.Fatalf("%s: step %d puts weight %d back", name, step, i)
				}
				if w[i] = 0; k {
					w[i] = float32(rng.Normal(uint64(step), uint64(i)))
				}
			}
			before = slices.Clone(p.Mask())
		}
	}
}

// TestGrowth: RigL adds weights where the gradient is largest, SET anywhere, both with the value 0.
func TestGrowth(t *testing.T) {
	l := row(100)
	g := make(whole, 100)
	for i := range g {
		g[i] = float32(100 - i)
	}
	for _, method := range []Method{RigL, SET} {
		p := made(t, []Layer{l}, 100, Options{Method: method, Scope: Uniform, Target: 0.5, From: 0, To: 1000, Every: 1, DropFraction: 0.2})
		w, before := weights(100), slices.Clone(p.Mask())
		for i, k := range before {
			if !k {
				w[i] = 0
			}
		}
		if _, err := p.Step(0, 0, of(w), g); err != nil {
			t.Fatal(err)
		}
		var grown, gone, first []int
		for i, k := range p.Mask() {
			switch {
			case k && !before[i]:
				grown = append(grown, i)
				if w[i] != 0 {
					t.Errorf("%s: weight %d is put back as %g", method, i, w[i])
				}
			case before[i] && !k:
				gone = append(gone, i)
			}
		}
		for i := range before {
			if !before[i] && len(first) < len(grown) {
				first = append(first, i)
			}
		}
		if len(grown) == 0 || len(grown) != len(gone) || len(grown) > 10 {
			t.Errorf("%s: %d weights are put back for %d", method, len(grown), len(gone))
		}
		if slices.Equal(grown, first) != (method == RigL) {
			t.Errorf("%s puts back %v; the gradient is largest at %v", method, grown, first)
		}
		var smallest []int
		for i, k := range before {
			if k {
				smallest = append(smallest, i)
			}
		}
		slices.SortFunc(smallest, func(a, b int) int { return cmp.Compare(math.Abs(float64(w[a])), math.Abs(float64(w[b]))) })
		for _, i := range gone {
			if !slices.Contains(smallest[:10], i) {
				t.Errorf("%s: weight %d of %g goes, which is none of the ten smallest", method, i, w[i])
			}
		}
	}
}

// TestTopKAST follows a training whose gradients are random: the network has the largest latent values, twice as many are
// trained, and the others are constant but not forgotten. A pruner restored in the middle goes on alike.
func TestTopKAST(t *testing.T) {
	const n, kept, last = 200, 40, 30
	o := Options{Method: TopKAST, Scope: Uniform, Target: 0.8, From: 2, To: last, Every: 3}
	p := made(t, []Layer{row(n)}, n, o)
	w := weights(n)
	latent := slices.Clone(w)
	none := of(nil)
	p.MaskWeights(of(w), none)
	largest := func(count int) []bool {
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(-cmp.Compare(math.Abs(float64(latent[a])), math.Abs(float64(latent[b]))), a-b)
		})
		mask := make([]bool, n)
		for _, i := range order[:count] {
			mask[i] = true
		}
		return mask
	}
	entered := 0
	for step := range last + 3 {
		before := slices.Clone(p.Mask())
		p.UnmaskWeights(of(w))
		changed, err := p.Step(step, 0, of(w), nil)
		if err != nil {
			t.Fatal(err)
		}
		trained := p.GradientMask()
		if due := step >= last || step >= 2 && (step-2)%3 == 0; due && step <= last {
			if !changed && !slices.Equal(p.Mask(), before) || !slices.Equal(p.Mask(), largest(kept)) || step < last && !slices.Equal(trained, largest(2*kept)) {
				t.Fatalf("step %d: the masks are not those of the largest weights", step)
			}
		}
		for i := range w {
			switch {
			case !trained[i]:
				w[i] = 0 // by the optimiser
			case w[i] != latent[i]:
				t.Fatalf("step %d: trained weight %d is %g, want %g", step, i, w[i], latent[i])
			default:
				w[i] += float32(rng.Normal(uint64(step), uint64(i))) / 10
				latent[i] = w[i]
			}
			if p.Mask()[i] && !before[i] {
				entered++
			}
		}
		if step == last/2 {
			counters, state, err := p.State(nil)
			if err != nil {
				t.Fatal(err)
			}
			p = made(t, []Layer{row(n)}, n, o)
			err = p.Restore(counters, func(name string) any {
				for _, x := range state {
					if x.Name == name {
						return x.Data
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		p.MaskWeights(of(w), none)
		for i, k := range p.Mask() {
			if !k && w[i] != 0 {
				t.Fatalf("step %d: masked weight %d is %g", step, i, w[i])
			}
		}
		if p.IsFinal() != (step >= last) || p.NeedsMaskedGradient(step) {
			t.Fatalf("step %d: final %v", step, p.IsFinal())
		}
	}
	if entered == 0 {
		t.Error("no weight entered the network")
	}
}

// TestEarlyBird: the search ends after the given number of similar masks, otherwise at To.
func TestEarlyBird(t *testing.T) {
	l := row(1000)
	for _, c := range []struct {
		name  string
		moves float32
		end   int
	}{{"settled", 0.001, 6}, {"restless", 3, -1}} {
		p := made(t, []Layer{l}, 1000, Options{Method: EarlyBird, Target: 0.5, From: 10, To: 1000, Stability: MaskStability{0.1, 5}})
		w, end := weights(1000), -1
		for epoch := 1; epoch <= 20 && end < 0; epoch++ {
			for i := range w {
				w[i] += c.moves * float32(rng.Normal(uint64(epoch), uint64(i)))
			}
			changed, err := p.EndEpoch(10*epoch, of(w))
			if err != nil {
				t.Fatal(err)
			}
			if changed {
				end = epoch // the first has nothing to be compared with
			}
		}
		if end != c.end {
			t.Errorf("%s: the search ends in epoch %d, want %d", c.name, end, c.end)
		}
		if (end > 0) != p.IsFinal() || end > 0 && p.Sparsity() != 0.5 {
			t.Errorf("%s: final %v with sparsity %g", c.name, p.IsFinal(), p.Sparsity())
		}
	}
}

// TestNewRefuses: invalid targets are refused, with the layer and the numbers of weights.
func TestNewRefuses(t *testing.T) {
	layers, n := network()
	blocks := func(out, in int) Structure { return Structure{Pattern: Blocks, Block: Block{out, in}} }
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"all but a few weights", Options{Structure: structures["element"], Target: 0.9999}, "would remove layers entirely"},
		{"of every layer", Options{Structure: structures["element"], Scope: Uniform, Target: 0.999}, "would remove layer first entirely"},
		{"a layer of one block", Options{Structure: blocks(8, 8), Scope: Uniform, Target: 0.75, Exclude: func(l string) bool { return l == "first" }}, "would remove layer third entirely"},
		{"blocks larger than layers", Options{Structure: blocks(64, 64), Target: 0.5}, "no layer can be pruned"},
		{"everything kept", Options{Structure: structures["element"], Target: 0.5, Exclude: func(string) bool { return true }}, "no layer can be pruned"},
		{"two of four by layer", Options{Structure: structures["2:4"], Scope: ERK, Target: 0.5}, "does not allow scope erk"},
		{"regrowth of two of four", Options{Method: RigL, Structure: structures["2:4"], Scope: Uniform, Target: 0.5}, "does not allow method"},
		{"thresholds of fixed layers", Options{Method: SoftThreshold, Structure: structures["element"], Scope: Uniform, Target: 0.5}, "with structure element and scope uniform"},
		{"more than two of four", Options{Structure: structures["2:4"], Target: 0.6}, "too high for structure 2:4"},
	} {
		c.o.Method, c.o.To, c.o.Every = cmp.Or(c.o.Method, Magnitude), 1, 1
		_, err := New(layers, n, c.o)
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want exit 64: %s", c.name, err, c.want)
		}
	}
}
