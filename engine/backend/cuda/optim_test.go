//go:build cgo && linux

package cuda_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/rng"
)

// emulated opens the emulated device; do runs within it.
func emulated(t *testing.T) (b *cuda.Backend, do func(f func() error)) {
	t.Helper()
	b, err := cuda.New(func() (device.Device, error) { return emulate.Open(1 << 28) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // no error to report
	return b, within(t, b)
}

// within gives what runs a function within b.
func within(t *testing.T, b *cuda.Backend) func(f func() error) {
	return func(f func() error) {
		t.Helper()
		if err := b.Do(f); err != nil {
			t.Fatal(err)
		}
	}
}

// there copies values to the device.
func there(t *testing.T, b *cuda.Backend, do func(func() error), x []float32) (y []float32) {
	t.Helper()
	do(func() (err error) {
		if y, err = b.Alloc(len(x)); err != nil {
			return err
		}
		return b.Copy(y, x)
	})
	return y
}

// here copies values back.
func here(t *testing.T, b *cuda.Backend, do func(func() error), x []float32) []float32 {
	t.Helper()
	y := make([]float32, len(x))
	do(func() error {
		if err := b.Copy(y, x); err != nil {
			return err
		}
		return b.Wait()
	})
	return y
}

// parameters lays out a store of three of them, one of which is in two pieces.
func parameters(t *testing.T) *engine.Store {
	t.Helper()
	b := graph.New(1)
	sum := b.Const("", graph.Shape{}, []float32{0})
	names := []string{"a.weight", "b.bias", "c.weight"}
	roles := []graph.Role{graph.Weight, graph.Bias, graph.Weight}
	for i, s := range []graph.Shape{{3, 7, 5}, {13}, {130, 129}} {
		sum = op.Add(b, sum, op.Sum(b, b.ParamOf(roles[i], names[i], s, graph.Fill(0.5))))
	}
	b.Loss(sum)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := engine.NewStore()
	p, err := engine.Compile(g, engine.Options{Reuse: engine.Reuse{Store: s}, Device: engine.Device{Backend: "ref"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

func random(x []float32, key uint64) {
	for i := range x {
		x[i] = float32(rng.Normal(key, uint64(i)))
	}
}

// close32 reports whether values are equal to rounding.
func close32(x, y []float32) error {
	for i := range x {
		if d := math.Abs(float64(x[i] - y[i])); !(d <= 2e-6*(1+math.Abs(float64(y[i])))) {
			return fmt.Errorf("element %d is %v, want %v", i, x[i], y[i])
		}
	}
	return nil
}

// TestOptimisersEqualHost: three steps of every rule, with clipping and an average, leave what
// those of package optim leave, recorded or not; one whose gradient is not finite leaves all as it was.
func TestOptimisersEqualHost(t *testing.T) {
	b, do := emulated(t)
	optimisersEqual(t, b, do)
}

func optimisersEqual(t *testing.T, b *cuda.Backend, do func(func() error)) {
	t.Helper()
	for _, c := range []struct {
		rule     backend.Rule
		kind     optim.Kind
		nesterov bool
	}{
		{backend.RuleSGD, optim.SGD, false}, {backend.RuleNesterov, optim.SGD, true}, {backend.RuleAdam, optim.Adam, false},
		{backend.RuleAdamW, optim.AdamW, false}, {backend.RuleLARS, optim.LARS, false}, {backend.RuleLAMB, optim.LAMB, false},
	} {
		store, average := parameters(t), parameters(t)
		random(store.Params(), 1)
		o := optim.Options{Kind: c.kind, Nesterov: c.nesterov, Decay: 0.1, Clip: 40, EMA: 0.9, Average: average, Eps: 1e-6}
		if c.kind == optim.SGD || c.kind == optim.LARS {
			o.Momentum = 0.9
		}
		a := backend.OptimArrays{W: there(t, b, do, store.Params()), G: there(t, b, do, store.Grads()), M: there(t, b, do, make([]float32, len(store.Params()))),
			V: there(t, b, do, make([]float32, len(store.Params()))), E: there(t, b, do, average.Params())}
		judge, err := optim.New(store, o)
		if err != nil {
			t.Fatal(err)
		}
		var pieces []backend.ParamRange
		var tensors []backend.ParamTensor
		number := map[string]int{}
		for _, e := range store.Entries() {
			number[e.Name] = len(tensors)
			plain := !e.Role.Decays()
			tensors = append(tensors, backend.ParamTensor{Decay: map[bool]float64{true: 0, false: o.Decay}[plain], Plain: plain})
		}
		for _, p := range optim.Chunks(store) {
			pieces = append(pieces, backend.ParamRange{Lo: p.Lo, Hi: p.Hi, Tensor: number[p.Param], At: p.Lo})
		}
		var s backend.Optimiser
		do(func() (err error) { s, err = b.NewOptimiser(c.rule, pieces, tensors, a); return err })
		step := func() error { return s.Step() }
		for i := range 4 {
			random(store.Grads(), uint64(2+i))
			if i == 3 {
				store.Grads()[5] = float32(math.Inf(1))
			}
			k := backend.OptimConstants{Rate: 0.05, Beta1: 0.9, Beta2: 0.999, Eps: 1e-6, Momentum: o.Momentum, GradScale: 1, ClipNorm: o.Clip, EMAWeight: 1 - math.Min(o.EMA, float64(1+i)/float64(10+i)), TrustCoefficient: 0.001,
				Correct1: 1 - math.Pow(0.9, float64(i+1)), Correct2: 1 - math.Pow(0.999, float64(i+1))}
			if i == 0 {
				k.EMAWeight = 1
			}
			do(func() error {
				if err := b.Copy(a.G, store.Grads()); err != nil {
					return err
				}
				if err := s.SetConstants(k); err != nil {
					return err
				}
				if i == 1 { // from now on
					again, _, err := b.Record(s.Step)
					if err != nil {
						return err
					}
					step = again
				}
				return step()
			})
			want, wantErr := judge.Step(0.05)
			var norm float64
			var finite bool
			do(func() (err error) { norm, finite, err = s.GradNorm(); return err })
			if finite != (wantErr == nil) || finite && math.Abs(norm-want) > 1e-5*want {
				t.Errorf("%s, step %d: norm %v, finite %v; want %v, %v", c.kind, i, norm, finite, want, wantErr)
			}
			if err := close32(here(t, b, do, a.W), store.Params()); err != nil {
				t.Fatalf("%s, step %d: parameters: %v", c.kind, i, err)
			}
			if err := close32(here(t, b, do, a.E), average.Params()); err != nil {
				t.Fatalf("%s, step %d: average: %v", c.kind, i, err)
			}
		}
		keep, ones := make([]bool, len(store.Params())), make([]float32, len(store.Params()))
		for i := range keep {
			keep[i], ones[i] = i%2 == 1, 1
		}
		x := there(t, b, do, ones)
		do(func() error {
			m, err := b.NewMask(len(keep))
			if err != nil {
				return err
			}
			mask, err := s.PrepareMask(x, m)
			if err != nil {
				return err
			}
			return errors.Join(m.Set(keep), mask())
		})
		for i, v := range here(t, b, do, x)[:105] {
			if v != float32(i%2) {
				t.Fatalf("masked element %d is %v", i, v)
			}
		}
		do(s.Close)
		if err := judge.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
