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

func ExampleFitClimatology() {
	c, err := baseline.FitClimatology(past())
	if err != nil {
		fmt.Println(err)
		return
	}
	mu, sigma := make([]float32, 2), make([]float32, 2)
	c.Predict(mu, sigma, time.Date(1993, 7, 1, 0, 0, 0, 0, time.UTC))
	fmt.Printf("%.1f ± %.1f K, %.1f ± %.1f K\n", mu[0], sigma[0], mu[1], sigma[1])
	// Output: 282.1 ± 3.9 K, 280.1 ± 3.9 K
}

func ExampleFitSAMOS() {
	b, err := baseline.FitSAMOS(past())
	if err != nil {
		fmt.Println(err)
		return
	}
	out := b.Forecast(baseline.Raw{Valid: time.Date(1993, 7, 1, 0, 0, 0, 0, time.UTC), Mean: []float32{280, 280}, Std: []float32{0.7, 0.7}})
	fmt.Printf("%.1f ± %.1f K, %.1f ± %.1f K\n", out[0][0], out[1][0], out[0][1], out[1][1])
	// Output: 282.0 ± 1.6 K, 280.0 ± 1.6 K
}

func ExampleFitGammaEMOS() {
	s := &baseline.Set{} // precipitation in mm: the ensemble has half of what is observed
	for k := range 60 {
		s.Valid = append(s.Valid, time.Date(1990, 1, 1+k, 0, 0, 0, 0, time.UTC))
		m := 1 + math.Sin(float64(k))
		s.Mean, s.Std = append(s.Mean, float32(m)), append(s.Std, float32(m/2))
		s.Obs = append(s.Obs, float32(max(0, 2*m+2*math.Sin(2.7*float64(k)))))
	}
	e, err := baseline.FitGammaEMOS(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	par := e.Forecast(baseline.Raw{Mean: []float32{1.5}})
	mean, _ := dist.CSGamma.Moments([]float64{float64(par[0][0]), float64(par[1][0]), float64(par[2][0])})
	fmt.Printf("mean %.1f mm\n", mean)
	// Output: mean 3.1 mm
}

func ExampleFitMemberMoments() {
	members := []float64{1, 2, 3, 3, 4, 5, 2, 3, 4, 5, 6, 7} // of four dates, three each
	b, err := baseline.FitMemberMoments(members, []float64{4, 9, 5.5, 13})
	fmt.Printf("%.2f + %.2f mean + %.2f (member - mean) %v\n", b.A, b.B, b.T, err)
	// Output: -0.86 + 2.33 mean + 0.37 (member - mean) <nil>
}

func ExampleFitMembersByPoint() {
	s := &baseline.Set{Members: []float32{1, 2, 3, 3, 4, 5, 2, 3, 4, 5, 6, 7}, Obs: []float32{4, 9, 5.5, 13}}
	for k := range 4 {
		s.Valid = append(s.Valid, time.Date(1990, 1, 1+k, 0, 0, 0, 0, time.UTC))
	}
	b, err := baseline.FitMembersByPoint(s, baseline.FitMemberMoments)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.2f\n", b.Forecast(baseline.Raw{Members: [][]float32{{1}, {2}, {3}}}))
	// Output: [[3.43] [3.80] [4.17]]
}

func ExampleFitAffineSpread() {
	// The spread of 5 members and that of 50, on three dates at one point.
	a, err := baseline.FitAffineSpread(&baseline.Set{Valid: make([]time.Time, 3), Std: []float32{0.5, 1, 1.5}, Obs: []float32{0.8, 1.2, 1.6}})
	out := make([]float32, 1)
	a.Predict(out, []float32{2})
	fmt.Printf("%.1f + %.1f s; %.1f %v\n", a.A, a.B, out[0], err)
	// Output: 0.4 + 0.8 s; 2.0 <nil>
}
