package pipelined

import (
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/optim/kfac"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/pipeline/filler"
)

// layerTurns returns the rank of its worker that owns each parameter: filter and bias of a layer with Kronecker factors together, by
// the cost of its inversions, other parameters in turn.
func (n *Network) layerTurns(chunks []optim.Chunk, each int) map[string]int {
	turns := map[string]int{}
	for i, x := range chunks {
		if _, seen := turns[x.Param]; !seen {
			turns[x.Param] = i % each
		}
	}
	byWorker := map[int][]pass.LayerFactors{}
	for _, l := range n.worker.Factors() {
		if l.Form != pass.NoFactors {
			worker := n.worker.Holders(l.Param)[0]
			byWorker[worker] = append(byWorker[worker], l)
		}
	}
	for _, layers := range byWorker {
		for i, rank := range kfac.ShareLayers(layers, each) {
			turns[layers[i].Param] = rank
			if layers[i].Bias != "" {
				turns[layers[i].Bias] = rank
			}
		}
	}
	return turns
}

// Factors lists the filters of all stages with the form of their Kronecker factors.
func (n *Network) Factors() []pass.LayerFactors { return n.worker.Factors() }

// OwnFactors lists those of each rank.
func (n *Network) OwnFactors() [][]pass.LayerFactors {
	owner := map[string]int{}
	for i, x := range optim.Chunks(n.store) {
		owner[x.Param] = n.shards.Owners()[i]
	}
	out := make([][]pass.LayerFactors, n.shards.Size())
	for _, l := range n.Factors() {
		rank := owner[l.Param]
		out[rank] = append(out[rank], l)
	}
	return out
}

// Factor returns a Kronecker factor of the last step with factors, of a layer that this rank owns (pipeline.Worker.Factor).
func (n *Network) Factor(name string) []float32 { return n.worker.Factor(name) }

// FillIdleTimes lets steps run the inversions of a preconditioner in their idle times.
func (n *Network) FillIdleTimes(p *kfac.Preconditioner) { n.idle.preconditioner = p }

// CountExposed adds time of inversions that steps do not hide. A nil network counts none.
func (n *Network) CountExposed(t time.Duration) {
	if n != nil {
		n.times.Exposed += t
	}
}

// idleWork runs inversions in idle times of steps: where, follows from a measured step without them (package filler), once for each
// update of the factors. Which steps use the results does not depend on it.
type idleWork struct {
	network        *Network
	schedule       *pipeline.Schedule
	preconditioner *kfac.Preconditioner
	timeline       *pipeline.Timeline // of a step without inversions; nil before the first
	isMeasured     bool               // timeline is newer than the last factors
	measures       bool               // the present step
	updates        uint64             // of the preconditioner at the last step
	assigned       *filler.Worker     // nil before the first step after factors
	inversions     []kfac.Inversion   // its items
	step           int                // of those that the assignment fills
	done           float64            // operations so far
	spent          time.Duration      // on them
}

// before prepares a step, with new factors or without. All ranks call it.
//
// Errors: lost ranks.
func (w *idleWork) before(factors bool) error {
	if w == nil || w.preconditioner == nil {
		return nil
	}
	n, pending := w.network, w.preconditioner.IsPending()
	n.worker.Between = nil
	if u := w.preconditioner.Updates(); u != w.updates {
		w.updates, w.isMeasured, w.assigned = u, false, nil
	}
	if factors {
		return nil
	}
	if w.measures = w.timeline == nil || !pending && !w.isMeasured; w.measures {
		return comm.Barrier(n.ranks.Comm) // passes count from the start of the rank's step
	}
	if !pending {
		return nil
	}
	if w.assigned == nil {
		if err := w.assign(); err != nil {
			return err
		}
	}
	worker := n.workerIndex()
	before := w.assigned.Before(w.timeline, w.schedule.Tasks[worker], w.step)
	w.step++
	n.worker.Between = func(task int) error {
		for _, p := range before[task] {
			w.invert(p.Item)
		}
		return nil
	}
	return nil
}

// workerIndex is the worker of the schedule that this rank belongs to.
func (n *Network) workerIndex() int { return n.ranks.Comm.Rank() / n.ranks.Pipeline.Mesh.Size() }

// assign places the pending inversions: in each idle time the longest pieces that fit. What fits into no idle time of a step is left to
// all ranks together, between steps: in a step others would wait for it.
func (w *idleWork) assign() error {
	var items []filler.Item
	w.inversions = w.preconditioner.Pending()
	slices.SortStableFunc(w.inversions, func(a, b kfac.Inversion) int { return b.Cost - a.Cost })
	for _, x := range w.inversions {
		items = append(items, filler.Inversion(x.Pieces, x.Cost, w.rate()))
	}
	assigned, err := filler.Fill(w.timeline, w.network.workerIndex(), items)
	w.assigned, w.step = &assigned, 0
	return err
}

// rate is that of inversions so far, in operations per second.
func (w *idleWork) rate() float64 {
	if w.spent > 0 {
		return w.done / w.spent.Seconds()
	}
	return kfac.InverseRate
}

// invert runs a piece of an inversion and counts its time.
func (w *idleWork) invert(item int) {
	began := time.Now()
	x := w.inversions[item]
	w.preconditioner.Invert(x.Factor)
	took := time.Since(began)
	w.network.times.Filled += took
	w.spent, w.done = w.spent+took, w.done+float64(x.Cost)
}

// after measures a step if it is due. All ranks call it.
//
// Errors: lost ranks.
func (w *idleWork) after() (err error) {
	if w == nil || !w.measures {
		return nil
	}
	w.measures, w.isMeasured = false, true
	w.timeline, err = w.network.worker.Timeline()
	return err
}
