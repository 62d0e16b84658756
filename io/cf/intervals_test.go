package cf

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Fields with a method over time are valid at the end of their bounds, wherever in the interval the time is. Bounds of the
// lead count like those of the time, and those of a sum of precipitation need no method.
func TestIntervals(t *testing.T) {
	start := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = ensemble.Lead(24 * time.Hour)
	for _, c := range []struct {
		name, variable string
		attrs          map[string]string
		time           float64    // hours; of the lead if ofLead
		bounds         [2]float64 // none if equal
		ofLead         bool       // time is a lead from an initialisation at 0 h
		valid          float64
		want           ensemble.TimeStatistic
	}{
		{"mean at its end", "t2m", map[string]string{"cell_methods": "time: mean"}, 24, [2]float64{0, 24}, false, 24, ensemble.TimeStatistic{Statistic: "mean", Interval: day}},
		{"mean in the middle", "t2m", map[string]string{"cell_methods": "time: mean"}, 12, [2]float64{0, 24}, false, 24, ensemble.TimeStatistic{Statistic: "mean", Interval: day}},
		{"maximum at its start", "t2m", map[string]string{"cell_methods": "time: maximum (interval: 1 hour)"}, 0, [2]float64{0, 24}, false, 24, ensemble.TimeStatistic{Statistic: "maximum", Interval: day}},
		{"falling bounds", "tp", map[string]string{"cell_methods": "time: sum"}, 24, [2]float64{24, 0}, false, 24, ensemble.TimeStatistic{Statistic: "sum", Interval: day}},
		{"of a lead", "tp", map[string]string{"cell_methods": "forecast_period: sum"}, 30, [2]float64{6, 30}, true, 30, ensemble.TimeStatistic{Statistic: "sum", Interval: day}},
		{"of the middle of a lead", "tp", map[string]string{"cell_methods": "time: sum"}, 18, [2]float64{6, 30}, true, 30, ensemble.TimeStatistic{Statistic: "sum", Interval: day}},
		{"precipitation without a method", "tp", nil, 24, [2]float64{0, 24}, false, 24, ensemble.TimeStatistic{Statistic: "sum", Interval: day}},
		{"temperature without a method", "t2m", nil, 12, [2]float64{0, 24}, false, 12, ensemble.TimeStatistic{}},
		{"point", "t2m", map[string]string{"cell_methods": "time: point"}, 12, [2]float64{0, 24}, false, 12, ensemble.TimeStatistic{}},
		{"step type", "t2m", map[string]string{"GRIB_stepType": "max"}, 24, [2]float64{}, false, 24, ensemble.TimeStatistic{Statistic: "maximum"}},
		{"maximum of means", "t2m", map[string]string{"cell_methods": "time: mean within days time: maximum over days"}, 24, [2]float64{0, 24}, false, 24, ensemble.TimeStatistic{Statistic: "maximum of mean", Interval: day}},
	} {
		h := &Header{Dims: []Dim{{Name: "time", Len: 1}, {Name: "lat", Len: 2}, {Name: "lon", Len: 2}, {Name: "bnds", Len: 2}}}
		text := func(pairs map[string]string) map[string]Attr {
			out := map[string]Attr{}
			for k, v := range pairs {
				out[k] = Attr{Text: v}
			}
			return out
		}
		of := map[string]string{"units": "hours since 2020-01-01", "standard_name": "time"}
		if c.ofLead {
			of = map[string]string{"units": "hours", "standard_name": "forecast_period"}
		}
		if c.bounds[0] != c.bounds[1] {
			of["bounds"] = "time_bnds"
		}
		attrs := text(c.attrs)
		attrs["units"] = Attr{Text: "K"}
		h.Vars = []Var{{Name: "time", Type: "double", Dims: []int{0}, Attrs: text(of)}, {Name: "lat", Type: "double", Dims: []int{1}}, {Name: "lon", Type: "double", Dims: []int{2}},
			{Name: "time_bnds", Type: "double", Dims: []int{0, 3}}, {Name: c.variable, Type: "float", Dims: []int{0, 1, 2}, Attrs: attrs}}
		values := [][]float64{{c.time}, {10, 0}, {0, 1}, {c.bounds[0], c.bounds[1]}}
		if c.ofLead {
			h.Vars = append(h.Vars, Var{Name: "forecast_reference_time", Type: "double", Attrs: text(map[string]string{"units": "hours since 2020-01-01", "standard_name": "forecast_reference_time"})})
			values = append(values, nil, []float64{0})
		}
		found, err := find(h, func(slabs []Slab) ([][]float64, error) {
			var out [][]float64
			for _, s := range slabs {
				out = append(out, values[s.Var])
			}
			return out, nil
		})
		if err != nil || len(found.Fields) != 1 {
			t.Errorf("%s: %d fields, unused %v, %v", c.name, len(found.Fields), found.Unused, err)
			continue
		}
		f := found.Fields[0]
		got := ensemble.TimeStatistic{Statistic: f.Statistic, Interval: f.Interval}
		if want := start.Add(time.Duration(c.valid * float64(time.Hour))); got != c.want || !f.Key.Valid().Equal(want) || c.ofLead != (f.Key.Lead != 0) {
			t.Errorf("%s: %s at %s (lead %s), want %s at %s", c.name, got, f.Key.Valid(), f.Key.Lead, c.want, want)
		}
	}
}
