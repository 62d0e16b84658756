package network

import (
	"maps"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Of every family that heads give there is a link, or it has a location and a scale and nothing else.
func TestLinks(t *testing.T) {
	known := map[string]bool{}
	for _, r := range dist.Table {
		f := r.Any()
		_, own := links[r.ID]
		known[r.ID] = true
		if byMoments := f.Unit.Std > 0 && len(f.Parameters) == 2; r.Head && own == byMoments {
			t.Errorf("%s%v: a link of its own: %v, a location and a scale: %v", r.ID, f.Parameters, own, byMoments)
		}
	}
	for id := range links {
		if !known[id] {
			t.Errorf("a link of no family: %s", id)
		}
	}
}

// The schema takes the losses of spreads that a network can be trained with.
func TestSpreadLosses(t *testing.T) {
	if have, want := slices.Sorted(maps.Keys(spreadLosses)), slices.Sorted(slices.Values(config.SpreadLosses)); !slices.Equal(have, want) {
		t.Errorf("the network has %q, the schema %q", have, want)
	}
}
