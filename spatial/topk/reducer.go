package topk

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Options of a Reducer.
type Options struct {
	// Density is the number of entries to keep over the length of the vector, k/n. At
	// least one entry is kept.
	//
	// Unit: 1, above 0 and at most 1.
	Density float64
	// BFloat16 sends values in bfloat16. What rounding removes stays in the residual.
	BFloat16 bool
	// Momentum is the factor of momentum correction; 0 is none.
	Momentum float32
	// Updates sums updates of AdamW that each rank computes from its own gradients, instead of
	// gradients. Not with Momentum. SetRate gives the learning rate of a step.
	Updates bool
	// Clip bounds the norm of the gradients that one rank adds by Clip/√P; 0 does not.
	Clip float32
	// ThresholdSteps and RegionSteps are the steps between two searches of thresholds
	// and of regions; 0 is 32 and 64, as in the public code of Li and Hoefler.
	ThresholdSteps, RegionSteps int
}

// Entries are the non-zeros of a vector, by ascending index.
type Entries struct {
	Index []int32
	Value []float32
}

// Counts describe the latest step.
type Counts struct {
	Selected int   // entries that this rank selected
	Kept     int   // entries of the result
	Bytes    int64 // that this rank sent, with headers
	// SearchedLocal and SearchedGlobal report whether thresholds were found again.
	SearchedLocal, SearchedGlobal bool
}

// Reducer sums vectors of one length over the ranks of one group, step after step.
//
// Memory: n values, twice that with momentum, three times with updates; n/P values; about ten for each entry kept.
// Concurrency: one goroutine at a time. All ranks of the group call Sum in step.
type Reducer struct {
	o          Options
	keep       int64   // entries to keep from the next step on
	rate       float64 // learning rate of updates
	state      State
	afresh     bool    // find thresholds and regions in this step
	candidates []int32 // scratch of selectLocal
	owned      accumulator
	last       Counts
}

// New returns a Reducer of vectors of n values.
//
// Errors: a density outside (0, 1], a length that 32 bits cannot index.
func New(n int, o Options) (*Reducer, error) {
	if n < 1 || n > math.MaxInt32 {
		return nil, fmt.Errorf("sparse sums of %d values: want 1 to %d", n, math.MaxInt32)
	}
	if o.ThresholdSteps == 0 {
		o.ThresholdSteps = thresholdSteps
	}
	if o.RegionSteps == 0 {
		o.RegionSteps = regionSteps
	}
	r := &Reducer{o: o, state: State{Residual: make([]float32, n)}}
	if o.Momentum > 0 || o.Updates {
		r.state.Velocity = make([]float32, n)
	}
	if o.Updates {
		r.state.Squares = make([]float32, n)
	}
	return r, r.SetDensity(o.Density)
}

// Steps between two searches.
const (
	thresholdSteps = 32
	regionSteps    = 64
)

// SetDensity changes the density from the next step on. Another number of entries finds
// thresholds and regions afresh. All ranks call it in step.
//
// Errors: a density outside (0, 1].
func (r *Reducer) SetDensity(d float64) error {
	if !(d > 0 && d <= 1) {
		return fmt.Errorf("density %g of a sparse sum: want a number above 0 and at most 1", d)
	}
	r.keep = max(1, int64(math.Round(d*float64(r.Len()))))
	return nil
}

// SetRate sets the learning rate of updates from the next step on. All ranks call it in step.
func (r *Reducer) SetRate(rate float64) { r.rate = rate }

// Len returns the length of the vectors.
func (r *Reducer) Len() int { return len(r.state.Residual) }

// Last returns the counts of the latest step.
func (r *Reducer) Last() Counts { return r.last }

// NotFiniteError is the error of all ranks if an entry is NaN or infinite: a gradient
// with its residual, or a sum over ranks that overflows.
type NotFiniteError struct {
	Rank  int // in the job: of the gradient, or of the owner of the sum
	Index int // in the vector
	Sum   bool
}

func (e *NotFiniteError) Error() string {
	if e.Sum {
		return fmt.Sprintf("the sum over ranks of value %d is not finite (found on rank %d)", e.Index, e.Rank)
	}
	return fmt.Sprintf("value %d of rank %d is not finite", e.Index, e.Rank)
}

// Sum adds x to what former steps left, and replaces x by the sum over ranks of the
// largest entries; the other values of x become 0. It also returns the entries.
//
// With Density 1 and float32 the sum is 0 + x₀ + x₁ + … + x₍P−1₎, added in this order.
//
// Shape: x has Len() values.
// Errors: *NotFiniteError, on all ranks; failures of the transport. The Reducer cannot be
// used after an error.
// Cost: three passes over the vector, eight if the threshold is found among all values;
// Volume has the bytes sent.
func (r *Reducer) Sum(c *comm.Comm, x comm.Parts[float32]) (Entries, error) {
	if x.Len() != r.Len() {
		return Entries{}, fmt.Errorf("sparse sum of %d values, want %d", x.Len(), r.Len())
	}
	if r.afresh = r.keep != r.state.Keep; r.afresh {
		r.state.Keep = r.keep
	}
	before := c.GroupTraffic()
	r.last = Counts{}
	bad := r.accumulate(c, x)
	var selected []int32
	if bad < 0 {
		selected = r.selectLocal()
	}
	if r.finds(r.o.RegionSteps) {
		if err := r.findRegions(c, selected); err != nil {
			return Entries{}, fmt.Errorf("regions of a sparse sum: %w", err)
		}
	}
	if err := r.splitReduce(c, selected, bad); err != nil {
		return Entries{}, fmt.Errorf("sparse reduce-scatter: %w", err)
	}
	kept, counts, err := r.cut(c)
	if err != nil {
		return Entries{}, fmt.Errorf("threshold of sparse sums: %w", err)
	}
	u, err := r.gather(c, kept, counts)
	if err != nil {
		return Entries{}, fmt.Errorf("sparse all-gather: %w", err)
	}
	r.settle(selected, u, kept)
	scatter(x, u)
	r.last.Selected, r.last.Kept, r.last.Bytes = len(selected), len(u.Index), c.GroupTraffic().Sub(before).Bytes
	r.adapt()
	r.state.Step++
	return u, nil
}

// isDense reports whether all entries are kept, without thresholds.
func (r *Reducer) isDense() bool { return r.state.Keep == int64(r.Len()) }

// finds reports whether a search with this period is due.
func (r *Reducer) finds(every int) bool { return r.afresh || r.state.Step%int64(every) == 0 }

// adapt moves thresholds that select too few or too many entries. The global one depends
// on counts that all ranks have, so it stays equal on all of them.
//
// Source: the factors are those of the public code of Li and Hoefler 2022 (VGG).
func (r *Reducer) adapt() {
	r.state.Local = adapted(r.state.Local, int64(r.last.Selected), r.state.Keep, 1.012)
	r.state.Global = adapted(r.state.Global, int64(r.last.Kept), r.state.Keep, 1.008)
}

// Counts that differ from k by more than 1/adaptAt adapt a threshold for the next step.
// Those that differ by more than 1/searchAt find it again at once. With the public code's
// limits for adapting, 2k/3 and 5k/4 or 4k/3, and no search between the periodic ones,
// counts of the test's gradients differ from k by 19 to 32 % in the mean.
const (
	adaptAt  = 20
	searchAt = 10
)

// differs reports whether a count differs from k by more than k/of.
func differs(count, k, of int64) bool { return of*(count-k) > k || of*(k-count) > k }

// adapted divides a threshold by f if the count is too low, and multiplies it if it is too
// high.
func adapted(threshold float32, count, k int64, f float32) float32 {
	switch {
	case !differs(count, k, adaptAt):
		return threshold
	case count < k:
		return threshold / f
	}
	return threshold * f
}

// settle takes from the residual what is part of the result: entries that were selected
// here and are in u. Of a rounded entry the difference to the sent value stays, and the
// owner of a sum keeps the difference to the rounded sum. Both are exact in float32.
func (r *Reducer) settle(selected []int32, u Entries, own Entries) {
	e, at := r.state.Residual, 0
	for _, i := range selected {
		for at < len(u.Index) && u.Index[at] < i {
			at++
		}
		if at == len(u.Index) {
			break
		}
		if u.Index[at] != i {
			continue
		}
		e[i] -= r.sent(e[i])
		if r.o.Momentum > 0 {
			r.state.Velocity[i] = 0
		}
	}
	if r.o.BFloat16 {
		for j, i := range own.Index {
			e[i] += own.Value[j] - r.sent(own.Value[j])
		}
	}
}

// scatter writes entries to a vector and zeros to the rest of it.
func scatter(x comm.Parts[float32], u Entries) {
	at, begin := 0, 0
	for _, part := range x {
		clear(part)
		for ; at < len(u.Index) && int(u.Index[at]) < begin+len(part); at++ {
			part[int(u.Index[at])-begin] = u.Value[at]
		}
		begin += len(part)
	}
}
