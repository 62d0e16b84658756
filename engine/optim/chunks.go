package optim

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Chunk is a run of a store's parameters within one of them, Lo up to before Hi. It is
// what is moved, and what norms are summed over, as one.
type Chunk struct {
	Param  string
	Lo, Hi int
}

// chunkLen is the most elements of a piece, 64 KiB.
const chunkLen = 16384

// ChunkSizes are the lengths of the pieces of a parameter with n elements.
func ChunkSizes(n int) []int {
	var sizes []int
	for ; n > chunkLen; n -= chunkLen {
		sizes = append(sizes, chunkLen)
	}
	return append(sizes, n)
}

// Chunks cuts the parameters of a store, in their order. Pieces depend on nothing else,
// and so neither do the bits of sums over them.
func Chunks(store *engine.Store) []Chunk {
	var out []Chunk
	for _, e := range store.Entries() {
		if e.State {
			continue
		}
		lo := e.Offset
		for _, n := range ChunkSizes(e.Size()) {
			out = append(out, Chunk{e.Name, lo, lo + n})
			lo += n
		}
	}
	return out
}

// Ranks are those that share an optimiser: each moves the pieces that it owns, and keeps
// their gradients and moments. All ranks call Sum, Gather and Collect in one order.
type Ranks interface {
	// Rank is the number of this one, Size how many there are.
	Rank() int
	Size() int
	// Owners gives the rank that owns each of Pieces.
	Owners() []int
	// Grads is the memory of the gradients of this rank's pieces, as Places lays them out.
	Grads() []float32
	// AllReduce adds up x over the ranks.
	AllReduce(x []float64) error
	// AllGather gives all ranks all of x, which lies as the parameters do and of which
	// each has its own pieces.
	AllGather(x []float32) error
	// GatherToRoot calls put on rank 0 with the x of each rank in turn; sizes are their
	// lengths.
	GatherToRoot(x []float32, sizes []int, put func(rank int, x []float32)) error
}

// chunk is one that this rank moves: elements lo to hi of a tensor, with gradient and
// moments from at on.
type chunk struct{ lo, hi, tensor, at int }

// run is consecutive elements, from lo of the parameters and from at of the moments.
type run struct{ lo, at, n int }

// align is that of parameters in a store, in elements.
const align = 16

// ChunkOffsets lays out what a rank has of its own pieces, their gradients and moments: they lie
// one behind the other, aligned as parameters are. at is where each of Pieces begins, −1
// for those of others, and n the length of all. A rank that owns all, as with owners nil,
// has the layout of the store.
func ChunkOffsets(pieces []Chunk, owners []int, rank int) (at []int, n int) {
	at = make([]int, len(pieces))
	for i, p := range pieces {
		if owners != nil && owners[i] != rank {
			at[i] = -1
			continue
		}
		at[i] = n
		n += (p.Hi - p.Lo + align - 1) / align * align
	}
	return at, n
}

// chunksOf are the pieces of a rank, their numbers, and the length of their moments.
func (p *Optimizer) chunksOf(owners []int, rank int) (own []chunk, numbers []int, n int) {
	at, n := ChunkOffsets(p.chunks, owners, rank)
	for i, a := range at {
		if a >= 0 {
			x := p.allChunks[i]
			x.at = a
			own, numbers = append(own, x), append(numbers, i)
		}
	}
	return own, numbers, n
}

// mergeRuns joins pieces that follow each other in both memories.
func mergeRuns(pieces []chunk) []run {
	var out []run
	for _, p := range pieces {
		if k := len(out) - 1; k >= 0 && p.lo-out[k].lo == p.at-out[k].at {
			out[k].n = p.hi - out[k].lo
			continue
		}
		out = append(out, run{p.lo, p.at, p.hi - p.lo})
	}
	return out
}

// checkOwners refuses owners of other pieces.
func checkOwners(owners []int, pieces int) error {
	if len(owners) == pieces {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d owners of %d pieces of the parameters", len(owners), pieces),
		Why: "the ranks deal out the parameters of another network", Fix: "deal out those of this one"}
}
