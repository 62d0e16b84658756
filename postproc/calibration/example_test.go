package calibration_test

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/postproc/calibration"
)

func ExamplePoolAdjacentViolators() {
	y := []float64{0.1, 0.4, 0.2, 0.5}
	calibration.PoolAdjacentViolators(y, []float64{1, 1, 1, 1})
	fmt.Printf("%.2f\n", y)
	// Output: [0.10 0.30 0.30 0.50]
}

func ExampleRearrange() {
	p := []float64{0.8, 0.3, 0.35} // of exceeding 1, 5 and 10 mm
	calibration.Rearrange(p)
	fmt.Println(p)
	// Output: [0.8 0.35 0.3]
}

func ExampleTable_Reliability() {
	var t calibration.Table
	for k := range 3000 { // events are half as frequent as forecast
		p := float64(k%10)/10 + 0.05
		t.Add(p, math.Floor(math.Mod(float64(k/10)*0.618, 1)+p/2), 1)
	}
	m := t.Reliability()
	fmt.Printf("%.2f %.2f\n", m.At(0.25), m.At(0.75))
	// Output: 0.12 0.37
}

func ExampleTails() {
	var t calibration.Tails
	for k := range 1000 { // errors of a normal distribution, twice as large as the spread
		t.Add(2*math.Sqrt2*math.Erfinv((float64(k)+0.5)/1000), 1, 1)
	}
	factor, nu := t.Fit()
	fmt.Printf("factor %.2f, normal tails %v\n", factor, nu > 100)
	// Output: factor 2.00, normal tails true
}
