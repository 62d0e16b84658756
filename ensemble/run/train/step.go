package train

import (
	"context"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/model/network"
)

// gradientShare is the mean loss of the samples whose gradient the optimiser has, and the sum of their weights.
type gradientShare struct{ loss, weight float64 }

// accumulateGradients computes the loss and the gradients of a step over count batches:
//
//	L = Σ W(b) L(b) / Σ W(b)
//
// where W(b) is the sum of the point weights of batch b. This equals the loss of one batch of all samples.
// Similarity losses have no point weights; their batches are weighted by their number of samples.
//
// A checkpoint that is due is saved before the first batch, as one of a stop signal would be.
//
// The weight is that of the ranks that compute together; it is 0 if one batch is all that counts.
//
// Errors: stopRequest, with the network unchanged.
func (t *trainer) accumulateGradients(ctx context.Context, step uint64, count int) (all gradientShare, err error) {
	n := t.current
	if err := t.chooseGradients(); err != nil {
		return all, err
	}
	n.statesBefore = append(n.statesBefore[:0], n.store.States()...)
	if t.observers.beforeStep != nil {
		t.observers.beforeStep(step)
	}
	n.batchNorms = 0
	n.drawWindow(t.sizes, t.seed(), t.pos)
	for i := range count {
		b := t.nextBatch()
		due, err := t.stopBefore(b)
		if err != nil {
			copy(n.store.States(), n.statesBefore)
			return all, err
		}
		if due && i == 0 {
			if err := t.saveRegularly(); err != nil {
				return all, err
			}
		}
		var share float64
		weighted := count > 1 || t.groups != nil
		if weighted {
			share = t.weightOf(b)
		}
		loss, err := t.computeGradients(ctx, b, step, i)
		if err != nil {
			return all, err
		}
		if !weighted {
			return gradientShare{loss: loss}, t.measureRankNorms()
		}
		w, err := t.computing().Sum(share)
		if err != nil {
			return all, err
		}
		if count == 1 {
			return gradientShare{loss, w}, nil
		}
		if err := t.addBatchNorm(); err != nil {
			return all, err
		}
		n.opt.Accumulate(w)
		all.loss += w * loss
		all.weight += w
	}
	if all.weight != 0 { // else the mean over no weight, 0
		all.loss /= all.weight
	}
	return all, nil
}

// stopBefore returns the stop request of any rank, or an error of reading the next batch, and whether a checkpoint is due on
// rank 0. In a group that computes by itself, an error is that of this rank alone, and stop signals and checkpoints are for
// the end of a run of steps.
func (t *trainer) stopBefore(b *readyBatch) (due bool, err error) {
	if t.groups != nil {
		return false, b.err
	}
	if due, err = t.stop(b.err); err != nil {
		return false, stopRequest{err}
	}
	return due, nil
}

// computeGradients computes the loss and the gradients of batch i of a step.
func (t *trainer) computeGradients(ctx context.Context, b *readyBatch, step uint64, i int) (float64, error) {
	n, key := t.current, t.runNumber(step, i)
	if n.window.index > 0 {
		return n.computeWindow(ctx, b, key, t.pos.LossScale.Scale)
	}
	refresh := i == 0 && t.refreshesCurvature(b)
	if n.pipeline != nil {
		loss, err := n.pipeline.Step(ctx, key, b.batch, refresh)
		if refresh {
			n.curvature.computed = err == nil
		}
		return loss, err
	}
	net := n.loadBatch(b)
	if refresh {
		net = n.curvature.net
		net.Load(b.batch)
	}
	n.last = net
	if s := t.pos.LossScale.Scale; s > 0 {
		net.Plan.ScaleLoss(s)
	}
	defer t.shiftWeights()()
	if err := net.Plan.Start(ctx, key); err != nil {
		return 0, err
	}
	if err := t.prefetch(net); err != nil {
		return 0, err
	}
	if err := net.Plan.Wait(); err != nil {
		return 0, err
	}
	if refresh {
		n.curvature.computed = true
	}
	return net.Plan.Loss(), nil
}

// addBatchNorm adds the squared norm of the gradient of one batch of a step, for the noise scale, where the host has the
// gradient of the whole batch.
func (t *trainer) addBatchNorm() error {
	if n := t.current; t.groups != nil || n.pipeline == nil && n.last.Plan.HasDeviceMemory() {
		return nil
	}
	norm, err := t.current.opt.BatchNorm()
	t.current.batchNorms += norm * norm
	return err
}

// measureRankNorms measures the gradients of the data ranks' own samples, for the noise scale of steps of one batch.
func (t *trainer) measureRankNorms() (err error) {
	if n := t.current; t.noiseRanks() > 1 {
		n.rankNorms, err = n.last.Shard.RankNorms()
	}
	return err
}

// noiseRanks is the number of data ranks whose gradients give the noise scale; 1: none, as steps accumulate batches, whose
// gradients do, or the ranks have no such gradients, or parts of different size.
func (t *trainer) noiseRanks() int {
	n := t.current
	if t.ranks == nil || t.groups != nil || n.pipeline != nil || n.cfg.Accumulate > 1 || n.cfg.BatchSize%t.ranks.Mesh.Size() > 0 || !n.train.Shard.HasRankNorms() {
		return 1
	}
	return t.ranks.Mesh.Size()
}

// noiseScale returns the noise scale of the epoch; ok is false if it was not measured.
func (t *trainer) noiseScale() (scale float64, ok bool) {
	c := t.current.cfg
	return t.pos.Noise.Scale(c.BatchSize/t.noiseRanks(), c.BatchSize*c.Accumulate)
}

// countNoise adds a step of whole batches to the noise of the epoch, given the norm of its gradient.
func (t *trainer) countNoise(batches int, norm float64) {
	n := t.current
	if norms := n.rankNorms; t.noiseRanks() > 1 && t.samplesIn(t.pos.Batch+1)-t.samplesIn(t.pos.Batch) == n.cfg.BatchSize {
		t.pos.Noise.Add(norms.Rank, norms.Sum)
	}
	if whole := t.samplesIn(t.pos.Batch+batches)-t.samplesIn(t.pos.Batch) == batches*n.cfg.BatchSize; whole && batches == n.cfg.Accumulate && n.batchNorms > 0 {
		t.pos.Noise.Add(n.batchNorms/float64(batches), norm*norm)
	}
}

// nextBatch returns the next batch and counts the time spent waiting for it.
func (t *trainer) nextBatch() *readyBatch {
	if b := t.current.feed.prefetched; b != nil {
		t.current.feed.prefetched = nil
		return b
	}
	began := time.Now()
	b := <-t.current.feed.next
	t.observers.input.Waited += time.Since(began)
	return &b
}

// loadBatch copies a batch to the inputs of the plan that computes it, unless prefetch did.
func (p *compiledNetwork) loadBatch(b *readyBatch) *network.Network {
	net := p.forBatch(b.batch)
	if b.loaded == net {
		return net
	}
	if p.corrections != nil {
		p.corrections.fill(b.batch, b.starts)
	}
	net.Load(b.batch)
	return net
}

// prefetch starts the transfer of the next batch to a device with its own memory, while it computes the current
// batch. It does nothing if the next batch needs another plan, and after the last batch.
func (t *trainer) prefetch(net *network.Network) error {
	if !net.Plan.HasDeviceMemory() {
		return nil
	}
	began := time.Now()
	b, more := <-t.current.feed.next
	t.observers.input.Waited += time.Since(began)
	if !more {
		return nil
	}
	t.current.feed.prefetched = &b
	if b.err != nil || t.current.forBatch(b.batch) != net {
		return nil
	}
	t.current.loadBatch(&b)
	b.loaded = net
	return net.Plan.StageInputs()
}

// sum adds values in float64.
func sum(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v)
	}
	return s
}
