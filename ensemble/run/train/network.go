package train

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/groups"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/pipelined"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// currentNetwork is the network in training. begin creates it, end frees it.
type currentNetwork struct {
	compiledNetwork
	cfg     config.Training
	rate    optim.Schedule
	feed    *feed         // nil before the first batch
	best    model.Weights // weights with the lowest validation loss; nil before the first validation
	pruning pruning
	// statesBefore are the states (running statistics) before the current step.
	statesBefore []float32
	last         *network.Network  // network of the last batch
	batchNorms   float64           // sum of the squared gradient norms of the batches of the current step
	rankNorms    spatial.RankNorms // of the current step, if data ranks give the noise scale
	// exchange is that between groups of ranks; nil before their first step, and without train.exchange.
	exchange      *groups.Exchange
	outerVelocity []float32 // momentum of an outer optimiser from a checkpoint
	window        stepWindow
	leftOut       leftOut // samples of steps that this rank's group missed
}

// compiledNetwork is a compiled network with its parameters and optimiser. It is compiled anew when channels are
// removed.
type compiledNetwork struct {
	store         *engine.Store
	evalStore     *engine.Store // weights that are validated and kept: store, or its exponential moving average
	opt           *optim.Optimizer
	train         *network.Network         // batch_size samples; nil with a pipeline
	pipeline      *pipelined.Network       // stages of this rank; nil without a pipeline
	rows          spatial.Interval         // samples of a batch that this rank reads
	byMemberCount map[int]*network.Network // variants of train by number of input members
	windows       []*network.Network       // variants of train for windows, in the order of job.sizes from its second on
	eval          *network.Network         // inference with loss, one sample, weights of evalStore
	curvature     *curvature               // Kronecker factors; nil for other optimisers than kfac
	corrections   *corrections             // means around which the sigma stage learns; nil in other stages
}

// begin compiles the current network with initial parameters: random, pretrained, or of the preceding training.
func (t *trainer) begin() error {
	t.current = &currentNetwork{cfg: t.training().Config}
	if t.pos.Kept == nil {
		t.pos.Kept = t.model.Spec.Kept
	}
	if err := t.compile(); err != nil {
		return err
	}
	if t.pos.Removed == 0 {
		if err := t.inputs.pretrained.copyTo(t.current.store); err != nil {
			return err
		}
	}
	if n := t.training(); n.Stage == network.SigmaStage || n.Phase == setup.FineTuning { // continues from the weights of the preceding training
		if err := model.Fill(t.current.store, t.finished[t.pos.Network-1]); err != nil {
			return err
		}
	}
	if err := t.beginPruning(); err != nil {
		return err
	}
	if engine.ScalesLoss(t.model.Spec.Precision) && t.pos.LossScale == (optim.LossScale{}) {
		t.pos.LossScale = optim.NewLossScale()
	}
	t.startSchedule()
	s, reader := t.schedule()
	if lo, hi := s.Share(reader, t.current.cfg.BatchSize); t.current.rows.Lo != lo || t.current.rows.Hi != hi {
		return fmt.Errorf("the rank reads samples %d to %d of a batch, but computes samples %v", lo, hi, t.current.rows)
	}
	t.planReads()
	t.observers.costs = t.communicationCosts()
	return t.reportSizes()
}

// startSchedule makes the learning-rate schedule of the current network with the state of the position.
func (t *trainer) startSchedule() {
	t.current.rate = schedule(t.current.cfg, uint64(t.stepCount(t.epochBatches())), &t.pos.Plateau)
}

// end frees the current network and stops its feed.
func (t *trainer) end() error {
	if t.current == nil {
		return nil
	}
	n := t.current
	t.current = nil
	n.exchange.Cancel()
	n.feed.end()
	return n.compiledNetwork.close()
}

// compile compiles the plans of the current network with its remaining channels, with the same kernels on all ranks, and creates the
// optimiser.
func (t *trainer) compile() error {
	if err := t.compilePlans(); err != nil {
		return err
	}
	if err := t.agreeOnKernels(); err != nil {
		return err
	}
	if t.ranks.IsRoot() {
		t.kernels.timings.Save(t.kernels.table)
	}
	n := t.current
	oo := n.optimizerOptions(t.stepCount(t.epochBatches()))
	switch {
	case n.pipeline != nil:
		oo.Ranks = n.pipeline.Ranks()
	case t.ranks != nil && t.ranks.ShardedOptimiser:
		oo.Ranks = n.train.Shard.Shards()
	}
	if n.cfg.Compression.IsEnabled() { // other plans of ranks, such as pipelines and groups of one rank, have no such sums
		oo.Updates = n.train.Shard.SummedUpdates()
	}
	var err error
	n.opt, err = optim.New(n.store, oo)
	return err
}

// compilePlans compiles the plans of the current network.
func (t *trainer) compilePlans() error {
	n, stage := t.current, t.training().Stage
	spec := t.model.Spec.ForStage(stage)
	spec.Kept = t.pos.Kept
	spec.TeacherWeight = t.inputs.teacher.lossWeight()
	n.store = engine.NewStore()
	n.evalStore = n.store
	if n.cfg.EMA.IsEnabled() {
		n.evalStore = engine.NewStore()
	}
	o := setup.EngineOptions(n.cfg, t.kernels.table)
	o.Log = t.kernels.timings.Log
	o.Store, o.Choices, o.BlockMasks = n.store, t.kernels.choices, n.pruning.blocks.unmasked
	o.GradientMasks, o.MasksChange = n.pruning.blocks.trained, n.pruning.replacesBlocks
	o.Memory.Limit, o.Workspace = o.Memory.Limit/int64(t.memoryShares()), o.Workspace/int64(t.memoryShares())
	err := t.compileStep(spec, o)
	if err != nil {
		return t.nameMemoryKeys(err)
	}
	o.Mode, o.Store = engine.Infer, n.evalStore
	spec.Bias.Smooth, spec.TeacherWeight = 0, 0 // validation selects by the loss without regularisation
	if n.eval, err = spec.Compile(&t.model.Task, t.model.Grid, 1, t.seed(), true, o, t.ranks); err != nil {
		return t.nameMemoryKeys(err)
	}
	maps.Copy(t.kernels.choices, n.eval.Plan.Choices())
	if stage == network.SigmaStage {
		return t.prepareCorrections(o)
	}
	return nil
}

// compileStep compiles what computes loss and gradients of a batch: the plans of a step, or the stages of a pipeline.
func (t *trainer) compileStep(spec network.Spec, o engine.Options) (err error) {
	n := t.current
	if t.ranks != nil && t.ranks.Pipeline != nil {
		return t.compilePipeline(spec, o)
	}
	t.pos.Cuts = nil
	if n.train, err = t.compileShare(spec, o); err != nil {
		return err
	}
	n.rows = n.train.Rows
	maps.Copy(t.kernels.choices, n.train.Plan.Choices())
	if err = t.compileMemberCounts(spec, o); err != nil {
		return err
	}
	if err = t.compileWindows(spec, o); err != nil {
		return err
	}
	return t.compileCurvature(spec, o)
}

// networks lists the networks with a plan of their own, except for the stages of a pipeline.
func (p *compiledNetwork) networks() []*network.Network {
	nets := append([]*network.Network{p.train, p.eval}, p.windows...)
	if p.corrections != nil {
		nets = append(nets, p.corrections.net)
	}
	if p.curvature != nil {
		nets = append(nets, p.curvature.net)
	}
	for _, n := range p.byMemberCount {
		nets = append(nets, n)
	}
	return slices.DeleteFunc(nets, func(n *network.Network) bool { return n == nil })
}

// close frees the plans and the optimiser. It may be called repeatedly.
func (p *compiledNetwork) close() error {
	var err error
	for _, n := range p.networks() {
		err = errors.Join(err, n.Plan.Close())
	}
	err = errors.Join(err, p.pipeline.Close())
	if p.opt != nil {
		err = errors.Join(err, p.opt.Close())
	}
	*p = compiledNetwork{}
	return err
}

// updateEvalStore updates evalStore: the moving average of the parameters, and the current running statistics, which
// recomputeStatistics replaces before the average is used. With a pipeline it also completes the parameters in store. All ranks
// call it.
func (p *compiledNetwork) updateEvalStore() error {
	copy(p.evalStore.States(), p.store.States())
	if p.pipeline != nil {
		if p.evalStore == p.store {
			return p.pipeline.AllGather(p.store)
		}
		return p.pipeline.AllGather(p.store, p.evalStore)
	}
	return p.opt.AllGatherAverage()
}

// deviceError returns the error with which weights could not be copied from the device. Copies made since the last step are then
// not valid.
func (p *compiledNetwork) deviceError() error {
	return errors.Join(p.store.Err(), p.evalStore.Err())
}

// average is the memory of the moving average of the weights; nil without one.
func (p *compiledNetwork) average() []float32 {
	if p.evalStore == p.store {
		return nil
	}
	return p.evalStore.Params()
}

// parameter returns the values of a parameter.
func (p *compiledNetwork) parameter(name string) []float32 {
	v, _, _ := p.store.Get(name)
	return v
}

// recompile compiles the current network again between two steps, after change has modified its weights, their
// average and the moments.
func (t *trainer) recompile(change func(w model.Weights)) error {
	if err := t.current.updateEvalStore(); err != nil {
		return err
	}
	parts, err := t.current.opt.State()
	if err != nil {
		return err
	}
	moments, err := t.gatherMoments(parts)
	if err != nil {
		return err
	}
	now, average := model.CopyWeights(t.current.store), model.CopyWeights(t.current.evalStore)
	for _, w := range []model.Weights{now, average, moments} {
		change(w)
	}
	for i, m := range parts {
		moments[i].Name = m.Name
	}
	former := t.current.train.Shard
	if err := t.current.compiledNetwork.close(); err != nil {
		return err
	}
	if err := t.compile(); err != nil {
		return err
	}
	if err := t.continueResiduals(former); err != nil {
		return err
	}
	if err := t.restoreWeights(now, average, moments, "the network before it was pruned"); err != nil {
		return err
	}
	if t.ranks != nil {
		t.observers.costs.allReduce = t.communicationCosts().allReduce // the new plan counts from zero
	}
	return nil
}

// gatherMoments gives all ranks the moments of the optimiser, by parameter name. Without a sharded optimiser
// every rank has them already.
func (t *trainer) gatherMoments(moments []optim.Tensor) (w model.Weights, err error) {
	for _, m := range moments {
		_, param, _ := strings.Cut(m.Name, ".")
		v := m.Values
		if t.ranks != nil && t.ranks.ShardedOptimiser { // otherwise every rank has them
			if v == nil {
				v = make([]float32, m.Shape.Size())
			}
			if err := comm.Broadcast(t.ranks.Comm, 0, v); err != nil {
				return nil, err
			}
		}
		w = append(w, ckpt.Tensor{Name: param, Shape: m.Shape, Data: v})
	}
	return w, nil
}

// restoreWeights sets the parameters, states, moments and average of the current network.
//
// Errors: exit 65 if a tensor is missing in from, which names the source.
func (t *trainer) restoreWeights(now, average, optimizer model.Weights, from string) error {
	n := t.current
	if err := model.Fill(n.store, now); err != nil {
		return err
	}
	if n.evalStore != n.store {
		if err := model.Fill(n.evalStore, average); err != nil {
			return err
		}
	}
	moments := map[string]ckpt.Tensor{}
	for _, x := range optimizer {
		moments[x.Name] = x
	}
	return n.opt.Restore(uint64(t.networkSteps()-t.stepsBeforeRewind())-t.pos.LossScale.Skipped, func(name string, size int) ([]float32, error) {
		v, ok := moments[name].Data.([]float32)
		if !ok || len(v) != size {
			return nil, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the optimiser's tensor %q is missing in the checkpoint", name), At: from, Fix: "resume with the same configuration, or from another checkpoint"}
		}
		return v, nil
	})
}
