package spatial

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Shards deals the pieces of the parameters out to the ranks of a plan, of which each
// then moves its own. It is the optim.Ranks of an optimiser.
type Shards struct {
	c      *comm.Comm
	owners []int // by piece
	chunks []chunk
	room   *[]float32 // that of the sums, which are done when parameters are gathered
	costs  *SumCosts
}

var _ optim.Ranks = (*Shards)(nil)

// chunk is pieces that are gathered together, those of one owner side by side.
type chunk struct {
	pieces []optim.Piece
	cuts   []int
}

// Shards lets each rank have only its own pieces of gradients from now on: the rest of
// the store's gradients means nothing. All ranks call it, and share an optimiser.
//
// Gradients that are summed over all ranks are cut where their buckets are, so that half
// of their all-reduce is enough. Others are on all ranks, and dealt out evenly.
//
// Source: Rajbhandari et al. 2020, arXiv:1910.02054, section 5.1.
func (p *Plan) Shards() (*Shards, error) {
	c, err := p.sums.c.Split(0, p.sums.c.Rank())
	if err != nil {
		return nil, err
	}
	s := &Shards{c: c, room: &p.sums.narrow, costs: &p.sums.costs}
	pieces := optim.Pieces(p.Store())
	s.owners = make([]int, len(pieces))
	of := map[string][]int{} // numbers of the pieces of a parameter
	for i, x := range pieces {
		of[x.Param] = append(of[x.Param], i)
		s.owners[i] = -1
	}
	for _, b := range p.sums.buckets {
		if !s.sums(b) {
			continue
		}
		var all []int
		at := 0
		for _, part := range b.parts {
			for _, param := range part.params {
				s.deal(of[param], pieces, at, b.cuts)
				all = append(all, of[param]...)
			}
			at += part.n
		}
		s.together(all, pieces)
	}
	var rest, sizes []int
	for i, x := range pieces {
		if s.owners[i] < 0 {
			rest, sizes = append(rest, i), append(sizes, x.Hi-x.Lo)
		}
	}
	s.deal(rest, pieces, 0, cutPieces(sizes, c.Size()))
	s.together(rest, pieces)
	p.sums.shards = s
	return s, nil
}

// sums tells whether a bucket is summed over all ranks.
func (s *Shards) sums(b *bucket) bool { return b.group.Size() == s.c.Size() }

// deal gives pieces that lie one behind the other from at on their owners.
func (s *Shards) deal(numbers []int, pieces []optim.Piece, at int, cuts []int) {
	owner := make([]int, s.c.Size()) // of what lies between two cuts
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

// together makes a chunk of pieces.
func (s *Shards) together(numbers []int, pieces []optim.Piece) {
	if len(numbers) == 0 {
		return
	}
	ranks := s.c.Size()
	turn := func(i int) int { return comm.Auto.Piece(s.owners[i], ranks) }
	slices.SortStableFunc(numbers, func(i, j int) int { return cmp.Compare(turn(i), turn(j)) })
	k := chunk{cuts: make([]int, ranks+1)}
	for _, i := range numbers {
		k.pieces = append(k.pieces, pieces[i])
		k.cuts[turn(i)+1] += pieces[i].Hi - pieces[i].Lo
	}
	for r := range ranks {
		k.cuts[r+1] += k.cuts[r]
	}
	s.chunks = append(s.chunks, k)
}

// Rank is this one's number.
func (s *Shards) Rank() int { return s.c.Rank() }

// Size is the number of ranks.
func (s *Shards) Size() int { return s.c.Size() }

// Owners gives the rank that moves each of optim.Pieces.
func (s *Shards) Owners() []int { return s.owners }

// Sum adds up x over the ranks.
func (s *Shards) Sum(x []float64) error { return comm.AllReduce(s.c, x, comm.Auto) }

// Gather gives all ranks all of x, which lies as the parameters do and of which each has
// its own pieces.
func (s *Shards) Gather(x []float32) error {
	begin := time.Now()
	defer func() { s.costs.Exposed += time.Since(begin) }()
	for _, k := range s.chunks {
		n := k.cuts[s.c.Size()]
		if len(*s.room) < n {
			*s.room = make([]float32, n)
		}
		room, at := *s.room, 0
		for _, p := range k.pieces {
			at += copy(room[at:], x[p.Lo:p.Hi])
		}
		if err := comm.GatherAt(s.c, room[:n], k.cuts, comm.Auto); err != nil {
			return fmt.Errorf("gathering parameters: %w", err)
		}
		at = 0
		for _, p := range k.pieces {
			at += copy(x[p.Lo:p.Hi], room[at:])
		}
	}
	return nil
}

// collectTag is the only tag of messages in the group of shards.
const collectTag = 0

// Collect calls put on rank 0 with the x of each rank in turn; sizes are their lengths.
func (s *Shards) Collect(x []float32, sizes []int, put func(rank int, x []float32)) error {
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
