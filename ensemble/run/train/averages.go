package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/groups"
)

// finishEvalStore makes evalStore the network that is validated and saved: the moving average of the parameters with
// running statistics of its own, or the parameters and statistics of training. All ranks call it.
func (t *trainer) finishEvalStore(ctx context.Context) error {
	if err := t.current.updateEvalStore(); err != nil {
		return err
	}
	if t.current.average() == nil || len(t.current.store.StateNames()) == 0 {
		return nil
	}
	return t.recomputeStatistics(ctx)
}

// statisticsBatches is the number of batches from which the statistics of averaged weights are computed.
const statisticsBatches = 16

// recomputeStatistics computes the running statistics of the averaged weights. Those of training belong to other
// weights. The averaged weights run on the first batches of the finished epoch, and statistics are the means of those
// of the batches. A run updates a statistic s to
//
//	(1−m)·s + m·b
//
// from the statistic b of the batch. From s = 0 it gives m·b; the first batch, run again from s = 1, gives 1−m
// besides. Parameters and statistics of training are the same afterwards.
//
// Source: Izmailov et al. 2018, arXiv:1803.05407, section 3.2.
func (t *trainer) recomputeStatistics(ctx context.Context) error {
	n := t.current
	weights, states := slices.Clone(n.store.Params()), slices.Clone(n.store.States())
	copy(n.store.Params(), n.evalStore.Params())
	defer func() {
		copy(n.store.Params(), weights)
		copy(n.store.States(), states)
	}()
	schedule, reader := t.schedule()
	batches, rows := min(t.epochBatches(), statisticsBatches), n.rows
	epoch := max(t.pos.Epoch-1, 0)
	reads := schedule.Epoch(reader, epoch)[:batches*rows.Len()]
	b := t.newBatch(rows.Len())
	f := &feeder{job: &t.job, from: &t.inputs, seed: schedule.Seed, stream: t.data.Train.Stream(ctx, reads),
		batches: t.epochBatches(), samples: t.sampleCount(t.training()), lo: rows.Lo, size: rows.Len(), batch: epoch * t.epochBatches()}
	defer f.stream.Close()
	run := func(at []int, from float32) ([]float32, error) {
		s := n.store.States()
		for i := range s {
			s[i] = from
		}
		net := n.loadBatch(&readyBatch{batch: &b, starts: at})
		if err := net.Plan.Run(ctx, evalStep); err != nil {
			return nil, err
		}
		return n.store.States(), nil
	}
	sums, kept := make([]float64, len(states)), make([]float64, len(states))
	for i := range batches {
		at := reads[i*rows.Len() : (i+1)*rows.Len()]
		err := f.build(ctx, &b, at)
		f.batch++
		if err := t.ranks.AgreeOnError(err); err != nil {
			return err
		}
		s, err := run(at, 0)
		if err != nil {
			return err
		}
		for k, v := range s {
			sums[k] += float64(v) / float64(batches)
		}
		if i > 0 {
			continue
		}
		first := slices.Clone(s)
		if s, err = run(at, 1); err != nil {
			return err
		}
		for k, v := range s {
			kept[k] = float64(v) - float64(first[k])
		}
	}
	if err := groups.Mean(t.groups, sums); err != nil { // each group has run its own samples
		return err
	}
	setStatistics(n.evalStore, sums, kept)
	return nil
}

// setStatistics sets the states of a store to sums/(1−kept). kept is the same for all values of a state; its median is
// used, as large values lose digits in the difference.
func setStatistics(s *engine.Store, sums, kept []float64) {
	to := s.States()
	for _, e := range s.Entries() {
		if !e.State {
			continue
		}
		own := slices.Clone(kept[e.Offset : e.Offset+e.Size()])
		slices.Sort(own)
		m := 1 - own[len(own)/2]
		for i := e.Offset; i < e.Offset+e.Size(); i++ {
			to[i] = float32(sums[i] / m)
		}
	}
}

// slowAverage describes an average of weights whose time is more than twice the longest one that the training reaches
// (optim.AverageWarmUp); "" for others.
func slowAverage(n setup.NetworkTraining, stepsPerEpoch int) string {
	c := n.Config
	if !c.EMA.IsEnabled() {
		return ""
	}
	length, steps := c.EMA.Length(stepsPerEpoch), float64(stepsPerEpoch*c.Epochs)
	reached := optim.AverageWarmUp(steps)
	if most := 1 / (1 - reached); length > 2*most {
		return fmt.Sprintf("train.ema: %s averages over %.0f steps, but the training has %.0f (%d in an epoch): its decay is at most %.4g, an average over the last %.0f; give a time, such as train.ema: %s",
			c.EMA, length, steps, stepsPerEpoch, reached, most, config.Averaging{Epochs: float64(c.Epochs) / 10})
	}
	return ""
}
