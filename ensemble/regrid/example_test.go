package regrid_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/regrid"
)

// Interpolates a field bilinearly to the centre of four points.
func ExampleNew() {
	from := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 2, NY: 2, Lat: []float64{50, 40}, Lon: []float64{0, 10}}
	to := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 1, NY: 1, Lat: []float64{45}, Lon: []float64{5}}
	w, err := regrid.New(from, to, regrid.Options{Method: regrid.Bilinear})
	if err != nil {
		fmt.Println(err)
		return
	}
	out := make([]float32, w.NumTargets())
	regrid.Apply(w, out, []float32{270, 274, 280, 284})
	fmt.Println(w.Covered(), "of", w.NumTargets(), "covered:", out, "K")
	// Output: 1 of 1 covered: [277] K
}
