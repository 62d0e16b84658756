package pipeline

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// sum is a set of parameters whose gradients are summed over the same stages and pipes: the copies of a stage, and the stages
// that share a parameter, such as the filters of a recurrent cell for several leads.
type sum struct {
	params  []string
	holders []holder // in the order of the sum
}

// holder is a copy of parameters. The first holder of a sum is on the worker that sums.
type holder struct{ stage, pipe int }

// sumsOf lists the sums of a schedule, equal on all ranks: by stages in ascending order, then pipes.
func sumsOf(s *Schedule, stages []*Stage) (sums []sum) {
	var names []string
	in := map[string][]int{} // stages of a parameter
	for k, stage := range stages {
		for _, n := range stage.Graph.Nodes {
			if n.Kind == graph.KindParam {
				if in[n.Name] == nil {
					names = append(names, n.Name)
				}
				in[n.Name] = append(in[n.Name], k)
			}
		}
	}
	at := map[string]int{} // position in sums of a list of stages
	for _, name := range names {
		key := fmt.Sprint(in[name])
		i, ok := at[key]
		if !ok {
			i = len(sums)
			at[key] = i
			sums = append(sums, sum{})
			for _, stage := range in[name] {
				for pipe := range s.Pipes() {
					sums[i].holders = append(sums[i].holders, holder{stage, pipe})
				}
			}
		}
		sums[i].params = append(sums[i].params, name)
	}
	return sums
}

// Holders lists the workers that hold a copy of a parameter of any stage, each once. The first sums its gradients. It is nil for
// parameters that no stage reads. The result is the same on all ranks.
func (w *Worker) Holders(param string) (ranks []int) {
	for i := range w.sums {
		if !slices.Contains(w.sums[i].params, param) {
			continue
		}
		for _, h := range w.sums[i].holders {
			if r := w.worker(h); !slices.Contains(ranks, r) {
				ranks = append(ranks, r)
			}
		}
	}
	return ranks
}

// sumCopies sums the gradients of copies. Every holder whose pipe had pieces sends its sum to the first holder's worker, which
// adds them in the order of the holders, then those of data ranks, and sends the result to all others. The messages of all sums are
// in transit at once.
//
// Errors: those of messages.
func (w *Worker) sumCopies() error {
	parts := make([][][]float32, len(w.sums)) // by sum: of its holders, on the worker that sums
	var requests []comm.Request
	for i := range w.sums {
		owner := w.worker(w.sums[i].holders[0])
		for _, h := range w.contributors(&w.sums[i]) {
			from := w.worker(h)
			var x []float32
			if from == w.c.Rank() {
				x = w.packed(&w.sums[i], h)
			} else if owner == w.c.Rank() {
				x = make([]float32, w.length(&w.sums[i]))
				requests = append(requests, w.c.Recv(from, w.sumTag(i), x))
			}
			if owner == w.c.Rank() {
				parts[i] = append(parts[i], x)
			} else if x != nil {
				requests = append(requests, w.c.Send(owner, w.sumTag(i), x))
			}
		}
	}
	if err := comm.WaitAll(requests...); err != nil {
		return err
	}
	totals := make([][]float32, len(w.sums))
	for i := range w.sums {
		if w.worker(w.sums[i].holders[0]) == w.c.Rank() {
			totals[i] = addParts(parts[i])
		}
	}
	if err := w.sumData(totals); err != nil {
		return err
	}
	return w.distribute(totals)
}

// addParts adds the others to the first.
func addParts(parts [][]float32) []float32 {
	total := parts[0]
	for _, x := range parts[1:] {
		for k, v := range x {
			total[k] += v
		}
	}
	return total
}

// distribute sends each sum from the worker that has it to the workers of its holders.
func (w *Worker) distribute(totals [][]float32) error {
	var requests []comm.Request
	for i := range w.sums {
		owner := w.worker(w.sums[i].holders[0])
		var to []int
		for _, h := range w.sums[i].holders {
			if x := w.worker(h); x != owner && !slices.Contains(to, x) {
				to = append(to, x)
			}
		}
		switch {
		case owner == w.c.Rank():
			for _, rank := range to {
				requests = append(requests, w.c.Send(rank, w.sumTag(i), totals[i]))
			}
		case slices.Contains(to, w.c.Rank()):
			totals[i] = make([]float32, w.length(&w.sums[i]))
			requests = append(requests, w.c.Recv(owner, w.sumTag(i), totals[i]))
		}
	}
	if err := comm.WaitAll(requests...); err != nil {
		return err
	}
	for i := range w.sums {
		for _, h := range w.sums[i].holders {
			if w.worker(h) == w.c.Rank() {
				w.unpack(&w.sums[i], h, totals[i])
			}
		}
	}
	return nil
}

// worker is the worker of a holder.
func (w *Worker) worker(h holder) int { return w.s.Worker(h.pipe, h.stage) }

// contributors are the holders of a sum whose pipes have pieces: with fewer pieces than pipes some have none.
func (w *Worker) contributors(x *sum) []holder {
	return slices.DeleteFunc(slices.Clone(x.holders), func(h holder) bool { return !slices.Contains(w.s.pipeOf, h.pipe) })
}

// sumTag is the tag of the messages of a sum, after those of all passes.
func (w *Worker) sumTag(i int) int { return 2*w.s.Pieces()*w.s.Stages + i }

// length is the number of values of a sum that this worker holds a copy of.
func (w *Worker) length(x *sum) (n int) {
	for _, h := range x.holders {
		if w.worker(h) == w.c.Rank() {
			for _, name := range x.params {
				n += w.held[h.pipe].entries[name].Size()
			}
			return n
		}
	}
	return 0
}

// packed copies the gradients of a holder's pieces.
func (w *Worker) packed(x *sum, h holder) (out []float32) {
	of := w.held[h.pipe]
	for _, name := range x.params {
		e := of.entries[name]
		out = append(out, of.total[e.Offset:e.Offset+e.Size()]...)
	}
	return out
}

// unpack copies a sum to the gradients of a holder.
func (w *Worker) unpack(x *sum, h holder, values []float32) {
	of := w.held[h.pipe]
	grads := of.plan.Store().Grads()
	for _, name := range x.params {
		e := of.entries[name]
		values = values[copy(grads[e.Offset:e.Offset+e.Size()], values):]
	}
}
