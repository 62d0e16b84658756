package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// trainer trains the networks of a model one after the other. Everything that
// decides what comes next is in position, the store and the optimiser, and all
// of it is in a checkpoint; so a resumed run takes the very same steps.
type trainer struct {
	cfg        config.Training // of the present network
	base       config.Training // of all, with Networks
	turns      []setup.Turn    // networks in the order of their training
	foldOf     []int           // of each training start, the block of years; nil without stages
	references *crossFit       // those of the training starts, on this rank's slab; nil for none
	fits       *crossFit       // the same of all points, where this rank leads
	sampling   string          // of members: "fixed" or "random"
	model      *model.Model
	local      *model.Task // of this rank's slab
	data       *samples.Data
	ranks      *team.Team // nil for one rank alone
	dir        *rundir.Dir
	hash       string                 // of the configuration
	stop       func(read error) error // nil until somebody wants to save and stop, or cannot read
	report     func(done int, note string)
	timed      Timed
	clock      *clock // of the time to a quality; nil for none
	// environment is what was written of the machine when the run began; nil in a resumed one.
	environment *rundir.Environment
	gauge       *gauge       // of the GPU; nil before it is looked for
	start       startWeights // of every network
	removal     *removal     // of channels; nil for none
	teacher     *teacher     // nil for none
	timings     setup.Timings
	table       *tune.Table // of timings; nil keeps none
	// choices are the kernels in use that decide bits. A checkpoint keeps them, so
	// that a resumed run, and later networks, compute in the same way.
	choices map[string]string

	store *engine.Store
	shown *engine.Store // what is validated and kept: store, or the running average of it
	opt   *optim.Optimizer
	rate  optim.Schedule
	// finished are the networks that were trained before the present one.
	finished []model.Weights
	// corrections are those of the means around which the present network learns sigma; else nil.
	corrections *corrections
	prune       pruning
	net         *model.Network         // training, batch_size samples
	eval        *model.Network         // inference form with loss, one sample, of shown
	ofFewer     map[int]*model.Network // as net, by numbers of members, where batches differ in them
	feed        *feed                  // of batches for net; nil before the first
	best        model.Weights          // of the present network
	// before is what the network's states were when the present step began.
	before []float32
	told   rankCosts          // by events of epochs of the present network
	input  samples.InputCosts // of all steps
	noted  samples.InputCosts // by events of epochs
	at     position
}

// position is where training stands, as a checkpoint keeps it.
type position struct {
	Network int     `json:"network"` // finished networks
	Epoch   int     `json:"epoch"`   // finished epochs of the present one
	Batch   int     `json:"batch"`   // finished batches of the present epoch, those of whole steps
	Step    uint64  `json:"step"`    // finished steps of all networks
	LossSum float64 `json:"loss_sum"`
	// BestLoss is the lowest validation loss of the present network, at BestEpoch.
	BestLoss  float64            `json:"best_loss"`
	BestEpoch int                `json:"best_epoch"`
	Plateau   optim.PlateauState `json:"plateau"`
	// LossScale is that of the present network, in float16.
	LossScale optim.LossScale `json:"loss_scale,omitzero"`
	// Kept are the channels that are left of the present network, and Removed is the step behind that
	// at which some were last looked for.
	Kept    []channels.Kept `json:"kept,omitempty"`
	Removed int             `json:"removed,omitempty"`
	// Pruned is where pruning by masks stands; nil if nothing is pruned so.
	Pruned *pruned `json:"pruned,omitempty"`
}

// noBest stands for a best loss that there is not yet; JSON has no infinity.
const noBest = math.MaxFloat64

// evalStep is the step number of evaluations, which draw no random numbers.
const evalStep = 0

// batches is how many batches of batch_size samples an epoch has.
func (t *trainer) batches() int {
	return t.batchesOf(t.turns[t.at.Network])
}

func (t *trainer) batchesOf(j setup.Turn) int {
	return (t.startsOf(j) + t.base.BatchSize - 1) / t.base.BatchSize
}

// StartsOf is how many starts a turn learns from.
func (t *trainer) startsOf(j setup.Turn) int {
	if j.Starts != nil {
		return len(j.Starts)
	}
	return len(t.data.Train.Inits)
}

// allSteps are those of some of the turns if none stops early.
func (t *trainer) allSteps(turns []setup.Turn) (n int) {
	for _, j := range turns {
		n += j.Config.Epochs * t.steps(t.batchesOf(j))
	}
	return n
}

// steps is how many steps of the optimiser, of accumulate batches each, have those
// batches. The last step of an epoch may have fewer.
func (t *trainer) steps(batches int) int {
	return (batches + t.base.Accumulate - 1) / t.base.Accumulate
}

func (t *trainer) seed() uint64 { return setup.SeedOf(t.base, t.at.Network) }

// begin compiles the present network with fresh parameters.
func (t *trainer) begin() error {
	if err := t.end(); err != nil {
		return err
	}
	t.prune = pruning{of: t.prune.of}
	if err := t.plans(); err != nil {
		return err
	}
	if t.at.Removed == 0 {
		if err := t.start.into(t.store); err != nil {
			return err
		}
	}
	if t.turns[t.at.Network].Stage == model.SigmaStage { // goes on from the stage before
		if err := model.Fill(t.store, t.finished[t.at.Network-1]); err != nil {
			return err
		}
	}
	if err := t.beginPruning(); err != nil {
		return err
	}
	if engine.ScalesLoss(t.model.Spec.Precision) && t.at.LossScale == (optim.LossScale{}) {
		t.at.LossScale = optim.NewLossScale()
	}
	t.rate = schedule(t.cfg, uint64(t.steps(t.batches())), &t.at.Plateau)
	s, reader := t.schedule()
	if lo, hi := s.Share(reader, t.cfg.BatchSize); t.net.Rows.Lo != lo || t.net.Rows.Hi != hi {
		return fmt.Errorf("samples %d to %d of a batch are read, %v are computed", lo, hi, t.net.Rows)
	}
	t.data.Source.Keep(s, reader)
	t.best, t.told = nil, t.costs()
	return nil
}

// plans compiles the present network, without what was removed from it, and makes its optimiser.
func (t *trainer) plans() error {
	j := t.turns[t.at.Network]
	t.cfg = j.Config
	if t.at.Kept == nil {
		t.at.Kept = t.model.Spec.Kept
	}
	spec := t.model.Spec.Of(j.Stage)
	spec.Kept = t.at.Kept
	spec.Teach = t.teacher.share()
	t.store = engine.NewStore()
	t.shown = t.store
	if t.cfg.EMA > 0 {
		t.shown = engine.NewStore()
	}
	o := setup.EngineOptions(t.cfg, t.table)
	o.Store, o.Choices, o.Kept = t.store, t.choices, t.prune.kept
	o.Memory.Limit, o.Workspace = o.Memory.Limit/int64(t.plansOfMembers()), o.Workspace/int64(t.plansOfMembers())
	var err error
	if t.net, err = spec.Compile(&t.model.Task, t.model.Grid, t.cfg.BatchSize, t.seed(), true, o, t.ranks); err != nil {
		return t.namedMemory(err)
	}
	maps.Copy(t.choices, t.net.Plan.Choices())
	if err = t.fewerNetworks(spec, o); err != nil {
		return err
	}
	o.Mode, o.Store = engine.Infer, t.shown
	spec.Bias.Smooth, spec.Teach = 0, 0 // what is chosen by validation is the fit
	if t.eval, err = spec.Compile(&t.model.Task, t.model.Grid, 1, t.seed(), true, o, t.ranks); err != nil {
		return t.namedMemory(err)
	}
	maps.Copy(t.choices, t.eval.Plan.Choices())
	if j.Stage == model.SigmaStage {
		if err := t.correctable(o); err != nil {
			return err
		}
	}
	if t.ranks.Leads() {
		t.timings.Save(t.table)
	}
	oo := t.optimizer()
	if t.ranks != nil && t.ranks.Shared {
		oo.Ranks = t.net.Part.Shards()
	}
	t.opt, err = optim.New(t.store, oo)
	return err
}

// NamedMemory makes an error about too little memory name what the process needs.
func (t *trainer) namedMemory(err error) error {
	parts := t.ranks.Most() * t.plansOfMembers()
	return setup.NamedMemory(err, setup.TrainMemory.Of(parts), setup.TrainWorkspace.Of(parts))
}

// end frees the plans of the present network, and ends what reads for it.
func (t *trainer) end() error {
	t.feed.end()
	t.feed = nil
	return t.endPlans()
}

// endPlans frees the plans of the present network and its optimiser.
func (t *trainer) endPlans() error {
	var err error
	nets := []*model.Network{t.net, t.eval}
	if t.corrections != nil {
		nets = append(nets, t.corrections.net)
	}
	for _, n := range t.ofFewer {
		nets = append(nets, n)
	}
	for _, n := range nets {
		if n != nil {
			err = errors.Join(err, n.Plan.Close())
		}
	}
	if t.opt != nil {
		err = errors.Join(err, t.opt.Close())
	}
	t.net, t.eval, t.opt, t.corrections, t.ofFewer = nil, nil, nil, nil, nil
	return err
}

// run trains all networks from where the trainer stands to the end and leaves
// their best weights in the model.
//
// Errors: what stop gives, after saving; exit 1 if the loss is not finite.
func (t *trainer) run(ctx context.Context) error {
	defer t.end()
	defer func() { t.gauge.close() }()
	for t.at.Network < len(t.turns) {
		if t.net == nil {
			if err := t.begin(); err != nil {
				return err
			}
			t.at.BestLoss, t.at.BestEpoch = noBest, 0
		}
		if err := t.watch(); err != nil {
			return err
		}
		for t.at.Epoch < t.cfg.Epochs && !t.tired() {
			if err := t.epoch(ctx); err != nil {
				return err
			}
		}
		if t.best == nil { // no validation starts: the last weights
			var err error
			if t.best, err = t.keep(); err != nil {
				return err
			}
		}
		t.finished = append(t.finished, t.best)
		kept := t.at.Kept
		t.at = position{Network: t.at.Network + 1, Step: t.at.Step, BestLoss: noBest}
		if err := t.end(); err != nil {
			return err
		}
		t.model.Spec.Kept = kept // there is one network, if it lost channels
	}
	takeNetworks(t.model, t.turns, t.finished)
	var err error
	if t.model.Sparsity, err = t.sparsities(); err != nil {
		return err
	}
	t.model.Task.Correct(t.fits.trained())
	t.local.Correct(t.references.trained())
	return nil
}

// schedule says which starts this rank reads when for the present network.
func (t *trainer) schedule() (loader.Schedule, int) {
	return t.data.Schedule(t.cfg, t.at.Network, t.turns[t.at.Network].Starts)
}

// order is the starts of the present epoch in the order of their reading.
func (t *trainer) order() []int {
	j := t.turns[t.at.Network]
	order := loader.Order(t.seed(), uint64(t.at.Epoch), t.startsOf(j))
	for i, k := range order {
		if j.Starts != nil {
			order[i] = j.Starts[k]
		}
	}
	return order
}

// tired says whether validation has not improved for longer than patience.
func (t *trainer) tired() bool {
	p := t.cfg.EarlyStop.Patience
	return p > 0 && !t.removing() && len(t.data.Validation.Inits) > 0 && t.at.Epoch-t.at.BestEpoch > p
}

// keep copies the weights that are shown. All ranks do.
func (t *trainer) keep() (model.Weights, error) {
	if err := t.show(); err != nil {
		return nil, err
	}
	return model.WeightsOf(t.shown), nil
}

// show brings the weights that are shown up to date: their average, and of the running
// statistics those of now. All ranks do.
func (t *trainer) show() error {
	copy(t.shown.States(), t.store.States())
	return t.opt.GatherAverage()
}

// epoch goes on with the present epoch to its end.
func (t *trainer) epoch(ctx context.Context) error {
	n := t.batches()
	if t.corrections != nil {
		err := t.correct(ctx)
		if stop := (stopped{}); errors.As(err, &stop) {
			return errors.Join(t.save(), stop.reason)
		} else if err != nil {
			return err
		}
	}
	if t.feed == nil {
		t.feed = t.prepare(ctx)
	}
	if err := t.clock.begins(); err != nil {
		return err
	}
	order := t.order()
	for t.at.Batch < n {
		if err := t.removeChannels(); err != nil {
			return err
		}
		began := time.Now()
		t.before = append(t.before[:0], t.store.States()...)
		todo := min(t.cfg.Accumulate, n-t.at.Batch)
		loss, err := t.gather(ctx, todo)
		if stop := (stopped{}); errors.As(err, &stop) {
			copy(t.store.States(), t.before)
			return errors.Join(t.save(), stop.reason)
		} else if err != nil {
			return err
		}
		rate := t.rate.Rate(uint64(t.ownSteps()))
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return t.diverged(loss, order, todo, nil)
		}
		finite, err := t.unscale()
		if err != nil {
			return err
		}
		var norm float64
		if finite {
			if back, err := t.pruneStep(rate); back || err != nil {
				return err
			}
			norm, err = t.opt.Step(rate)
			finite = !errors.Is(err, optim.ErrNotFinite)
		}
		if !finite && !t.at.LossScale.Skip() || finite && err != nil {
			return t.diverged(loss, order, todo, cmp.Or(err, optim.ErrNotFinite))
		}
		t.input.Steps += time.Since(began)
		t.at.Batch += todo
		t.at.Step++
		t.at.LossSum += loss * float64(todo)
		if err := t.stepped(finite, rundir.Value{Name: "loss", Value: loss},
			rundir.Value{Name: "rate", Value: rate}, rundir.Value{Name: "gradient_norm", Value: norm}); err != nil {
			return err
		}
		t.report(t.allSteps(t.turns[:t.at.Network])+t.at.Epoch*t.steps(n)+t.steps(t.at.Batch), fmt.Sprintf("loss %.4f", loss)+t.gauge.note())
		if err := t.gauge.tell(t.dir.Events(), t.at.Step, t.at.Epoch+1); err != nil {
			return err
		}
	}
	return t.closeEpoch(ctx)
}

// closeEpoch validates, keeps the best weights and saves.
func (t *trainer) closeEpoch(ctx context.Context) error {
	values := t.turns[t.at.Network].Values(t.at.Network)
	values = append(values, rundir.Value{Name: "loss", Value: t.at.LossSum / float64(t.batches())})
	t.at.Epoch, t.at.Batch, t.at.LossSum = t.at.Epoch+1, 0, 0
	if err := t.pruneEpoch(); err != nil {
		return err
	}
	values = append(values, t.pruneValues()...)
	if len(t.data.Validation.Inits) > 0 {
		t.clock.validates()
		loss, err := t.validate(ctx)
		if err := cmp.Or(err, t.clock.validated(loss, t.at.Step)); err != nil {
			return err
		}
		if t.timed.Only && loss <= t.timed.Target { // all ranks have this loss
			return errAtQuality
		}
		values = append(values, rundir.Value{Name: "validation_loss", Value: loss})
		if t.unpruned() {
			t.at.BestEpoch = t.at.Epoch // patience begins with the mask of the end
		} else if loss < t.at.BestLoss && !t.removing() {
			t.at.BestLoss, t.at.BestEpoch = loss, t.at.Epoch
			if t.best, err = t.keep(); err != nil {
				return err
			}
		}
		if w, ok := t.rate.(optim.Warmup); ok {
			if p, ok := w.Schedule.(*optim.Plateau); ok {
				p.Observe(loss)
				t.at.Plateau = p.State
			}
		}
	}
	if t.ranks != nil {
		now := t.costs()
		values = append(values, now.since(t.told)...)
		t.told = now
	}
	t.input.Counts = t.data.Source.Counts()
	values = append(values, t.input.Since(t.noted).Values(t.data.Store != nil)...)
	t.noted = t.input
	if err := t.dir.Events().Write("epoch", t.at.Step, t.at.Epoch, values...); err != nil {
		return err
	}
	if t.at.Epoch%t.cfg.Checkpoint.Every == 0 || t.at.Epoch == t.cfg.Epochs {
		return t.save()
	}
	return nil
}

// ready is a batch on its way from the goroutine that prepares it.
type ready struct {
	batch  *model.Batch
	starts []int // of its samples, by their numbers among those of the training
	err    error
	in     *model.Network // whose inputs hold it already; nil otherwise
}

// feed is the goroutine that prepares batches.
type feed struct {
	next  <-chan ready
	stop  context.CancelFunc
	done  chan struct{}
	early *ready // received beside the step before it; nil otherwise
}

// end ends the goroutine and waits for it.
func (f *feed) end() {
	if f != nil {
		f.stop()
		<-f.done
	}
}

// prepare builds the batches of the present network ahead of their use, from where the
// trainer stands on. Two batches are in flight; the receiver's next receive gives the
// previous one back.
func (t *trainer) prepare(ctx context.Context) *feed {
	ctx, stop := context.WithCancel(ctx)
	ch, done := make(chan ready), make(chan struct{})
	schedule, reader := t.schedule()
	var reads []int
	for epoch := t.at.Epoch; epoch < t.cfg.Epochs; epoch++ {
		reads = append(reads, schedule.Epoch(reader, epoch)...)
	}
	size := t.net.Rows.Len()
	reads = reads[t.at.Batch*size:]
	starts := t.data.Train.Stream(ctx, reads)
	grid := t.ranks.Own().Part(t.model.Grid)
	spec := t.model.Spec
	spec.Teach = t.teacher.share()
	var room [2]model.Batch
	for i := range room {
		room[i] = spec.NewBatch(t.local, grid, size, len(t.local.Used), true)
	}
	if t.corrections != nil {
		for i := range room {
			room[i].Corrected = make([]float32, len(room[i].Residual))
		}
	}
	at, n := t.at.Epoch*t.batches()+t.at.Batch, t.batches()
	all, lo := t.startsOf(t.turns[t.at.Network]), t.net.Rows.Lo
	go func() {
		defer close(done)
		defer close(ch)
		defer starts.Close()
		for ; at < t.cfg.Epochs*n; at++ {
			b := &room[at%2]
			samples := reads[:size]
			err := t.build(ctx, b, starts, samples, all-(at%n*t.base.BatchSize+lo), uint64(at/n), uint64(at%n), schedule.Seed)
			reads = reads[size:]
			select {
			case ch <- ready{batch: b, starts: samples, err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return &feed{next: ch, stop: stop, done: done}
}

// build fills this rank's samples of a batch of an epoch with those starts, which come next.
// The last batch of an epoch starts over with the first samples, at weight zero, when the
// starts do not fill it: left is how many of the epoch are left for this rank's samples.
func (t *trainer) build(ctx context.Context, b *model.Batch, next samples.Starts, samples []int, left int, epoch, batch, seed uint64) error {
	if t.model.Spec.ReadsMembers() {
		b.Count = countOf(t.local.Least, len(t.local.Used), seed, epoch, batch)
	}
	for i, sample := range samples {
		fc, analyses, err := next.NextForecast()
		if err != nil {
			return err
		}
		used, err := t.members(fc, b.Count, seed, epoch, uint64(sample))
		if err != nil {
			return err
		}
		if err := t.references.task(t.local, sample).Input(b, i, fc, used); err != nil {
			return err
		}
		if err := t.local.Answer(b, i, fc, used, analyses); err != nil {
			return err
		}
		if err := t.teacher.tell(ctx, t.local, b, i, sample, fc, used); err != nil {
			return err
		}
		if i >= left {
			w := len(b.Weight) / len(samples)
			clear(b.Weight[i*w : (i+1)*w])
		}
	}
	return nil
}

// members are the positions of those that are input of a start in an epoch: count of them, or
// as many as chance decides if it is 0.
func (t *trainer) members(fc *ensemble.Forecast, count int, seed, epoch, start uint64) ([]int, error) {
	used, err := model.Positions(fc, t.local.Used)
	if err != nil {
		return nil, err
	}
	if t.sampling == randomMembers {
		used = loader.Members(seed, epoch, start, len(fc.Members), len(used), used[0] == 0)
	}
	if count > 0 {
		return someOf(used, count, seed, epoch, start), nil
	}
	return fewer(used, t.local.Least, seed, epoch, start), nil
}

// randomMembers is the sampling that draws members anew in every epoch.
const randomMembers = "random"

// purposeFewer keeps the draws of how many members are input apart from those of which.
const purposeFewer = 0x6665776572

// fewer leaves out some of the used members of one sample of one epoch, so that as many
// as least are left, or more, each number as often as the others. The first one stays.
func fewer(used []int, least int, seed, epoch, sample uint64) []int {
	return someOf(used, countOf(least, len(used), seed, epoch, sample), seed, epoch, sample)
}

// countOf draws how many members are input of something of an epoch.
func countOf(least, most int, seed, epoch, of uint64) int {
	if least == 0 || least >= most {
		return most
	}
	return least + loader.Members(seed^purposeFewer, epoch, of, most-least+1, 1, false)[0]
}

// someOf keeps so many of the used members of one sample of one epoch, among them the first.
func someOf(used []int, kept int, seed, epoch, sample uint64) []int {
	if kept == len(used) {
		return used
	}
	out := make([]int, 0, kept)
	for _, i := range loader.Members(seed^^uint64(purposeFewer), epoch, sample, len(used), kept, true) {
		out = append(out, used[i])
	}
	return out
}

// validate is the mean loss over the validation starts.
func (t *trainer) validate(ctx context.Context) (float64, error) {
	if err := t.show(); err != nil {
		return 0, err
	}
	var sum float64
	err := t.data.Validation.Each(ctx, t.ranks, func(i int, fc *ensemble.Forecast, analyses []*ensemble.Analysis) error {
		used, err := model.Positions(fc, t.local.Used)
		if err != nil {
			return err
		}
		b := &t.eval.Batch
		if err := t.local.Input(b, 0, fc, used); err != nil {
			return err
		}
		if err := t.local.Answer(b, 0, fc, used, analyses); err != nil {
			return err
		}
		if t.corrections != nil {
			b.Corrected = t.corrections.validation[i]
		}
		t.eval.Load(b)
		if err := t.eval.Plan.Run(ctx, evalStep); err != nil {
			return err
		}
		sum += t.eval.Plan.Loss()
		return nil
	})
	return sum / float64(len(t.data.Validation.Inits)), err
}

// diverged is the error of a loss or gradient that is not finite. The parameters
// are those before the step; the last checkpoint is good.
func (t *trainer) diverged(loss float64, order []int, todo int, cause error) error {
	what := "the loss is not finite"
	if cause != nil {
		what = "the gradient is not finite"
	}
	var starts []string
	for i := range todo * t.cfg.BatchSize {
		starts = append(starts, t.data.Train.Inits[order[(t.at.Batch*t.cfg.BatchSize+i)%len(order)]].String())
	}
	fix := "look at the fields with `ensemble inspect --stats`, or lower train.learning_rate"
	if engine.ScalesLoss(t.model.Spec.Precision) {
		fix += ", or set train.precision: bf16, as float16 ends with 65504"
	}
	return &exit.Error{Code: exit.No, What: fmt.Sprintf("%s at step %d", what, t.at.Step+1),
		At:  fmt.Sprintf("%s, epoch %d, starts %v, loss %g", t.turns[t.at.Network].Name(t.at.Network), t.at.Epoch+1, starts, loss),
		Why: "the learning rate is too large, or a field of these starts is absurd",
		Fix: fix, Err: cause}
}

// Names of the parts of a checkpoint.
const (
	PartWeights   = "weights."
	PartOptimizer = "optimizer."
	PartAverage   = "average."
	PartBest      = "best."
	partFinished  = "network%02d."
)

// save writes a checkpoint of everything, which does not depend on the ranks. The
// leading one does, with what the others have.
func (t *trainer) save() error {
	moments, err := t.opt.State()
	if err != nil {
		return err
	}
	tensors, err := t.savePruning()
	if err != nil {
		return err
	}
	if err := t.show(); err != nil || !t.ranks.Leads() {
		return err
	}
	add := func(prefix string, w model.Weights) {
		for _, x := range w {
			x.Name = prefix + x.Name
			tensors = append(tensors, x)
		}
	}
	add(PartWeights, model.WeightsOf(t.store))
	for _, s := range moments {
		tensors = append(tensors, ckpt.Tensor{Name: PartOptimizer + s.Name, Shape: s.Shape, Data: s.Values})
	}
	if t.shown != t.store {
		add(PartAverage, model.WeightsOf(t.shown))
	}
	add(PartBest, t.best)
	for i, w := range t.finished {
		add(fmt.Sprintf(partFinished, i), w)
	}
	state, err := json.Marshal(t.at)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	plan, err := json.Marshal(planRecord{t.choices})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	root := t.dir.File("checkpoints")
	meta := ckpt.Meta{Step: t.at.Step, Epoch: t.at.Epoch, Version: t.model.Version, ConfigHash: t.hash, State: state, Plan: plan}
	if _, err := ckpt.Save(root, meta, tensors); err != nil {
		return err
	}
	if t.at.BestEpoch == t.at.Epoch && t.at.Batch == 0 && t.at.Epoch > 0 {
		if err := ckpt.MarkBest(root, t.at.Step); err != nil {
			return err
		}
	}
	return ckpt.Retain(root, t.cfg.Checkpoint.Keep)
}

// planRecord is what a checkpoint keeps of the compiled plans: the forms of kernels
// and the layouts. Cuts of kernels change no bit and are not kept.
type planRecord struct {
	Choices map[string]string `json:"choices"`
}

// restore goes to where a checkpoint was saved.
//
// Errors: exit 65 if its tensors are not those of this network.
func (t *trainer) restore(c *ckpt.Checkpoint) error {
	unreadable := func(what string, err error) error {
		return &exit.Error{Code: exit.BadData, What: "the checkpoint's " + what + " cannot be read", At: c.Dir, Why: err.Error(), Fix: "remove that checkpoint and resume from the one before it"}
	}
	if err := json.Unmarshal(c.State, &t.at); err != nil {
		return unreadable("state", err)
	}
	var plan planRecord
	if err := json.Unmarshal(c.Plan, &plan); err != nil {
		return unreadable("plan", err)
	}
	maps.Copy(t.choices, plan.Choices)
	part := func(prefix string) (w model.Weights) {
		for _, x := range c.Tensors {
			if len(x.Name) > len(prefix) && x.Name[:len(prefix)] == prefix {
				x.Name = x.Name[len(prefix):]
				w = append(w, x)
			}
		}
		return w
	}
	if t.at.Network >= len(t.turns) {
		return unreadable("state", fmt.Errorf("network %d of %d", t.at.Network+1, len(t.turns)))
	}
	t.finished = nil
	for i := range t.at.Network {
		t.finished = append(t.finished, part(fmt.Sprintf(partFinished, i)))
	}
	plateau := t.at.Plateau
	if err := t.begin(); err != nil {
		return err
	}
	t.at.Plateau = plateau
	if err := t.refill(part(PartWeights), part(PartAverage), part(PartOptimizer), c.Dir); err != nil {
		return err
	}
	t.best = part(PartBest)
	if err := t.restorePruning(part(partPruning), part(partEarly)); err != nil {
		return unreadable("mask", err)
	}
	return nil
}

// refill gives the present network parameters and states, the optimiser its moments and the average.
//
// Errors: exit 65 if one is missing in what they come from.
func (t *trainer) refill(now, average, optimizer model.Weights, from string) error {
	if err := model.Fill(t.store, now); err != nil {
		return err
	}
	if t.shown != t.store {
		if err := model.Fill(t.shown, average); err != nil {
			return err
		}
	}
	moments := map[string]ckpt.Tensor{}
	for _, x := range optimizer {
		moments[x.Name] = x
	}
	return t.opt.Restore(uint64(t.ownSteps()-t.skipped())-t.at.LossScale.Skipped, func(name string, n int) ([]float32, error) {
		v, ok := moments[name].Data.([]float32)
		if !ok || len(v) != n {
			return nil, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the checkpoint lacks the optimiser's %q", name), At: from, Fix: "resume with the same configuration, or from another checkpoint"}
		}
		return v, nil
	})
}
