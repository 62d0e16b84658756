package price

import (
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim/kfac"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/search"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// training completes a network with a loss.
func training(t testing.TB, shape graph.Shape, build func(b *graph.Builder, x graph.Value) graph.Value) *graph.Graph {
	t.Helper()
	b := graph.New(7)
	b.Loss(op.Mean(b, op.Square(b, build(b, b.Input("x", shape)))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// uNet is a small U-Net for one sample.
func uNet(t testing.TB) *graph.Graph {
	return training(t, graph.Shape{1, 4, 2, 32, 64}, unet3d.UNet{Base: 8, Stages: 3, Periodic: true}.Build)
}

// chain has equal layers of c channels.
func chain(t testing.TB, layers, c int) *graph.Graph {
	return training(t, graph.Shape{1, c, 1, 16, 16}, func(b *graph.Builder, x graph.Value) graph.Value {
		for i := range layers {
			w := b.Param(fmt.Sprintf("layer%d.weight", i), graph.Shape{c, c, 1, 3, 3}, graph.HeNormal(9*c))
			x = op.Tanh(b, op.Conv3D(b, x, w, op.Conv{Pad: op.Same(1, 3, 3)}))
		}
		return x
	})
}

// machine has nodes of a number of ranks, with a network between them of a rate in GB/s.
func machine(perNode int, rate float64) search.Machine {
	return search.Machine{FLOPs: 1e11, Bytes: 1e10, PerNode: perNode, IntraNode: search.Link{Alpha: cluster.Microsecond, Rate: 10_000_000_000},
		InterNode: search.Link{Alpha: 5 * cluster.Microsecond, Rate: cluster.Rate(rate * 1e9)}, OverlapGradients: true, OverlapHalos: true}
}

// network is that of a machine for the virtual cluster. Messages that leave a node together share its link.
func network(t testing.TB, m search.Machine) cluster.Network {
	t.Helper()
	const nodes = 16
	topology, err := cluster.Parse(fmt.Sprintf("crossbar:%d", nodes), cluster.Cable{Rate: m.InterNode.Rate})
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Nodes{PerNode: m.PerNode, IntraNode: cluster.LogGP{Latency: m.IntraNode.Alpha, Rate: m.IntraNode.Rate},
		InterNode: cluster.Fluid{Wiring: cluster.Wiring{Topology: topology, Alpha: m.InterNode.Alpha}}}
}

// divided is a network in stages on a machine.
func divided(t testing.TB, g *graph.Graph, m search.Machine, stages int, mesh string) *Pipeline {
	t.Helper()
	of, err := spatial.ParseMesh(mesh)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewNetwork(g, m, search.Optimiser{State: 2}).Divide(t.Context(), stages, of)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// schedule is a schedule by name.
func schedule(t testing.TB, name string, stages, micro int) *pipeline.Schedule {
	t.Helper()
	s, err := pipeline.OneFOneB(stages, micro)
	switch name {
	case "gpipe":
		s, err = pipeline.GPipe(stages, micro)
	case "chimera":
		s, err = pipeline.Chimera(stages, micro, pipeline.ChimeraOptions{})
	case "chimera, two pairs":
		s, err = pipeline.Chimera(stages, micro, pipeline.ChimeraOptions{Pairs: 2})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// cases are pipelines whose predictions are compared.
var cases = []struct {
	stages  int
	mesh    string
	kind    string
	micro   int
	perNode int
}{
	{2, "", "1f1b", 4, 1}, {4, "", "chimera", 4, 1}, {4, "", "chimera", 4, 2}, {2, "data:2", "1f1b", 4, 1}, {2, "data:2", "1f1b", 4, 2},
	{2, "data:2", "chimera", 2, 4}, {2, "data:4", "1f1b", 2, 2}, {2, "data:3", "1f1b", 2, 1}, {2, "lat:2", "1f1b", 4, 1}, {2, "data:2 lat:2", "chimera", 4, 2},
	{4, "data:2 lon:2", "chimera", 4, 4}, {4, "data:2", "chimera, two pairs", 4, 1},
}

// The predicted step is the one that the virtual cluster plays, message by message: within 1 % of its time on a fast network, and
// within 6 % on one on which messages take up to half of it and those of different stages share links.
func TestStepIsPlayed(t *testing.T) {
	g := uNet(t)
	for rate, within := range map[float64]float64{10: 0.01, 0.5: 0.06} {
		for _, c := range cases {
			m := machine(c.perNode, rate)
			p, s := divided(t, g, m, c.stages, c.mesh), schedule(t, c.kind, c.stages, c.micro)
			want, err := p.Step(t.Context(), s, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Simulate(t.Context(), s, network(t, m))
			if err != nil {
				t.Fatal(err)
			}
			e := want.Time.Seconds()/got.Step.Seconds() - 1
			t.Logf("%+v, %g GB/s: passes %v, gradients %v, optimiser %v, parameters %v: %v, played %v (%+.2f %%)", c, rate, want.Passes, want.Gradients, want.Optimiser, want.Parameters, want.Time, got.Step, 100*e)
			if math.Abs(e) > within || want.Time != want.Passes+want.Gradients+want.Optimiser+want.Parameters {
				t.Errorf("%+v, %g GB/s: predicted %+v, played %v (%+.2f %%)", c, rate, want, got.Step, 100*e)
			}
		}
	}
}

// Sums and exchange alone, after passes that take no time, are played to 0.5 %, and with copies of stages, whose messages to several
// ranks share links, to 6 %.
func TestSumsArePlayed(t *testing.T) {
	g := uNet(t)
	for _, c := range cases {
		m := machine(c.perNode, 1)
		p, s := divided(t, g, m, c.stages, c.mesh), schedule(t, c.kind, c.stages, c.micro)
		o := p.own(s, nil)
		x := pipeline.Simulated{Schedule: s, Costs: pipeline.EqualCosts(c.stages, 0, 0, 0), Bytes: make([]int64, c.stages-1), Mesh: p.mesh, Sums: o.sums}
		played := func(of func(r *cluster.Rank) error) cluster.Time {
			result, err := cluster.Run(c.stages*p.mesh.Size(), network(t, m), cluster.Options{}, of)
			if err != nil {
				t.Fatal(err)
			}
			return result.Time()
		}
		exchanged, _ := m.Transfers(p.exchange(s, o))
		for _, y := range []struct {
			what            string
			predicted, real cluster.Time
		}{
			{"sums", p.sumTime(s, o.sums, make([]cluster.Time, s.Stages), true).end + p.lossTime(s).end, played(func(r *cluster.Rank) error {
				_, err := x.Run(t.Context(), r)
				return err
			})},
			{"parameters", exchanged, played(func(r *cluster.Rank) error { return transfer(r, p.exchange(s, o)) })},
		} {
			within := 0.005
			if s.Pipes() > 1 {
				within = 0.06
			}
			if d := math.Abs(y.predicted.Seconds() - y.real.Seconds()); d > within*y.real.Seconds()+1e-6 {
				t.Errorf("%+v: %s take %v, played %v", c, y.what, y.predicted, y.real)
			}
		}
	}
}

// The messages of a step of a worker have the bytes of the played one, on all ranks.
func TestPlayedMessagesAreReal(t *testing.T) {
	g := chain(t, 6, 4)
	for _, c := range cases {
		p, s := divided(t, g, machine(c.perNode, 1), c.stages, c.mesh), schedule(t, c.kind, c.stages, c.micro)
		if len(p.mesh.Fields()) > 0 { // halos are part of the costs of passes
			continue
		}
		stages, err := pipeline.Split(g, p.Division)
		if err != nil {
			t.Fatal(err)
		}
		ranks := c.stages * p.mesh.Size()
		sent, want := make([]int64, ranks), make([]int64, ranks)
		err = comm.Run(ranks, comm.Replay(1), func(r *comm.Comm) error {
			w, err := pipeline.NewWorker(r, s, stages, pipeline.Options{Mesh: p.mesh})
			if err != nil {
				return err
			}
			defer w.Close()
			before := r.Traffic()
			_, err = w.Step(t.Context(), 0, func(_ int, _ string, into []float32) error { return nil })
			sent[r.Rank()] = r.Traffic().Sub(before).Bytes
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		x := pipeline.Simulated{Schedule: s, Costs: p.passes(), Mesh: p.mesh, Sums: p.Division.Sums(g, s)}
		for k := range c.stages - 1 {
			x.Bytes = append(x.Bytes, p.crossing(k))
		}
		if _, err := cluster.Run(ranks, network(t, machine(1, 1)), cluster.Options{}, func(r *cluster.Rank) error {
			_, err := x.Run(t.Context(), r)
			want[r.Rank()] = r.Traffic().Bytes
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for r := range ranks {
			if sent[r] != want[r] {
				t.Errorf("%+v: rank %d sends %d bytes, played %d", c, r, sent[r], want[r])
			}
		}
	}
}

// Equal stages of a chain: parts of a step by hand. Two data ranks sum the gradients of a stage with one message each way, and each
// rank of a stage sends its part of the parameters to the others.
func TestStepByHand(t *testing.T) {
	const layers, c, values = 4, 16, 2 * 16 * 16 * 9 // of a stage
	m := machine(1, 1)
	send := func(bytes int64) cluster.Time { return m.MessageTime(0, 1, 1, bytes) }
	for mesh, want := range map[string]struct{ gradients, parameters cluster.Time }{
		"":       {gradients: send(8 * 4)}, // the losses of four micro-batches
		"lat:2":  {gradients: send(8 * 4), parameters: send(4 * values / 2)},
		"data:2": {gradients: send(4*values) + 2*send(8*8), parameters: send(4 * values / 2)}, // vectors of this length are sent whole
	} {
		p := divided(t, chain(t, layers, c), m, 2, mesh)
		x, err := p.Step(t.Context(), schedule(t, "1f1b", 2, 4), nil)
		if err != nil {
			t.Fatal(err)
		}
		near := func(a, b cluster.Time) bool { return math.Abs(a.Seconds()-b.Seconds()) <= 1e-6*b.Seconds() }
		if !near(x.Gradients, want.gradients) || !near(x.Parameters, want.parameters) {
			t.Errorf("%q: sums of gradients take %v, want %v; the exchange of parameters %v, want %v", mesh, x.Gradients, want.gradients, x.Parameters, want.parameters)
		}
	}
}

// More data ranks need less memory for micro-batches in transit, not for weights.
func TestMemoryOfDataRanks(t *testing.T) {
	g, m := uNet(t), machine(1, 1)
	one, err := divided(t, g, m, 2, "").Step(t.Context(), schedule(t, "gpipe", 2, 8), nil)
	if err != nil {
		t.Fatal(err)
	}
	two, err := divided(t, g, m, 2, "data:2").Step(t.Context(), schedule(t, "gpipe", 2, 4), nil)
	if err != nil {
		t.Fatal(err)
	}
	if two.Memory >= one.Memory || 2*two.Passes <= one.Passes || two.Passes >= one.Passes {
		t.Errorf("two data ranks %+v, one %+v", two, one)
	}
}

// settings are those of K-FAC in tests.
func settings(refresh, delay int) *KFAC {
	return &KFAC{MaxSide: 600, Refresh: refresh, Delay: delay, Options: kfac.Options{Delayed: delay > 0}}
}

// Inversions run in idle times as far as the delay reaches. What is filled and what is exposed make all inversions, the mean step
// has its share of both, and without a delay all are exposed.
func TestInversionsInIdleTimes(t *testing.T) {
	g, m := uNet(t), machine(1, 10)
	m.FLOPs = 1e9 // long passes
	p, s := divided(t, g, m, 2, ""), schedule(t, "1f1b", 2, 4)
	before := cluster.Time(math.MaxInt64)
	var hiding int
	var all cluster.Time
	for _, delay := range []int{0, 1, 2, 4, 20} {
		x, err := p.Step(t.Context(), s, settings(20, delay))
		if err != nil {
			t.Fatal(err)
		}
		c := x.Curvature
		filled, exposed := c.Inversions(delay)
		if delay == 0 {
			all = exposed
		}
		if (filled > 0) != (delay > 0) || filled+exposed != all || exposed > before || exposed < 0 {
			t.Errorf("delay %d: %v in idle times, %v exposed after %v", delay, filled, exposed, before)
		}
		if want := x.Time + c.Products + (c.Factors+exposed)/20; x.Mean() != want || c.Products <= 0 || c.Factors <= 0 {
			t.Errorf("delay %d: mean step %v, want %v", delay, x.Mean(), want)
		}
		before, hiding = exposed, c.HidingDelay()
	}
	x, err := p.Step(t.Context(), s, settings(20, hiding))
	if err != nil {
		t.Fatal(err)
	}
	if _, exposed := x.Curvature.Inversions(hiding); exposed != before || hiding < 1 || hiding > 20 {
		t.Errorf("a delay of %d steps leaves %v, of 20 steps %v", hiding, exposed, before)
	}
	if _, exposed := x.Curvature.Inversions(hiding - 1); hiding > 1 && exposed <= before {
		t.Errorf("a delay of %d steps leaves %v, not more than with %d", hiding-1, exposed, hiding)
	}
}

// Inversions in idle times do not prolong the passes that the virtual cluster plays, and steps with factors take the predicted time.
func TestPlayedCurvature(t *testing.T) {
	g, m := uNet(t), machine(1, 10)
	for _, c := range []struct {
		stages, micro int
		mesh, kind    string
	}{{2, 4, "", "1f1b"}, {4, 4, "", "chimera"}, {2, 4, "data:2", "1f1b"}} {
		p, s := divided(t, g, m, c.stages, c.mesh), schedule(t, c.kind, c.stages, c.micro)
		k := settings(20, 5)
		step, err := p.Step(t.Context(), s, k)
		if err != nil {
			t.Fatal(err)
		}
		timeline, err := s.Time(p.passes())
		if err != nil {
			t.Fatal(err)
		}
		play := func(x pipeline.Simulated) cluster.Time {
			x.Schedule, x.Mesh = s, p.mesh
			for k := range c.stages - 1 {
				x.Bytes = append(x.Bytes, p.crossing(k))
			}
			result, err := cluster.Run(c.stages*p.mesh.Size(), network(t, m), cluster.Options{}, func(r *cluster.Rank) error {
				_, err := x.Run(t.Context(), r)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return result.Time()
		}
		plain, filled := play(pipeline.Simulated{Costs: p.passes()}), cluster.Time(0)
		for at := range k.Delay {
			took := play(pipeline.Simulated{Costs: p.passes(), Between: func(rank, task int) (sum cluster.Time) {
				w := &step.Curvature.ranks[rank]
				for _, x := range w.Before(timeline, s.Tasks[rank/p.mesh.Size()], at)[task] {
					sum += w.Items[x.Item].Time
				}
				filled += sum
				return sum
			}})
			if e := took.Seconds()/plain.Seconds() - 1; e > 0.005 {
				t.Errorf("%+v: with inversions step %d takes %v, without %v", c, at, took, plain)
			}
		}
		if filled == 0 {
			t.Errorf("%+v: no inversions in idle times", c)
		}
		layers, times, err := m.FactorTimes(g, k.MaxSide)
		if err != nil {
			t.Fatal(err)
		}
		longer := play(pipeline.Simulated{Costs: p.factorPasses(step.Curvature.plan, times, p.stagesOf(layers, s)), Sums: factorSums(s, step.Curvature.triangles)})
		sums, ready := factorSums(s, step.Curvature.triangles), make([]cluster.Time, s.Stages)
		sum := p.sumTime(s, sums, ready, true).end - p.sumTime(s, sums, ready, false).end // sent back in the played step only
		if e := (plain+step.Curvature.Factors+sum).Seconds()/longer.Seconds() - 1; math.Abs(e) > 0.02 {
			t.Errorf("%+v: a step with factors takes %v more, played %v after %v (%+.2f %%)", c, step.Curvature.Factors, longer, plain, 100*e)
		}
	}
}

// Layers with factors have one owner each, and ranks of a stage share their inversions; a filter of several stages has none.
func TestSharesOfInversions(t *testing.T) {
	g := training(t, graph.Shape{1, 8, 1, 16, 16}, func(b *graph.Builder, x graph.Value) graph.Value {
		filter := func(name string) graph.Value { return b.Param(name, graph.Shape{8, 8, 1, 3, 3}, graph.HeNormal(72)) }
		shared := filter("shared")
		for _, w := range []graph.Value{shared, filter("a"), filter("b"), filter("c"), filter("d"), shared} {
			x = op.Tanh(b, op.Conv3D(b, x, w, op.Conv{Pad: op.Same(1, 3, 3)}))
		}
		return x
	})
	for mesh, ranks := range map[string]int{"": 2, "lat:2": 4, "data:2 lat:2": 4} { // with inversions
		x, err := divided(t, g, machine(1, 10), 2, mesh).Step(t.Context(), schedule(t, "1f1b", 2, 4), settings(10, 0))
		if err != nil {
			t.Fatal(err)
		}
		var work cluster.Time
		busy := 0
		for i := range x.Curvature.ranks {
			if n := x.Curvature.ranks[i].Work(); n > 0 {
				work, busy = work+n, busy+1
			}
		}
		pieces := func(side int) float64 {
			n, cost := kfac.Pieces(side)
			return float64(n*cost) / kfac.InverseRate
		}
		want := 4 * (pieces(8) + pieces(72))
		if busy != ranks || math.Abs(work.Seconds()/want-1) > 1e-6 {
			t.Errorf("mesh %q: %d ranks invert for %v, want %d and %g s", mesh, busy, work, ranks, want)
		}
	}
}
