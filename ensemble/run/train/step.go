package train

import (
	"context"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/model/network"
)

// gather computes the loss and the gradients of one step, over todo batches. A
// batch counts by the sum of its weights, which makes means over all points those
// of one batch of all samples. (Similarity losses have no weights; there it is a
// batch's share of the samples, but for missing points.)
//
// Errors: stopped, with the network as it was.
func (t *trainer) gather(ctx context.Context, todo int) (float64, error) {
	n := t.now
	n.before = append(n.before[:0], n.store.States()...)
	var loss, weight float64
	for i := range todo {
		b := t.receive()
		if err := t.stop(b.err); err != nil {
			copy(n.store.States(), n.before)
			return 0, stopped{err}
		}
		net := n.load(b)
		if s := t.at.LossScale.Scale; s > 0 {
			net.Plan.ScaleLoss(s)
		}
		var share float64
		if todo > 1 {
			share = total(b.batch.Weight)
		}
		if err := net.Plan.Start(ctx, t.at.Step*uint64(n.cfg.Accumulate)+uint64(i)); err != nil {
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
		n.opt.Add(w)
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
	if b := t.now.feed.early; b != nil {
		t.now.feed.early = nil
		return b
	}
	began := time.Now()
	b := <-t.now.feed.next
	t.seen.input.Waited += time.Since(began)
	return &b
}

// load fills the inputs of the plan that computes a batch, unless they are.
func (p *plans) load(b *ready) *network.Network {
	net := p.of(b.batch)
	if b.in == net {
		return net
	}
	if p.corrections != nil {
		p.corrections.into(b.batch, b.starts)
	}
	net.Load(b.batch)
	return net
}

// ahead has the next batch begin its way to a device that works on the present one, if that
// has memory of its own and the batch goes to the same plan; there is none behind the last
// of the network.
func (t *trainer) ahead(net *network.Network) error {
	if !net.Plan.Away() {
		return nil
	}
	began := time.Now()
	b, more := <-t.now.feed.next
	t.seen.input.Waited += time.Since(began)
	if !more {
		return nil
	}
	t.now.feed.early = &b
	if b.err != nil || t.now.of(b.batch) != net {
		return nil
	}
	t.now.load(&b)
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
