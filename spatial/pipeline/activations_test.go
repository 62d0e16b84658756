package pipeline

import (
	"fmt"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// layered is a chain of equal layers, one for each stage.
func layered(t testing.TB, layers int) []*Stage {
	g := trainingGraph(t, graph.Shape{1, 16, 1, 8, 8}, func(b *graph.Builder, x graph.Value) graph.Value {
		for k := range layers {
			x = op.ReLU(b, op.Conv3D(b, x, b.Param(fmt.Sprintf("layer%d.weight", k), graph.Shape{16, 16, 1, 3, 3}, graph.HeNormal(144)), op.Conv{Pad: op.Same(1, 3, 3)}))
		}
		return x
	})
	list := Layers(g, func(*graph.Node) cluster.Time { return 1 })[:layers]
	d, err := Divide(list, layers, func(int64) cluster.Time { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	stages, err := Split(g, d)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// The memory of activations on ranks is that of the schedule: the pieces of the table, each with the bytes of its stage. Buffers
// hold all of them but the one in the plan of each stage.
func TestPeakActivationBytes(t *testing.T) {
	for _, d := range []int{2, 4, 6, 8} {
		stages := layered(t, d)
		for name, s := range schedules(t, d) {
			for _, recompute := range []bool{false, true} {
				kept, peaks, buffers := make([]int64, d), make([]int64, d), make([]int, d)
				err := comm.Run(d, comm.Parallel, func(c *comm.Comm) error {
					w, err := NewWorker(c, s, stages, Options{Recompute: recompute})
					if err != nil {
						return err
					}
					defer w.Close()
					for step := range uint64(2) {
						if _, err := w.Step(t.Context(), step, samples); err != nil {
							return err
						}
					}
					peaks[c.Rank()] = w.PeakActivationBytes()
					for _, h := range w.held {
						buffers[c.Rank()] += len(h.saved) + len(h.free)
					}
					kept[s.Stage(0, c.Rank())] = w.ActivationBytes(0) * int64(s.Split)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				want, pieces := s.PeakBytes(kept), s.PeakActivations()
				for rank := range d {
					if peaks[rank] != want[rank] || buffers[rank] >= pieces[rank] || recompute && buffers[rank] > 0 {
						t.Errorf("%s, %d stages, recompute %v: rank %d holds %d bytes, want %d for %d pieces; %d buffers", name, d, recompute, rank, peaks[rank], want[rank], pieces[rank], buffers[rank])
					}
				}
				if !recompute && kept[0] == 0 {
					t.Errorf("stage 0 keeps nothing of a piece: %v", kept)
				}
			}
		}
	}
}

// A piece whose backward pass follows its forward pass is not copied: as in the last stage of 1F1B.
func TestLastStageCopiesNothing(t *testing.T) {
	const d = 4
	s, err := OneFOneB(d, 2*d)
	if err != nil {
		t.Fatal(err)
	}
	stages := layered(t, d)
	err = comm.Run(d, comm.Parallel, func(c *comm.Comm) error {
		w, err := NewWorker(c, s, stages, Options{})
		if err != nil {
			return err
		}
		defer w.Close()
		_, err = w.Step(t.Context(), 0, samples)
		if n := len(w.held[0].free); n != d-1-c.Rank() {
			t.Errorf("stage %d has %d buffers, want %d beside its plan", c.Rank(), n, d-1-c.Rank())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
