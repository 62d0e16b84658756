package partial

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// WAGMAOptions are the options of WAGMA-SGD, equal on all ranks except for Replay.
type WAGMAOptions struct {
	GroupSize int            // S: number of ranks that average in a step; a power of two, about √P
	First     int            // number of steps taken before, in another job; the groups continue from there
	Period    int            // τ: the average of every τ-th step of a run is over all ranks and waits for them
	Skip      bool           // a late rank leaves out the steps whose averages began without it
	Algorithm comm.Algorithm // of the sums
	Replay    *Log           // of this rank in another run, whose bits are repeated; nil without
}

// WAGMA is wait-avoiding group model averaging on one rank: after each local update the
// models of S ranks are averaged, in groups that change from step to step. A rank that is
// late takes part with the model of its last local update, or with that in which the last run ended. Every τ-th step averages all
// models, after which they are equal, as they are after the last step of each run.
//
// Concurrency: one goroutine uses it; it runs another one between Start and the last step.
// Cost: that of an all-reduce of S ranks, and S⌈log₂S⌉ small messages in each group.
// Source: Li, Ben-Nun, Nadiradze, Di Girolamo, Dryden, Alistarh and Hoefler 2021,
// arXiv:2005.00124.
type WAGMA struct{ *sequence }

// Average describes the average of one step.
type Average struct {
	Late   bool // this rank was late: its own model has weight 1/(S+1), unless it waits for all in a synchronous step that it leaves out
	OnTime int  // number of ranks that averaged the model of this step
}

// NewWAGMA returns WAGMA-SGD for models that start with weights w. All ranks of c, a power of
// two, call it together. It sends no messages, and Start begins the steps. To average the
// momentum of an optimiser too, append it to the weights.
//
// Errors: exit 64 for invalid options, with the nearest valid one; too many groups in a job.
func NewWAGMA(c *comm.Comm, w []float32, o WAGMAOptions) (*WAGMA, error) {
	if err := checkPeriod(o.Period); err != nil {
		return nil, err
	}
	b, err := newButterfly(c.Size(), o.GroupSize)
	if err != nil {
		return nil, err
	}
	q, err := newSequence(c, schedule{period: o.Period, offset: o.First, skips: o.Skip}, len(w)+modelTail, b.groups)
	if err != nil {
		return nil, err
	}
	q.algorithm, q.replay = o.Algorithm, o.Replay
	model := &latestModel{make([]float32, q.values)}
	model.put(w)
	q.shared.buffer = model
	return &WAGMA{q}, nil
}

// Step contributes the weights W′ after the local update of the next step and replaces them by
// the average of its group: Σ/S if this rank was on time. If it was late, Σ contains its
// earlier model, and the result is (Σ + W′)/(S+1). With Skip a late rank takes the newest
// average that began without it, and continues after that, with step Next.
//
// Errors: exit 64 for another length or without Start; failures of other ranks.
func (a *WAGMA) Step(w []float32) (Average, error) {
	if n := a.values - modelTail; len(w) != n {
		return Average{}, sizeError("model", len(w), n)
	}
	late, err := a.contribute(w)
	if err != nil {
		return Average{}, err
	}
	if err := a.await(a.next); err != nil {
		return Average{}, err
	}
	results, err := a.take(a.next)
	if err != nil {
		return Average{}, err
	}
	r := results[len(results)-1]
	size := a.all.Size()
	if !a.isSynchronous(r.step) {
		size = a.group(r.step).Size()
	}
	if !r.included {
		mergeLate(w, r.sum, size)
	} else {
		for i := range w {
			w[i] = r.sum[i] / float32(size)
		}
	}
	if a.task == nil { // the run has ended; if this rank is late in the next one, the common model stands for it
		a.shared.mu.Lock()
		a.shared.buffer.put(w)
		a.shared.mu.Unlock()
	}
	return Average{Late: late, OnTime: int(r.sum[len(w)])}, nil
}

// mergeLate replaces weights by their average with the models of a group, of which sum is the
// sum.
func mergeLate(w, sum []float32, size int) {
	for i := range w {
		w[i] = (sum[i] + w[i]) / float32(size+1)
	}
}

// Divergence returns how far the models of the ranks are apart,
//
//	V = (1/P) Σᵢ |wᵢ − mean|²
//
// which is 0 after a global step. It waits for all ranks of c, which is not a group of the
// training.
//
// Memory: the weights in float64.
func Divergence(c *comm.Comm, w []float32) (float64, error) {
	mean := make([]float64, len(w))
	for i, v := range w {
		mean[i] = float64(v)
	}
	if err := comm.AllReduce(c, mean, comm.Auto); err != nil {
		return 0, fmt.Errorf("divergence of models: %w", err)
	}
	sum := []float64{0}
	for i, v := range w {
		d := float64(v) - mean[i]/float64(c.Size())
		sum[0] += d * d
	}
	if err := comm.AllReduce(c, sum, comm.Auto); err != nil {
		return 0, fmt.Errorf("divergence of models: %w", err)
	}
	return sum[0] / float64(c.Size()), nil
}
