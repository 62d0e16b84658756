//go:build long && cgo && linux

package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/mpitest"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/unet3d"
)

func init() { rankJobs["bubbles"] = bubbles }

// measured networks, of one sample a micro-batch, on fields of 64×128 points and of four times as many.
var measured = measuredNetworks()

func measuredNetworks() map[string]func(testing.TB) *graph.Graph {
	networks := map[string]func(testing.TB) *graph.Graph{}
	for _, rows := range []int{64, 128} {
		networks[fmt.Sprintf("unet3d, base 8, 2×%d×%d", rows, 2*rows)] = func(t testing.TB) *graph.Graph {
			return trainingGraph(t, graph.Shape{1, 8, 2, rows, 2 * rows}, unet3d.UNet{Base: 8, Stages: 4, Periodic: true}.Build)
		}
		networks[fmt.Sprintf("unet_2plus1d, base 8, 4 leads, %d×%d", rows, 2*rows)] = func(t testing.TB) *graph.Graph {
			return trainingGraph(t, graph.Shape{4, 8, 1, rows, 2 * rows}, func(b *graph.Builder, x graph.Value) graph.Value {
				return unet3d.TimeUNet{UNet: unet3d.UNet{Base: 8, Stages: 4, Periodic: true}, Leads: 4, Factorised: true}.Build(b, x)
			})
		}
	}
	return networks
}

// bubbleJob is a measurement of steps over MPI.
type bubbleJob struct {
	Network string
	Kind    string // of the schedule
	Steps   int

	Recompute bool
	// Passes are measured times of passes, by forward or backward pass and stage: passes sleep for one of them. Nil: they compute.
	Passes [][][]cluster.Time
}

// bubbles measures steps on a rank. Rank 0 returns a line with the idle share and its predictions, each rank its memory.
func bubbles(c *comm.Comm, argument string) ([]string, error) {
	var job bubbleJob
	if err := json.Unmarshal([]byte(argument), &job); err != nil {
		return nil, err
	}
	g := measured[job.Network](rankTB{})
	stages, s := splitEvenly(rankTB{}, g, c.Size()), schedules(rankTB{}, c.Size())[job.Kind]
	w, err := NewWorker(c, s, stages, Options{Recompute: job.Recompute})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	send, err := w.messageTimes()
	if err != nil {
		return nil, err
	}
	var all []*Timeline
	for step := range job.Steps + 2 {
		if err := comm.Barrier(c); err != nil {
			return nil, err
		}
		if job.Passes == nil {
			_, err = w.Step(context.Background(), uint64(step), samples)
		} else {
			err = w.sleepStep(step, job.Passes)
		}
		if err != nil {
			return nil, err
		}
		x, err := w.Timeline()
		if err != nil {
			return nil, err
		}
		if step >= 2 { // without those that allocate
			all = append(all, x)
		}
	}
	var lines []string
	if job.Passes == nil {
		lines = append(lines, fmt.Sprintf("  rank %d holds up to %.2f MiB of activations", c.Rank(), float64(w.PeakActivationBytes())/(1<<20)))
	}
	if c.Rank() == 0 {
		line, err := s.compareBubbles(all, send)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// messageTimes measures the messages over each cut while all cuts carry one in both directions, as in a step: the median.
func (w *Worker) messageTimes() ([]cluster.Time, error) {
	const repeats = 9
	rank := w.c.Rank()
	times := make([]int64, w.s.Stages-1)
	var in, out [2][]float32 // over the cuts above and below this rank
	for side, cut := range []int{rank, rank - 1} {
		if cut >= 0 && cut < len(times) {
			in[side], out[side] = make([]float32, w.lengths[0][cut]), make([]float32, w.lengths[0][cut])
		}
	}
	took := make([]int64, repeats)
	for i := range took {
		if err := comm.Barrier(w.c); err != nil {
			return nil, err
		}
		began := time.Now()
		var cuts [2][]comm.Request
		for side, other := range []int{rank + 1, rank - 1} {
			if in[side] != nil {
				cuts[side] = []comm.Request{w.c.Recv(other, 1-side, in[side]), w.c.Send(other, side, out[side])}
			}
		}
		for side, messages := range cuts {
			for _, m := range messages {
				if err := m.Wait(); err != nil {
					return nil, err
				}
			}
			if side == 0 {
				took[i] = time.Since(began).Nanoseconds()
			}
		}
	}
	if slices.Sort(took); rank < len(times) {
		times[rank] = took[repeats/2]
	}
	if err := comm.AllReduce(w.c, times, comm.Auto); err != nil {
		return nil, err
	}
	send := make([]cluster.Time, len(times))
	for cut, t := range times {
		send[cut] = cluster.Time(t) * cluster.Nanosecond
	}
	return send, nil
}

// sleepStep runs the tasks and messages of a step whose passes sleep instead of computing.
func (w *Worker) sleepStep(step int, passes [][][]cluster.Time) error {
	w.step = stepState{begin: time.Now()}
	key, i := rng.Key(uint64(w.c.Rank()), uint64(step)), uint64(0)
	x := &executor[float32]{c: w.c, s: w.s, do: idle{}, lengths: w.lengths}
	x.measure = func(t Task, piece int, _ func() error) error {
		times := passes[index(t.Backward)][t.Stage]
		took := times[int(rng.Uniform(key, i)*float64(len(times)))]
		i++
		return w.measure(t, piece, func() error {
			time.Sleep(time.Duration(took / cluster.Nanosecond))
			return nil
		})
	}
	return x.run(context.Background())
}

// idle computes nothing.
type idle struct{}

func (idle) forward(_, _ int, _, _ []float32) error     { return nil }
func (idle) backward(_, _ int, _, _, _ []float32) error { return nil }

// compareBubbles compares the mean idle share of measured steps with predictions from their passes.
func (s *Schedule) compareBubbles(all []*Timeline, send []cluster.Time) (string, error) {
	var step, share float64
	for _, x := range all {
		step += x.End.Seconds() / float64(len(all))
		share += x.MeanBubbles() / float64(len(all))
	}
	want, err := s.Expect(all, send)
	if err != nil {
		return "", err
	}
	median, err := s.Time(s.MeasuredCosts(all...))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("N %d, step %.1f ms, predicted %.1f; bubbles %.1f %%, predicted %.1f, from median passes %.1f; messages take %v",
		s.Micro, 1e3*step, 1e3*want.End.Seconds(), 100*share, 100*want.Bubbles, 100*median.MeanBubbles(), send), nil
}

// overOpenMPI runs a measurement as a subtest.
func overOpenMPI(t *testing.T, ranks int, job bubbleJob) {
	t.Helper()
	how := "computing"
	if job.Recompute {
		how += " again"
	}
	if job.Passes != nil {
		how = "sleeping"
	}
	t.Run(fmt.Sprintf("%s, %d ranks, %s, %s", job.Network, ranks, job.Kind, how), func(t *testing.T) {
		argument, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		out, err := mpitest.Command(ctx, t, mpitest.Path(t, mpitest.Launchers[0]), ranks, rankVariable+"=bubbles:"+string(argument)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Log(strings.TrimSpace(string(out)))
	})
}

// The mean idle share of workers in measured steps over Open MPI, beside that which their passes predict. Two ranks
// compute. Passes of two and four ranks sleep too, for times of passes that one core has measured one after the other: as on
// a machine with a core for each rank, so that the schedule and its messages are measured and not how ranks share cores.
func TestLongBubbles(t *testing.T) {
	for name, build := range measured {
		g := build(t)
		for _, kind := range overMPI {
			for _, recompute := range []bool{false, true} {
				overOpenMPI(t, 2, bubbleJob{Network: name, Kind: kind, Steps: 30, Recompute: recompute})
			}
		}
		for _, d := range []int{2, 4} {
			alone := schedules(t, d)["1f1b"]
			times := [][][]cluster.Time{make([][]cluster.Time, d), make([][]cluster.Time, d)}
			for _, x := range timelines(t, alone, splitEvenly(t, g, d), comm.Replay(1), 5) {
				for _, span := range slices.Concat(x.Spans...) {
					of := times[index(span.Backward)]
					of[span.Stage] = append(of[span.Stage], span.End-span.Start)
				}
			}
			for _, kind := range overMPI {
				overOpenMPI(t, d, bubbleJob{Network: name, Kind: kind, Steps: 30, Passes: times})
			}
		}
	}
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

// Steps of four ranks of a virtual cluster (10 Gbit/s, 20 µs) take the predicted time, with the times of the passes of four stages,
// measured one after the other.
func TestLongSimulatedSteps(t *testing.T) {
	for name, build := range measured {
		four := splitEvenly(t, build(t), 4)
		one := schedules(t, 4)["1f1b"]
		costs := one.MeasuredCosts(timelines(t, one, four, comm.Replay(1), 3)...)
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
		want, err := serial(t.Context(), s, stages, nil, nil, 2)
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
