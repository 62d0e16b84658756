package pipeline

import (
	"context"

	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Simulated is a step that the ranks of a virtual cluster run, as Worker does: its tasks, messages and sums. Passes take their costs,
// and messages what the network predicts for their size: they share links, which Schedule.Time leaves out.
type Simulated struct {
	Schedule *Schedule
	Costs            // Send is not used
	Bytes    []int64 // of a message of one micro-batch over each cut, in either direction, of one rank
	// Mesh is that of the ranks that compute a stage together. Each takes the costs: their own messages are part of these.
	Mesh spatial.Mesh
	Sums []Sum // of gradients, over copies and data ranks (Division.Sums), before those of losses; nil for neither
	// Between is the time of other work of a rank before each of its tasks, and after the last; nil for none.
	Between func(rank, task int) cluster.Time
}

// Simulate runs the passes of a step on a virtual cluster, with a rank for each stage. bytes are those of Simulated.
//
// Errors: those of cluster.Run; exit.Usage for too many messages.
func Simulate(ctx context.Context, s *Schedule, c Costs, bytes []int64, n cluster.Network) (*Timeline, error) {
	t := &Timeline{Spans: make([][]Span, s.Stages)}
	step := Simulated{Schedule: s, Costs: c, Bytes: bytes}
	_, err := cluster.Run(s.Stages, n, cluster.Options{}, func(r *cluster.Rank) (err error) {
		t.Spans[r.Rank()], err = step.Run(ctx, r)
		t.End = max(t.End, r.Now())
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Run runs the step on a rank, which is one of worker ⌊rank/n⌋ with a mesh of n ranks, and returns when its passes ran.
//
// Errors: those of messages; exit.Usage for too many.
func (x *Simulated) Run(ctx context.Context, r *cluster.Rank) (spans []Span, err error) {
	s := x.Schedule
	if err := s.checkTags(len(x.Sums)); err != nil {
		return nil, err
	}
	var data *comm.Comm
	if x.Mesh.HasDataRanks() {
		if data, err = along(r.Comm, x.Mesh, spatial.Mesh{{Name: spatial.DataAxis}}); err != nil {
			return nil, err
		}
	}
	each := x.Mesh.Size()
	workers := make([]int, s.Stages)
	for k := range workers {
		workers[k] = k*each + r.Rank()%each
	}
	c, err := r.Group(workers)
	if err != nil {
		return nil, err
	}
	lengths := make([]int, s.Stages-1)
	for k := range lengths {
		lengths[k] = int(x.Bytes[k]) / 4 / s.Split
	}
	run := &executor[comm.SizeOnly]{c: c, s: s, do: simulated{}, lengths: [2][]int{lengths, lengths}}
	if x.Between != nil {
		run.between = func(task int) error {
			r.Compute(x.Between(r.Rank(), task))
			return nil
		}
	}
	run.measure = func(task Task, piece int, _ func() error) error {
		cost := x.Forward
		if task.Backward {
			cost = x.Backward
		}
		task.First, task.Count = piece, 1
		begin := r.Now()
		r.Compute(cost[task.Stage] / cluster.Time(s.Split))
		spans = append(spans, Span{task, begin, r.Now()})
		return nil
	}
	if err := run.run(ctx); err != nil {
		return nil, err
	}
	if x.Sums == nil {
		return spans, nil
	}
	return spans, x.sum(c, data)
}

// sum sums the gradients and the losses, which have 8 bytes.
func (x *Simulated) sum(c, data *comm.Comm) error {
	sums := &copySums[comm.SizeOnly]{c: c, data: data, s: x.Schedule, sums: x.Sums, tag: x.Schedule.sumTag(), take: func(int, Holder, []comm.SizeOnly) {}}
	sums.pack = func(i int, _ Holder) []comm.SizeOnly { return make([]comm.SizeOnly, x.Sums[i].Values) }
	totals, err := sums.total(func(_, _ []comm.SizeOnly) {})
	if err != nil {
		return err
	}
	if err := sums.distribute(totals); err != nil {
		return err
	}
	losses := make([]comm.SizeOnly, 2*x.Mesh.DataRanks()*x.Schedule.Pieces())
	for _, of := range []*comm.Comm{c, data} {
		if of == nil {
			continue
		}
		if err := comm.AllReduce(of, losses, comm.Auto); err != nil {
			return err
		}
	}
	return nil
}

// simulated computes nothing.
type simulated struct{}

var _ computer[comm.SizeOnly] = simulated{}

func (simulated) forward(_, _ int, _, _ []comm.SizeOnly) error     { return nil }
func (simulated) backward(_, _ int, _, _, _ []comm.SizeOnly) error { return nil }
