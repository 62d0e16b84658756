package spatial

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// RankStep is the training step of one rank, as Compile makes it for a device with one memory layout. Planners read
// from it what a rank computes and sends, without ranks and without kernels.
type RankStep struct {
	Graph    *graph.Graph // of the rank, after all passes
	Sequence []int        // operations in order of execution
	Sums     []DeferredSum
	// Whole is the graph of all ranks with its gradients; Distributions has how the ranks hold its values, by node.
	Whole         *graph.Graph
	Distributions []graph.Distribution
	// Halos has the exchanges, by node, whose readers read the shard and its halo from separate buffers, as convolutions of whole
	// blocks of channels do on a processor. Others copy the shard next to its halo.
	Halos map[int]bool

	unit *pass.Unit
}

// DeferredSum is a bucket of gradients that is summed over ranks during the backward pass.
type DeferredSum struct {
	Axes   []string // mesh axes to sum over
	Values int
	Last   int // position in RankStep.Sequence after which all gradients are complete
	Sparse bool
}

// WholeStep returns the training step of a graph with a loss before it is divided over ranks: with its gradients, and with the
// Kronecker factors of filters whose sides do not exceed maxFactorSide, of which 0 has none.
//
// Errors: those of the passes.
func WholeStep(g *graph.Graph, maxFactorSide int) (*graph.Graph, error) {
	u := &pass.Unit{Graph: g, Device: pass.Device{ElemBytes: 4}}
	u.MaxFactorSide = maxFactorSide
	for _, p := range pass.List[:gradientsAt(pass.List)+1] {
		if err := p.Run(u); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return u.Graph, nil
}

// CompileRank compiles the part of a WholeStep that a rank of a mesh computes. The arrays of the whole job may be
// larger than what a device can address. k makes sums sparse on meshes with a data axis; nil is none.
//
// Errors: those of Shard and of the passes.
func CompileRank(whole *graph.Graph, m Mesh, rank int, sharded bool, k *Compression) (*RankStep, error) {
	const elemBytes = 4
	s := &RankStep{Whole: whole, unit: &pass.Unit{Graph: whole, Device: pass.Device{ElemBytes: elemBytes}}}
	shard := pass.Pass{Name: "shard", Run: func(u *pass.Unit) error {
		part, err := Shard(u.Graph, m, rank)
		if err == nil {
			u.Graph, s.Distributions = part.Local, part.Distributions
		}
		return err
	}}
	sums := &gradientSums{sharded: sharded}
	if m.HasDataRanks() {
		sums.compression = k
	}
	list := trainingPasses(pass.List, shard, pass.Pass{Name: "defer-sums", Run: func(u *pass.Unit) error { return sums.deferIn(u, m, rank, true) }})
	for _, p := range list[gradientsAt(list)+1:] {
		if p.Name == planMemory {
			break
		}
		if err := p.Run(s.unit); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	s.Graph, s.Sequence = s.unit.Graph, s.unit.Sequence
	s.Sums = deferredSums(s.Graph, s.Sequence, sums.size)
	s.Halos = findHaloFusion(s.unit, graph.Plain, readsHaloApart).uses
	return s, nil
}

// readsHaloApart reports whether an operation has kernels that read shards and halos from separate buffers.
func readsHaloApart(n *graph.Node, a op.HaloOp, in []graph.Shape) bool {
	if n.Op.Conv == nil || n.Shape[channels] < graph.BlockSize || !slices.Equal(a.Operands, n.Op.Conv.Sources(len(n.In))) {
		return false
	}
	return !slices.ContainsFunc(a.Operands, func(i int) bool { return in[i][channels] < graph.BlockSize })
}

// gradientsAt is the position of the pass after which the step is divided over ranks: the last one that adds to
// what is computed.
func gradientsAt(list []pass.Pass) int {
	if at := slices.IndexFunc(list, func(p pass.Pass) bool { return p.Name == "add-factors" }); at >= 0 {
		return at
	}
	return slices.IndexFunc(list, func(p pass.Pass) bool { return p.Name == "add-gradients" })
}

// planMemory is the name of the last pass.
const planMemory = "plan-memory"

// trainingPasses inserts the passes of this package that do not depend on a device into those of the engine.
func trainingPasses(engine []pass.Pass, shard, deferSums pass.Pass) []pass.Pass {
	list := slices.Clone(engine)
	list = slices.Insert(list, gradientsAt(list)+1, shard)
	at := slices.IndexFunc(list, func(p pass.Pass) bool { return p.Name == "schedule" })
	return slices.Insert(list, at, deferSums)
}

// deferredSums lists the buckets of deferred sums, in the order in which they are complete.
func deferredSums(g *graph.Graph, sequence []int, size int) []DeferredSum {
	fill := bucketBuilder{size: size}
	sums := map[*bucket]*DeferredSum{}
	for at, id := range sequence {
		n := g.Nodes[id]
		if n.Op != sumRanksDeferred {
			continue
		}
		a := n.Attrs.(deferredSumAttrs)
		b := fill.bucketFor(a.kind(), 4*n.Shape.Size())
		if sums[b] == nil {
			sums[b] = &DeferredSum{Axes: a.Mesh, Sparse: a.Sparse}
		}
		sums[b].Values, sums[b].Last = sums[b].Values+n.Shape.Size(), at
	}
	var all []DeferredSum
	for _, s := range sums {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b DeferredSum) int { return cmp.Compare(a.Last, b.Last) })
	return all
}

// ArenaBytes returns the memory of all values of the step and of the workspaces that do not fit beside them. workspace
// returns the bytes that the kernel of an operation needs for operands and a result. Parameters are not included. Gradients
// are if the optimiser is sharded: those in sums, and the pieces that the rank keeps. Halos are in separate buffers, see
// Halos, and inputs are copied to blocks of channels, as on a processor.
//
// Unit: bytes.
// Errors: graph.ErrShape for a value that kernels cannot address.
func (s *RankStep) ArenaBytes(workspace func(o *graph.Op, in []graph.Shape, out graph.Shape) int64) (int64, error) {
	u := *s.unit
	if err := fuseHalosWhere(&u, graph.Plain, readsHaloApart); err != nil {
		return 0, err
	}
	at := slices.IndexFunc(pass.List, func(p pass.Pass) bool { return p.Name == "schedule" })
	for _, p := range pass.List[at:] {
		if err := p.Run(&u); err != nil {
			return 0, err
		}
	}
	elem := int64(u.ElemBytes)
	bytes := int64(u.Memory.ArenaSize) * elem
	for at, live := range u.Memory.LiveElements(len(u.Sequence)) {
		n := u.Graph.Nodes[u.Sequence[at]]
		o, in := n.Op, u.Graph.InShapes(n)
		if a, ok := n.Attrs.(op.HaloOp); ok {
			o, in = a.Op, a.PaddedShapes(in)
		}
		if w := workspace(o, in, n.Shape); w > 0 {
			bytes = max(bytes, int64(live)*elem+w)
		}
	}
	for _, n := range s.Graph.Nodes {
		if n.Kind == graph.KindInput && len(n.Shape) == 5 && n.Shape[channels] >= graph.BlockSize {
			blocks := (n.Shape[channels] + graph.BlockSize - 1) / graph.BlockSize
			bytes += int64(n.Shape.Size()/n.Shape[channels]*blocks*graph.BlockSize) * elem
		}
	}
	return bytes, nil
}
