package coupling_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/postproc/coupling"
)

func ExampleJacobian() {
	scaled := func(members [][]float32) ([][]float32, error) { // doubles the distance from the mean
		out := make([][]float32, len(members))
		for i := range out {
			out[i] = make([]float32, 1)
			for _, m := range members {
				out[i][0] -= m[0] / float32(len(members))
			}
			out[i][0] += 2 * members[i][0]
		}
		return out, nil
	}
	found, err := coupling.Jacobian(scaled, [][]float32{{1}, {2}, {4}}, 1)
	fmt.Println(len(found), "dependent pairs", err)
	// Output: 6 dependent pairs <nil>
}

func ExampleCrossPair() {
	cross, within := coupling.CrossPair([]float64{271, 273}, []float64{272, 276}, 274)
	fmt.Printf("%.3f %.3f K\n", cross, within)
	// Output: 0.750 0.500 K
}
