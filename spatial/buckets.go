package spatial

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// BucketBytes is the size from which on gradients are summed over ranks: large enough
// for messages to cost less than bytes, small enough for many sums to run beside the
// backward pass.
//
// Source: Li et al. 2020, arXiv:2006.15704, section 3.2.3, whose default it is.
const BucketBytes = 25 << 20

// deferredSumAttrs are the attributes of sum_ranks_deferred: the axes, and the parameters whose
// gradient the sum is.
type deferredSumAttrs struct {
	meshAxes
	Params []string
}

// sumRanksDeferred is sum_ranks whose result is there at the end of a run only.
var sumRanksDeferred = &graph.Op{
	Name:   "sum_ranks_deferred",
	Doc:    "The sum over the ranks along axes of the mesh, which ends with the run: nothing but the store of gradients reads it.",
	Source: "Li et al. 2020, arXiv:2006.15704, section 3.2",
	NoGrad: noGrad, Shape: sumRanks.Shape, Window: sumRanks.Window, FLOPs: noFLOPs, Bytes: sumRanks.Bytes, InPlace: sumRanks.InPlace,
	Ordered: true,
}

// deferSums lets the sums that are gradients, and that no operation reads, end with the
// run.
func deferSums(u *pass.Unit) error {
	g := u.Graph
	params := map[int][]string{} // by sum
	for _, d := range g.Grads {
		params[g.AliasRoot(d.Value)] = append(params[g.AliasRoot(d.Value)], g.Nodes[d.Param].Name)
	}
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && !n.Op.Alias {
			for _, id := range n.In {
				delete(params, g.AliasRoot(id))
			}
		}
	}
	for _, o := range g.Outputs {
		delete(params, g.AliasRoot(o.ID))
	}
	for _, a := range g.Assigns {
		delete(params, g.AliasRoot(a.Value))
	}
	if g.Loss >= 0 {
		delete(params, g.AliasRoot(g.Loss))
	}
	var err error
	u.Graph, err = g.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		if n.Kind != graph.KindOp || n.Op != sumRanks || len(params[n.ID]) == 0 {
			return graph.Value{}
		}
		return b.Node(sumRanksDeferred, deferredSumAttrs{n.Attrs.(meshAxes), params[n.ID]}, in[0])
	})
	return err
}

// inFlight is how many sums of gradients may be under way where the memory of gradients is
// used again: one that runs, and one that is ready for it.
const inFlight = 2

// gradientSums adds up gradients over ranks in buckets, in the order in which the
// backward pass fills them, by a task of the rank beside its kernels. Which gradients
// are summed together, and by which algorithm, depends on their sizes and on the number
// of ranks alone: so do the bits.
type gradientSums struct {
	bucketBuilder
	c        *comm.Comm
	blocking bool         // each sum ends before the next kernel runs
	tasks    []*comm.Task // of the present run
	sharded  bool         // ranks keep their own pieces of the sums only, in shards
	shards   *Shards
	firstSum int // operation with which the first sum may start, if shared
	costs    SumCosts
}

func newGradientSums(c *comm.Comm) *gradientSums {
	return &gradientSums{c: c, bucketBuilder: bucketBuilder{size: BucketBytes}}
}

// bucketBuilder puts gradients into buckets, in the order in which the backward pass makes them.
type bucketBuilder struct {
	size    int // of a bucket in bytes, from which on it is full
	buckets []*bucket
	open    map[string]*bucket // by axes of the mesh
}

// bucketFor is the bucket of the next gradient that is summed along axes of the mesh, of so many
// bytes.
func (f *bucketBuilder) bucketFor(axes string, bytes int) *bucket {
	if f.open == nil {
		f.open = map[string]*bucket{}
	}
	b := f.open[axes]
	if b == nil {
		b = &bucket{axes: axes}
		f.open[axes] = b
		f.buckets = append(f.buckets, b)
	}
	if b.bytes += bytes; b.bytes >= f.size {
		delete(f.open, axes)
	}
	return b
}

// bucket is gradients that are summed together.
type bucket struct {
	axes    string // of the mesh
	bytes   int
	group   *comm.Comm // of tasks only
	grads   []bucketGrad
	n       int   // values
	cuts    []int // of the n values into pieces, one for each rank of the group
	pending int   // parts that the present run has not made yet
	// Of devices that add them up themselves: parts that the present run has made, and what waits for the sum.
	computed int
	wait     func() error
}

// bucketGrad is one gradient of a bucket.
type bucketGrad struct {
	params []string
	x      backend.Tensor
	n      int
}

// SumCosts is what the sums of gradients over ranks, and where the optimiser is sharded
// the parameters that it gathers, have cost a rank so far.
type SumCosts struct {
	Runs    int   // of the plan
	Bytes   int64 // of gradients that were summed
	Running time.Duration
	// Exposed is how long the rank waited for them when it had nothing else to do.
	Exposed time.Duration
}

// add puts a gradient into the bucket that is open along its axes of the mesh.
func (s *gradientSums) add(q backend.Request) *bucket {
	a := q.Attrs.(deferredSumAttrs)
	n, unit := len(q.Out.F32), 4
	if q.Out.F64 != nil {
		n, unit = len(q.Out.F64), 8
	}
	b := s.bucketFor(a.meshAxes.String(), n*unit)
	b.grads, b.n = append(b.grads, bucketGrad{a.Params, q.Out, n}), b.n+n
	return b
}

// prepare makes the kernel of a gradient that is summed in a bucket.
func (s *gradientSums) prepare(q backend.Request) (backend.Kernel, error) {
	b := s.add(q)
	return backend.Kernel{Name: "bucket", ResultAtEnd: true, Run: func() error {
		copy(q.Out.F32, q.In[0].F32)
		copy(q.Out.F64, q.In[0].F64)
		if b.pending--; b.pending > 0 {
			return nil
		}
		return s.start(b)
	}}, nil
}

// lifetimes is pass.Unit.Taken for sums whose ranks keep their own pieces: the memory of a
// bucket is free when the sum inFlight behind it starts.
func (s *gradientSums) lifetimes(elemBytes int) func(*graph.Graph, []int) map[int]int {
	return func(g *graph.Graph, sequence []int) map[int]int {
		fill := bucketBuilder{size: s.size}
		parts, last := map[*bucket][]int{}, map[*bucket]int{} // nodes, and the place of the last
		for at, id := range sequence {
			if n := g.Nodes[id]; n.Op == sumRanksDeferred {
				b := fill.bucketFor(n.Attrs.(deferredSumAttrs).meshAxes.String(), n.ArenaElems()*elemBytes)
				parts[b], last[b] = append(parts[b], id), at
			}
		}
		slices.SortFunc(fill.buckets, func(a, b *bucket) int { return cmp.Compare(last[a], last[b]) })
		if s.firstSum = len(sequence); len(fill.buckets) > 0 {
			s.firstSum = last[fill.buckets[0]]
		}
		until := map[int]int{}
		for k, b := range fill.buckets {
			free := len(sequence)
			if k+inFlight < len(fill.buckets) {
				free = last[fill.buckets[k+inFlight]]
			}
			for _, id := range parts[b] {
				until[id] = free
			}
		}
		return until
	}
}

// assignGroups gives the buckets their groups, once all kernels are prepared.
func (s *gradientSums) assignGroups(groups map[string]*comm.Comm) error {
	beside := map[string]*comm.Comm{} // messages of tasks must not mix with those of kernels
	for _, b := range s.buckets {
		if beside[b.axes] == nil {
			var err error
			if beside[b.axes], err = groups[b.axes].Split(0, groups[b.axes].Rank()); err != nil {
				return err
			}
		}
		b.group, b.pending = beside[b.axes], len(b.grads)
		var pieces []int
		for _, p := range b.grads {
			pieces = append(pieces, optim.ChunkSizes(p.n)...)
		}
		b.cuts = partition(pieces, b.group.Size())
	}
	return nil
}

// partition cuts consecutive pieces of these sizes among ranks as evenly as whole pieces
// allow.
func partition(sizes []int, ranks int) []int {
	total := 0
	for _, n := range sizes {
		total += n
	}
	cuts, at, i := make([]int, ranks+1), 0, 0
	for r := 1; r < ranks; r++ {
		want := total * r / ranks
		for i < len(sizes) && at+sizes[i]/2 < want {
			at += sizes[i]
			i++
		}
		cuts[r] = at
	}
	cuts[ranks] = total
	return cuts
}

// start sums a bucket behind those before it.
func (s *gradientSums) start(b *bucket) error {
	var last *comm.Task
	if n := len(s.tasks); n > 0 {
		last = s.tasks[n-1]
	}
	if k := len(s.tasks) - inFlight; s.sharded && k >= 0 { // what follows uses its memory
		begin := time.Now()
		if err := s.tasks[k].Wait(s.c); err != nil {
			return err
		}
		s.costs.Exposed += time.Since(begin)
	}
	t := b.group.Go(last, func(g *comm.Comm) error {
		begin := time.Now()
		defer func() { s.costs.Running += time.Since(begin) }()
		if b.grads[0].x.F64 != nil {
			return sumBucket(s, b, g, func(p bucketGrad) []float64 { return p.x.F64 })
		}
		return sumBucket(s, b, g, func(p bucketGrad) []float32 { return p.x.F32 })
	})
	s.tasks = append(s.tasks, t)
	if s.blocking {
		return t.Wait(s.c)
	}
	return nil
}

// sumBucket gives every rank of the group the sums of a bucket where its gradients are, or
// if ranks share them the shards their pieces.
func sumBucket[T float32 | float64](s *gradientSums, b *bucket, g *comm.Comm, values func(bucketGrad) []T) error {
	var x comm.Parts[T]
	for _, p := range b.grads {
		x = append(x, values(p))
	}
	if err := comm.ReduceScatterParts(g, x, b.cuts, comm.Auto); err != nil {
		return fmt.Errorf("summing gradients: %w", err)
	}
	if !s.sharded || !s.shards.spansAllRanks(b) {
		if err := comm.AllGatherParts(g, x, b.cuts, comm.Auto); err != nil {
			return fmt.Errorf("summing gradients: %w", err)
		}
	}
	if s.sharded {
		for i, p := range b.grads {
			for _, param := range p.params {
				storeGrad(s.shards, param, x[i])
			}
		}
	}
	return nil
}

// finish waits for the sums of a run. If a kernel has failed, err being why, what they
// wait for fails too.
func (s *gradientSums) finish(err error) error {
	begin := time.Now()
	for _, t := range s.tasks {
		if err != nil {
			t.Cancel()
		}
	}
	if n := len(s.tasks); n > 0 { // the last one waits for those before it
		if e := s.tasks[n-1].Wait(s.c); err == nil {
			err = e
		}
	}
	s.tasks = s.tasks[:0]
	for _, b := range s.buckets {
		b.pending = len(b.grads)
		for _, p := range b.grads {
			s.costs.Bytes += int64(4*len(p.x.F32) + 8*len(p.x.F64))
		}
	}
	s.costs.Runs++
	s.costs.Exposed += time.Since(begin)
	return err
}
