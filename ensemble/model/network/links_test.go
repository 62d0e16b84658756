package network

import (
	"testing"

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
