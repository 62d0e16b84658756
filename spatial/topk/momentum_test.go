package topk

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// close32 reports whether vectors agree to rounding.
func close32(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-6 })
}

// Momentum 0.9, 2 of 8 values, the same gradient twice, on one rank.
func TestMomentumCorrection(t *testing.T) {
	g := []float32{.5, -.1, .05, -.9, .2, 0, .3, -.04}
	r, err := New(8, Options{Density: 0.25, Momentum: 0.9, ThresholdSteps: 1})
	if err != nil {
		t.Fatal(err)
	}
	for step, want := range []struct {
		sent               map[int32]float32
		residual, velocity []float32
	}{
		{map[int32]float32{0: .5, 3: -.9}, []float32{0, -.1, .05, 0, .2, 0, .3, -.04}, []float32{0, -.1, .05, 0, .2, 0, .3, -.04}},
		{map[int32]float32{3: -.9, 6: .87}, []float32{.5, -.29, .145, 0, .58, 0, 0, -.116}, []float32{.5, -.19, .095, 0, .38, 0, 0, -.076}},
	} {
		var u Entries
		if err := comm.Run(1, comm.Parallel, func(c *comm.Comm) (err error) {
			u, err = r.Sum(c, comm.Parts[float32]{slices.Clone(g)})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s := r.State()
		if !near(u, want.sent) || !close32(s.Residual, want.residual) || !close32(s.Velocity, want.velocity) {
			t.Errorf("step %d: sent %v, v = %v, u = %v", step+1, u, s.Residual, s.Velocity)
		}
	}
}

// The norm that each of P ranks adds is at most Clip/√P; smaller gradients are unchanged.
func TestLocalClipping(t *testing.T) {
	err := comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
		r, err := New(3, Options{Density: 1, Clip: 2})
		if err != nil {
			return err
		}
		for _, g := range []struct{ in, want []float32 }{
			{[]float32{3, 0, 4}, []float32{.6, 0, .8}}, // norm 5 becomes 2/√4
			{[]float32{.3, 0, -.4}, []float32{.3, 0, -.4}},
		} {
			x := slices.Clone(g.in)
			if _, err := r.Sum(c, comm.Parts[float32]{x}); err != nil {
				return err
			}
			for i := range x {
				x[i] /= 4
			}
			if !close32(x, g.want) {
				return fmt.Errorf("clipped %v, want %v", x, g.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Without momentum an entry that waits has the sum of its gradients; with momentum what is
// sent in the end, plus what is left, is what momentum in each step would have applied.
func TestMomentumOfWaitingEntries(t *testing.T) {
	const n, steps = 40, 9
	for _, mu := range []float32{0, 0.5} {
		r, err := New(n, Options{Density: 1.0 / n, Momentum: mu, ThresholdSteps: 1})
		if err != nil {
			t.Fatal(err)
		}
		// Value 0 is always the largest. So the others wait, and are never masked.
		velocity, corrected := make([]float32, n), make([]float32, n)
		err = comm.Run(1, comm.Parallel, func(c *comm.Comm) error {
			for s := range steps {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32((i+s)%5 - 2)
					velocity[i] = mu*velocity[i] + x[i]
					corrected[i] += velocity[i]
				}
				x[0] = 1e6
				u, err := r.Sum(c, comm.Parts[float32]{x})
				if err != nil {
					return err
				}
				if len(u.Index) != 1 || u.Index[0] != 0 {
					return errors.New("another entry is sent")
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.State().Residual[1:], corrected[1:]) {
			t.Errorf("momentum %g: residuals %v, want %v", mu, r.State().Residual, corrected)
		}
	}
}

func TestWarmupDensity(t *testing.T) {
	for _, c := range []struct {
		epochs int
		target float64
		want   []float64
	}{
		{4, 0.001, []float64{.25, .0625, .015625, .004, .001, .001}},
		{8, 0.001, []float64{.25, .25, .0625, .0625, .015625, .015625, .004, .004, .001}},
		{2, 0.001, []float64{.25, .015625, .001}},
		{4, 0.02, []float64{.25, .0625, .02, .02, .02}},
		{0, 0.01, []float64{.01}},
	} {
		for epoch, want := range c.want {
			if got := WarmupDensity(epoch, c.epochs, c.target); got != want {
				t.Errorf("epoch %d of %d: density %g, want %g", epoch, c.epochs, got, want)
			}
		}
	}
}
