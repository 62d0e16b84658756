package pipeline

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Sum is a set of parameters whose gradients are summed over the same stages and pipes: the copies of a stage, and the stages
// that share a parameter, such as the filters of a recurrent cell for several leads.
type Sum struct {
	Params  []string
	Values  int      // of all of them
	Holders []Holder // in the order of the sum; the first is on the worker that sums
}

// Holder is a copy of the parameters of a stage.
type Holder struct{ Stage, Pipe int }

// Workers lists the workers that hold a copy, each once: first the one that sums.
func (x Sum) Workers(s *Schedule) (workers []int) {
	for _, h := range x.Holders {
		if w := s.Worker(h.Pipe, h.Stage); !slices.Contains(workers, w) {
			workers = append(workers, w)
		}
	}
	return workers
}

// IsShared reports whether several stages have the parameters.
func (x Sum) IsShared() bool { return x.Holders[0].Stage != x.Holders[len(x.Holders)-1].Stage }

// Sums lists the sums of a schedule for a divided graph, by stages in ascending order.
func (d *Division) Sums(g *graph.Graph, s *Schedule) []Sum {
	params := make([][]*graph.Node, d.Stages())
	for k := range params {
		params[k] = d.params(g, k)
	}
	return sumsOf(s, params)
}

// sumsOf lists the sums of a schedule, equal on all ranks: by stages in ascending order, then pipes. params are those of each stage.
func sumsOf(s *Schedule, params [][]*graph.Node) (sums []Sum) {
	var all []*graph.Node // one of each name
	in := map[string][]int{}
	for k, list := range params {
		for _, n := range list {
			if in[n.Name] == nil {
				all = append(all, n)
			}
			in[n.Name] = append(in[n.Name], k)
		}
	}
	at := map[string]int{} // position in sums of a list of stages
	for _, n := range all {
		key := fmt.Sprint(in[n.Name])
		i, ok := at[key]
		if !ok {
			i = len(sums)
			at[key] = i
			sums = append(sums, Sum{})
			for _, stage := range in[n.Name] {
				sums[i].Holders = append(sums[i].Holders, s.copies(stage)...)
			}
		}
		sums[i].Params = append(sums[i].Params, n.Name)
		sums[i].Values += n.Shape.Size()
	}
	return sums
}

// copies are the holders of a stage, by pipes.
func (s *Schedule) copies(stage int) (all []Holder) {
	for pipe := range s.Pipes() {
		all = append(all, Holder{stage, pipe})
	}
	return all
}

// Contributors are the holders of a sum whose pipes have pieces: with fewer pieces than pipes some have none.
func (s *Schedule) Contributors(x Sum) []Holder {
	return slices.DeleteFunc(slices.Clone(x.Holders), func(h Holder) bool { return !slices.Contains(s.pipeOf, h.Pipe) })
}

// copySums sums values over the copies of stages, then over data ranks, on one worker: of type float32, or comm.SizeOnly if the
// messages are only simulated.
type copySums[T comm.Summand] struct {
	c    *comm.Comm // rank w is worker w
	data *comm.Comm // of data ranks; nil for one
	s    *Schedule
	sums []Sum
	tag  int                          // of the messages of the first sum; the others have the following ones
	pack func(i int, h Holder) []T    // a copy of the values of a holder
	take func(i int, h Holder, x []T) // the sum, for a holder
}

// total returns the sums of this worker, nil for others. Every holder whose pipe had pieces sends its values to the first holder's
// worker, which adds them in the order of the holders, then those of data ranks. The messages of all sums are in transit at once.
//
// Errors: those of messages.
func (x *copySums[T]) total(add func(to, v []T)) ([][]T, error) {
	parts := make([][][]T, len(x.sums)) // by sum: of its holders
	var requests []comm.Request
	for i, of := range x.sums {
		owner := x.worker(of.Holders[0])
		for _, h := range x.s.Contributors(of) {
			from := x.worker(h)
			var v []T
			switch {
			case of.Values == 0:
			case from == x.c.Rank():
				if v = x.pack(i, h); owner != from {
					requests = append(requests, x.c.Send(owner, x.tag+i, v))
				}
			case owner == x.c.Rank():
				v = make([]T, of.Values)
				requests = append(requests, x.c.Recv(from, x.tag+i, v))
			}
			if owner == x.c.Rank() {
				parts[i] = append(parts[i], v)
			}
		}
	}
	if err := comm.WaitAll(requests...); err != nil {
		return nil, err
	}
	totals := make([][]T, len(x.sums))
	for i, list := range parts {
		for k, v := range list {
			if k == 0 {
				totals[i] = v
			} else {
				add(totals[i], v)
			}
		}
	}
	return totals, sumData(x.data, totals)
}

// distribute gives each sum, from the worker that has it, to all its holders.
//
// Errors: those of messages.
func (x *copySums[T]) distribute(totals [][]T) error {
	var requests []comm.Request
	for i, of := range x.sums {
		workers := of.Workers(x.s)
		owner, to := workers[0], workers[1:]
		switch {
		case owner == x.c.Rank():
			for _, rank := range to {
				requests = append(requests, x.c.Send(rank, x.tag+i, totals[i]))
			}
		case slices.Contains(to, x.c.Rank()):
			totals[i] = make([]T, of.Values)
			requests = append(requests, x.c.Recv(owner, x.tag+i, totals[i]))
		}
	}
	if err := comm.WaitAll(requests...); err != nil {
		return err
	}
	for i, of := range x.sums {
		for _, h := range of.Holders {
			if x.worker(h) == x.c.Rank() {
				x.take(i, h, totals[i])
			}
		}
	}
	return nil
}

// worker is the worker of a holder.
func (x *copySums[T]) worker(h Holder) int { return x.s.Worker(h.Pipe, h.Stage) }

// Holders lists the workers that hold a copy of a parameter of any stage, each once. The first sums its gradients. It is nil for
// parameters that no stage reads. The result is the same on all ranks.
func (w *Worker) Holders(param string) []int {
	for _, x := range w.sums {
		if slices.Contains(x.Params, param) {
			return x.Workers(w.s)
		}
	}
	return nil
}

// sumCopies sums the gradients of copies.
//
// Errors: those of messages.
func (w *Worker) sumCopies() error {
	x := &copySums[float32]{c: w.c, data: w.data, s: w.s, sums: w.sums, tag: w.s.sumTag(), pack: w.packed, take: w.unpack}
	totals, err := x.total(add)
	if err != nil {
		return err
	}
	return x.distribute(totals)
}

// add adds values to others.
func add(to, x []float32) {
	for k, v := range x {
		to[k] += v
	}
}

// sumTag is the tag of the first sum, after those of all passes.
func (s *Schedule) sumTag() int { return 2 * s.Pieces() * s.Stages }

// packed copies the gradients of a holder's pieces.
func (w *Worker) packed(i int, h Holder) (out []float32) {
	of := w.held[h.Pipe]
	for _, name := range w.sums[i].Params {
		e := of.entries[name]
		out = append(out, of.total[e.Offset:e.Offset+e.Size()]...)
	}
	return out
}

// unpack copies a sum to the gradients of a holder.
func (w *Worker) unpack(i int, h Holder, values []float32) {
	of := w.held[h.Pipe]
	grads := of.plan.Store().Grads()
	for _, name := range w.sums[i].Params {
		e := of.entries[name]
		values = values[copy(grads[e.Offset:e.Offset+e.Size()], values):]
	}
}
