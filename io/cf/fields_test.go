package cf

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// times is a dataset with a variable t on two times, two leads, two levels and a grid of
// 2×3 points; attributes are those of the coordinates.
func times(lead string, attributes map[string]map[string]string, levels []float64) (*Header, Fetch) {
	h := &Header{}
	values := [][]float64{{0, 24}, {6, 12}, levels, {10, 0}, {0, 1, 2}}
	for i, name := range []string{"time", lead, "level", "lat", "lon"} {
		h.Dims = append(h.Dims, Dim{Name: name, Len: int64(len(values[i]))})
		v := Var{Name: name, Type: "double", Dims: []int{i}, Attrs: map[string]Attr{}}
		for k, text := range attributes[name] {
			v.Attrs[k] = Attr{Text: text}
		}
		h.Vars = append(h.Vars, v)
	}
	h.Vars = append(h.Vars, Var{Name: "t", Type: "float", Dims: []int{0, 1, 2, 3, 4}, Attrs: map[string]Attr{"units": {Text: "K"}}})
	return h, func(slabs []Slab) ([][]float64, error) {
		var out [][]float64
		for _, s := range slabs {
			out = append(out, values[s.Var])
		}
		return out, nil
	}
}

// find returns the fields of a dataset.
func find(h *Header, fetch Fetch) (Content, error) {
	return Fields(h, Options{Values: fetch, Share: func(g *ensemble.Grid) *ensemble.Grid { return g }})
}

// Leads are added to the time if they have a dimension of their own, unless CF
// states that they end at the time.
func TestTimesOfLeads(t *testing.T) {
	origin := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		lead  string
		attrs map[string]string
		start time.Duration // of the first field, after the origin
	}{
		{"prediction_timedelta", map[string]string{"units": "hours"}, 0},
		{"prediction_timedelta", map[string]string{"units": "hours", "standard_name": "forecast_period"}, 0},
		{"step", map[string]string{"units": "hours"}, 0},
		{"lead_time", map[string]string{"units": "hours", "standard_name": "forecast_period"}, -6 * time.Hour},
	} {
		h, fetch := times(c.lead, map[string]map[string]string{"time": {"units": "hours since 2020-01-01"}, c.lead: c.attrs}, []float64{500, 850})
		got, err := find(h, fetch)
		fields, unused := got.Fields, got.Unused
		if err != nil || len(fields) != 8 || len(unused) != 0 {
			t.Errorf("%s: %d fields, unused %v, %v", c.lead, len(fields), unused, err)
			continue
		}
		if k := fields[0].Key; !k.Init.Equal(origin.Add(c.start)) || k.Lead != ensemble.Lead(6*time.Hour) {
			t.Errorf("%s %v: %s", c.lead, c.attrs, k)
		}
	}
}

// A level without a unit is pressure if it cannot be anything else.
func TestLevelsWithoutUnit(t *testing.T) {
	for _, c := range []struct {
		levels   []float64
		unit     string
		pressure bool
	}{
		{[]float64{500, 850}, "", true}, {[]float64{50, 150}, "", true}, {[]float64{1, 2}, "", false}, {[]float64{100, 125}, "", false},
		{[]float64{500, 851}, "", false}, {[]float64{500, 850}, "1", false}, {[]float64{500, 850}, "hPa", true},
	} {
		h, fetch := times("prediction_timedelta", map[string]map[string]string{"time": {"units": "hours since 2020-01-01"}, "prediction_timedelta": {"units": "hours"},
			"level": {"units": c.unit}}, c.levels)
		got, err := find(h, fetch)
		fields := got.Fields
		if err != nil || len(fields) == 0 || (fields[0].Key.Level == ensemble.PressureLevel(c.levels[0])) != c.pressure {
			t.Errorf("%v %q: %v, %v", c.levels, c.unit, fields[0].Key.Level, err)
		}
	}
}
