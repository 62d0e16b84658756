package significance_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ensemble-weather/ensemble/postproc/significance"
)

func ExampleDieboldMariano() {
	differences := []float64{0.2, -0.1, 0.3, 0.1, 0.2, 0, 0.3, 0.2} // of the CRPS of two systems, by date
	t := significance.DieboldMariano(differences, 1)
	fmt.Printf("mean %.3f, statistic %.2f, p = %.3f\n", t.Mean, t.Statistic, t.P)
	// Output: mean 0.150, statistic 3.00, p = 0.020
}

func ExampleMemoryOf() {
	var x []float64 // each value five times
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		x = append(x, slices.Repeat([]float64{r.NormFloat64()}, 5)...)
	}
	m := significance.MemoryOf(x)
	fmt.Printf("correlation of neighbours %.1f, blocks of %d, %.0f independent dates of %d\n", m.Lag1, m.Block, m.Independent, len(x))
	// Output: correlation of neighbours 0.8, blocks of 9, 35 independent dates of 300
}

func ExampleDieboldMarianoMap() {
	differences := [][]float32{{0.2, 0.1}, {0.1, -0.1}, {0.3, 0.2}, {0.2, -0.2}} // [date][point]
	fmt.Printf("%.3f\n", significance.DieboldMarianoMap(differences, 1))
	// Output: [0.016 1.000]
}

func ExampleFalseDiscovery() {
	significant, limit := significance.FalseDiscovery([]float64{0.001, 0.02, 0.04, 0.3, 0.8}, 0.1)
	fmt.Println(significant, limit)
	// Output: [true true true false false] 0.04
}

func ExampleBootstrap_Interval() {
	var rows [][]float64 // Σ w·x and Σ w of every date
	for k := range 30 {
		rows = append(rows, []float64{float64(k * k % 7), 1})
	}
	mean, low, high, err := significance.Bootstrap{Seed: 1}.Interval(rows, func(sums []float64) float64 { return sums[0] / sums[1] })
	fmt.Printf("%.2f [%.2f, %.2f] %v\n", mean, low, high, err)
	// Output: 1.90 [1.42, 2.21] <nil>
}
