package pipelined

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
)

// Options are the inputs of Compile.
type Options struct {
	Ranks    *team.Team      // with Team.Pipeline
	Training config.Training // with the pipeline
	Engine   engine.Options  // of each plan; stages have stores and choices of their own
}

// Network is a network in training whose stages the ranks of a team hold.
//
// Concurrency: all ranks call the methods in the same order.
type Network struct {
	ranks    *team.Team
	worker   *pipeline.Worker
	pieces   int           // of a data rank
	first    int           // piece of this data rank among those of all
	stages   []string      // first and last layer of each
	store    *engine.Store // of the whole network, of which this rank's values are current
	held     []heldParam
	shards   *spatial.Shards
	exchange *exchange
	idle     *idleWork // nil without K-FAC
	times    Times
}

// heldParam is the place of a copy of a parameter: the stage of a pipe.
type heldParam struct {
	name string
	pipe int
}

// Times are how long this rank ran steps, passes and inversions of K-FAC within them: the rest is waiting and exchange. Exposed are
// the inversions between steps.
type Times struct {
	Steps, Passes, Filled, Exposed time.Duration
	HasFactors                     bool // the optimiser is K-FAC
}

// Compile compiles the stages of this rank. g is the network for a micro-batch of a data rank, with its loss. store gets the layout of all
// parameters, if it has none. Kernels are chosen by rules, so that all copies of a stage compute the same bits.
//
// Errors: exit 64 for cuts of another network; those of the stages.
func Compile(g *graph.Graph, store *engine.Store, o Options) (*Network, error) {
	if err := store.LayOut(g); err != nil {
		return nil, err
	}
	s, err := setup.PipelineSchedule(&o.Training)
	if err != nil {
		return nil, err
	}
	d, err := divisionOf(g, o.Ranks.Pipeline.Cuts)
	if err != nil {
		return nil, err
	}
	stages, err := pipeline.Split(g, d)
	if err != nil {
		return nil, err
	}
	o.Engine.Store, o.Engine.Choices = nil, nil
	group, err := o.Ranks.Comm.Split(0, o.Ranks.Comm.Rank())
	if err != nil {
		return nil, err
	}
	n := &Network{ranks: o.Ranks, pieces: s.Pieces(), store: store, stages: describe(d)}
	w := pipeline.Options{Engine: o.Engine, Recompute: o.Training.Pipeline.Recompute, Mesh: o.Ranks.Pipeline.Mesh}
	if o.Training.Optimizer == config.KFACOptimizer {
		w.MaxFactorSide = o.Training.KFAC.MaxSide
		n.idle, n.times.HasFactors = &idleWork{network: n, schedule: s}, true
	}
	n.first = o.Ranks.DataGroup(o.Ranks.Comm.Rank()) * n.pieces
	if n.worker, err = pipeline.NewWorker(group, s, stages, w); err != nil {
		return nil, err
	}
	for pipe := range s.Pipes() {
		for _, name := range n.worker.Store(pipe).Names() {
			n.held = append(n.held, heldParam{name, pipe})
		}
	}
	if err := n.distribute(o.Ranks); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// divisionOf is the division of a network at known cuts. Costs are zero.
func divisionOf(g *graph.Graph, cuts []int) (*pipeline.Division, error) {
	layers := pipeline.Layers(g, func(*graph.Node) cluster.Time { return 0 })
	if k := len(cuts) - 1; k < 1 || cuts[k] != len(layers) {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the stages %v are those of another network", cuts), At: "train.pipeline", Why: fmt.Sprintf("this one has %d layers", len(layers)),
			Fix: "resume with the network of the checkpoint"}
	}
	return &pipeline.Division{Layers: layers, Cuts: cuts}, nil
}

// describe names the first and the last layer of each stage.
func describe(d *pipeline.Division) (stages []string) {
	for k := range d.Stages() {
		layers := d.Stage(k)
		text := layers[0].Name
		if last := layers[len(layers)-1].Name; last != text {
			text += " to " + last
		}
		stages = append(stages, text)
	}
	return stages
}

// Stages lists the stages by their first and last layer.
func (n *Network) Stages() []string { return n.stages }

// distribute assigns each parameter to the worker that sums its gradients, its chunks to the ranks of that worker in turn, with K-FAC
// whole layers, and prepares the exchange with other holders.
func (n *Network) distribute(t *team.Team) (err error) {
	chunks, each := optim.Chunks(n.store), t.Pipeline.Mesh.Size()
	owners, holders := make([]int, len(chunks)), make([][]int, len(chunks))
	turn := func(i int) int { return i % each }
	if n.idle != nil {
		turns := n.layerTurns(chunks, each)
		turn = func(i int) int { return turns[chunks[i].Param] }
	}
	for i, x := range chunks {
		// The loss does not depend on parameters without workers: they have no gradient, but may decay.
		for k, worker := range n.worker.Holders(x.Param) {
			for r := range each {
				holders[i] = append(holders[i], worker*each+r)
			}
			if k == 0 {
				owners[i] = worker*each + turn(i)
			}
		}
	}
	if n.shards, err = spatial.NewShards(t.Comm, n.store, owners); err != nil {
		return err
	}
	n.exchange, err = newExchange(t.Comm, chunks, owners, holders)
	return err
}

// Step computes loss and gradients of a batch: the mean over the micro-batches of all data ranks,
//
//	L = Σ W(i) L(i) / Σ W(i)
//
// where W(i) is the sum of the point weights of micro-batch i. With factors it also computes the Kronecker factors of the batch
// (Factor). The loss is the same on all ranks. step is part of the key of random numbers. All ranks have the whole batch, or with
// a mesh their shard of it. Data ranks of the mesh have consecutive samples of the batch, each divided into micro-batches: together
// those of one rank that accumulates all of them, with its random numbers.
//
// Errors: those of passes and messages.
func (n *Network) Step(ctx context.Context, step uint64, b *task.Batch, factors bool) (loss float64, err error) {
	if err := n.idle.before(factors); err != nil {
		return 0, err
	}
	n.worker.WithFactors = factors
	began := time.Now()
	for _, h := range n.held {
		v, _, _ := n.store.Get(h.name)
		if err := n.worker.Store(h.pipe).Set(h.name, v); err != nil {
			return 0, err
		}
	}
	inputs := network.Inputs(b)
	weights, err := n.weights(b.Weight)
	if err != nil {
		return 0, err
	}
	n.worker.Weights = make([]float32, n.pieces)
	for i := range n.worker.Weights {
		n.worker.Weights[i] = float32(weights[n.first+i])
	}
	losses, err := n.worker.Step(ctx, step, func(piece int, input string, into []float32) error {
		x := part(inputs[input], piece, n.pieces)
		if len(x) != len(into) {
			return fmt.Errorf("input %s of micro-batch %d has %d values, want %d", input, piece, len(x), len(into))
		}
		copy(into, x)
		return nil
	})
	if err != nil {
		return 0, err
	}
	n.keepGradients()
	for i, w := range weights {
		loss += w * losses[i]
	}
	for _, s := range n.worker.Spans() {
		n.times.Passes += time.Duration((s.End - s.Start) / cluster.Nanosecond)
	}
	n.times.Steps += time.Since(began)
	return loss, n.idle.after()
}

// part is one of n equal parts of an array whose first axis is the sample.
func part(x []float32, i, n int) []float32 { return x[len(x)/n*i : len(x)/n*(i+1)] }

// weights are the shares of the micro-batches of all data ranks in the sum of the weights of a batch; zero if the sum is. With a mesh
// the points are those of the rank's shard, or its samples; sums over all ranks count each point as often as there are stages, which
// leaves the shares.
//
// Errors: lost ranks.
func (n *Network) weights(points []float32) ([]float64, error) {
	w := make([]float64, n.ranks.Pipeline.Mesh.DataRanks()*n.pieces)
	own := w[n.first:][:n.pieces]
	for i := range own {
		for _, v := range part(points, i, n.pieces) {
			own[i] += float64(v)
		}
	}
	if n.ranks.Pipeline.Mesh != nil {
		if err := comm.AllReduce(n.ranks.Comm, w, comm.Auto); err != nil {
			return nil, err
		}
	}
	var all float64
	for _, v := range w {
		all += v
	}
	for i := range w {
		if all > 0 {
			w[i] /= all
		}
	}
	return w, nil
}

// keepGradients stores the gradients of the parameters that this rank owns for the optimiser.
func (n *Network) keepGradients() {
	for _, h := range n.held {
		if n.shards.Owns(h.name) { // copies have the same bits
			g, _ := n.worker.Store(h.pipe).Grad(h.name)
			n.shards.Store(h.name, g)
		}
	}
}

// Times returns the times of steps so far; 0 of a nil network.
func (n *Network) Times() Times {
	if n == nil {
		return Times{}
	}
	return n.times
}

// SumCosts returns the costs of collectives over parameters so far.
func (n *Network) SumCosts() spatial.SumCosts { return n.shards.Costs() }

// AllGather completes the parameters of stores with the layout of the network's on all ranks.
//
// Errors: lost ranks.
func (n *Network) AllGather(stores ...*engine.Store) error {
	for _, s := range stores {
		if err := n.shards.AllGather(s.Params()); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the plans. A nil network has none.
func (n *Network) Close() error {
	if n == nil {
		return nil
	}
	return n.worker.Close()
}
