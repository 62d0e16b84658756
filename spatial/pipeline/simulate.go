package pipeline

import (
	"context"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Simulate runs the tasks and messages of a step on a virtual cluster, as Worker does on ranks. Passes take the costs, and
// messages what the network predicts for their size: they share links, which Schedule.Time leaves out. bytes are those of a
// message of one micro-batch over each cut, in either direction; Costs.Send is not used.
//
// Errors: those of cluster.Run; exit.Usage for too many messages.
func Simulate(ctx context.Context, s *Schedule, c Costs, bytes []int64, n cluster.Network) (*Timeline, error) {
	if err := s.checkTags(0); err != nil {
		return nil, err
	}
	lengths := make([]int, s.Stages-1)
	for k := range lengths {
		lengths[k] = int(bytes[k]) / 4 / s.Split
	}
	t := &Timeline{Spans: make([][]Span, s.Stages)}
	_, err := cluster.Run(s.Stages, n, cluster.Options{}, func(r *cluster.Rank) error {
		x := &executor[comm.SizeOnly]{c: r.Comm, s: s, do: simulated{}, lengths: [2][]int{lengths, lengths}}
		x.measure = func(task Task, piece int, _ func() error) error {
			cost := c.Forward
			if task.Backward {
				cost = c.Backward
			}
			task.First, task.Count = piece, 1
			begin := r.Now()
			r.Compute(cost[task.Stage] / cluster.Time(s.Split))
			t.Spans[r.Rank()] = append(t.Spans[r.Rank()], Span{task, begin, r.Now()})
			t.End = max(t.End, r.Now())
			return nil
		}
		return x.run(ctx)
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// simulated computes nothing.
type simulated struct{}

var _ computer[comm.SizeOnly] = simulated{}

func (simulated) forward(_, _ int, _, _ []comm.SizeOnly) error     { return nil }
func (simulated) backward(_, _ int, _, _, _ []comm.SizeOnly) error { return nil }
