package spatial

import (
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Shards distributes the parameters of a plan over its ranks for a sharded
// optimiser. Each rank updates its own pieces. It implements optim.Ranks.
//
// A rank holds all n parameters, but gradients and optimiser state of n/P
// parameters only: with Adam in float32, 4n + 12n/P bytes instead of 16n. A step
// costs a reduce-scatter of gradients and an all-gather of parameters, together as
// much as one all-reduce.
//
// Concurrency: all ranks call the methods in the same order.
// Source: Rajbhandari et al. 2020, arXiv:1910.02054.
type Shards struct {
	c      *comm.Comm
	owners []int                   // owning rank, by piece
	grads  []float32               // gradients of the own pieces
	owned  map[string][]ownedRange // by parameter
	spans  [][2]int                // ranges of the parameters, grouped by owner
	cuts   []int                   // boundaries between owners in the concatenated spans
	costs  *SumCosts
}

var _ optim.Ranks = (*Shards)(nil)

// ownedRange is the range [lo, hi) of a parameter that this rank owns. Its gradient
// starts at index at of Shards.grads.
type ownedRange struct{ lo, hi, at int }

// Shards returns the parameter shards of a plan of CompileShardedOptimiser; nil for
// other plans.
func (p *Plan) Shards() *Shards { return p.sums.shards }

// newShards distributes the parameters of a plan. All ranks call it.
//
// Parameters whose gradients are summed over all ranks are split at the boundaries
// of the reduce-scatter of their buckets, which leaves each rank the sums that it
// needs. Other gradients are replicated, and their parameters are split evenly.
//
// Source: Rajbhandari et al. 2020, arXiv:1910.02054, section 5.2.
func newShards(sums *gradientSums, plan *engine.Plan) (*Shards, error) {
	c, err := sums.c.Split(0, sums.c.Rank())
	if err != nil {
		return nil, err
	}
	pieces := optim.Chunks(plan.Store())
	s := &Shards{c: c, owners: make([]int, len(pieces)), costs: &sums.costs}
	of := map[string][]int{} // indices of the pieces, by parameter
	for i, x := range pieces {
		of[x.Param] = append(of[x.Param], i)
		s.owners[i] = -1
	}
	for _, b := range sums.buckets {
		if !s.spansAllRanks(b) {
			continue
		}
		at := 0
		for _, part := range b.grads {
			for _, param := range part.params {
				s.assign(of[param], pieces, at, b.cuts)
			}
			at += part.n
		}
	}
	var rest, sizes []int
	for i, x := range pieces {
		if s.owners[i] < 0 {
			rest, sizes = append(rest, i), append(sizes, x.Hi-x.Lo)
		}
	}
	s.assign(rest, pieces, 0, partition(sizes, c.Size()))
	s.lay(pieces, plan.KeptGrads)
	return s, nil
}

// NewShards distributes the pieces of a store's parameters over the ranks of a group as owners states, one for each of
// optim.Chunks. The caller stores the gradients that a rank owns (Store). All ranks call it with the same owners.
//
// Errors: those of splitting the group.
func NewShards(c *comm.Comm, store *engine.Store, owners []int) (*Shards, error) {
	c, err := c.Split(0, c.Rank())
	if err != nil {
		return nil, err
	}
	s := &Shards{c: c, owners: owners, costs: &SumCosts{}}
	s.lay(optim.Chunks(store), func(n int) []float32 { return make([]float32, n) })
	return s, nil
}

// lay sets the places of the own pieces, given all owners.
func (s *Shards) lay(pieces []optim.Chunk, allocate func(n int) []float32) {
	s.addSpans(pieces)
	at, n := optim.ChunkOffsets(pieces, s.owners, s.c.Rank())
	s.grads, s.owned = allocate(n), map[string][]ownedRange{}
	first := map[string]int{} // offset of a parameter
	for i, x := range pieces {
		if _, ok := first[x.Param]; !ok {
			first[x.Param] = x.Lo
		}
		if at[i] >= 0 {
			lo := first[x.Param]
			s.owned[x.Param] = append(s.owned[x.Param], ownedRange{x.Lo - lo, x.Hi - lo, at[i]})
		}
	}
}

// Store stores this rank's pieces of the gradient x of a parameter.
func (s *Shards) Store(param string, x []float32) { storeGrad(s, param, x) }

// Owns reports whether this rank owns a piece of a parameter.
func (s *Shards) Owns(param string) bool { return len(s.owned[param]) > 0 }

// storeGrad stores this rank's pieces of the gradient x of a parameter.
func storeGrad[T float32 | float64](s *Shards, param string, x []T) {
	for _, p := range s.owned[param] {
		for i, v := range x[p.lo:p.hi] {
			s.grads[p.at+i] = float32(v)
		}
	}
}

// take stores this rank's pieces of a gradient tensor, in its element type. A
// gradient without memory is zero.
func (s *Shards) take(param string, g backend.Tensor) {
	switch {
	case g.F64 != nil:
		storeGrad(s, param, g.F64)
	case g.F32 != nil:
		storeGrad(s, param, g.F32)
	default:
		for _, p := range s.owned[param] {
			clear(s.grads[p.at : p.at+p.hi-p.lo])
		}
	}
}

// spansAllRanks reports whether a bucket is summed over all ranks.
func (s *Shards) spansAllRanks(b *bucket) bool { return b.group.Size() == s.c.Size() }

// assign assigns consecutive pieces, the first of which starts at index at, to the
// ranks that own the ranges between cuts.
func (s *Shards) assign(numbers []int, pieces []optim.Chunk, at int, cuts []int) {
	owner := make([]int, s.c.Size()) // owner of the range between two cuts
	for r := range owner {
		owner[comm.Auto.Piece(r, len(owner))] = r
	}
	for _, i := range numbers {
		k := 0
		for at >= cuts[k+1] {
			k++
		}
		s.owners[i] = owner[k]
		at += pieces[i].Hi - pieces[i].Lo
	}
}

// addSpans records the ranges of the pieces, grouped by owner, as the all-gather
// needs them.
func (s *Shards) addSpans(pieces []optim.Chunk) {
	ranks := s.c.Size()
	turns := make([][]optim.Chunk, ranks)
	for i, x := range pieces {
		k := comm.Auto.Piece(s.owners[i], ranks)
		turns[k] = append(turns[k], x)
	}
	s.cuts = []int{0}
	at := 0
	for _, turn := range turns {
		for _, x := range turn {
			at += x.Hi - x.Lo
			if k := len(s.spans) - 1; k >= 0 && s.spans[k][1] == x.Lo {
				s.spans[k][1] = x.Hi
				continue
			}
			s.spans = append(s.spans, [2]int{x.Lo, x.Hi})
		}
		s.cuts = append(s.cuts, at)
	}
}

// Costs returns the costs of AllGather so far.
func (s *Shards) Costs() SumCosts { return *s.costs }

// Rank returns the number of this rank.
func (s *Shards) Rank() int { return s.c.Rank() }

// Size returns the number of ranks.
func (s *Shards) Size() int { return s.c.Size() }

// Owners returns the rank that updates each of optim.Pieces.
func (s *Shards) Owners() []int { return s.owners }

// AllReduce replaces x by its sum over the ranks.
func (s *Shards) AllReduce(x []float64) error { return comm.AllReduce(s.c, x, comm.Auto) }

// Grads returns the gradients of this rank's pieces, in the order of optim.Places.
func (s *Shards) Grads() []float32 { return s.grads }

// AllGather all-gathers x, which has the layout of the parameters: each rank
// contributes its own pieces.
//
// Cost: (P−1)/P of the parameters received per rank. The time counts as
// SumCosts.Exposed.
func (s *Shards) AllGather(x []float32) error {
	begin := time.Now()
	defer func() { s.costs.Exposed += time.Since(begin) }()
	parts := make(comm.Parts[float32], len(s.spans))
	for i, p := range s.spans {
		parts[i] = x[p[0]:p[1]]
	}
	if err := comm.AllGatherParts(s.c, parts, s.cuts, comm.Auto); err != nil {
		return fmt.Errorf("all-gather of parameters: %w", err)
	}
	return nil
}

// collectTag is the message tag of Collect, the only one in the group.
const collectTag = 0

// GatherToRoot calls put on rank 0 with the x of each rank, in rank order. sizes are the
// lengths.
//
// Memory: one buffer of the largest size on rank 0.
func (s *Shards) GatherToRoot(x []float32, sizes []int, put func(rank int, x []float32)) error {
	if s.Rank() > 0 {
		return s.c.Send(0, collectTag, x).Wait()
	}
	put(0, x)
	var room []float32
	for r := 1; r < s.c.Size(); r++ {
		room = slices.Grow(room[:0], sizes[r])[:sizes[r]]
		if err := s.c.Recv(r, collectTag, room).Wait(); err != nil {
			return err
		}
		put(r, room)
	}
	return nil
}
