package spatial

import "github.com/ensemble-weather/ensemble/spatial/comm"

// RankNorms are squared norms of the gradients that are summed in buckets, which are those
// of nearly all parameters, for the noise scale.
type RankNorms struct {
	// Rank is the mean over data ranks of the squared norm that the gradient would have if the
	// samples of one rank were the whole batch. It is exact if all ranks have the same weight
	// in the loss.
	Rank float64
	Sum  float64 // squared norm of the sum, the gradient of the batch
}

// bucketNorms accumulate the squared norms of this rank over the buckets of a run.
type bucketNorms struct {
	current, last RankNorms // of the current run, and of the latest one
}

// squares returns the squared norm of the gradients of a bucket. Four sums hide the latency
// of additions, so that memory limits the time.
func (b *bucket) squares() float64 {
	var s0, s1, s2, s3 float64
	for _, p := range b.grads {
		x := p.x.F32
		for ; len(x) >= 4; x = x[4:] {
			g0, g1, g2, g3 := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
			s0, s1, s2, s3 = s0+g0*g0, s1+g1*g1, s2+g2*g2, s3+g3*g3
		}
		for _, g := range x {
			s0 += float64(g) * float64(g)
		}
	}
	return s0 + s1 + s2 + s3
}

// end ends a run.
func (n *bucketNorms) end() { n.last, n.current = n.current, RankNorms{} }

// HasRankNorms reports whether the plan has RankNorms: the data axis alone divides the work,
// and gradients are summed densely, on the host, for all ranks.
func (p *Plan) HasRankNorms() bool {
	return p.mesh.HasDataRanks() && p.mesh.sizeOver([]string{DataAxis}) == p.mesh.Size() && p.sums.compression == nil && !p.sums.sharded && p.devices == nil
}

// RankNorms returns the norms of the latest run. All ranks call it.
//
// Errors: lost ranks.
func (p *Plan) RankNorms() (RankNorms, error) {
	// A rank's part of the sum over N ranks is 1/N of the gradient of its own samples.
	x := []float64{float64(p.mesh.Size()) * p.sums.norms.last.Rank}
	err := comm.AllReduce(p.sums.c, x, comm.Auto)
	return RankNorms{x[0], p.sums.norms.last.Sum}, err
}
