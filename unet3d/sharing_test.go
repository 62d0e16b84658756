package unet3d

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/share"
)

// TestEveryKindShares: with a budget alone, networks of every kind and several sizes share parameters within it, and the shared
// network compiles.
func TestEveryKindShares(t *testing.T) {
	built := map[string]bool{}
	for _, k := range Kinds {
		for _, size := range []struct{ base, stages int }{{4, 1}, {8, 2}, {32, 3}} {
			l := layoutOf(k)
			l.Base, l.Stages, l.Recurrent.Stages = max(k.BaseMultiple, 1)*((size.base-1)/max(k.BaseMultiple, 1)+1), size.stages, min(size.stages, 2)
			g, _, err := buildKind(k, l)
			if err != nil {
				continue // the kind refuses the size
			}
			built[k.Name] = true
			filters := 0 // parameters of filters
			for _, budget := range []float64{1, 2, 0.5, 0.25, 0.1, 0.02} {
				if budget < 1 && budget*float64(filters) < 1 {
					continue // less than a parameter
				}
				p, err := share.New(g, share.Options{Budget: budget})
				if err != nil {
					t.Errorf("%s, base %d, %d stages, budget %g: %v", k.Name, l.Base, l.Stages, budget, err)
					continue
				}
				filters = p.Filters
				if used := float64(p.Unshared + p.Stored); used > budget*float64(p.Filters)+1 {
					t.Errorf("%s, base %d, budget %g: %g of %d filters", k.Name, l.Base, budget, used, p.Filters)
				}
				shared, err := p.Rewrite(g)
				if err != nil {
					t.Fatal(err)
				}
				if l.Base > 8 || budget != 0.5 {
					continue
				}
				plan, err := engine.Compile(shared, engine.Options{Device: engine.Device{Backend: "ref"}, Mode: engine.Infer})
				if err != nil {
					t.Errorf("%s: %v", k.Name, err)
					continue
				}
				if err := plan.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if len(built) != len(Kinds) {
		t.Errorf("only %v were built", built)
	}
}
