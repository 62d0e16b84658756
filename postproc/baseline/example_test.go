package baseline_test

import (
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
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

func ExampleFitRegression() {
	r, err := baseline.FitRegression(past(), baseline.RegressionOptions{Harmonics: baseline.Seasonal})
	if err != nil {
		fmt.Println(err)
		return
	}
	mu, sigma := make([]float32, 2), make([]float32, 2)
	r.Predict(mu, sigma, []float32{280, 280}, []float32{0.7, 0.7}, time.Date(1993, 7, 1, 0, 0, 0, 0, time.UTC))
	fmt.Printf("%.1f ± %.1f K, %.1f ± %.1f K\n", mu[0], sigma[0], mu[1], sigma[1])
	// Output: 282.0 ± 1.6 K, 280.0 ± 1.6 K
}

func ExampleMethodByID() {
	m := baseline.MethodByID("emos_logistic")
	fit, err := m.Fit(past())
	if err != nil {
		fmt.Println(err)
		return
	}
	out := fit.Forecast(baseline.Raw{Valid: time.Date(1993, 7, 1, 0, 0, 0, 0, time.UTC), Mean: []float32{280}, Std: []float32{0.7}})
	fmt.Printf("%s: %s %.1f, %s %.1f\n", m.Family.Name, m.Family.Parameters[0], out[0][0], m.Family.Parameters[1], out[1][0])
	// Output: logistic: mu 281.0, sigma 1.1
}

func ExampleFitMemberCRPS() {
	members := []float64{1, 2, 3, 3, 4, 5, 2, 3, 4, 5, 6, 7} // of four dates, three each
	b, err := baseline.FitMemberCRPS(members, []float64{4, 9, 5.5, 13}, dist.Plain)
	if err != nil {
		fmt.Println(err)
		return
	}
	field := [][]float32{{1}, {2}, {3}}
	b.Predict(field, field)
	fmt.Printf("%.1f %.1f %.1f\n", field[0][0], field[1][0], field[2][0])
	// Output: 3.2 3.8 4.4
}

func ExampleFitQuantileMap() {
	q, err := baseline.FitQuantileMap([]float32{1, 2, 3, 4}, []float32{10, 20, 30, 40}, 1, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	field := []float32{2.5}
	q.Predict(field, field)
	fmt.Println(field[0])
	// Output: 25
}
