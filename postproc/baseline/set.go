package baseline

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ensemble-weather/ensemble/internal/scratch"
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
	// Space allocates copies of dates, and is that of the fields: it keeps the resident memory of mapped files bounded.
	// nil: memory.
	Space *scratch.Space
	// Watch is called when a pass begins, with the number of its points (or dates); add counts those that are done, and
	// is called concurrently. nil: progress is not reported.
	Watch func(stage string, points int) (add func(points int))

	own []*scratch.Array // allocated by newSet
}

// newSet returns a set of other dates of the same points, without values and members, to be closed.
//
// Errors: those of scratch.Space.
func (s *Set) newSet(valid []time.Time) (*Set, error) {
	out := &Set{Valid: valid, Weights: s.Weights, Space: s.Space, Watch: s.Watch}
	for range 3 {
		a, err := s.Space.Make(len(valid)*s.Points(), copyName)
		if err != nil {
			return nil, errors.Join(err, out.Close())
		}
		out.own = append(out.own, a)
	}
	out.Mean, out.Std, out.Obs = out.own[0].Values, out.own[1].Values, out.own[2].Values
	return out, nil
}

// copyName names a set that newSet returns in errors.
const copyName = "a copy of the training data of a baseline"

// put sets the fields of date i of a set that newSet returned.
func (s *Set) put(i int, mean, std, obs []float32) error {
	for k, x := range [][]float32{mean, std, obs} {
		if err := s.own[k].Write(i*len(x), x, copyName); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the fields of a set that Subset returned. They must not be used afterwards.
func (s *Set) Close() (err error) {
	for _, a := range s.own {
		err = errors.Join(err, a.Close())
	}
	return err
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

// Subset copies some dates, without members, to a set that is to be closed.
//
// Errors: those of scratch.Space.
func (s *Set) Subset(dates []int) (*Set, error) {
	valid := make([]time.Time, len(dates))
	for k, i := range dates {
		valid[k] = s.Valid[i]
	}
	out, err := s.newSet(valid)
	if err != nil {
		return nil, err
	}
	n := s.Points()
	for k, i := range dates {
		if err := out.put(k, s.Mean[i*n:][:n], s.Std[i*n:][:n], s.Obs[i*n:][:n]); err != nil {
			return nil, errors.Join(err, out.Close())
		}
		s.Space.Read(3 * 4 * int64(n))
	}
	return out, nil
}

// EachDate calls do for all dates in order.
func (s *Set) EachDate(do func(i int, mean, std, obs []float32)) {
	n := s.Points()
	for i := range s.Valid {
		do(i, s.Mean[i*n:][:n], s.Std[i*n:][:n], s.Obs[i*n:][:n])
		s.Space.Read(3 * 4 * int64(n))
	}
}

// pass is one pass over a set, by points or by cases.
type pass struct {
	stage  string // for Watch
	units  int    // number of points or cases
	chunk  int    // most of them at a time
	values int    // read for each
}

// points is a pass over points for which a number of fields is read on each date.
func (s *Set) points(stage string, chunk, fields int) pass {
	return pass{stage, s.Points(), chunk, fields * len(s.Valid)}
}

// each is parallel for a pass. It reports progress, and releases memory that was read.
func (s *Set) each(w pass, do func(k, lo, hi int)) {
	points := s.Points()
	add := s.watch(w.stage, points)
	var done atomic.Int64
	parallel(w.units, w.chunk, func(k, lo, hi int) {
		do(k, lo, hi)
		s.Space.Read(4 * int64(w.values) * int64(hi-lo))
		to := int(done.Add(int64(hi - lo)))
		// The sum of all shares is the number of points.
		add(points*to/w.units - points*(to-(hi-lo))/w.units)
	})
}

// watch calls Watch.
func (s *Set) watch(stage string, points int) (add func(points int)) {
	if s.Watch == nil {
		return func(int) {}
	}
	return s.Watch(stage, points)
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
