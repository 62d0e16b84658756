package projection_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/io/projection"
)

// A Lambert conformal conic projection from its CF grid mapping.
func ExampleFromCF() {
	p, err := projection.FromCF(map[string]any{
		"grid_mapping_name":             "lambert_conformal_conic",
		"standard_parallel":             []float64{30, 60},
		"latitude_of_projection_origin": 45.0,
		"longitude_of_central_meridian": 10.0,
		"earth_radius":                  6371229.0,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	x, y := p.Forward(47.4, 8.5)
	lat, lon := p.Inverse(x, y)
	fmt.Printf("x %.0f m, y %.0f m\n%.3f N, %.3f E\n", x, y, lat, lon)
	// Output:
	// x -109066 m, y 258761 m
	// 47.400 N, 8.500 E
}

// Latitudes and longitudes of all points of a grid with a rotated pole.
func ExampleCoordinates() {
	p, err := projection.FromCF(map[string]any{
		"grid_mapping_name":         "rotated_latitude_longitude",
		"grid_north_pole_latitude":  43.0,
		"grid_north_pole_longitude": 190.0,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	lat, lon := projection.Coordinates(p, []float64{-1, 0}, []float64{0})
	fmt.Printf("%.2f N %.2f E, %.2f N %.2f E\n", lat[0], lon[0], lat[1], lon[1])
	// Output: 46.99 N 8.53 E, 47.00 N 10.00 E
}
