package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Feed fills an input of the whole graph with the samples of a piece. It is called for each stage that reads the input, and again
// for its backward pass if other pieces have passed the stage since. It must give the same values each time. With a mesh it fills
// the shard of the rank (Worker.InputBox), with an axis data that of a piece of its data rank.
type Feed func(piece int, input string, into []float32) error

// Worker runs training steps of one worker of a schedule, or of one rank of a worker that is a group of ranks. It holds one stage
// of each pipe.
//
// Concurrency: one goroutine uses it at a time.
type Worker struct {
	// Between runs work in idle times (package filler): before each task of the worker, by its index, and after the last. Its
	// errors end the step. May be nil.
	Between func(task int) error
	// Weights are the factors of the pieces' gradients in the sums of a step, by piece of this data rank; nil means 1 each. With
	// the shares of pieces in the weight of a batch, the sums are the gradients of its weighted mean.
	Weights []float32
	// WithFactors lets steps also compute Kronecker factors (Factor), if Options.MaxFactorSide is set. All ranks set the same.
	WithFactors bool

	c       *comm.Comm // rank w is worker w, or its rank with the coordinates of this one
	s       *Schedule
	held    []*held               // by pipe, of the present step
	plans   [2][]*held            // without and with Kronecker factors
	factors [][]pass.LayerFactors // by stage; nil for none
	sums    []Sum
	lengths [2][]int
	step    stepState

	recompute bool
	mesh      *group     // of the worker's ranks with the same samples; nil for one rank
	data      *comm.Comm // of the ranks that have this one's place in the pipelines of other data ranks; nil for one
	whole     *graph.Graph
}

// stepState is the state of a step.
type stepState struct {
	number  uint64
	ctx     context.Context
	feed    Feed
	begin   time.Time
	spans   []Span
	losses  []float64            // by data rank and piece, of pieces whose last stage is here
	factors map[string][]float32 // see Worker.Factor
	peak    int64                // bytes of activations
	run     *executor[float32]
}

// held is a stage that a worker holds.
type held struct {
	index   int // of the stage
	stage   *Stage
	plan    *engine.Plan // of both passes
	entries map[string]engine.Entry
	total   []float32            // sum of gradients of the pieces so far, in the layout of the store
	pieces  int                  // in total
	factors map[string][]float32 // sums of Kronecker factors of the pieces so far, by output
	activations
}

// Options are the options of a worker. The zero value keeps activations, and each worker is one rank.
type Options struct {
	Engine engine.Options // of the plans of stages; a memory limit must have room for all activations of a piece
	// Recompute lets backward passes compute the forward pass of their stage again, so b is about 3f. A worker then keeps only what
	// its stages have received of micro-batches in transit, in place of their activations. Bits do not change.
	Recompute bool
	// Mesh is that of the ranks that compute a stage together, each its shard. Ranks of a worker are consecutive. Gradients are those
	// of the mesh alone, with the bits of its sums over pieces. Ranks along an axis data are copies of the pipeline with pieces of
	// their own, whose sums are added once a step.
	Mesh spatial.Mesh
	// MaxFactorSide is the largest side of Kronecker factors that steps can compute (Worker.WithFactors): each stage then has a
	// second plan. 0 means none.
	MaxFactorSide int
}

// NewWorker compiles the stages that this rank of a group computes: rank w is worker w of the schedule, or with a mesh of n ranks
// rank r is one of worker ⌊r/n⌋. All ranks call it with the same schedule, stages and options.
//
// Kernels are chosen by rules (UseHeuristics), not by timing: all copies of a stage compute the same bits. A stage has a store of
// its own (Store), with the initial values of the whole graph.
//
// Errors: exit.Usage for other numbers of ranks or stages than those of the schedule, and for too many messages; those of
// engine.Compile; with a mesh those of spatial.Compile, and exit.Usage for stages that send a value of five axes that is no field.
func NewWorker(c *comm.Comm, s *Schedule, stages []*Stage, o Options) (w *Worker, err error) {
	ranks := o.Mesh.Size() // 1 without a mesh
	if c.Size() != s.Stages*ranks || len(stages) != s.Stages {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a schedule of %d stages on %d ranks, for a network of %d stages", s.Stages, c.Size(), len(stages)),
			Why: fmt.Sprintf("each worker has one stage of each pipe and %d of the ranks", ranks), Fix: fmt.Sprintf("use %d ranks and %d stages", s.Stages*ranks, s.Stages)}
	}
	c.MoveInBackground() // a pass is long, and other stages wait for what this rank has sent
	w = &Worker{c: c, s: s, sums: sumsOf(s, paramsOf(stages)), recompute: o.Recompute, whole: stages[0].whole}
	if err := s.checkTags(len(w.sums) + s.Stages); err != nil {
		return nil, err
	}
	if o.MaxFactorSide > 0 {
		w.factors = factorsOf(stages, w.sums, o.MaxFactorSide)
	}
	if err := w.join(c, o.Mesh); err != nil {
		return nil, err
	}
	if w.mesh != nil {
		if stages, err = w.mesh.shards(stages); err != nil {
			return nil, err
		}
	}
	for k := range s.Stages - 1 {
		w.lengths[0] = append(w.lengths[0], size(stages[k].Sends, false))
		w.lengths[1] = append(w.lengths[1], size(stages[k].Sends, true))
	}
	// Ranks that time kernels may choose different ones, with other bits.
	o.Engine.Timings, o.Engine.UseHeuristics = nil, true
	for pipe := range s.Pipes() {
		if err := w.hold(s.Stage(pipe, c.Rank()/ranks), stages, o); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	w.held = w.plans[0]
	if ranks > 1 {
		if w.c, err = c.Split(c.Rank()%ranks, c.Rank()); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

// paramsOf lists the parameters of each stage.
func paramsOf(stages []*Stage) [][]*graph.Node {
	out := make([][]*graph.Node, len(stages))
	for k, s := range stages {
		for _, n := range s.Graph.Nodes {
			if n.Kind == graph.KindParam {
				out[k] = append(out[k], n)
			}
		}
	}
	return out
}

// hold compiles a stage, and again with Kronecker factors if steps can compute them. The two plans share parameters and sums.
func (w *Worker) hold(k int, stages []*Stage, o Options) error {
	o.Engine.Store = engine.NewStore()
	h, err := compileStage(k, stages, w.mesh, o.Engine)
	if err != nil {
		return err
	}
	w.plans[0] = append(w.plans[0], h)
	if o.MaxFactorSide == 0 {
		return nil
	}
	o.Engine.MaxFactorSide = o.MaxFactorSide
	again, err := compileStage(k, stages, w.mesh, o.Engine)
	if err != nil {
		return err
	}
	again.total, again.factors = h.total, map[string][]float32{}
	w.plans[1] = append(w.plans[1], again)
	return nil
}

// compileStage compiles a stage, for a group its part of this rank.
func compileStage(k int, stages []*Stage, mesh *group, o engine.Options) (h *held, err error) {
	h = &held{index: k, stage: stages[k]}
	o.Forward = h.stage.forwardOutputs()
	if mesh == nil {
		h.plan, err = engine.Compile(h.stage.Graph, o)
	} else {
		h.plan, err = mesh.compile(h.stage, o)
	}
	if err != nil {
		return nil, fmt.Errorf("stage %d: %w", k, err)
	}
	h.total = make([]float32, len(o.Store.Params()))
	h.entries = map[string]engine.Entry{}
	for _, e := range o.Store.Entries() {
		h.entries[e.Name] = e
	}
	h.reset()
	return h, nil
}

// Store has the parameters of the stage that the worker holds of a pipe, and after a step their summed gradients. All copies of
// a stage have the same bits, if the same updates are made.
func (w *Worker) Store(pipe int) *engine.Store { return w.held[pipe].plan.Store() }

// Close frees the plans.
func (w *Worker) Close() error {
	var err error
	for _, h := range slices.Concat(w.plans[:]...) {
		err = errors.Join(err, h.plan.Close())
	}
	w.held, w.plans = nil, [2][]*held{}
	return err
}

// Step runs the tasks of a step and sums the gradients: those of a stage over the pieces of a pipe in ascending order, then over
// its copies, pipes ascending, then over data ranks (comm.AllReduce). The result, in the gradients of Store, has the same bits as
// these sums without a pipeline, on all copies. It is the sum over pieces with the factors Weights, not their mean.
//
// The losses of all pieces are returned on all ranks, those of a data rank after those of the one before. step is part of the key
// of random numbers: piece i of data rank d has those of piece d·N + i of a step of one data rank that has all pieces, N each.
//
// Errors: those of feed, of plans, and of messages; that of the context.
func (w *Worker) Step(ctx context.Context, step uint64, feed Feed) (losses []float64, err error) {
	w.step = stepState{number: step, ctx: ctx, feed: feed, begin: time.Now(), losses: make([]float64, w.dataRanks()*w.s.Pieces())}
	w.held = w.plans[index(w.WithFactors)]
	for _, h := range w.held {
		h.pieces = 0
		h.reset()
	}
	w.step.run = &executor[float32]{c: w.c, s: w.s, do: w, lengths: w.lengths, between: w.Between, measure: w.measure}
	if err := w.step.run.run(ctx); err != nil {
		return nil, err
	}
	if err := w.sumCopies(); err != nil {
		return nil, fmt.Errorf("pipeline: gradients of copies: %w", err)
	}
	if w.WithFactors {
		if err := w.sumFactors(); err != nil {
			return nil, err
		}
	}
	for _, c := range []*comm.Comm{w.c, w.data} {
		if c != nil { // a piece has its loss on one rank and 0 on the others
			err = errors.Join(err, comm.AllReduce(c, w.step.losses, comm.Auto))
		}
	}
	return w.step.losses, err
}

// Spans has the passes of the last step of this worker, from its start, one piece each. Waiting for messages is not part of them.
func (w *Worker) Spans() []Span { return w.step.spans }

// measure runs a pass and records its time.
func (w *Worker) measure(t Task, piece int, f func() error) error {
	since := func() cluster.Time { return cluster.Time(time.Since(w.step.begin).Nanoseconds()) * cluster.Nanosecond }
	t.First, t.Count = piece, 1
	s := Span{Task: t, Start: since()}
	err := f()
	s.End = since()
	w.step.spans = append(w.step.spans, s)
	return err
}

// forward runs the forward pass of a stage.
func (w *Worker) forward(pipe, piece int, in, out []float32) error {
	h := w.held[pipe]
	if !w.recompute {
		if err := h.save(); err != nil {
			return err
		}
	}
	// Nothing waits for the forward pass of the last stage but its backward pass, which would compute it again.
	if !w.recompute || len(h.stage.Sends) > 0 {
		if err := w.compute(h, piece, in); err != nil {
			return err
		}
	}
	w.step.peak = max(w.step.peak, w.heldBytes(in))
	at := 0
	for _, v := range h.stage.Sends {
		n := v.Shape.Size()
		if v.Passed {
			copy(out[at:at+n], received(h.stage, v.ID, in))
		} else {
			copy(out[at:at+n], h.plan.Output(valueName(v.ID)))
		}
		at += n
	}
	return nil
}

// compute runs the forward part of the plan of a stage, which leaves the activations of the piece in it.
func (w *Worker) compute(h *held, piece int, in []float32) error {
	h.piece = none
	if err := w.fill(h, piece, in); err != nil {
		return err
	}
	if err := h.plan.RunForward(w.step.ctx, w.random(piece)); err != nil {
		return err
	}
	h.piece = piece
	if h.index == w.s.Stages-1 { // others have a constant loss
		w.step.losses[w.firstPiece()+piece] = h.plan.Loss()
	}
	return nil
}

// random is the number of a piece's pass that keys random numbers.
func (w *Worker) random(piece int) uint64 {
	return w.step.number*uint64(w.dataRanks()*w.s.Pieces()) + uint64(w.firstPiece()+piece)
}

// restore makes the plan of a stage as the forward pass of a piece has left it.
func (w *Worker) restore(h *held, piece int, in []float32) error {
	switch {
	case h.piece == piece:
		return nil
	case w.recompute:
		return w.compute(h, piece, in)
	}
	if err := h.load(piece); err != nil {
		return err
	}
	return w.fill(h, piece, in)
}

// backward runs the backward pass of a stage and adds the gradients of its parameters to those of the pieces before.
func (w *Worker) backward(pipe, piece int, in, outGrad, inGrad []float32) error {
	h := w.held[pipe]
	if err := w.restore(h, piece, in); err != nil {
		return err
	}
	// The gradients of sent values are inputs of the plan if the stage computes or reads the value; all may be passed on.
	at := 0
	seeds := map[int][]float32{} // by node
	for _, v := range h.stage.Sends {
		if !v.HasGradient {
			continue
		}
		seeds[v.ID] = outGrad[at : at+v.Shape.Size()]
		if x := h.plan.Input(gradientName(v.ID)); x != nil {
			copy(x, seeds[v.ID])
		}
		at += v.Shape.Size()
	}
	h.piece = none
	if err := h.plan.RunBackward(w.step.ctx, w.random(piece)); err != nil {
		return err
	}
	at = 0
	for _, v := range h.stage.Receives {
		switch {
		case !v.HasGradient:
			continue
		case v.GradientPassed:
			copy(inGrad[at:], seeds[v.ID])
		default:
			copy(inGrad[at:], h.plan.Output(gradientName(v.ID)))
		}
		at += v.Shape.Size()
	}
	weight := float32(1)
	if w.Weights != nil {
		weight = w.Weights[piece]
	}
	h.add(weight)
	if w.WithFactors {
		w.addFactors(h, weight)
	}
	return nil
}

// received is a value in the message that a stage received.
func received(s *Stage, id int, message []float32) []float32 {
	at := 0
	for _, v := range s.Receives {
		if v.ID == id {
			return message[at : at+v.Shape.Size()]
		}
		at += v.Shape.Size()
	}
	return nil
}

// fill fills the inputs of a stage, from the message of the stage before and from the samples.
func (w *Worker) fill(h *held, piece int, in []float32) error {
	for _, v := range h.stage.Receives {
		if x := h.plan.Input(valueName(v.ID)); x != nil {
			copy(x, received(h.stage, v.ID, in))
		}
	}
	for _, name := range h.stage.inputs {
		if err := w.step.feed(piece, name, h.plan.Input(name)); err != nil {
			return err
		}
	}
	return nil
}

// add adds the gradients of a piece, times a weight, to the sum.
func (h *held) add(weight float32) {
	grads := h.plan.Store().Grads()
	if h.pieces++; h.pieces == 1 { // a sum from 0 would lose the sign of −0
		for i, g := range grads {
			h.total[i] = weight * g
		}
		return
	}
	for i, g := range grads {
		h.total[i] += float32(weight * g) // rounded, so that no processor fuses product and sum
	}
}
