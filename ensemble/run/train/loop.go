package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// evalStep is the step number of evaluations, which draw no random numbers.
const evalStep = 0

// loop trains all networks from where the trainer stands to the end and leaves
// their best weights in the model.
//
// Errors: what stop gives, after saving; exit 1 if the loss is not finite.
func (t *trainer) loop(ctx context.Context) error {
	defer t.end()
	defer func() { t.seen.gauge.close() }()
	var layers []prune.Layer // of the last network, as of all
	for t.at.Network < len(t.turns) {
		var err error
		if layers, err = t.trainNetwork(ctx); err != nil {
			return err
		}
	}
	takeNetworks(t.model, t.turns, t.finished)
	var err error
	if t.model.Sparsity, err = t.sparsities(layers); err != nil {
		return err
	}
	t.model.Task.Correct(t.from.fits.trained())
	t.local.Correct(t.from.references.trained())
	return nil
}

// trainNetwork trains the present network to its end, and goes to the next. It gives the layers that were
// pruned by masks; none for other networks.
func (t *trainer) trainNetwork(ctx context.Context) ([]prune.Layer, error) {
	if t.now == nil {
		if err := t.begin(); err != nil {
			return nil, err
		}
		t.at.BestLoss, t.at.BestEpoch = noBest, 0
	}
	if err := t.seen.device(&t.job, t.now.train, t.at); err != nil {
		return nil, err
	}
	for t.at.Epoch < t.now.cfg.Epochs && !t.tired() {
		if err := t.epoch(ctx); err != nil {
			return nil, err
		}
	}
	best := t.now.best
	if best == nil { // no validation samples: the last weights
		var err error
		if best, err = t.now.keep(); err != nil {
			return nil, err
		}
	}
	t.finished = append(t.finished, best)
	kept, layers := t.at.Kept, t.now.pruning.layers
	t.at = position{Network: t.at.Network + 1, Step: t.at.Step, BestLoss: noBest}
	if err := t.end(); err != nil {
		return nil, err
	}
	t.model.Spec.Kept = kept // there is one network, if it lost channels
	return layers, nil
}

// tired says whether validation has not improved for longer than patience.
func (t *trainer) tired() bool {
	p := t.now.cfg.EarlyStop.Patience
	return p > 0 && !t.removing() && len(t.data.Validation.Inits) > 0 && t.at.Epoch-t.at.BestEpoch > p
}

// epoch goes on with the present epoch to its end, or to where pruning goes back.
func (t *trainer) epoch(ctx context.Context) error {
	if t.now.corrections != nil {
		if err := t.correct(ctx); err != nil {
			return t.saveIfStopped(err)
		}
	}
	if t.now.feed == nil {
		t.now.feed = t.startFeed(ctx)
	}
	if err := t.seen.clock.BeginEpoch(); err != nil {
		return err
	}
	for n := t.batches(); t.at.Batch < n; {
		if back, err := t.step(ctx, min(t.now.cfg.Accumulate, n-t.at.Batch)); back || err != nil {
			return err
		}
	}
	return t.closeEpoch(ctx)
}

// step takes the next step of the optimiser, over todo batches. It tells whether pruning went back instead.
func (t *trainer) step(ctx context.Context, todo int) (back bool, err error) {
	if err := t.removeChannels(); err != nil {
		return false, err
	}
	began := time.Now()
	loss, err := t.gather(ctx, todo)
	if err != nil {
		return false, t.saveIfStopped(err)
	}
	s := stepped{loss: loss, rate: t.now.rate.Rate(uint64(t.ownSteps()))}
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return false, t.diverged(loss, todo, nil)
	}
	if s.taken, err = t.unscale(); err != nil {
		return false, err
	}
	if s.taken {
		if back, err := t.pruneStep(s.rate); back || err != nil {
			return back, err
		}
		s.norm, err = t.now.opt.Step(s.rate)
		s.taken = !errors.Is(err, optim.ErrNotFinite)
	}
	if !s.taken && !t.at.LossScale.Skip() || s.taken && err != nil {
		return false, t.diverged(loss, todo, cmp.Or(err, optim.ErrNotFinite))
	}
	t.seen.input.Steps += time.Since(began)
	t.at.Batch += todo
	t.at.Step++
	t.at.LossSum += loss * float64(todo)
	s.rescaled = !s.taken
	if s.taken {
		if err := t.pruneAfter(); err != nil {
			return false, err
		}
		s.rescaled = t.at.LossScale.Scale > 0 && t.at.LossScale.Took()
	}
	return false, t.seen.Step(t.at, s, t.allSteps(t.turns[:t.at.Network])+t.ownSteps())
}

// unscale tells the optimiser of what the gradient of a step is, and whether that can be pruned
// along: all is finite. Where nothing is pruned the step itself finds out.
func (t *trainer) unscale() (finite bool, err error) {
	s := t.at.LossScale.Scale
	if s == 0 {
		return true, nil
	}
	t.now.opt.Scaled(s)
	if t.now.pruning.mask == nil && t.removal == nil {
		return true, nil
	}
	return t.now.opt.Finite()
}

// closeEpoch validates, keeps the best weights and saves.
func (t *trainer) closeEpoch(ctx context.Context) error {
	values := t.turn().Values(t.at.Network)
	values = append(values, rundir.Value{Name: "loss", Value: t.at.LossSum / float64(t.batches())})
	t.at.Epoch, t.at.Batch, t.at.LossSum = t.at.Epoch+1, 0, 0
	if err := t.pruneEpoch(); err != nil {
		return err
	}
	values = append(values, t.now.pruning.values()...)
	if len(t.data.Validation.Inits) > 0 {
		loss, err := t.judgeEpoch(ctx)
		if err != nil {
			return err
		}
		values = append(values, rundir.Value{Name: "validation_loss", Value: loss})
	}
	if err := t.seen.Epoch(t.at, t.data, t.costs(), values); err != nil {
		return err
	}
	if t.at.Epoch%t.now.cfg.Checkpoint.Every == 0 || t.at.Epoch == t.now.cfg.Epochs {
		return t.save()
	}
	return nil
}

// judgeEpoch gives the validation loss, keeps the weights if it is the lowest, and tells the schedule of
// the learning rate.
//
// Errors: quality.ErrReached where the training is for its time only, and there.
func (t *trainer) judgeEpoch(ctx context.Context) (float64, error) {
	t.seen.clock.BeginValidation()
	loss, err := t.validate(ctx)
	if err := cmp.Or(err, t.seen.clock.Validated(loss, t.at.Step)); err != nil {
		return 0, err
	}
	if t.seen.timed.Only && loss <= t.seen.timed.Target { // all ranks have this loss
		return 0, quality.ErrReached
	}
	if t.now.pruning.unfinished() {
		t.at.BestEpoch = t.at.Epoch // patience begins with the mask of the end
	} else if loss < t.at.BestLoss && !t.removing() {
		t.at.BestLoss, t.at.BestEpoch = loss, t.at.Epoch
		if t.now.best, err = t.now.keep(); err != nil {
			return 0, err
		}
	}
	if w, ok := t.now.rate.(optim.Warmup); ok {
		if p, ok := w.Schedule.(*optim.Plateau); ok {
			p.Observe(loss)
			t.at.Plateau = p.State
		}
	}
	return loss, nil
}

// validate is the mean loss over the validation samples.
func (t *trainer) validate(ctx context.Context) (float64, error) {
	if err := t.now.show(); err != nil {
		return 0, err
	}
	var sum float64
	err := t.data.Validation.Each(ctx, t.ranks, func(i int, fc *ensemble.Forecast, analyses []*ensemble.Analysis) error {
		used, err := task.Positions(fc, t.local.Used)
		if err != nil {
			return err
		}
		b := &t.now.eval.Batch
		if err := t.local.Input(b, 0, fc, used); err != nil {
			return err
		}
		if err := t.local.Answer(b, 0, fc, used, analyses); err != nil {
			return err
		}
		if c := t.now.corrections; c != nil {
			b.Corrected = c.validation[i]
		}
		t.now.eval.Load(b)
		if err := t.now.eval.Plan.Run(ctx, evalStep); err != nil {
			return err
		}
		sum += t.now.eval.Plan.Loss()
		return nil
	})
	return sum / float64(len(t.data.Validation.Inits)), err
}

// diverged is the error of a loss or gradient that is not finite. The parameters
// are those before the step; the last checkpoint is good.
func (t *trainer) diverged(loss float64, todo int, cause error) error {
	what := "the loss is not finite"
	if cause != nil {
		what = "the gradient is not finite"
	}
	order, size := t.order(), t.now.cfg.BatchSize
	var starts []string
	for i := range todo * size {
		starts = append(starts, t.data.Train.Inits[order[(t.at.Batch*size+i)%len(order)]].String())
	}
	fix := "look at the fields with `ensemble inspect --stats`, or lower train.learning_rate"
	if engine.ScalesLoss(t.model.Spec.Precision) {
		fix += ", or set train.precision: bf16, as float16 ends with 65504"
	}
	return &exit.Error{Code: exit.No, What: fmt.Sprintf("%s at step %d", what, t.at.Step+1),
		At:  fmt.Sprintf("%s, epoch %d, starts %v, loss %g", t.turn().Name(t.at.Network), t.at.Epoch+1, starts, loss),
		Why: "the learning rate is too large, or a field of these starts is absurd",
		Fix: fix, Err: cause}
}
