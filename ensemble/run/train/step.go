package train

import (
	"context"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/optim"
	sharing "github.com/ensemble-weather/ensemble/engine/share"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// optimizer gives the options of the present network's optimiser.
func (t *trainer) optimizer() optim.Options {
	o := optim.Options{
		Kind: optim.Kind(t.cfg.Optimizer), Decay: t.cfg.WeightDecay, Clip: t.cfg.Clip, Threads: t.cfg.Threads, Momentum: 0.9,
		Trust: t.cfg.Trust, EMA: t.cfg.EMA,
		NoDecay: func(name string) bool { return optim.Biases(name) || isLocal(name) || sharing.Coefficient(name) },
	}
	if o.EMA > 0 {
		o.Average = t.shown
	}
	return o
}

// isLocal tells parameters that every grid point has of its own: maps, which are local biases (but for
// learned fields of the input), and
// the filters of a locally connected layer, whose differences the loss bounds. They have no
// decay either.
func isLocal(name string) bool {
	return strings.HasPrefix(name, unet3d.MapsPrefix) && name != unet3d.EmbeddingMap || strings.HasPrefix(name, unet3d.LocalLayer+".")
}

// schedule makes the learning rate of one network's steps.
func schedule(c config.Training, perEpoch uint64, plateau *optim.PlateauState) optim.Schedule {
	base := c.BaseBatch
	if base == 0 {
		base = c.BatchSize
	}
	scaling, from := optim.Scaling(c.Scale), 0.0
	factor := scaling.Factor(float64(c.BatchSize*c.Accumulate) / float64(base))
	if scaling != optim.NoScaling {
		from = 1 / factor
	}
	top, warmup := c.LearningRate*factor, uint64(c.Warmup)
	var s optim.Schedule
	switch c.Schedule {
	case "cosine":
		s = optim.Cosine{Max: top, Hold: warmup, Total: perEpoch * uint64(c.Epochs)}
	case "triangular2":
		// The published half cycle is half an epoch, from 1e-4 of the largest rate.
		s = optim.Triangular2{Base: 1e-4 * top, Max: top, Half: max(perEpoch/2, 1)}
	case "plateau":
		s = &optim.Plateau{Start: top, Factor: 0.3, Patience: 5, Min: 1e-3 * top, State: *plateau}
	default:
		s = optim.Constant(top)
	}
	return optim.Warmup{Schedule: s, Steps: warmup, From: from}
}

// stopped is a wish to stop that was found between two batches, or a start that cannot be
// read.
type stopped struct{ reason error }

func (s stopped) Error() string { return s.reason.Error() }

// gather computes the loss and the gradients of one step, over todo batches. A
// batch counts by the sum of its weights, which makes means over all points those
// of one batch of all samples. (Similarity losses have no weights; there it is a
// batch's share of the samples, but for missing points.)
//
// Errors: stopped, with nothing changed but states of the network.
func (t *trainer) gather(ctx context.Context, todo int) (float64, error) {
	var loss, weight float64
	for i := range todo {
		b := t.receive()
		if err := t.stop(b.err); err != nil {
			return 0, stopped{err}
		}
		net := t.load(b)
		if s := t.at.LossScale.Scale; s > 0 {
			net.Plan.ScaleLoss(s)
		}
		var share float64
		if todo > 1 {
			share = total(b.batch.Weight)
		}
		if err := net.Plan.Start(ctx, t.at.Step*uint64(t.cfg.Accumulate)+uint64(i)); err != nil {
			return 0, err
		}
		if err := t.ahead(net); err != nil {
			return 0, err
		}
		if err := net.Plan.Wait(); err != nil {
			return 0, err
		}
		if todo == 1 {
			return net.Plan.Loss(), nil
		}
		w, err := t.ranks.Sum(share)
		if err != nil {
			return 0, err
		}
		t.opt.Add(w)
		loss += w * net.Plan.Loss()
		weight += w
	}
	if weight == 0 { // as the mean over no weight is 0
		return 0, nil
	}
	return loss / weight, nil
}

// receive gives the next batch.
func (t *trainer) receive() *ready {
	if b := t.feed.early; b != nil {
		t.feed.early = nil
		return b
	}
	began := time.Now()
	b := <-t.feed.next
	t.input.Waited += time.Since(began)
	return &b
}

// load fills the inputs of the plan that computes a batch, unless they are.
func (t *trainer) load(b *ready) *model.Network {
	net := t.of(b.batch)
	if b.in == net {
		return net
	}
	if t.corrections != nil {
		t.corrections.into(b.batch, b.starts)
	}
	net.Load(b.batch)
	return net
}

// ahead has the next batch begin its way to a device that works on the present one, if that
// has memory of its own and the batch goes to the same plan; there is none behind the last
// of the network.
func (t *trainer) ahead(net *model.Network) error {
	if !net.Plan.Away() {
		return nil
	}
	began := time.Now()
	b, more := <-t.feed.next
	t.input.Waited += time.Since(began)
	if !more {
		return nil
	}
	t.feed.early = &b
	if b.err != nil || t.of(b.batch) != net {
		return nil
	}
	t.load(&b)
	b.in = net
	return net.Plan.Stage()
}

func total(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v)
	}
	return s
}
