package train

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// current is the present network of a training. begin makes it, end frees it.
type current struct {
	plans
	cfg     config.Training
	rate    optim.Schedule
	feed    *feed         // of batches; nil before the first
	best    model.Weights // nil before the first validation
	pruning pruning
	// before is what the states were when the present step began.
	before []float32
}

// plans are a network as it is compiled, with its parameters and optimiser. A network from which
// something was removed gets new ones.
type plans struct {
	store       *engine.Store
	shown       *engine.Store // what is validated and kept: store, or the running average of it
	opt         *optim.Optimizer
	train       *network.Network         // batch_size samples
	ofFewer     map[int]*network.Network // as train, by numbers of members, where batches differ in them
	eval        *network.Network         // inference form with loss, one sample, of shown
	corrections *corrections             // of the means around which the network learns sigma; else nil
}

// begin compiles the present network with fresh parameters.
func (t *trainer) begin() error {
	t.now = &current{cfg: t.turn().Config}
	if t.at.Kept == nil {
		t.at.Kept = t.model.Spec.Kept
	}
	if err := t.compile(); err != nil {
		return err
	}
	if t.at.Removed == 0 {
		if err := t.from.start.into(t.now.store); err != nil {
			return err
		}
	}
	if t.turn().Stage == network.SigmaStage { // goes on from the stage before
		if err := model.Fill(t.now.store, t.finished[t.at.Network-1]); err != nil {
			return err
		}
	}
	if err := t.beginPruning(); err != nil {
		return err
	}
	if engine.ScalesLoss(t.model.Spec.Precision) && t.at.LossScale == (optim.LossScale{}) {
		t.at.LossScale = optim.NewLossScale()
	}
	t.now.rate = schedule(t.now.cfg, uint64(t.steps(t.batches())), &t.at.Plateau)
	s, reader := t.schedule()
	if lo, hi := s.Share(reader, t.now.cfg.BatchSize); t.now.train.Rows.Lo != lo || t.now.train.Rows.Hi != hi {
		return fmt.Errorf("samples %d to %d of a batch are read, %v are computed", lo, hi, t.now.train.Rows)
	}
	t.data.Source.Keep(s, reader)
	t.seen.costs = t.costs()
	return nil
}

// end frees the present network, and ends what reads for it.
func (t *trainer) end() error {
	if t.now == nil {
		return nil
	}
	n := t.now
	t.now = nil
	n.feed.end()
	return n.plans.close()
}

// compile makes the plans of the present network, without what was removed from it, and its optimiser.
func (t *trainer) compile() error {
	n, stage := t.now, t.turn().Stage
	spec := t.model.Spec.Of(stage)
	spec.Kept = t.at.Kept
	spec.Teach = t.from.teacher.share()
	n.store = engine.NewStore()
	n.shown = n.store
	if n.cfg.EMA > 0 {
		n.shown = engine.NewStore()
	}
	o := setup.EngineOptions(n.cfg, t.kernels.table)
	o.Store, o.Choices, o.Kept = n.store, t.kernels.choices, n.pruning.kept
	o.Memory.Limit, o.Workspace = o.Memory.Limit/int64(t.plansOfMembers()), o.Workspace/int64(t.plansOfMembers())
	var err error
	if n.train, err = spec.Compile(&t.model.Task, t.model.Grid, n.cfg.BatchSize, t.seed(), true, o, t.ranks); err != nil {
		return t.namedMemory(err)
	}
	maps.Copy(t.kernels.choices, n.train.Plan.Choices())
	if err = t.fewerNetworks(spec, o); err != nil {
		return err
	}
	o.Mode, o.Store = engine.Infer, n.shown
	spec.Bias.Smooth, spec.Teach = 0, 0 // what is chosen by validation is the fit
	if n.eval, err = spec.Compile(&t.model.Task, t.model.Grid, 1, t.seed(), true, o, t.ranks); err != nil {
		return t.namedMemory(err)
	}
	maps.Copy(t.kernels.choices, n.eval.Plan.Choices())
	if stage == network.SigmaStage {
		if err := t.correctable(o); err != nil {
			return err
		}
	}
	if t.ranks.Leads() {
		t.kernels.timings.Save(t.kernels.table)
	}
	oo := n.optimizer()
	if t.ranks != nil && t.ranks.Shared {
		oo.Ranks = n.train.Part.Shards()
	}
	n.opt, err = optim.New(n.store, oo)
	return err
}

// close frees the plans and the optimiser. It may be repeated.
func (p *plans) close() error {
	var err error
	nets := []*network.Network{p.train, p.eval}
	if p.corrections != nil {
		nets = append(nets, p.corrections.net)
	}
	for _, n := range p.ofFewer {
		nets = append(nets, n)
	}
	for _, n := range nets {
		if n != nil {
			err = errors.Join(err, n.Plan.Close())
		}
	}
	if p.opt != nil {
		err = errors.Join(err, p.opt.Close())
	}
	*p = plans{}
	return err
}

// show brings the weights that are shown up to date: their average, and of the running
// statistics those of now. All ranks do.
func (p *plans) show() error {
	copy(p.shown.States(), p.store.States())
	return p.opt.GatherAverage()
}

// keep copies the weights that are shown. All ranks do.
func (p *plans) keep() (model.Weights, error) {
	if err := p.show(); err != nil {
		return nil, err
	}
	return model.WeightsOf(p.shown), nil
}

// average is the memory of the running average of the weights, nil without one.
func (p *plans) average() []float32 {
	if p.shown == p.store {
		return nil
	}
	return p.shown.Params()
}

// parameter gives the values of one.
func (p *plans) parameter(name string) []float32 {
	v, _, _ := p.store.Get(name)
	return v
}

// again compiles the present network once more, between two steps, and goes on with what change leaves
// of its weights, their average and moments.
func (t *trainer) again(change func(w model.Weights)) error {
	if err := t.now.show(); err != nil {
		return err
	}
	parts, err := t.now.opt.State()
	if err != nil {
		return err
	}
	moments, err := t.everywhere(parts)
	if err != nil {
		return err
	}
	now, average := model.WeightsOf(t.now.store), model.WeightsOf(t.now.shown)
	for _, w := range []model.Weights{now, average, moments} {
		change(w)
	}
	for i, m := range parts {
		moments[i].Name = m.Name
	}
	if err := t.now.plans.close(); err != nil {
		return err
	}
	if err := t.compile(); err != nil {
		return err
	}
	if err := t.refill(now, average, moments, "the network before it was pruned"); err != nil {
		return err
	}
	if t.ranks != nil {
		t.seen.costs.sums = t.costs().sums // counted from the new plan on
	}
	return nil
}

// everywhere gives all ranks the moments of the optimiser, by the names of their parameters.
func (t *trainer) everywhere(moments []optim.Tensor) (w model.Weights, err error) {
	for _, m := range moments {
		_, param, _ := strings.Cut(m.Name, ".")
		v := m.Values
		if t.ranks != nil && t.ranks.Shared { // else every rank has them
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

// refill gives the present network parameters and states, the optimiser its moments and the average.
//
// Errors: exit 65 if one is missing in what they come from.
func (t *trainer) refill(now, average, optimizer model.Weights, from string) error {
	n := t.now
	if err := model.Fill(n.store, now); err != nil {
		return err
	}
	if n.shown != n.store {
		if err := model.Fill(n.shown, average); err != nil {
			return err
		}
	}
	moments := map[string]ckpt.Tensor{}
	for _, x := range optimizer {
		moments[x.Name] = x
	}
	return n.opt.Restore(uint64(t.ownSteps()-t.skipped())-t.at.LossScale.Skipped, func(name string, size int) ([]float32, error) {
		v, ok := moments[name].Data.([]float32)
		if !ok || len(v) != size {
			return nil, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the checkpoint lacks the optimiser's %q", name), At: from, Fix: "resume with the same configuration, or from another checkpoint"}
		}
		return v, nil
	})
}
