//go:build long

package unet3d

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Sizes of the published input, and of the long runs.
const (
	longChannels = 42
	longLevels   = 2
	longSeeds    = 5
	longSteps    = 50
	longLast     = 10 // steps at the end whose mean loss is compared
	longRate     = 5e-4
	longThreads  = 2
)

// longRun is a network on a part of the grid.
type longRun struct{ base, rows, cols int }

// graph is the training graph, with initial weights from a seed.
func (r longRun) graph(t *testing.T, seed uint64) *graph.Graph {
	t.Helper()
	g, err := lossOf(seed, graph.Shape{1, longChannels, longLevels, r.rows, r.cols}, func(b *graph.Builder, x graph.Value) graph.Value {
		return UNet{Base: r.base}.Build(b, x)
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// compiled skips the test if the device is missing.
func compiled(t *testing.T, g *graph.Graph, o engine.Options) *engine.Plan {
	t.Helper()
	p, err := engine.Compile(g, o)
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// draw fills the batch of a step, the same for all networks: smooth fields, and a target that
// depends on three of them plus noise. It returns the variance of the target.
func (r longRun) draw(p *engine.Plan, step uint64) float64 {
	x, y := p.Input("x"), p.Input("y")
	plane := r.rows * r.cols
	for i := range longChannels * longLevels {
		waves(x[i*plane:(i+1)*plane], r.cols, rng.Key(1, step, uint64(i)))
	}
	noise := rng.Key(2, step)
	var sum, squares float64
	for i := range y { // channels of the target's level are len(y) apart
		a, b, c := float64(x[i]), float64(x[len(y)+i]), float64(x[2*len(y)+i])
		v := a + 0.5*math.Abs(b-c) + 0.2*rng.Normal(noise, uint64(i))
		y[i] = float32(v)
		sum, squares = sum+v, squares+v*v
	}
	n := float64(len(y))
	return squares/n - (sum/n)*(sum/n)
}

// waves fills a square field with the sum of eight plane waves with random directions and at most
// four periods per side. Its variance is 1.
func waves(field []float32, side int, key uint64) {
	const modes, most = 8, 4
	clear(field)
	drawn := uint64(0)
	draw := func() float64 {
		drawn++
		return rng.Uniform(key, drawn)
	}
	number := func() float64 { return math.Floor((2*most+1)*draw()) - most }
	turn := func(k, phase float64) (sin, cos []float32) {
		for i := range side {
			s, c := math.Sincos(2 * math.Pi * (k*float64(i)/float64(side) + phase))
			sin, cos = append(sin, float32(s)), append(cos, float32(c))
		}
		return sin, cos
	}
	for range modes {
		sinRow, cosRow := turn(number(), draw())
		sinColumn, cosColumn := turn(number(), 0)
		for i := range side {
			line := field[i*side : (i+1)*side]
			for j := range line { // cos(a+b), of amplitude √(2/modes) = 1/2
				line[j] += 0.5 * (cosRow[i]*cosColumn[j] - sinRow[i]*sinColumn[j])
			}
		}
	}
}

// losses trains with Adam from the initial weights of a seed.
func (r longRun) losses(t *testing.T, seed uint64, o engine.Options, rate float64) []float64 {
	t.Helper()
	o.Threads, o.UseHeuristics = longThreads, true
	p := compiled(t, r.graph(t, seed), o)
	defer p.Close()
	a, err := optim.New(p.Store(), optim.Options{Threads: longThreads})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var out []float64
	for step := range uint64(longSteps) {
		r.draw(p, step)
		if err := p.Run(context.Background(), step); err != nil {
			t.Fatal(err)
		}
		out = append(out, p.Loss())
		if _, err := a.Step(rate); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// curves holds losses, [seed][step].
type curves [][]float64

func (r longRun) curves(t *testing.T, o engine.Options, rate float64) curves {
	t.Helper()
	var all curves
	for seed := range uint64(longSeeds) {
		all = append(all, r.losses(t, seed+1, o, rate))
	}
	return all
}

// at returns the losses of all seeds at a step.
func (c curves) at(step int) []float64 {
	var out []float64
	for _, losses := range c {
		out = append(out, losses[step])
	}
	return out
}

// last returns the mean loss of each seed over the last steps.
func (c curves) last() []float64 {
	var out []float64
	for _, losses := range c {
		out = append(out, mean(losses[longSteps-longLast:]))
	}
	return out
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// spread is the standard deviation between seeds, with divisor N−1.
func spread(x []float64) float64 {
	m := mean(x)
	var sum float64
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}

// apart is the RMS difference x − y over the seeds, in units of the spread of y.
func apart(x, y []float64) float64 {
	var sum float64
	for i := range x {
		sum += (x[i] - y[i]) * (x[i] - y[i])
	}
	return math.Sqrt(sum/float64(len(x))) / spread(y)
}

// distance holds the difference between the losses of a variant and those of direct float32 kernels
// with the same seeds, in units of the spread between seeds: at the worst step, as RMS over all
// steps, and for the mean loss of the last steps.
type distance struct{ worst, whole, last float64 }

func (c curves) from(direct curves) distance {
	var d distance
	for step := range longSteps {
		a := apart(c.at(step), direct.at(step))
		d.worst = max(d.worst, a)
		d.whole += a * a / longSteps
	}
	d.whole = math.Sqrt(d.whole)
	d.last = apart(c.last(), direct.last())
	return d
}

// within reports whether the variant differs by less than another seed would, at every step.
func (d distance) within() bool { return d.worst <= 1 && d.last <= 1 }

func (d distance) String() string {
	return fmt.Sprintf("%.2g of the spread between seeds at the worst step, %.2g over all steps, %.2g for the last %d", d.worst, d.whole, d.last, longLast)
}

// TestLongLosses compares the losses of 50 steps of Adam with those of direct float32 kernels, from
// the same weights on the same batches: with Winograd kernels, with fields stored in bfloat16, and
// with bfloat16 products. At every step the RMS difference over five seeds must be below the
// standard deviation between seeds, and likewise for the mean of the last ten steps. As a control,
// a doubled learning rate must be detected.
func TestLongLosses(t *testing.T) {
	for _, r := range []longRun{{8, 128, 128}, {32, 64, 64}} {
		name := fmt.Sprintf("base %d, %d²", r.base, r.cols)
		began := time.Now()
		direct := r.curves(t, engine.Options{}, longRate)
		p := compiled(t, r.graph(t, 1), engine.Options{Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}})
		variance := r.draw(p, longSteps-1)
		p.Close()
		t.Logf("%s: loss %.3f at first, %.3f ± %.3f over the last %d of %d steps, for a target of variance %.2f",
			name, mean(direct.at(0)), mean(direct.last()), spread(direct.last()), longLast, longSteps, variance)
		if !(mean(direct.last()) < 0.7*variance) {
			t.Errorf("%s: the direct runs learn nothing", name)
		}
		winograd := r.curves(t, engine.Options{Numerics: engine.Numerics{Winograd: true}}, longRate).from(direct)
		t.Logf("%s: Winograd differs by %v", name, winograd)
		if !winograd.within() || !(winograd.whole > 0) {
			t.Errorf("%s: losses differ by more than seeds do, or not at all", name)
		}
		precisions := []string{"bf16"}
		if kern.HasBF16() {
			precisions = append(precisions, "bf16_products")
		}
		less := winograd.whole
		for _, precision := range precisions {
			half := r.curves(t, engine.Options{Numerics: engine.Numerics{Winograd: true, Precision: precision}}, longRate).from(direct)
			t.Logf("%s: %s differs by %v", name, precision, half)
			if !half.within() || !(half.whole > less) {
				t.Errorf("%s: losses in %s differ by more than seeds do, or are those of more precise kernels", name, precision)
			}
			less = half.whole
		}
		if r.base == 8 {
			wrong := r.curves(t, engine.Options{Numerics: engine.Numerics{Winograd: true}}, 2*longRate).from(direct)
			t.Logf("%s: twice the learning rate differs by %v", name, wrong)
			if wrong.within() {
				t.Errorf("%s: twice the learning rate is not told from another seed", name)
			}
		}
		t.Logf("%s: %s", name, time.Since(began).Round(time.Second))
	}
}

// kept is the size of the activations in bytes: results of the forward pass that the backward pass
// reads.
func kept(p *engine.Plan) int64 {
	g := p.Graph()
	backward := engine.BackwardNodes(g)
	read := make([]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		for _, in := range n.In {
			read[in] = read[in] || backward[n.ID]
		}
	}
	var sum int64
	for i, n := range g.Nodes {
		if n.Kind == graph.KindOp && read[i] && !backward[i] {
			sum += 4 * int64(n.ArenaElems())
		}
	}
	return sum
}

// memoryOf is the memory that a plan's limit counts.
func memoryOf(p *engine.Plan) int64 { return p.ArenaBytes() + p.ScratchBytes() }

// TestLongHalfOfTheActivations: three steps with a memory limit reduced by half of the activations
// give the same bits as with all activations kept.
func TestLongHalfOfTheActivations(t *testing.T) {
	for _, c := range []struct {
		longRun
		precision string
	}{{longRun{8, 256, 256}, "f32"}, {longRun{8, 256, 256}, "bf16"}, {longRun{32, 352, 704}, "f32"}} {
		g, precision := c.graph(t, 1), fmt.Sprintf("base %d, %d×%d, %s", c.base, c.rows, c.cols, c.precision)
		o := engine.Options{Device: engine.Device{Threads: longThreads}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true, Precision: c.precision}}
		all := compiled(t, g, o)
		defer all.Close()
		o.Memory.Limit = memoryOf(all) - kept(all)/2
		half := compiled(t, g, o)
		defer half.Close()
		mib := func(n int64) float64 { return float64(n) / (1 << 20) }
		t.Logf("%s: arena and scratch of %.1f MiB, of these %.1f activations; bound %.1f MiB, taken %.1f",
			precision, mib(memoryOf(all)), mib(kept(all)), mib(o.Memory.Limit), mib(memoryOf(half)))
		notes := half.Graph().Notes
		if memoryOf(half) > o.Memory.Limit || half.FLOPs() != all.FLOPs() || len(notes) == len(all.Graph().Notes) {
			t.Fatalf("%s: %d bytes for a bound of %d, %d useful operations of %d, notes %q", precision, memoryOf(half), o.Memory.Limit, half.FLOPs(), all.FLOPs(), notes)
		}
		t.Logf("%s: %s", precision, notes[len(notes)-1])
		want, got := trained(t, all), trained(t, half)
		for i := range want {
			if !sameBits(got[i], want[i]) {
				t.Errorf("%s: part %d differs", precision, i)
			}
		}
		times := map[*engine.Plan][]time.Duration{}
		for range 3 { // alternately, so that both have the same load of the machine
			for _, p := range []*engine.Plan{all, half} {
				began := time.Now()
				if err := p.Run(context.Background(), 0); err != nil {
					t.Fatal(err)
				}
				times[p] = append(times[p], time.Since(began))
			}
		}
		least := slices.Min(times[all])
		t.Logf("%s: forward and backward pass take %s, in less memory %.2f times as long", precision, least.Round(time.Millisecond), float64(slices.Min(times[half]))/float64(least))
	}
}

// TestLongSeams runs TestSeams for all remainders of columns, with networks that are trained for longer.
func TestLongSeams(t *testing.T) { checkSeams(t, 200, 32, 33, 34, 35, 36, 37, 38, 39, 60) }

// TestLongTurns runs TestTurns for all kinds.
func TestLongTurns(t *testing.T) { checkTurns(t, Kinds...) }
