package ecc_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/ecc"
)

// couple prints calibrated members at two points, from N(10, 2²) at both and a raw ensemble of
// three members.
func couple(a ecc.Assignment) {
	raw := [][]float32{{7, 3}, {5, 4}, {6, 9}} // [member][point]
	members, err := ecc.Couple(raw, a, func(_ int, p float64) float64 { return 10 + 2*dist.NormalQuantile(p) })
	fmt.Printf("%.2f %v\n", members, err)
}

func ExampleQuantiles() {
	couple(ecc.Quantiles(ecc.Levels(3), ecc.Draws{}))
	// Output: [[11.35 8.65] [8.65 10.00] [10.00 11.35]] <nil>
}

func ExampleRandom() {
	couple(ecc.Random(3, ecc.Draws{Seed: 1}))
	// Output: [[11.14 7.47] [7.31 12.19] [10.50 15.55]] <nil>
}

func ExampleTransformation() {
	couple(ecc.Transformation(ecc.Draws{}))
	// Output: [[12.00 8.55] [8.00 9.17] [10.00 12.28]] <nil>
}

func ExampleLevels() {
	fmt.Printf("%.2f %.2f\n", ecc.Levels(3), ecc.MidLevels(3))
	// Output: [0.25 0.50 0.75] [0.17 0.50 0.83]
}
