package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// parse parses a mesh.
func parse(t testing.TB, text string) spatial.Mesh {
	t.Helper()
	m, err := spatial.ParseMesh(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// uneven has fields of 12, 6 and 3 rows. Two ranks cut them at 8, 4 and 2; a stage alone, without the coarsest, would cut in halves.
func uneven(t testing.TB) *graph.Graph {
	return trainingGraph(t, graph.Shape{2, 3, 1, 12, 16}, unet3d.UNet{Base: 2, Stages: 2, Dropout: 0.3, Periodic: true}.Build)
}

// A pipeline whose workers are groups of ranks has the bits of one group that runs all stages, one piece after the other: with kept
// and with recomputed activations, in whatever order messages arrive.
func TestGroupsHaveTheBitsOfTheMesh(t *testing.T) {
	for _, c := range []struct {
		name   string
		build  func(testing.TB) *graph.Graph
		stages int
		mesh   string
		kind   string
	}{
		{"uneven", uneven, 2, "lat:2", "1f1b"}, {"uneven", uneven, 4, "lat:2", "chimera"}, {"uneven", uneven, 2, "data:2 lon:2", "gpipe"},
		{"normed", normed, 2, "lat:2", "chimera, doubled"}, {"normed", normed, 4, "lon:2", "1f1b"}, {"stopped", stopped, 2, "data:2", "chimera"},
	} {
		t.Run(fmt.Sprintf("%s, %d stages, %s, %s", c.name, c.stages, c.mesh, c.kind), func(t *testing.T) {
			compareWithMesh(t, c.build(t), c.stages, parse(t, c.mesh), schedules(t, c.stages)[c.kind])
		})
	}
}

// compareWithMesh compares a pipeline of groups with one group that runs all stages.
func compareWithMesh(t *testing.T, g *graph.Graph, d int, m spatial.Mesh, s *Schedule) {
	t.Helper()
	stages, want := splitEvenly(t, g, d), make([]outcome, m.Size())
	err := comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
		var err error
		want[c.Rank()], err = serial(t.Context(), s, stages, c, m, 2)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, mode := range []comm.Mode{comm.Parallel, comm.Replay(1)} {
		err := comm.Run(d*m.Size(), mode, func(c *comm.Comm) error {
			got, err := pipelined(t.Context(), c, s, stages, Options{Mesh: m, Recompute: i == 1}, 2)
			if err != nil {
				return err
			}
			if diff := got.differs(want[c.Rank()%m.Size()]); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%v: %v", mode, err)
		}
	}
}

// The gradients of a pipeline of groups are those of the whole network on one rank, up to rounding.
func TestGroupsEqualWholeGraph(t *testing.T) {
	for name, build := range networks {
		s, err := OneFOneB(2, 2)
		if err != nil {
			t.Fatal(err)
		}
		stages := splitEvenly(t, build(t), 2)
		want, err := serial(t.Context(), s, stages, nil, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		m := parse(t, "lat:2")
		err = comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
			got, err := pipelined(t.Context(), c, s, stages, Options{Mesh: m}, 1)
			if err != nil {
				return err
			}
			return got.isNear(want)
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Data ranks with N micro-batches each have the losses, to the bit, of one rank with all of them, also where dropout draws numbers,
// and the sums of its gradients, up to rounding.
func TestDataRanksEqualMoreMicroBatches(t *testing.T) {
	const n, ranks = 4, 3
	g := uneven(t)
	stages := splitEvenly(t, g, 2)
	all, err := OneFOneB(2, n*ranks)
	if err != nil {
		t.Fatal(err)
	}
	want, err := serial(t.Context(), all, stages, nil, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	for kind, build := range map[string]func() (*Schedule, error){
		"gpipe": func() (*Schedule, error) { return GPipe(2, n) }, "1f1b": func() (*Schedule, error) { return OneFOneB(2, n) },
		"chimera": func() (*Schedule, error) { return Chimera(2, n, ChimeraOptions{}) },
	} {
		s, err := build()
		if err != nil {
			t.Fatal(err)
		}
		outcomes := make([]outcome, 2*ranks)
		err = comm.Run(len(outcomes), comm.Parallel, func(c *comm.Comm) (err error) {
			outcomes[c.Rank()], err = pipelined(t.Context(), c, s, stages, Options{Mesh: parse(t, "data:3")}, 1)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for rank, got := range outcomes {
			if !slices.Equal(got.losses, want.losses) {
				t.Errorf("%s, rank %d: losses %v, want %v", kind, rank, got.losses, want.losses)
			}
			if err := got.isNear(want); err != nil {
				t.Errorf("%s, rank %d: %v", kind, rank, err)
			}
			if diff := got.differs(outcomes[rank/ranks*ranks]); diff != "" {
				t.Errorf("%s: data rank %d differs from the first: %s", kind, rank%ranks, diff)
			}
		}
	}
}

// Ranks of a group hold shards: half of the activations, and of the messages, each.
func TestGroupsHoldShards(t *testing.T) {
	s, err := OneFOneB(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	stages := layered(t, 2)
	bytes := func(m spatial.Mesh) []int64 {
		of := make([]int64, 2*m.Size())
		err := comm.Run(len(of), comm.Parallel, func(c *comm.Comm) error {
			w, err := NewWorker(c, s, stages, Options{Mesh: m})
			if err != nil {
				return err
			}
			of[c.Rank()] = w.ActivationBytes(0)
			return w.Close()
		})
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	one, two := bytes(nil), bytes(parse(t, "lat:2"))
	for _, shard := range two[2:] { // of the last stage; halos that the backward pass reads add a row of eight
		if low, high := one[1]/2, 3*one[1]/4; shard < low || shard > high {
			t.Errorf("a rank keeps %d bytes, want %d to %d: half of %d", shard, low, high, one[1])
		}
	}
}

// All ranks of all groups get one timeline, and inputs are filled by shard.
func TestTimelineOfGroups(t *testing.T) {
	s, err := Chimera(2, 2, ChimeraOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stages, m, timelines := layered(t, 2), parse(t, "lat:2"), make([]*Timeline, 4)
	err = comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
		w, err := NewWorker(c, s, stages, Options{Mesh: m})
		if err != nil {
			return err
		}
		defer w.Close()
		if box := w.InputBox("x"); box[3] != (spatial.Interval{Lo: 4 * (c.Rank() % 2), Hi: 4*(c.Rank()%2) + 4}) {
			t.Errorf("rank %d fills %v", c.Rank(), box)
		}
		if _, err := w.Step(t.Context(), 0, feedOf(w)); err != nil {
			return err
		}
		timelines[c.Rank()], err = w.Timeline()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for rank, x := range timelines {
		if x.End != timelines[0].End || !slices.EqualFunc(x.Spans, timelines[0].Spans, slices.Equal) {
			t.Errorf("rank %d has another timeline than rank 0", rank)
		}
	}
}

// Meshes that do not suit the ranks, the fields or the cuts are refused.
func TestGroupsAreRefused(t *testing.T) {
	filters := trainingGraph(t, graph.Shape{1, 3, 1, 8, 16}, func(b *graph.Builder, x graph.Value) graph.Value {
		w := op.Tanh(b, b.Param("filters", graph.Shape{3, 3, 1, 3, 3}, graph.HeNormal(27)))
		for range 2 { // the second layer reads what the first stage computes
			x = op.Tanh(b, op.Conv3D(b, x, w, op.Conv{Pad: op.Same(1, 3, 3)}))
		}
		return x
	})
	for name, c := range map[string]struct {
		stages []*Stage
		mesh   string
		ranks  int
		want   string
	}{
		"ranks":   {splitEvenly(t, stopped(t), 2), "lat:2", 2, "use 4 ranks and 2 stages"},
		"fields":  {splitEvenly(t, stopped(t), 2), "lat:8", 16, `8 ranks along "lat"`},
		"filters": {splitEvenly(t, filters, 2), "lat:2", 4, "crosses a cut"},
	} {
		s, err := OneFOneB(2, 2)
		if err != nil {
			t.Fatal(err)
		}
		m := parse(t, c.mesh)
		err = comm.Run(c.ranks, comm.Parallel, func(r *comm.Comm) error {
			w, err := NewWorker(r, s, c.stages, Options{Mesh: m})
			if err == nil {
				err = w.Close()
			}
			return err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || name != "fields" && exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}
