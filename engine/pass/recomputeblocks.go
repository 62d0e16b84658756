package pass

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/pass/offload"
)

// maxBlocks is the number of blocks up to which Search enumerates all plans of
// two actions; maxLinked is the number for three actions in about the same
// time.
const maxBlocks, maxLinked = 14, 9

// forwardBlock is a block of the forward pass.
type forwardBlock struct {
	offload.Block
	interior []int // results that only the backward pass reads after the block
}

// blocks divides the forward pass, in an order without repetitions, where the
// values that cross the boundary are smallest. An operation of the backward
// pass belongs to the block of the latest forward result that it reads, or to
// that of the operation before it. The interior of a block consists of the
// results that the backward pass reads and no later block of the forward pass
// does. Only these can be freed.
func (p *orderModel) blocks(order []int) []forwardBlock {
	var forward, backward []int
	for _, id := range order {
		if p.forward[id] {
			forward = append(forward, id)
		} else {
			backward = append(backward, id)
		}
	}
	if len(forward) == 0 || len(backward) == 0 {
		return nil
	}
	at := make([]int, len(p.g.Nodes)) // position in the forward pass
	last := make([]int, len(p.g.Nodes))
	for i, id := range forward {
		at[id], last[id] = i, i
		for _, r := range p.reads[id] {
			last[r] = i
		}
	}
	// live[k] is the number of elements that cross from position k to k+1.
	live := make([]float64, len(forward)-1)
	for i, id := range forward {
		for k := i; k < last[id]; k++ {
			live[k] += float64(p.size[id])
		}
	}
	most := maxBlocks
	if p.links != nil {
		most = maxLinked
	}
	cuts := append(offload.CutPoints(live, most), len(forward))
	out := make([]forwardBlock, len(cuts))
	block := make([]int, len(forward))
	from := 0
	for b, to := range cuts {
		for i := from; i < to; i++ {
			block[i] = b
			out[b].Forward += p.cost[forward[i]]
		}
		from = to
	}
	// Assign the backward pass to blocks, and note the results that it reads.
	read := make([]bool, len(p.g.Nodes))
	now := len(cuts) - 1
	for _, id := range backward {
		of := -1
		for _, r := range p.reads[id] {
			if p.forward[r] {
				read[r] = true
				of = max(of, block[at[r]])
			}
		}
		if of >= 0 {
			now = of
		}
		out[now].Backward += p.cost[id]
	}
	// A result that a later block reads crosses a boundary. It is not part of
	// the interior, since it cannot be freed in between.
	for i, id := range forward {
		if b := block[i]; read[id] && p.recomputable[id] && last[id] < cuts[b] {
			out[b].interior = append(out[b].interior, id)
			out[b].Interior += float64(p.size[id])
		}
	}
	return out
}

// blockOrders lists the orders for the block plans with less and less memory.
// The first keeps all results. Each next plan needs at most three quarters of
// the memory of the previous one, until no plan is found.
func (p *orderModel) blockOrders(order []int) [][]int {
	out := [][]int{order}
	blocks := p.blocks(order)
	model := make([]offload.Block, len(blocks))
	var memory float64
	for i, b := range blocks {
		model[i] = b.Block
		memory += b.Interior
	}
	if len(blocks) == 0 {
		return out
	}
	for {
		plan, run, ok := offload.Search(model, p.machine(memory*3/4), p.planLetters())
		if !ok {
			return out
		}
		memory = run.Peak
		out = append(out, p.applyBlockPlan(order, blocks, plan))
	}
}

// applyBlockPlan applies a plan: it recomputes the interiors of blocks with
// letter R, and offloads and fetches those with letter S. Each result is
// restored directly before the first operation of the backward pass that reads
// it.
func (p *orderModel) applyBlockPlan(order []int, blocks []forwardBlock, plan string) []int {
	freed, swap := map[int]bool{}, map[int]bool{}
	for i, b := range blocks {
		for _, id := range b.interior {
			switch plan[i] {
			case offload.Recompute:
				freed[id] = true
			case offload.Swap:
				freed[id], swap[id] = true, true
			}
		}
	}
	for _, reader := range slices.Clone(order) {
		if p.forward[reader] {
			continue
		}
		for _, id := range p.reads[reader] {
			if freed[id] {
				q := slices.Index(order, reader)
				switch between := order[slices.Index(order, id)+1 : q]; {
				case slices.Contains(between, id) || p.isFetched(between, id):
				case swap[id]:
					order = p.fetchAt(p.measured(order), id, q, nil)
				default:
					order, _ = p.recomputeAt(p.measured(order), id, q, recomputeAll, nil)
				}
			}
		}
	}
	return order
}
