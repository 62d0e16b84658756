package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/optim/kfac"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial/topk"
)

// evalStep is the step number of evaluations, which use no random numbers.
const evalStep = 0

// loop trains all remaining networks and stores their best weights in the model.
//
// Errors: the error of Options.Stop, after a checkpoint; exit 1 if the loss is not finite.
func (t *trainer) loop(ctx context.Context) error {
	defer t.end()
	defer func() { t.observers.gpu.Close() }()
	t.saves.begin(t.pos.Step)
	var layers []prune.Layer // the same for all networks
	for t.pos.Network < len(t.trainings) {
		var err error
		if layers, err = t.trainNetwork(ctx); err != nil {
			return err
		}
	}
	setNetworks(t.model, t.trainings, t.finished)
	err := t.model.LearnGroups()
	if err != nil {
		return err
	}
	if t.model.Sparsity, err = t.sparsities(layers); err != nil {
		return err
	}
	t.model.Task.SetReference(t.inputs.globalFits.finalReference())
	t.local.SetReference(t.inputs.references.finalReference())
	return nil
}

// trainNetwork trains the current network to its end and advances to the next. It returns the layers that are
// pruned by masks; nil for none.
func (t *trainer) trainNetwork(ctx context.Context) ([]prune.Layer, error) {
	if t.current == nil {
		compiling := progress.Start(ctx, "compile network", 0)
		err := t.begin()
		compiling.Done()
		if err != nil {
			return nil, err
		}
		t.pos.BestLoss, t.pos.BestEpoch = noBest, 0
	}
	if err := t.observers.device(&t.job, cmp.Or(t.current.train, t.current.eval), t.pos); err != nil {
		return nil, err
	}
	for t.pos.Epoch < t.current.cfg.Epochs && !t.shouldStopEarly() {
		if err := t.epoch(ctx); err != nil {
			return nil, err
		}
	}
	best := t.current.best
	if best == nil { // without validation samples the last weights are kept
		if err := t.finishEvalStore(ctx); err != nil {
			return nil, err
		}
		best = model.CopyWeights(t.current.evalStore)
	}
	if err := t.current.deviceError(); err != nil {
		return nil, err
	}
	t.finished = append(t.finished, best)
	kept, layers := t.pos.Kept, t.current.pruning.layers
	t.pos = position{Network: t.pos.Network + 1, Step: t.pos.Step, BestLoss: noBest}
	if err := t.end(); err != nil {
		return nil, err
	}
	t.model.Spec.Kept = kept // channels are removed only if there is one network
	return layers, nil
}

// shouldStopEarly reports whether the validation loss has not improved for early_stop.patience epochs.
func (t *trainer) shouldStopEarly() bool {
	p := t.current.cfg.EarlyStop.Patience
	return p > 0 && !t.isRemovingChannels() && len(t.data.Validation.Inits) > 0 && t.pos.Epoch-t.pos.BestEpoch >= p
}

// epoch continues the current epoch to its end, or until lottery pruning rewinds the training.
func (t *trainer) epoch(ctx context.Context) error {
	if t.current.corrections != nil {
		if err := t.updateCorrections(ctx); err != nil {
			return t.saveIfStopped(err)
		}
	}
	if t.current.feed == nil {
		t.current.feed = t.startFeed(ctx)
	}
	if err := t.observers.clock.BeginEpoch(); err != nil {
		return err
	}
	if err := t.setDensity(); err != nil {
		return err
	}
	for n := t.epochBatches(); t.pos.Batch < n; {
		if t.groups != nil {
			if err := t.exchangeSteps(ctx); err != nil {
				return err
			}
			continue
		}
		if back, err := t.step(ctx, min(t.current.cfg.Accumulate, n-t.pos.Batch)); back || err != nil {
			return err
		}
	}
	return t.closeEpoch(ctx)
}

// step takes the next optimiser step, over the given number of batches. back reports that pruning rewound the training
// instead.
func (t *trainer) step(ctx context.Context, batches int) (back bool, err error) {
	if err := t.removeChannels(); err != nil {
		return false, err
	}
	began, saving := time.Now(), t.saves.spent
	t.setUpdateRate(t.current.rate.Rate(uint64(t.networkSteps())))
	computed, err := t.accumulateGradients(ctx, t.pos.Step, batches)
	if bad := (*topk.NotFiniteError)(nil); errors.As(err, &bad) {
		return false, t.divergenceError(ctx, t.current.last.Plan.Loss(), batches, err)
	}
	if err != nil {
		return false, t.saveIfStopped(err)
	}
	return t.update(ctx, computed.loss, batches, began.Add(t.saves.spent-saving))
}

// update takes an optimiser step with the gradient that the optimiser has, of a loss over the given number of batches, and
// advances the position. began is the time from which the step counts.
func (t *trainer) update(ctx context.Context, loss float64, batches int, began time.Time) (back bool, err error) {
	s := stepResult{loss: loss, rate: t.current.rate.Rate(uint64(t.networkSteps()))}
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return false, t.divergenceError(ctx, loss, batches, nil)
	}
	if s.applied, err = t.unscale(); err != nil {
		return false, err
	}
	if s.applied {
		if back, err := t.pruneStep(s.rate); back || err != nil {
			return back, err
		}
		if err := t.updateCurvature(); err != nil {
			if errors.Is(err, kfac.ErrNotFinite) {
				err = t.divergenceError(ctx, loss, batches, err)
			}
			return false, err
		}
		s.gradientNorm, err = t.current.opt.Step(s.rate)
		if s.applied = !errors.Is(err, optim.ErrNotFinite); s.applied && err != nil { // of another rank, or of a device
			return false, err
		}
	}
	if !s.applied && !t.pos.LossScale.CountSkip() {
		return false, t.divergenceError(ctx, loss, batches, cmp.Or(err, optim.ErrNotFinite))
	}
	if s.applied {
		t.countNoise(batches, s.gradientNorm)
	}
	took := time.Since(began)
	t.observers.input.Steps += took
	t.sizeTimes.add(t.current.window.index, took)
	before := t.samplesIn(t.pos.Batch)
	t.pos.Batch += batches
	t.pos.Step++
	t.pos.LossSum += loss * float64(t.samplesIn(t.pos.Batch)-before)
	s.rescaled = !s.applied
	if s.applied {
		if err := t.pruneAfter(); err != nil {
			return false, err
		}
		s.rescaled = t.pos.LossScale.Scale > 0 && t.pos.LossScale.CountStep()
	}
	return false, t.observers.Step(t.pos, s, t.totalSteps(t.trainings[:t.pos.Network])+t.networkSteps())
}

// unscale divides the gradient by the loss scale. finite reports whether pruning may use it; without pruning
// the optimiser checks the gradient itself.
func (t *trainer) unscale() (finite bool, err error) {
	s := t.pos.LossScale.Scale
	if s == 0 {
		return true, nil
	}
	t.current.opt.SetLossScale(s)
	if t.current.pruning.mask == nil && t.removal == nil {
		return true, nil
	}
	return t.current.opt.IsFinite()
}

// closeEpoch validates, keeps the best weights, and saves a checkpoint if one is due.
func (t *trainer) closeEpoch(ctx context.Context) error {
	values := t.training().Values(t.pos.Network)
	values = append(values, rundir.Value{Name: "loss", Value: t.pos.LossSum / float64(t.sampleCount(t.training()))})
	if scale, ok := t.noiseScale(); ok {
		values = append(values, rundir.Value{Name: "noise_scale", Value: scale})
	}
	t.pos.Epoch, t.pos.Batch, t.pos.LossSum, t.pos.Noise = t.pos.Epoch+1, 0, 0, optim.GradientNoise{}
	if err := t.pruneEpoch(); err != nil {
		return err
	}
	values = append(values, t.current.pruning.eventValues()...)
	late, err := t.endExchangeEpoch()
	if err != nil {
		return err
	}
	values = append(append(values, late...), t.sizeTimes.take(t.sizes)...)
	if len(t.data.Validation.Inits) > 0 {
		loss, err := t.validateEpoch(ctx)
		if err != nil {
			return err
		}
		values = append(values, rundir.Value{Name: "validation_loss", Value: loss.mean}, rundir.Value{Name: "validation_median", Value: loss.median})
		if text := loss.dominant(len(t.data.Validation.Inits)); text != "" && !t.warnedOfDate && !t.isPretraining() {
			t.warnedOfDate, t.data.Warnings = true, append(t.data.Warnings, text)
		}
	}
	if err := t.observers.Epoch(t.pos, t.data, t.communicationCosts(), values); err != nil {
		return err
	}
	if t.saves.endEpoch(t.pos.Epoch, t.pos.Epoch == t.current.cfg.Epochs || t.shouldStopEarly()) {
		return t.saveRegularly()
	}
	return nil
}

// validateEpoch returns the validation loss, which is on analyses. Except in pre-training it keeps the weights if it is the
// lowest, and updates the plateau schedule.
//
// Errors: quality.ErrReached at the target loss if the training only measures time.
func (t *trainer) validateEpoch(ctx context.Context) (validationLosses, error) {
	if t.isPretraining() { // its weights are no result, whatever their loss on analyses
		t.observers.clock.EndEpoch()
		return t.validate(ctx)
	}
	t.observers.clock.BeginValidation()
	all, err := t.validate(ctx)
	loss := all.mean
	if err := cmp.Or(err, t.observers.clock.Validated(loss, t.pos.Step)); err != nil {
		return all, err
	}
	if t.observers.timing.StopAtTarget && loss <= t.observers.timing.Target { // all ranks have the same loss
		return all, quality.ErrReached
	}
	if t.current.pruning.isMaskChanging() {
		t.pos.BestEpoch = t.pos.Epoch // patience counts from the final mask
	} else if loss < t.pos.BestLoss && !t.isRemovingChannels() {
		t.pos.BestLoss, t.pos.BestEpoch = loss, t.pos.Epoch
		t.current.best = model.CopyWeights(t.current.evalStore) // those that were validated
	}
	if w, ok := t.current.rate.(optim.Warmup); ok {
		if p, ok := w.Schedule.(*optim.Plateau); ok {
			p.Observe(loss)
			t.pos.Plateau = p.State
		}
	}
	return all, nil
}

// validationLosses are the losses of the validation samples: their mean, which chooses weights, their median, which no
// single sample determines, and the largest.
type validationLosses struct {
	mean, median, largest float64
	worst                 ensemble.Init // initialisation of the largest
}

// A validation sample determines the mean loss if it has more than half of the sum, and several times the median.
const (
	maxLossShare = 0.5
	maxLossRatio = 10
)

// dominant describes a validation sample that determines the mean loss of n samples; "" without one.
func (v validationLosses) dominant(n int) string {
	share := v.largest / v.mean / float64(n)
	if n < 3 || !(v.median > 0) || share < maxLossShare || v.largest < maxLossRatio*v.median {
		return ""
	}
	return fmt.Sprintf("initialisation %s has %.0f %% of the validation loss, %.3g times the median: it alone decides which epoch is kept; check its fields with `ensemble inspect --stats`, or move data.split.validation",
		v.worst, 100*share, v.largest/v.median)
}

// validate returns the losses of the validation samples.
func (t *trainer) validate(ctx context.Context) (validationLosses, error) {
	if err := t.finishEvalStore(ctx); err != nil {
		return validationLosses{}, err
	}
	return t.validationLoss(ctx)
}

// validationLoss returns the losses of the weights in evalStore.
func (t *trainer) validationLoss(ctx context.Context) (v validationLosses, err error) {
	defer progress.Start(ctx, "validate", 0).Done()
	var losses []float64
	err = t.data.Validation.Each(ctx, t.ranks, func(i int, fc *ensemble.Forecast, analyses []*ensemble.Analysis) error {
		used, err := task.MemberPositions(fc, t.local.UsedMembers)
		if err != nil {
			return err
		}
		b := &t.current.eval.Batch
		if err := t.local.FillInput(b, 0, fc, used); err != nil {
			return err
		}
		if err := t.local.FillTarget(b, 0, fc, used, analyses); err != nil {
			return err
		}
		if c := t.current.corrections; c != nil {
			b.Corrected = c.validation[i]
		}
		t.current.eval.Load(b)
		if err := t.current.eval.Plan.Run(ctx, evalStep); err != nil {
			return err
		}
		loss := t.current.eval.Plan.Loss()
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return t.validationError(loss, fc.Init)
		}
		if losses = append(losses, loss); i == 0 || loss > v.largest {
			v.largest, v.worst = loss, fc.Init
		}
		v.mean += loss
		return nil
	})
	if err != nil {
		return v, err
	}
	v.mean /= float64(len(losses))
	slices.Sort(losses)
	v.median = (losses[len(losses)/2] + losses[(len(losses)-1)/2]) / 2
	return v, nil
}

// validationError returns the error for a validation loss that is not finite. The best weights and the last
// checkpoint are those before this epoch.
func (t *trainer) validationError(loss float64, init ensemble.Init) error {
	return &exit.Error{Code: exit.No, What: "the validation loss is not finite",
		At:  fmt.Sprintf("%s, epoch %d, initialisation %s, loss %g", t.training().Name(t.pos.Network), t.pos.Epoch, init, loss),
		Why: "the forecast or the analysis of this initialisation has values far from those of training, or the network diverged",
		Fix: "check its fields with `ensemble inspect --stats`, move data.split.validation, or lower train.learning_rate"}
}

// divergenceError returns the error for a loss or gradient that is not finite, with the initialisations of the
// batch, and the operation, layer, initialisation and point of the first value that is not finite. The parameters are
// those before the step; the last checkpoint is valid.
func (t *trainer) divergenceError(ctx context.Context, loss float64, batches int, cause error) error {
	what := "the loss is not finite"
	if cause != nil {
		what = "the gradient is not finite"
	}
	order, size := t.order(), t.current.cfg.BatchSize
	var inits []string
	for i := range batches * size {
		inits = append(inits, t.data.Train.Inits[order[(t.pos.Batch*size+i)%len(order)]].String())
	}
	fix := "check the fields with `ensemble inspect --stats`, or lower train.learning_rate"
	if engine.ScalesLoss(t.model.Spec.Precision) {
		fix += ", or set train.precision: bf16, as the largest float16 is 65504"
	}
	return &exit.Error{Code: exit.No, What: fmt.Sprintf("%s at step %d", what, t.pos.Step+1),
		At: fmt.Sprintf("%s, epoch %d, initialisations %v, loss %g%s", t.training().Name(t.pos.Network), t.pos.Epoch+1, inits, loss,
			t.firstNotFinite(ctx, batches, inits[(batches-1)*size:])),
		Why: "the learning rate is too large, or a field of these initialisations has invalid values",
		Fix: fix, Err: cause}
}

// firstNotFinite runs the last batch again and describes the first value that is not finite, by operation, layer, initialisation
// and place in the value. It is "" if all values are finite, as when an earlier batch of the step had one; on several ranks,
// of which each has a part of the fields; and on devices with memory of their own.
func (t *trainer) firstNotFinite(ctx context.Context, batches int, inits []string) string {
	net := t.current.last
	if t.ranks != nil || net == nil {
		return ""
	}
	first, err := net.Plan.FindNotFinite(ctx, t.pos.Step*uint64(t.current.cfg.Accumulate)+uint64(batches-1))
	if err != nil || first == nil {
		return ""
	}
	at := first.String()
	if i := first.Index; len(i) == 5 && i[0] < len(inits) {
		at = fmt.Sprintf("%s of %s is %g at initialisation %s, channel %d, level %d, latitude %d, longitude %d (counted from 0)",
			first.Op, first.Layer, first.Value, inits[i[0]], i[1], i[2], i[3], i[4])
	}
	return "; first " + at
}
