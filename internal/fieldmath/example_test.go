package fieldmath_test

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/internal/fieldmath"
)

// Three members at two points; the second point is missing in one member.
func ExampleMeanStd() {
	nan := float32(math.NaN())
	mean, std := make([]float32, 2), make([]float32, 2)
	fieldmath.MeanStd(mean, std, [][]float32{{271, 280}, {273, nan}, {275, 284}}, 1)
	fmt.Println(mean, std)
	// Output: [273 NaN] [2 NaN]
}

func ExampleStatsOf() {
	s := fieldmath.StatsOf([]float32{271, 273, float32(math.NaN()), 275})
	fmt.Println(s.Points, "points,", s.Missing, "missing, from", s.Min, "to", s.Max, "K, sum", s.Sum)
	// Output: 4 points, 1 missing, from 271 to 275 K, sum 819
}
