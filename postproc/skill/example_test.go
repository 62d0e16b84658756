package skill_test

import (
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/significance"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// Example decomposes the skill of a model relative to three raw members that are 1 K too warm.
func Example() {
	forecast := func(k int) (members [][]float32, obs float32) {
		truth := 280 + 5*math.Sin(float64(k))
		for m := range 3 {
			members = append(members, []float32{float32(truth + 1 + 2*math.Sin(1.3*float64(k)) + 0.8*math.Sin(float64(5*k+11*m)))})
		}
		return members, float32(truth)
	}
	set := &baseline.Set{}
	for k := range 60 { // training dates
		members, obs := forecast(k)
		mean, std := make([]float32, 1), make([]float32, 1)
		ensemble.MeanStd(mean, std, members, 1)
		set.Valid = append(set.Valid, time.Date(2020, 1, 1+k, 0, 0, 0, 0, time.UTC))
		set.Mean, set.Std, set.Obs = append(set.Mean, mean[0]), append(set.Std, std[0]), append(set.Obs, obs)
	}
	fit, err := skill.Fit(set, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	var dates []skill.Sums
	for k := range 20 { // test dates
		members, obs := forecast(100 + k)
		c := &skill.Case{Members: members, Obs: []float32{obs}, Mean: []float32{obs + 0.5}, Spread: []float32{0.5}}
		sums, err := fit.Score(c, skill.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		dates = append(dates, sums[0])
	}
	r, err := skill.NewReport(dates, 3, significance.Bootstrap{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range r.Components[:6] {
		fmt.Printf("%-20s %6.1f %%\n", c.Name, 100*c.Value)
	}
	// Output:
	// finite size             7.3 %
	// bias                   14.8 %
	// dispersion             13.1 %
	// season and shrinkage    0.0 %
	// information            36.8 %
	// total                  72.0 %
}
