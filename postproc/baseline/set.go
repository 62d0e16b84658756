package baseline

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// ErrNoCases is returned by fits without complete cases.
var ErrNoCases = errors.New("no complete cases to fit on")

// Set is the training data of a baseline: forecasts of past dates with the verifying
// analyses.
//
// Shape: Valid [date]; Mean, Std, Obs [date][point] in one slice each; Members
// [date][member][point], nil if no baseline uses members; Weights [point], nil for
// equal weights.
// Unit: one for all fields. Std has divisor M−1.
// Missing: NaN; a case (point and date) with any NaN is left out.
type Set struct {
	Valid          []time.Time // valid times
	Mean, Std, Obs []float32   // ensemble mean, spread, verifying analysis
	Members        []float32
	Weights        []float64 // area weights
}

// Points is the number of points of each date.
func (s *Set) Points() int {
	if len(s.Valid) == 0 {
		return 0
	}
	return len(s.Obs) / len(s.Valid)
}

// check compares the shapes. forecast: Mean and Std are required.
//
// Errors: the first length that does not match, with what as the method's name.
func (s *Set) check(what string, forecast bool) error {
	n := len(s.Obs)
	if len(s.Valid) == 0 || n == 0 || n%len(s.Valid) != 0 {
		return fmt.Errorf("%s: %d observations are not a multiple of %d dates", what, n, len(s.Valid))
	}
	if forecast && (len(s.Mean) != n || len(s.Std) != n) {
		return fmt.Errorf("%s: %d means and %d standard deviations for %d observations", what, len(s.Mean), len(s.Std), n)
	}
	if s.Weights != nil && len(s.Weights) != s.Points() {
		return fmt.Errorf("%s: %d weights for %d points", what, len(s.Weights), s.Points())
	}
	return nil
}

// members is the number of members on each date; at least 2.
func (s *Set) members(what string) (int, error) {
	if err := s.check(what, false); err != nil {
		return 0, err
	}
	if n := len(s.Obs); len(s.Members) < 2*n || len(s.Members)%n != 0 {
		return 0, fmt.Errorf("%s: %d member values for %d observations: want at least 2 for each", what, len(s.Members), n)
	}
	return len(s.Members) / len(s.Obs), nil
}

// weight is the weight of point p.
func (s *Set) weight(p int) float64 {
	if s.Weights == nil {
		return 1
	}
	return s.Weights[p]
}

// subset copies the dates for which keep is true, without members.
func (s *Set) subset(keep func(i int) bool) *Set {
	out := &Set{Weights: s.Weights}
	n := s.Points()
	for i, t := range s.Valid {
		if !keep(i) {
			continue
		}
		out.Valid = append(out.Valid, t)
		out.Mean = append(out.Mean, s.Mean[i*n:(i+1)*n]...)
		out.Std = append(out.Std, s.Std[i*n:(i+1)*n]...)
		out.Obs = append(out.Obs, s.Obs[i*n:(i+1)*n]...)
	}
	return out
}

// parallel calls do on all processors for the ranges [lo, hi) of at most chunk that cover
// 0..n. k numbers the ranges, so that callers can add their results in order.
func parallel(n, chunk int, do func(k, lo, hi int)) {
	runs := (n + chunk - 1) / chunk
	if runs == 1 {
		do(0, 0, n)
		return
	}
	var mu sync.Mutex
	next := 0
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), runs) {
		wg.Go(func() {
			for {
				mu.Lock()
				k := next
				next++
				mu.Unlock()
				if k >= runs {
					return
				}
				do(k, k*chunk, min(n, (k+1)*chunk))
			}
		})
	}
	wg.Wait()
}
