package optim

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Chunk is a contiguous part of one parameter in a store: the elements Lo to Hi, Hi excluded. A
// chunk is the unit of work of a thread, of ownership of a rank, and of summation for norms.
type Chunk struct {
	Param  string // name of the parameter
	Lo, Hi int    // offsets in the flat parameters of the store
}

// ChunkBytes is the size of the largest chunk of float32.
const ChunkBytes = 64 << 10

// chunkLen is the largest number of elements of a chunk.
const chunkLen = ChunkBytes / 4

// ChunkSizes returns the lengths of the chunks of a parameter with n elements.
func ChunkSizes(n int) []int {
	var sizes []int
	for ; n > chunkLen; n -= chunkLen {
		sizes = append(sizes, chunkLen)
	}
	return append(sizes, n)
}

// Chunks divides the parameters of a store, in their order. The result depends on the layout of the
// store only. Therefore sums that are added chunk by chunk have the same bits for any number of
// threads and ranks.
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

// Ranks is a group of processes that share an optimiser. Each rank updates the chunks that it owns,
// and holds their gradients and moments. All ranks must call AllReduce, AllGather and GatherToRoot
// in the same order.
type Ranks interface {
	// Rank is the index of this process, Size the number of processes.
	Rank() int
	Size() int
	// Owners returns the owning rank of each of Chunks.
	Owners() []int
	// Grads returns the gradients of this rank's chunks, in the layout of ChunkOffsets.
	Grads() []float32
	// AllReduce adds x over the ranks; all ranks get the result.
	AllReduce(x []float64) error
	// AllGather gives x to the ranks whose gradients depend on it: to all, unless they compute
	// different layers. x has the layout of the parameters; each rank contributes its own
	// chunks.
	AllGather(x []float32) error
	// GatherToRoot calls put on rank 0 with the x of each rank in turn. sizes are the lengths
	// of x by rank.
	GatherToRoot(x []float32, sizes []int, put func(rank int, x []float32)) error
}

// chunk is a Chunk for the kernels: elements lo to hi of the parameters, the index of their tensor,
// and at, the offset of their gradients and moments.
type chunk struct{ lo, hi, tensor, at int }

// run is a contiguous range of n elements at offset lo of the parameters and at offset at of the
// moments.
type run struct{ lo, at, n int }

// align is the alignment of parameters in a store, in elements (64 bytes).
const align = 16

// AlignedSize returns the number of elements that a chunk of n elements takes among others.
func AlignedSize(n int) int { return (n + align - 1) / align * align }

// ChunkOffsets lays out the gradients and moments of the chunks that a rank owns: one after the
// other, each aligned as parameters are. at is the offset of each chunk, −1 if another rank owns
// it; n is the total length. A rank that owns all chunks, as with nil owners, has the layout of the
// store.
func ChunkOffsets(chunks []Chunk, owners []int, rank int) (at []int, n int) {
	at = make([]int, len(chunks))
	for i, p := range chunks {
		if owners != nil && owners[i] != rank {
			at[i] = -1
			continue
		}
		at[i] = n
		n += AlignedSize(p.Hi - p.Lo)
	}
	return at, n
}

// chunksOf returns the chunks that a rank owns, their indices, and the length of its moments.
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

// mergeRuns merges chunks that are adjacent in parameters and in moments.
func mergeRuns(chunks []chunk) []run {
	var out []run
	for _, p := range chunks {
		if k := len(out) - 1; k >= 0 && p.lo-out[k].lo == p.at-out[k].at {
			out[k].n = p.hi - out[k].lo
			continue
		}
		out = append(out, run{p.lo, p.at, p.hi - p.lo})
	}
	return out
}

// checkOwners refuses a list of owners whose length is not the number of chunks; with whole also owners of parts of a tensor.
func checkOwners(owners []int, chunks []Chunk, whole bool) error {
	if len(owners) != len(chunks) {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the optimiser has %d parts of parameters, but %d owners", len(chunks), len(owners)),
			Why: "the parameters of another network were distributed over the ranks", Fix: "distribute the parameters of this network"}
	}
	if whole {
		return checkWholeTensors(chunks, owners)
	}
	return nil
}
