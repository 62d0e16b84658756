package predict

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// The template of a product is the message of the first used member of the same initialisation, variable,
// level and lead.
func TestTemplates(t *testing.T) {
	init := ensemble.InitAt(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	later := ensemble.InitAt(init.Add(24 * time.Hour))
	level, lead := ensemble.PressureLevel(850), ensemble.Lead(48*time.Hour)
	grid := &ensemble.Grid{NX: 2, NY: 1, Lat: []float64{0}, Lon: []float64{0, 1}}
	entry := func(i ensemble.Init, v string, m ensemble.Member, p ensemble.Product, length int64) ensemble.Entry {
		return ensemble.Entry{Key: ensemble.Key{Variable: v, Level: level, Member: m, Init: i, Lead: lead, Product: p}, Message: int(m) + 1, Length: length, Kind: &ensemble.Kind{Grid: grid}}
	}
	elsewhere := entry(init, "v", 1, ensemble.MemberField, 100)
	elsewhere.Kind = &ensemble.Kind{Grid: &ensemble.Grid{NX: 1, NY: 2, Lat: []float64{1, 0}, Lon: []float64{0}}}
	found := templates([]ensemble.Entry{
		entry(init, "t", 3, ensemble.MemberField, 100),
		entry(init, "t", 2, ensemble.MemberField, 100),
		entry(init, "t", 0, ensemble.MemberField, 100),  // not used
		entry(init, "t", 1, ensemble.EnsembleMean, 100), // no member
		entry(later, "t", 3, ensemble.MemberField, 100),
		entry(init, "u", 2, ensemble.MemberField, 0), // of a NetCDF file
		elsewhere,
	}, []ensemble.Member{1, 2, 3}, grid)
	want := map[templateKey]ensemble.Member{{init, "t", level, lead, 2}: 2, {init, "t", level, lead, 3}: 3, {init, "t", level, lead, ensemble.NoMember}: 2,
		{later, "t", level, lead, 3}: 3, {later, "t", level, lead, ensemble.NoMember}: 3}
	if len(found) != len(want) {
		t.Errorf("%d templates, want %d", len(found), len(want))
	}
	for k, m := range want {
		if got := found[k]; got.Member != m || got.Init != k.init {
			t.Errorf("%s at %s: member %d of %s, want %d", k.variable, k.init, got.Member, got.Init, m)
		}
	}
}
