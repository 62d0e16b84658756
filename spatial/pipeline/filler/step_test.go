package filler

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
)

// stagesOf divides a chain of layers into stages.
func stagesOf(t *testing.T, stages int) []*pipeline.Stage {
	t.Helper()
	b := graph.New(1)
	h := b.Input("x", graph.Shape{1, 8, 1, 8, 8})
	for k := range stages {
		h = op.Tanh(b, op.Conv3D(b, h, b.Param(fmt.Sprintf("layer%d.weight", k), graph.Shape{8, 8, 1, 3, 3}, graph.HeNormal(72)), op.Conv{Pad: op.Same(1, 3, 3)}))
	}
	b.Loss(op.Mean(b, op.Square(b, h)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := pipeline.Divide(pipeline.Layers(g, func(*graph.Node) cluster.Time { return 1 }), stages, func(int64) cluster.Time { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	parts, err := pipeline.Split(g, d)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// Steps with an assignment from their own measured timeline run every piece once in each round, after the passes that it waits
// for, and have the gradients of steps without.
func TestRoundsOfSteps(t *testing.T) {
	const ranks, rounds = 4, 2
	stages := stagesOf(t, ranks)
	s, err := pipeline.OneFOneB(ranks, ranks)
	if err != nil {
		t.Fatal(err)
	}
	err = comm.Run(ranks, comm.Replay(3), func(c *comm.Comm) error {
		w, err := pipeline.NewWorker(c, s, stages, pipeline.Options{})
		if err != nil {
			return err
		}
		defer w.Close()
		feed := func(piece int, _ string, into []float32) error {
			for i := range into {
				into[i] = float32(i%7) - float32(piece)
			}
			return nil
		}
		plain, err := w.Step(t.Context(), 0, feed)
		if err != nil {
			return err
		}
		want := slices.Clone(w.Store(0).Grads())
		x, err := w.Timeline()
		if err != nil {
			return err
		}
		unit := x.End / 100
		p, err := Assign(x, func(int) []Item {
			return append(KFAC(Factor{unit, 0, 3 * unit}, Factor{unit, 0, 3 * unit}, ranks, AnyPipe), Item{Name: "decode", Pieces: 3, Time: 2 * unit})
		}, Margin)
		if err != nil {
			return err
		}
		own := &p.Workers[c.Rank()]
		done := make([]int, len(own.Items))
		for step := range rounds * p.Refresh {
			at := step % p.Refresh
			before := own.Before(x, s.Tasks[c.Rank()], at)
			w.Between = func(task int) error {
				for _, place := range before[task] {
					if item := own.Items[place.Item]; at == 0 && item.Waits == Forward && forwardBefore(s.Tasks[c.Rank()], task) <= place.Piece {
						return fmt.Errorf("piece %d of %s runs before task %d", place.Piece, item.Name, task)
					}
					done[place.Item]++
				}
				return nil
			}
			losses, err := w.Step(t.Context(), 0, feed)
			if err != nil {
				return err
			}
			if !slices.Equal(losses, plain) || !slices.Equal(want, w.Store(0).Grads()) {
				return fmt.Errorf("step %d has other losses %v, want %v, or gradients", step, losses, plain)
			}
		}
		for i, n := range done {
			if n != rounds*own.Items[i].Pieces {
				return fmt.Errorf("rank %d: %d pieces of %s in %d rounds, want %d each", c.Rank(), n, own.Items[i].Name, rounds, own.Items[i].Pieces)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// forwardBefore counts the forward passes before a task.
func forwardBefore(tasks []pipeline.Task, task int) (n int) {
	for _, t := range tasks[:task] {
		if !t.Backward {
			n++
		}
	}
	return n
}
