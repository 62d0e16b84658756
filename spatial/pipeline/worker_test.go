package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// trainingGraph is a network with a loss on inputs x and y.
func trainingGraph(t testing.TB, shape graph.Shape, build func(b *graph.Builder, x graph.Value) graph.Value) *graph.Graph {
	t.Helper()
	b := graph.New(7)
	p := build(b, b.Input("x", shape))
	b.Output("prediction", p)
	b.Loss(op.MSE(b, p, b.Input("y", p.Shape())))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// smallUNet has skips over all cuts, and dropout.
func smallUNet(t testing.TB) *graph.Graph {
	return trainingGraph(t, graph.Shape{2, 3, 1, 8, 16}, unet3d.UNet{Base: 2, Stages: 2, Dropout: 0.3, Periodic: true}.Build)
}

// recurrent has filters that several stages share.
func recurrent(t testing.TB) *graph.Graph {
	return trainingGraph(t, graph.Shape{4, 3, 1, 4, 8}, func(b *graph.Builder, x graph.Value) graph.Value {
		return unet3d.RecurrentUNet{UNet: unet3d.UNet{Base: 2, Stages: 1}, Leads: 4}.Build(b, x)
	})
}

// stopped has values of the first layer that the last one reads: one that depends on no parameter, and one whose gradient the
// stages between pass on, although two layers read it.
func stopped(t testing.TB) *graph.Graph {
	return trainingGraph(t, graph.Shape{2, 3, 1, 4, 8}, func(b *graph.Builder, x graph.Value) graph.Value {
		layer := func(name string, x graph.Value) graph.Value {
			return op.Tanh(b, op.Conv3D(b, x, b.Param(name, graph.Shape{3, 3, 1, 3, 3}, graph.HeNormal(27)), op.Conv{Pad: op.Same(1, 3, 3)}))
		}
		first := layer("a", x)
		mask, h := op.Exp(b, op.Scale(b, x, 0.1)), first
		for _, name := range []string{"b", "c", "d", "e", "f"} {
			h = layer(name, op.Add(b, h, op.StopGradient(b, first)))
		}
		return op.Mul(b, op.Add(b, layer("g", h), first), mask)
	})
}

// normed has batch norms with the statistics of a micro-batch, and dropout.
func normed(t testing.TB) *graph.Graph {
	g := trainingGraph(t, graph.Shape{2, 3, 1, 8, 16}, func(b *graph.Builder, x graph.Value) graph.Value {
		for k := range 5 {
			name, shape := fmt.Sprintf("layer%d", k), graph.Shape{4}
			x = op.Conv3D(b, x, b.Param(name+".weight", graph.Shape{4, x.Dim(1), 1, 3, 3}, graph.HeNormal(9*x.Dim(1))), op.Conv{Pad: op.SameGlobal(1, 3, 3)})
			x = op.BatchNorm(b, x, b.Param(name+".scale", shape, graph.Ones()), b.Param(name+".offset", shape, graph.Zeros()),
				b.State(name+".mean", shape, graph.Zeros()), b.State(name+".variance", shape, graph.Ones()), op.BatchNormOptions{})
			x = op.Dropout(b, op.ReLU(b, x), 0.1)
		}
		return x
	})
	g.Assigns = nil // no running statistics
	return g
}

// networks of the tests.
var networks = map[string]func(testing.TB) *graph.Graph{"unet": smallUNet, "recurrent": recurrent, "stopped": stopped, "normed": normed}

// splitEvenly divides a graph into stages by FLOPs.
func splitEvenly(t testing.TB, g *graph.Graph, stages int) []*Stage {
	t.Helper()
	layers := Layers(g, func(n *graph.Node) cluster.Time { return cluster.Time(n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs)) })
	d, err := Divide(layers, stages, func(int64) cluster.Time { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Split(g, d)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// samples fills inputs with numbers that depend on input, piece and position.
func samples(piece int, input string, into []float32) error {
	for i := range into {
		into[i] = float32(math.Sin(float64(i+1)*1.7 + float64(piece)*0.9 + float64(len(input)+int(input[0]))))
	}
	return nil
}

// feedOf is samples for the shard of a rank, of its data rank's pieces.
func feedOf(w *Worker) Feed {
	return func(piece int, input string, into []float32) error {
		shape := w.whole.Find(input).Shape
		all := make([]float32, shape.Size())
		if err := samples(w.firstPiece()+piece, input, all); err != nil {
			return err
		}
		spatial.ExtractBox(into, all, shape, w.InputBox(input))
		return nil
	}
}

const rate = 0.05 // of the test's gradient descent

// outcome is what a training leaves: by name of the parameter, and the losses of the last step.
type outcome struct {
	params, grads map[string][]float32
	losses        []float64
	activations   int64 // bytes, of a rank
}

// update makes a step of gradient descent.
func update(s *engine.Store) {
	p := s.Params()
	for i, g := range s.Grads() {
		p[i] -= rate * g
	}
}

// serial is the training without a pipeline: one stage after the other, one piece after the other, sums in the order that
// Worker.Step states. With a group it is that of a rank of one mesh, which runs all stages; with an axis data of two ranks at most.
func serial(ctx context.Context, s *Schedule, stages []*Stage, c *comm.Comm, m spatial.Mesh, steps int) (out outcome, err error) {
	w := &Worker{s: s, whole: stages[0].whole}
	if len(m) > 0 {
		if err := w.join(c, m); err != nil {
			return out, err
		}
	}
	mesh := w.mesh
	if mesh != nil {
		if stages, err = mesh.shards(stages); err != nil {
			return out, err
		}
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for k := range stages { // held by stage instead of by pipe
		h, err := compileStage(k, stages, mesh, engine.Options{Reuse: engine.Reuse{Store: engine.NewStore()}, Numerics: engine.Numerics{UseHeuristics: true}})
		if err != nil {
			return out, err
		}
		w.plans[0] = append(w.plans[0], h)
	}
	w.held = w.plans[0]
	for step := range steps {
		w.step = stepState{ctx: ctx, number: uint64(step), feed: feedOf(w), run: &executor[float32]{}, losses: make([]float64, w.dataRanks()*s.Pieces())}
		sums := map[string][]float32{}
		byPipe := make([][][]float32, s.Pipes()) // by pipe and stage
		for pipe := range byPipe {
			for _, h := range w.held {
				h.pieces = 0
			}
			for piece, p := range s.pipeOf {
				if p == pipe {
					if err := serialPiece(w, stages, piece); err != nil {
						return out, err
					}
				}
			}
			for _, h := range w.held {
				if h.pieces > 0 {
					byPipe[pipe] = append(byPipe[pipe], slices.Clone(h.total))
				}
			}
		}
		for k, h := range w.held {
			for _, totals := range byPipe {
				for name, e := range h.entries {
					if totals == nil {
						continue
					}
					part := totals[k][e.Offset : e.Offset+e.Size()]
					if sums[name] == nil {
						sums[name] = slices.Clone(part)
						continue
					}
					for i, g := range part {
						sums[name][i] += g
					}
				}
			}
		}
		if w.data != nil {
			for _, name := range slices.Sorted(maps.Keys(sums)) {
				if err := comm.AllReduce(w.data, sums[name], comm.Auto); err != nil { // of two ranks: the sums of any algorithm
					return out, err
				}
			}
			if err := comm.AllReduce(w.data, w.step.losses, comm.Auto); err != nil {
				return out, err
			}
		}
		out = outcome{params: map[string][]float32{}, grads: sums, losses: w.step.losses}
		for _, h := range w.held {
			store := h.plan.Store()
			for name := range h.entries {
				g, _ := store.Grad(name)
				copy(g, sums[name])
			}
			update(store)
			for name := range h.entries {
				p, _, _ := store.Get(name)
				out.params[name] = slices.Clone(p)
			}
		}
	}
	return out, nil
}

// serialPiece runs a piece through all stages and back.
func serialPiece(w *Worker, stages []*Stage, piece int) error {
	in := make([][]float32, len(stages)+1)
	for k, st := range stages {
		in[k+1] = make([]float32, size(st.Sends, false))
		if err := w.forward(k, piece, in[k], in[k+1]); err != nil {
			return err
		}
	}
	var outGrad []float32
	for k := len(stages) - 1; k >= 0; k-- {
		inGrad := make([]float32, size(stages[k].Receives, true))
		if err := w.backward(k, piece, in[k], outGrad, inGrad); err != nil {
			return err
		}
		outGrad = inGrad
	}
	return nil
}

// pipelined is the same training on a rank. It fails if two copies of a parameter differ.
func pipelined(ctx context.Context, c *comm.Comm, s *Schedule, stages []*Stage, o Options, steps int) (out outcome, err error) {
	w, err := NewWorker(c, s, stages, o)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for step := range steps {
		if out.losses, err = w.Step(ctx, uint64(step), feedOf(w)); err != nil {
			return out, err
		}
		for pipe := range s.Pipes() {
			update(w.Store(pipe))
		}
	}
	out.activations = w.PeakActivationBytes()
	out.params, out.grads = map[string][]float32{}, map[string][]float32{}
	for pipe := range s.Pipes() {
		store := w.Store(pipe)
		for _, name := range store.Names() {
			p, _, _ := store.Get(name)
			g, _ := store.Grad(name)
			if before := out.params[name]; before != nil && !slices.Equal(before, p) {
				return out, fmt.Errorf("rank %d: copies of %s differ", c.Rank(), name)
			}
			out.params[name], out.grads[name] = slices.Clone(p), slices.Clone(g)
		}
	}
	return out, nil
}

// differs describes the first difference in bits of the parameters that a rank has; "" if there is none.
func (o outcome) differs(want outcome) string {
	for name := range o.params {
		for i, p := range o.params[name] {
			if q := want.params[name][i]; math.Float32bits(p) != math.Float32bits(q) {
				return fmt.Sprintf("%s[%d] is %g, want %g", name, i, p, q)
			}
			if g, h := o.grads[name][i], want.grads[name][i]; math.Float32bits(g) != math.Float32bits(h) {
				return fmt.Sprintf("gradient of %s[%d] is %g, want %g", name, i, g, h)
			}
		}
	}
	if !slices.Equal(o.losses, want.losses) {
		return fmt.Sprintf("losses %v, want %v", o.losses, want.losses)
	}
	return ""
}

// isNear returns an error if a gradient that a rank has differs by more than the rounding of sums.
func (o outcome) isNear(want outcome) error {
	for name, x := range o.grads {
		largest := 0.0
		for _, v := range want.grads[name] {
			largest = max(largest, math.Abs(float64(v)))
		}
		for i, v := range x {
			if w := want.grads[name][i]; math.Abs(float64(v-w)) > 1e-4*largest+1e-7 {
				return fmt.Errorf("gradient of %s[%d] is %g, want %g", name, i, v, w)
			}
		}
	}
	return nil
}

// schedules are those of a number of stages, with numbers of micro-batches that suit them.
func schedules(t testing.TB, stages int) map[string]*Schedule {
	t.Helper()
	out := map[string]*Schedule{}
	add := func(name string) func(s *Schedule, err error) {
		return func(s *Schedule, err error) {
			if err != nil {
				t.Fatal(err)
			}
			out[name] = s
		}
	}
	add("gpipe")(GPipe(stages, stages+1))
	add("1f1b")(OneFOneB(stages, 2*stages))
	add("chimera")(Chimera(stages, stages, ChimeraOptions{}))
	add("chimera concatenated")(Chimera(stages, 2*stages, ChimeraOptions{}))
	add("chimera, one micro-batch")(Chimera(stages, 1, ChimeraOptions{}))
	add("chimera, doubled")(Chimera(stages, 2*stages, ChimeraOptions{Scaling: DoubleForward}))
	add("chimera, halved")(Chimera(stages, stages, ChimeraOptions{Scaling: HalveBackward}))
	add("chimera, all pairs")(Chimera(stages, stages, ChimeraOptions{Pairs: stages / 2}))
	return out
}

// A training in a pipeline has the bits of the training without one, on all copies, in whatever order messages arrive, with kept
// and with recomputed activations.
func TestPipelinesHaveSerialBits(t *testing.T) {
	const steps = 2
	for name, build := range networks {
		g := build(t)
		for _, d := range []int{2, 4} {
			stages := splitEvenly(t, g, d)
			for kind, s := range schedules(t, d) {
				t.Run(fmt.Sprintf("%s, %d stages, %s", name, d, kind), func(t *testing.T) {
					want, err := serial(t.Context(), s, stages, nil, nil, steps)
					if err != nil {
						t.Fatal(err)
					}
					for i, mode := range []comm.Mode{comm.Parallel, comm.Replay(1), comm.Replay(2)} {
						err := comm.Run(d, mode, func(c *comm.Comm) error {
							got, err := pipelined(t.Context(), c, s, stages, Options{Recompute: i == 2}, steps)
							if err != nil {
								return err
							}
							if diff := got.differs(want); diff != "" {
								return fmt.Errorf("%s", diff)
							}
							return nil
						})
						if err != nil {
							t.Fatalf("%v: %v", mode, err)
						}
					}
				})
			}
		}
	}
}

// The sums of stages are those of one plan of the whole graph, up to the rounding of operations that it fuses across cuts.
func TestStagesEqualWholeGraph(t *testing.T) {
	for name, build := range networks {
		g := build(t)
		plan, err := engine.Compile(g, engine.Options{Numerics: engine.Numerics{UseHeuristics: true}})
		if err != nil {
			t.Fatal(err)
		}
		defer plan.Close()
		s, err := GPipe(4, 3)
		if err != nil {
			t.Fatal(err)
		}
		got, err := serial(t.Context(), s, splitEvenly(t, g, 4), nil, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]float64{}
		for piece := range 3 {
			for _, input := range []string{"x", "y"} {
				if err := samples(piece, input, plan.Input(input)); err != nil {
					t.Fatal(err)
				}
			}
			if err := plan.Run(t.Context(), uint64(piece)); err != nil {
				t.Fatal(err)
			}
			if d := math.Abs(plan.Loss() - got.losses[piece]); d > 1e-6*plan.Loss() {
				t.Errorf("%s: loss of piece %d is %.9g, of the whole graph %.9g", name, piece, got.losses[piece], plan.Loss())
			}
			for _, p := range plan.Store().Names() {
				x, _ := plan.Store().Grad(p)
				if want[p] == nil {
					want[p] = make([]float64, len(x))
				}
				for i, v := range x {
					want[p][i] += float64(v)
				}
			}
		}
		nonzero := 0
		for p, x := range want {
			largest := 0.0
			for _, v := range x {
				largest = max(largest, math.Abs(v))
			}
			for i, v := range x {
				if d := math.Abs(v - float64(got.grads[p][i])); d > 1e-5*largest {
					t.Fatalf("%s: gradient of %s[%d] is %.9g, of the whole graph %.9g", name, p, i, got.grads[p][i], v)
				}
			}
			if largest > 0 {
				nonzero++
			}
		}
		if 2*nonzero < len(want) {
			t.Errorf("%s: only %d of %d parameters have a gradient", name, nonzero, len(want))
		}
	}
}

// Values and gradients that a stage only passes on are in no graph of it, and messages have no gradients that do not exist.
func TestPassedValues(t *testing.T) {
	stages := splitEvenly(t, stopped(t), 4)
	between := stages[2]
	var passed, without int
	for _, v := range between.Receives {
		if v.GradientPassed {
			passed++
		}
		if !v.HasGradient {
			without++
			if between.Graph.Find(valueName(v.ID)) != nil {
				t.Errorf("value %d is an input of stage 2, which passes it on", v.ID)
			}
		}
		if out := slices.ContainsFunc(between.Graph.Outputs, func(o graph.Output) bool { return o.Name == gradientName(v.ID) }); out != (v.HasGradient && !v.GradientPassed) {
			t.Errorf("the gradient of value %d is computed: %v", v.ID, out)
		}
	}
	if passed != 1 || without != 1 || 2*size(between.Receives, false) != 3*size(between.Receives, true) {
		t.Errorf("stage 2 passes %d gradients, %d values have none, of %+v", passed, without, between.Receives)
	}
}

// Networks that stages cannot compute are refused.
func TestSplitRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		build func(b *graph.Builder, x graph.Value)
		want  string
	}{
		"no loss": {func(b *graph.Builder, x graph.Value) { b.Output("y", op.Tanh(b, x)) }, "no loss"},
		"running statistics": {func(b *graph.Builder, x graph.Value) {
			one := func(name string) graph.Value { return b.Param(name, graph.Shape{3}, graph.Ones()) }
			state := func(name string) graph.Value { return b.State(name, graph.Shape{3}, graph.Ones()) }
			b.Loss(op.Mean(b, op.BatchNorm(b, x, one("scale"), one("offset"), state("mean"), state("variance"), op.BatchNormOptions{})))
		}, "running statistics"},
	} {
		b := graph.New(1)
		c.build(b, b.Input("x", graph.Shape{2, 3, 1, 4, 8}))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		_, err = Split(g, &Division{Layers: Layers(g, func(*graph.Node) cluster.Time { return 1 }), Cuts: []int{0, 1}})
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A schedule for another number of ranks is refused, and one with more messages than tags.
func TestWorkerRefuses(t *testing.T) {
	stages := splitEvenly(t, stopped(t), 2)
	many, err := GPipe(2, comm.Tags)
	if err != nil {
		t.Fatal(err)
	}
	four, err := GPipe(4, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Schedule{many, four} {
		err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
			_, err := NewWorker(c, s, stages, Options{})
			return err
		})
		if exit.CodeOf(err) != exit.Usage {
			t.Errorf("%d stages, %d micro-batches: %v", s.Stages, s.Micro, err)
		}
	}
}

// An error of one rank ends the step of all, also of groups of ranks.
func TestErrorEndsStep(t *testing.T) {
	stages := splitEvenly(t, stopped(t), 2)
	s, err := Chimera(2, 2, ChimeraOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("cannot read")
	for seed := range uint64(10) {
		m := parse(t, []string{"", "lat:2"}[seed%2])
		err = comm.Run(2*m.Size(), comm.Replay(seed), func(c *comm.Comm) error {
			w, err := NewWorker(c, s, stages, Options{Mesh: m})
			if err != nil {
				return err
			}
			defer w.Close()
			_, err = w.Step(t.Context(), 0, func(piece int, input string, into []float32) error {
				if c.Rank() == 1 && piece == 1 {
					return broken
				}
				return feedOf(w)(piece, input, into)
			})
			return err
		})
		if !errors.Is(err, broken) {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// Work in idle times runs before each task and after the last, once each, and its errors end the step.
func TestBetween(t *testing.T) {
	stages := splitEvenly(t, stopped(t), 2)
	s, err := OneFOneB(2, 3)
	if err != nil {
		t.Fatal(err)
	}
	err = comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		w, err := NewWorker(c, s, stages, Options{})
		if err != nil {
			return err
		}
		defer w.Close()
		var calls []int
		w.Between = func(task int) error { calls = append(calls, task); return nil }
		if _, err := w.Step(t.Context(), 0, samples); err != nil {
			return err
		}
		if !slices.Equal(calls, []int{0, 1, 2, 3, 4, 5, 6}) {
			return fmt.Errorf("work ran before tasks %v", calls)
		}
		if spans := w.Spans(); len(spans) != 6 || spans[5].End < spans[0].End {
			return fmt.Errorf("times of %d passes", len(spans))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Weights multiply the gradients of pieces: with powers of two, sums have the bits of scaled gradients.
func TestWeights(t *testing.T) {
	stages := splitEvenly(t, stopped(t), 2)
	s, err := GPipe(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	err = comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		w, err := NewWorker(c, s, stages, Options{})
		if err != nil {
			return err
		}
		defer w.Close()
		sums := func(weights ...float32) ([]float32, error) {
			w.Weights = weights
			_, err := w.Step(t.Context(), 0, samples)
			return slices.Clone(w.Store(0).Grads()), err
		}
		first, err1 := sums(1, 0)
		second, err2 := sums(0, 1)
		both, err3 := sums(0.5, 4)
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		nonzero := 0
		for i, g := range both {
			if g != first[i]*0.5+second[i]*4 {
				return fmt.Errorf("gradient %d is %g, of the pieces %g and %g", i, g, first[i], second[i])
			}
			if g != 0 {
				nonzero++
			}
		}
		if nonzero == 0 {
			return errors.New("no gradients")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Holders are the ranks whose stages read a parameter, the same on all ranks; the first is that of the first stage and pipe.
func TestHolders(t *testing.T) {
	for _, c := range []struct {
		name  string
		g     *graph.Graph
		make  func() (*Schedule, error)
		ranks func(param string) []int // nil: any
	}{
		{"a stage each", stopped(t), func() (*Schedule, error) { return OneFOneB(2, 2) }, func(p string) []int {
			if p <= "d" {
				return []int{0}
			}
			return []int{1}
		}},
		{"two copies", stopped(t), func() (*Schedule, error) { return Chimera(2, 2, ChimeraOptions{}) }, func(p string) []int {
			if p <= "d" {
				return []int{0, 1}
			}
			return []int{1, 0}
		}},
		{"shared filters", recurrent(t), func() (*Schedule, error) { return OneFOneB(4, 2) }, nil},
	} {
		s, err := c.make()
		if err != nil {
			t.Fatal(err)
		}
		stages := splitEvenly(t, c.g, s.Stages)
		shared := 0
		err = comm.Run(s.Stages, comm.Parallel, func(k *comm.Comm) error {
			w, err := NewWorker(k, s, stages, Options{})
			if err != nil {
				return err
			}
			defer w.Close()
			for _, n := range c.g.Nodes {
				if n.Kind != graph.KindParam {
					continue
				}
				got := w.Holders(n.Name)
				if len(got) > s.Pipes() && k.Rank() == 0 {
					shared++
				}
				_, _, held := w.Store(0).Get(n.Name)
				if s.Pipes() == 1 && held != slices.Contains(got, k.Rank()) {
					return fmt.Errorf("rank %d holds %s: %v, holders %v", k.Rank(), n.Name, held, got)
				}
				if c.ranks != nil && !slices.Equal(got, c.ranks(n.Name)) {
					return fmt.Errorf("%s is on ranks %v, want %v", n.Name, got, c.ranks(n.Name))
				}
			}
			if x := w.Holders("none"); x != nil {
				return fmt.Errorf("an unknown parameter is on ranks %v", x)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if (shared > 0) != (c.ranks == nil) {
			t.Errorf("%s: %d parameters are shared by stages", c.name, shared)
		}
	}
}
