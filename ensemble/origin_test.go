package ensemble

import (
	"reflect"
	"testing"
)

func TestOrigins(t *testing.T) {
	grid := &Grid{Kind: RegularLatLon, NX: 2, NY: 1}
	kinds := []*Kind{{Centre: "kwbc", Process: "107", Grid: grid}, {Centre: "ecmf", Process: "153", Grid: grid}, {Centre: "ecmf", Process: "153", Grid: grid, Packing: "grid_ccsds"}}
	var entries []Entry
	for _, k := range append(kinds, kinds...) {
		entries = append(entries, Entry{Kind: k})
	}
	got, want := Origins(entries), []Origin{{"ecmf", "153", "2x1"}, {"kwbc", "107", "2x1"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, c := range []struct {
		o    Origin
		like bool
	}{{Origin{"ecmf", "153", ""}, true}, {Origin{"", "", "2x1"}, true}, {Origin{"ecmf", "154", ""}, false}, {Origin{"kwbc", "", ""}, false}, {Origin{"", "", "x"}, false}} {
		if c.o.Matches(want[0]) != c.like || want[0].Matches(c.o) != c.like {
			t.Errorf("%q like %q: want %v", c.o, want[0], c.like)
		}
	}
	if s := want[0].String(); s != "ecmf, process 153, 2x1 points" {
		t.Error(s)
	}
}
