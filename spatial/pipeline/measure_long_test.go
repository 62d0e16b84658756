//go:build long && cgo && linux

package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// measured networks, of one sample a micro-batch.
var measured = map[string]func(testing.TB) *graph.Graph{
	"unet3d, base 8, 2×64×128": func(t testing.TB) *graph.Graph {
		return trainingGraph(t, graph.Shape{1, 8, 2, 64, 128}, unet3d.UNet{Base: 8, Stages: 4, Periodic: true}.Build)
	},
	"unet_2plus1d, base 8, 4 leads, 64×128": func(t testing.TB) *graph.Graph {
		return trainingGraph(t, graph.Shape{4, 8, 1, 64, 128}, func(b *graph.Builder, x graph.Value) graph.Value {
			return unet3d.TimeUNet{UNet: unet3d.UNet{Base: 8, Stages: 4, Periodic: true}, Leads: 4, Factorised: true}.Build(b, x)
		})
	},
}

// timelines runs steps on goroutines and returns their timelines, without the first.
func timelines(t *testing.T, s *Schedule, stages []*Stage, mode comm.Mode, steps int) (all []*Timeline) {
	t.Helper()
	err := comm.Run(s.Stages, mode, func(c *comm.Comm) error {
		w, err := NewWorker(c, s, stages, Options{})
		if err != nil {
			return err
		}
		defer w.Close()
		for step := range steps + 1 {
			if err := comm.Barrier(c); err != nil {
				return err
			}
			if _, err := w.Step(t.Context(), uint64(step), samples); err != nil {
				return err
			}
			x, err := w.Timeline()
			if err != nil {
				return err
			}
			if c.Rank() == 0 && step > 0 {
				all = append(all, x)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fastest is the timeline with the earliest end, that which other programs have disturbed least.
func fastest(all []*Timeline) *Timeline {
	return slices.MinFunc(all, func(a, b *Timeline) int { return int(a.End - b.End) })
}

// The idle share of workers in measured steps, beside that which the times of their passes predict: on two ranks, and on four of
// a virtual cluster (10 Gbit/s, 20 µs) with the times of the passes of four stages, measured one after the other.
func TestLongBubbles(t *testing.T) {
	for name, build := range measured {
		g := build(t)
		two := splitEvenly(t, g, 2)
		for _, kind := range overMPI {
			s := schedules(t, 2)[kind]
			x := fastest(timelines(t, s, two, comm.Parallel, 15))
			want, err := s.Time(s.MeasuredCosts(x))
			if err != nil {
				t.Fatal(err)
			}
			free, err := s.WithoutMessages(x)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, 2 ranks, %s, N %d: step %.1f ms, predicted %.1f, without messages %.1f; bubbles %.1f %%, predicted %.1f, without messages %.1f", name, kind, s.Micro,
				1e3*x.End.Seconds(), 1e3*want.End.Seconds(), 1e3*free.End.Seconds(), 100*x.MeanBubbles(), 100*want.MeanBubbles(), 100*free.MeanBubbles())
		}
		four := splitEvenly(t, g, 4)
		one := schedules(t, 4)["1f1b"]
		costs := one.MeasuredCosts(fastest(timelines(t, one, four, comm.Replay(1), 3)))
		bytes := make([]int64, 3)
		for k := range bytes {
			bytes[k] = 4 * int64(size(four[k].Sends, false))
			costs.Send = append(costs.Send, 20*cluster.Microsecond+cluster.Time(float64(bytes[k])/1.25e9*float64(cluster.Second)))
		}
		for kind, s := range schedules(t, 4) {
			want, err := s.Time(costs)
			if err != nil {
				t.Fatal(err)
			}
			x, err := Simulate(t.Context(), s, costs, bytes, cluster.LogGP{Latency: 20 * cluster.Microsecond, Rate: 1_250_000_000})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, 4 simulated ranks, %s, N %d: step %.1f ms, predicted %.1f; bubbles %.1f %%, predicted %.1f", name, kind, s.Micro,
				1e3*x.End.Seconds(), 1e3*want.End.Seconds(), 100*x.MeanBubbles(), 100*want.MeanBubbles())
		}
		t.Logf("%s: forward %v, backward %v, messages of %v bytes", name, costs.Forward, costs.Backward, bytes)
	}
}

// Many orders of messages give the bits of the training without a pipeline.
func TestLongOrdersOfMessages(t *testing.T) {
	stages := splitEvenly(t, smallUNet(t), 4)
	for kind, s := range schedules(t, 4) {
		want, err := serial(t.Context(), s, stages, nil, 2)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(40) {
			err := comm.Run(4, comm.Replay(seed), func(c *comm.Comm) error {
				got, err := pipelined(t.Context(), c, s, stages, Options{}, 2)
				if err != nil {
					return err
				}
				if diff := got.differs(want); diff != "" {
					return errors.New(diff)
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%s, seed %d: %v", kind, seed, err)
			}
		}
	}
}

// All networks, meshes and schedules of groups give the bits of the mesh.
func TestLongGroups(t *testing.T) {
	for name, build := range networks {
		g := build(t)
		for _, mesh := range []string{"lat:2", "lon:2", "data:2", "data:2 lat:2"} {
			for _, d := range []int{2, 4} {
				for kind, s := range schedules(t, d) {
					t.Run(fmt.Sprintf("%s, %d stages, %s, %s", name, d, mesh, kind), func(t *testing.T) { compareWithMesh(t, g, d, parse(t, mesh), s) })
				}
			}
		}
	}
}
