package drift_test

import (
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/drift"
)

func ExampleFit() {
	g, err := ensemble.NamedGrid("4x2")
	if err != nil {
		fmt.Println(err)
		return
	}
	boxes := drift.NewBoxes(g)
	field := func(bias float64, k int) drift.Summary { // ensemble mean and spread of one init, K
		mean, std := make([]float32, g.Size()), make([]float32, g.Size())
		for p := range mean {
			mean[p], std[p] = float32(280+bias+math.Sin(float64(7*p+3*k))), 1
		}
		return boxes.Summarise(mean, std)
	}
	var inits []drift.Summary
	var valid []time.Time
	for k := range 24 {
		inits, valid = append(inits, field(0, k)), append(valid, time.Date(2020, time.Month(1+k/2), 1+14*(k%2), 0, 0, 0, 0, time.UTC))
	}
	f, err := drift.Fit(boxes, inits, valid)
	if err != nil {
		fmt.Println(err)
		return
	}
	size, component := f.Distance(boxes, field(10, 5), time.Date(2021, 5, 1, 0, 0, 0, 0, time.UTC)).Largest()
	fmt.Printf("%s, beyond 6 standard deviations: %v\n", component, size > 6)
	// Output: mean, beyond 6 standard deviations: true
}
