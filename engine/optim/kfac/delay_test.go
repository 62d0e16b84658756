package kfac

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// direction is the preconditioned gradient of a plan's store.
func direction(k *Preconditioner, g []float32) []float32 {
	u := make([]float32, len(g))
	k.Apply(u, g)
	return u
}

// A delayed update leaves directions as they are until it is published, and then has the bits of an update at once, whichever
// pieces of inversions ran before. Its state between has both.
func TestDelayedUpdates(t *testing.T) {
	g, in := randomNetwork(t)
	p := compile(t, g, "ref", 200)
	run(t, p, in)
	grads := p.Store().Grads()
	o := Options{Damping: .01, Decay: .5, History: true}
	at := preconditioner(t, p, o)
	o.Delayed = true
	delayed := preconditioner(t, p, o)
	update := func(scale float32, pieces int) {
		t.Helper()
		for i := range in["dy"] {
			in["dy"][i] *= scale
		}
		run(t, p, in)
		before := direction(delayed, grads)
		if err := errors.Join(at.Update(p.Output), delayed.Begin(p.Output)); err != nil {
			t.Fatal(err)
		}
		if all := delayed.Pending(); len(all) != 4 || all[1].Pieces != 3 || all[1].Cost != 109*109*48 { // the second factor has 109 rows
			t.Fatalf("inversions %v", all)
		}
		for range pieces {
			delayed.Invert(delayed.Pending()[0].Factor)
		}
		if got := direction(delayed, grads); !slices.Equal(got, before) || !delayed.IsPending() {
			t.Error("directions changed before the update was published")
		}
		saved := map[string][]float32{}
		for _, x := range stateOf(t, delayed) {
			saved[x.Name] = slices.Clone(x.Values)
		}
		resumed := preconditioner(t, p, o)
		if err := resumed.Restore(delayed.Updates(), true, func(name string) ([]float32, error) { return saved[name], nil }); err != nil {
			t.Fatal(err)
		}
		if got := direction(resumed, grads); !slices.Equal(got, before) {
			t.Error("a resumed update changes directions before it is published")
		}
		for i, k := range []*Preconditioner{delayed, resumed, delayed} { // the last time there is nothing to do
			if err := k.Publish(); err != nil || k.IsPending() || len(k.Pending()) > 0 {
				t.Fatal(err)
			}
			if got, want := direction(k, grads), direction(at, grads); !slices.Equal(got, want) || slices.Equal(got, before) {
				t.Errorf("%d: a published update has directions %v, want %v", i, got, want)
			}
		}
		if a, b := delayed.Changes(); func() [2]float64 { x, y := at.Changes(); return [2]float64{x, y} }() != [2]float64{a, b} {
			t.Errorf("changes %g and %g", a, b)
		}
	}
	update(1, 0)
	update(3, 2)
	update(2, 6)
	if err := delayed.Begin(p.Output); err != nil {
		t.Fatal(err)
	}
	if err := delayed.Begin(p.Output); exit.CodeOf(err) != exit.Bug {
		t.Errorf("a second update before the first is published: %v", err)
	}
	if err := at.Begin(p.Output); exit.CodeOf(err) != exit.Bug {
		t.Errorf("a delayed update without memory: %v", err)
	}
	p.Output("factor_rows.last")[2] = float32(math.NaN())
	if err := delayed.Publish(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(delayed.Begin(p.Output), delayed.Publish()); !errors.Is(err, ErrNotFinite) {
		t.Errorf("NaN in a factor: %v", err)
	}
}

// withOwners are the owners of chunks, for rank 0.
type withOwners struct {
	optim.Ranks
	owners []int
}

func (withOwners) Rank() int       { return 0 }
func (w withOwners) Owners() []int { return w.owners }

// A layer whose filter and bias are on different ranks is refused.
func TestDividedLayersAreRefused(t *testing.T) {
	g, _ := randomNetwork(t)
	p := compile(t, g, "ref", 200)
	owners := make([]int, len(p.Store().Names()))
	i := slices.IndexFunc(p.Factors(), func(l pass.LayerFactors) bool { return l.Bias != "" })
	owners[slices.Index(p.Store().Names(), p.Factors()[i].Bias)] = 1
	if _, err := New(p.Store(), p.Factors(), Options{Owners: withOwners{owners: owners}}); exit.CodeOf(err) != exit.Bug {
		t.Errorf("a layer on two ranks: %v", err)
	}
}
