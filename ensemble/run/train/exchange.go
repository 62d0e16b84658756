package train

import (
	"context"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/groups"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial"
)

// With train.exchange the ranks that compute the same samples are a team of their own (trainer.groups), for which training
// steps are compiled. Everything else, such as validation, is that of all ranks; it happens between two runs of steps, when
// all ranks have the same network.

// computing is the team that computes a training step together.
func (t *trainer) computing() *team.Team {
	if t.groups != nil {
		return t.groups.Own
	}
	return t.ranks
}

// compileShare compiles a training step of the samples that computing has of a batch.
func (t *trainer) compileShare(spec network.Spec, o engine.Options) (*network.Network, error) {
	size := t.current.cfg.BatchSize / t.groups.Count()
	net, err := spec.Compile(&t.model.Task, t.model.Grid, size, t.seed(), true, o, t.computing())
	if err != nil {
		return nil, err
	}
	first := t.groups.Index() * size
	net.Rows = spatial.Interval{Lo: first + net.Rows.Lo, Hi: first + net.Rows.Hi}
	return net, nil
}

// runNumber is the number of a run of the training plan, from which it draws random numbers: those of groups differ, as
// their samples do.
func (t *trainer) runNumber(step uint64, batch int) uint64 {
	return (step*uint64(t.current.cfg.Accumulate)+uint64(batch))*uint64(t.groups.Count()) + uint64(t.groups.Index())
}

// ownSamples is the number of samples of computing in batches from one on, relative to the mean of all groups. Those that
// fill the last batch up do not count.
func (t *trainer) ownSamples(from, batches int) float64 {
	share := t.current.cfg.BatchSize / t.groups.Count()
	var own int
	for b := from; b < from+batches; b++ {
		left := t.samplesIn(b+1) - t.samplesIn(b) - t.groups.Index()*share
		own += max(0, min(share, left))
	}
	return float64(own*t.groups.Count()) / float64(t.samplesIn(from+batches)-t.samplesIn(from))
}

// trained is the network in training as its exchange uses it.
func (n *currentNetwork) trained() groups.Network {
	return groups.Network{Store: n.store, Optimizer: n.opt, Average: n.average()}
}

// beginExchange creates the exchange of the current network, whose parameters are those of all ranks.
func (t *trainer) beginExchange() (err error) {
	n := t.current
	if n.exchange != nil {
		return nil
	}
	at := groups.Begin{Step: t.pos.Step, Seed: t.seed()}
	if dir := string(n.cfg.Exchange.Replay); dir != "" {
		steps := n.cfg.Epochs*t.stepCount(t.epochBatches()) - t.networkSteps()
		if at.Replay, err = groups.ReadArrivals(dir, t.groups, at.Step, steps); err != nil {
			return err
		}
	}
	if n.exchange, err = groups.New(t.groups, n.cfg.Exchange, n.trained(), at); err != nil {
		return err
	}
	copy(n.exchange.Velocity(), n.outerVelocity)
	return nil
}

// exchangeSteps takes the next optimiser steps, up to one that waits for all groups. A stop signal is noticed, and a
// checkpoint that is due is saved before.
//
// An error of one group, such as samples that it cannot read, ends the job without a checkpoint: the others have taken
// other steps meanwhile.
func (t *trainer) exchangeSteps(ctx context.Context) error {
	due, err := t.stop(nil)
	if err != nil {
		return t.saveIfStopped(stopRequest{err})
	}
	if due {
		if err := t.saveRegularly(); err != nil {
			return err
		}
	}
	if err := t.beginExchange(); err != nil {
		return err
	}
	n, end := t.current, t.epochBatches()
	steps := min(n.cfg.Exchange.Period, t.stepCount(end-t.pos.Batch))
	if err := n.exchange.Start(steps); err != nil {
		return err
	}
	first, from, batch, losses := t.pos.Step, t.pos.Batch, t.pos.Batch, t.pos.LossSum
	for i := 0; i < steps; i++ {
		began, before, batches := time.Now(), t.observers.input.Steps, min(n.cfg.Accumulate, end-batch)
		computed, err := t.accumulateGradients(ctx, first+uint64(i), batches)
		if err != nil {
			return err
		}
		share := groups.Share{Loss: computed.loss, Weight: computed.weight, Samples: t.ownSamples(batch, batches)}
		skipped, err := n.exchange.Step(n.trained(), share, func(loss, samples float64) error { return t.exchangedUpdate(ctx, loss, samples) })
		if err != nil {
			return err
		}
		t.observers.input.Steps = before + time.Since(began) // with the time of waiting for sums
		batch += batches
		for ; skipped > 0; skipped-- {
			batches = min(n.cfg.Accumulate, end-batch)
			if err := t.leaveOut(batch, batches); err != nil {
				return err
			}
			i, batch = i+1, batch+batches
		}
	}
	if err := n.exchange.Align(n.trained(), uint64(t.networkSteps())); err != nil {
		return err
	}
	if err := t.endRun(losses, t.samplesIn(t.pos.Batch)-t.samplesIn(from)); err != nil {
		return err
	}
	return n.exchange.WriteArrivals(t.dir.Events(), t.pos.Step, t.pos.Epoch+1)
}

// exchangedUpdate takes the next optimiser step of a run of exchangeSteps, as groups.Apply. The sum of losses has the weight
// of the samples, so that its mean over groups is the sum of all.
func (t *trainer) exchangedUpdate(ctx context.Context, loss, samples float64) error {
	before := t.pos.LossSum
	_, err := t.update(ctx, loss, min(t.current.cfg.Accumulate, t.epochBatches()-t.pos.Batch), time.Now())
	t.pos.LossSum = before + samples*(t.pos.LossSum-before)
	return err
}

// endExchangeEpoch checks that all ranks have one network, and returns the late contributions of the epoch as values of an
// event. All ranks call it.
func (t *trainer) endExchangeEpoch() ([]rundir.Value, error) {
	n := t.current
	if n.exchange == nil {
		return nil, nil
	}
	if err := n.trained().CheckSame(t.ranks); err != nil {
		return nil, err
	}
	late, err := n.exchange.Late()
	if err != nil {
		return nil, err
	}
	left := []float64{n.leftOut.samples * float64(t.groups.Count())}
	if err := groups.Mean(t.groups, left); err != nil {
		return nil, err
	}
	values := []rundir.Value{{Name: "late", Value: late.Late}, {Name: "late_share", Value: late.Share}}
	if n.cfg.Exchange.Skip {
		values = append(values, rundir.Value{Name: "skipped_share", Value: left[0] / float64(n.leftOut.passed)})
	}
	n.leftOut = leftOut{}
	t.warnOfSlowGroups(late)
	return values, nil
}

// partExchange is the prefix of the tensor of an outer optimiser in a checkpoint.
const partExchange = "exchange."

// outerVelocity is the name of that tensor.
const outerVelocity = "velocity"

// saveExchange returns the tensors of the exchange for a checkpoint.
func (n *currentNetwork) saveExchange() []ckpt.Tensor {
	v := n.outerVelocity // restored, and not used yet
	if n.exchange != nil {
		v = n.exchange.Velocity()
	}
	if v == nil {
		return nil
	}
	return []ckpt.Tensor{{Name: partExchange + outerVelocity, Shape: graph.Shape{len(v)}, Data: v}}
}

// restoreExchange keeps the state of an outer optimiser for the exchange, which begins with the next step.
//
// Errors: exit 65 for a tensor of another network.
func (n *currentNetwork) restoreExchange(w model.Weights, dir string) error {
	for _, x := range w {
		v, ok := x.Data.([]float32)
		if !ok || len(v) != len(n.store.Params()) {
			return &exit.Error{Code: exit.BadData, What: "the momentum of the outer optimiser in the checkpoint is of another network", At: dir, Fix: "resume from the preceding checkpoint"}
		}
		n.outerVelocity = v
	}
	return nil
}
