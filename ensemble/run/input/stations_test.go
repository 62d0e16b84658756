package input

import (
	"context"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// An orography needs no time, and its unit is converted.
func TestOrographyWithoutTime(t *testing.T) {
	pool, err := decode.NewPool(decode.Options{Program: testdecoder.Path(t), Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	grid := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 6, NY: 4, Lat: []float64{60, 55, 50, 45}, Lon: []float64{0, 5, 10, 15, 20, 25}}
	heights, sum, err := orography(context.Background(), pool, "../../../io/testdata/field/static_orography/orography.nc", grid)
	if err != nil || sum == "" || len(heights) != 24 || math.Abs(float64(heights[0])-82) > 1e-4 { // 280 + 2 − 200 m
		t.Errorf("heights %v, checksum %q, %v", heights, sum, err)
	}
}
