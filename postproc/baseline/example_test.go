package baseline_test

import (
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// past makes 104 weeks at two points: the ensemble mean is 2 K too cold at the
// first and right at the second, the spread is half of what it should be.
func past() *baseline.Set {
	s := &baseline.Set{}
	for k := range 104 {
		s.Valid = append(s.Valid, time.Date(1990, 1, 1+7*k, 0, 0, 0, 0, time.UTC))
		m, wave := 280+5*math.Sin(float64(k)), 2*math.Sin(1.7*float64(k))
		s.Mean = append(s.Mean, float32(m), float32(m))
		s.Std = append(s.Std, 0.7, 0.7)
		s.Obs = append(s.Obs, float32(m+2+wave), float32(m+wave))
	}
	return s
}

func ExampleFitEMOS() {
	e, err := baseline.FitEMOS(past(), baseline.EMOSOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mu, sigma := make([]float32, 2), make([]float32, 2)
	e.Predict(mu, sigma, []float32{280, 280}, []float32{0.7, 0.7})
	fmt.Printf("%.1f ± %.1f K, %.1f ± %.1f K\n", mu[0], sigma[0], mu[1], sigma[1])
	// Output: 281.0 ± 1.8 K, 281.0 ± 1.8 K
}

func ExampleFitGridEMOS() {
	g, err := baseline.FitGridEMOS(past(), baseline.GridEMOSOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mu, sigma := make([]float32, 2), make([]float32, 2)
	g.Predict(mu, sigma, []float32{280, 280}, []float32{0.7, 0.7}, time.Date(1993, 7, 1, 0, 0, 0, 0, time.UTC))
	fmt.Printf("%.1f ± %.1f K, %.1f ± %.1f K\n", mu[0], sigma[0], mu[1], sigma[1])
	// Output: 282.0 ± 1.6 K, 280.0 ± 1.6 K
}
