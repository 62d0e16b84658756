package ensemble

import (
	"encoding/json"
	"testing"
)

// The text forms of levels and grids are decoded to equal values.
func TestTextRoundTrips(t *testing.T) {
	for _, want := range []Level{PressureLevel(850), PressureLevel(0.5), {Kind: HeightAboveSoil, Value: 2}, {Kind: Surface}, {Kind: MeanSea}} {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Level
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Errorf("%s read as %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"850", "hPa", "-2m", "850 hPa", "level7"} {
		if l, err := ParseLevel(bad); err == nil {
			t.Errorf("%q read as %s", bad, l)
		}
	}
	for k := RegularLatLon; k <= Points; k++ {
		text, _ := json.Marshal(k)
		var got GridKind
		if err := json.Unmarshal(text, &got); err != nil || got != k {
			t.Errorf("%s read as %s, %v", text, got, err)
		}
	}
	g := testGrid(5, 6, true)
	g.Source = SourceOrder{SouthFirst: true, Roll: 3, FirstLon: -180, ScanningMode: 64}
	text, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var got Grid
	if err := json.Unmarshal(text, &got); err != nil || !got.SameAs(g, 0) || got.Source != g.Source {
		t.Errorf("grid read back as %+v, %v", got, err)
	}
}
