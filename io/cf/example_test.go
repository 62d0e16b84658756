package cf_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/cf"
)

// Finds the fields of a variable t2m[step, lat, lon] with a scalar initialisation.
func ExampleFields() {
	text := func(pairs ...string) map[string]cf.Attr {
		m := map[string]cf.Attr{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = cf.Attr{Text: pairs[i+1]}
		}
		return m
	}
	h := &cf.Header{
		Dims: []cf.Dim{{Name: "step", Len: 2}, {Name: "lat", Len: 2}, {Name: "lon", Len: 3}},
		Vars: []cf.Var{
			{Name: "step", Type: "double", Dims: []int{0}, Attrs: text("standard_name", "forecast_period", "units", "hours")},
			{Name: "lat", Type: "double", Dims: []int{1}, Attrs: text("units", "degrees_north")},
			{Name: "lon", Type: "double", Dims: []int{2}, Attrs: text("units", "degrees_east")},
			{Name: "init", Type: "double", Attrs: text("standard_name", "forecast_reference_time", "units", "days since 2026-01-01")},
			{Name: "t2m", Type: "float", Dims: []int{0, 1, 2}, Attrs: text("units", "K", "coordinates", "init")},
		},
	}
	values := [][]float64{{24, 48}, {50, 40}, {0, 10, 20}, {0}}
	found, err := cf.Fields(h, cf.Options{
		Values: func([]cf.Slab) ([][]float64, error) { return values, nil }, // all coordinates at once
		Share:  func(g *ensemble.Grid) *ensemble.Grid { return g },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range found.Fields {
		fmt.Println(f.Key.Variable, f.Key.Level, f.Key.Init, f.Key.Lead, f.Slab.Start, f.Slab.Count)
	}
	fmt.Println(len(found.Unused), "unused")
	// Output:
	// 2t 2m 2026-01-01T00:00Z 24h [0 0 0] [1 2 3]
	// 2t 2m 2026-01-01T00:00Z 48h [1 0 0] [1 2 3]
	// 0 unused
}

// Unpacks stored integers with a fill value.
func ExamplePacking_Unpack() {
	p := cf.PackingOf(&cf.Var{Name: "t", Type: "short", Attrs: map[string]cf.Attr{
		"_FillValue": {Numbers: cf.Floats{-32767}}, "scale_factor": {Numbers: cf.Floats{0.5}}, "add_offset": {Numbers: cf.Floats{270}},
	}})
	x := []float64{0, 10, -32767}
	if err := p.Unpack(x); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(x)
	// Output: [270 275 NaN]
}
