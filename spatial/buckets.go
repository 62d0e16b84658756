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
	"github.com/ensemble-weather/ensemble/spatial/topk"
)

// The size at which a bucket of gradients is summed over the ranks is a fraction of
// all gradients, so that many sums run during the backward pass, and a sharded
// optimiser has few gradients in memory at a time. Between these limits latency is a
// small part of the time of a message.
//
// Unit: bytes.
// Source: Li et al. 2020, arXiv:2006.15704, section 3.2.3; the largest size is the
// default of PyTorch's DistributedDataParallel.
const (
	bucketsPerStep = 16
	minBucketBytes = 1 << 20
	maxBucketBytes = 25 << 20
)

// bucketBytes returns the size of a bucket for gradients of a number of bytes on a
// number of ranks. A bucket has a chunk of the optimiser for each rank, so that the
// shares of a sharded optimiser are of nearly equal size.
func bucketBytes(gradients, ranks int) int {
	return min(max(gradients/bucketsPerStep, ranks*optim.ChunkBytes, minBucketBytes), maxBucketBytes)
}

// deferredSumAttrs holds the attributes of the deferred sum: the mesh axes to sum
// over, and the parameters whose gradient the sum is.
type deferredSumAttrs struct {
	meshAxes
	Params []string
	Sparse bool // sum only the largest entries over the data axis
}

// sumRanksDeferred is sum_ranks with a result that exists only at the end of a run.
// The kernel copies the gradient to its bucket, and starts the sum if the bucket is
// complete; extension.Finish waits for the sums. No operation may read the result.
//
// Shape: x → y of the same shape.
// Memory: a bucket stays in memory until its sum has ended.
var sumRanksDeferred = &graph.Op{
	Name:   "sum_ranks_deferred",
	Doc:    "The sum over the ranks along mesh axes, complete at the end of the run. Only the gradient store reads it.",
	Source: "Li et al. 2020, arXiv:2006.15704, section 3.2",
	NoGrad: noGrad, Shape: sumRanks.Shape, Window: sumRanks.Window, FLOPs: noFLOPs, Bytes: sumRanks.Bytes, InPlace: sumRanks.InPlace,
	Ordered: true,
}

// deferSums replaces each sum_ranks that is a gradient and has no other reader by
// sumRanksDeferred. Sums that an operation, an output, a state or the loss reads
// stay as they are. sparse reports which sums are sparse.
func deferSums(u *pass.Unit, sparse func(a meshAxes, params []string) bool) error {
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
		a := n.Attrs.(meshAxes)
		return b.Node(sumRanksDeferred, deferredSumAttrs{a, params[n.ID], sparse(a, params[n.ID])}, in[0])
	})
	return err
}

// liveBuckets is the number of buckets whose gradients are in memory at a time when a
// sharded optimiser reuses it: one that is filled, one whose sum runs, and one that is
// ready to start. A larger bucket, which a large filter fills alone, has as much.
const liveBuckets = 3

// gradientSums sums gradients over ranks in buckets, in the order in which the
// backward pass fills them. The sums run in a comm.Task, concurrently with the
// kernels of the rank.
//
// The sizes of the gradients and the number of ranks alone decide the buckets and
// the algorithm. The bits of the sums therefore do not depend on timing.
type gradientSums struct {
	bucketBuilder
	c        *comm.Comm
	blocking bool         // wait for each sum before the next kernel runs
	tasks    []*comm.Task // of the current run
	sharded  bool         // each rank keeps only the sums of its own pieces, in shards
	shards   *Shards
	// ended is the number of tasks whose memory the kernels after the start of a task
	// reuse, by task. It is empty if gradients are not sharded.
	ended []int
	costs SumCosts
	norms bucketNorms
	// compression of the sums over the data axis; nil: all sums are dense
	compression *Compression
	common      []float32 // weights that ShiftWeights restores
}

// newGradientSums returns sums over the group c.
func newGradientSums(c *comm.Comm) *gradientSums { return &gradientSums{c: c} }

// bucketBuilder assigns gradients to buckets in the order in which the backward
// pass computes them.
type bucketBuilder struct {
	size    int // bytes at which a bucket is full; 0 in a compilation: bucketBytes
	buckets []*bucket
	open    map[bucketKind]*bucket // buckets that are not full
}

// bucketKind is what the gradients of a bucket have in common.
type bucketKind struct {
	axes   string // mesh axes to sum over
	sparse bool
}

// kind returns the kind of the bucket of a sum.
func (a deferredSumAttrs) kind() bucketKind { return bucketKind{a.meshAxes.String(), a.Sparse} }

// bucketFor returns the bucket of the next gradient: the open one of its kind, or a new
// one. The bucket is closed when it reaches the size of a full one.
func (f *bucketBuilder) bucketFor(kind bucketKind, bytes int) *bucket {
	if f.open == nil {
		f.open = map[bucketKind]*bucket{}
	}
	b := f.open[kind]
	if b == nil {
		b = &bucket{bucketKind: kind}
		f.open[kind] = b
		f.buckets = append(f.buckets, b)
	}
	if b.bytes += bytes; b.bytes >= f.size {
		delete(f.open, kind)
	}
	return b
}

// bucket is a set of gradients that are summed in one collective.
type bucket struct {
	bucketKind
	bytes   int
	group   *comm.Comm // used by tasks only; of a sparse bucket the ranks along all axes but data
	grads   []bucketGrad
	n       int   // number of values
	cuts    []int // boundaries of the piece that each rank of the group sums
	pending int   // gradients that the current run has not computed yet
	// Sparse buckets only: the sum over the group of the data axis.
	dataGroup *comm.Comm
	reducer   *topk.Reducer
	// Sums on devices only: gradients computed in the current run, and the function
	// that waits for the sum.
	computed int
	wait     func() error
}

// bucketGrad is one gradient of a bucket.
type bucketGrad struct {
	params []string
	x      backend.Tensor
	n      int
}

// SumCosts accumulates the communication costs of a rank: gradient sums over ranks
// and, with a sharded optimiser, the all-gather of parameters.
type SumCosts struct {
	Runs    int           // runs of the plan
	Bytes   int64         // bytes of the summed gradients
	Sent    int64         // bytes sent to sum gradients
	Dense   int64         // bytes sent if no sum were sparse
	Running time.Duration // time during which sums were in progress
	// Exposed is the time that the rank waited for communication without other work
	// to do.
	Exposed time.Duration
}

// add puts a gradient into the open bucket of its mesh axes.
func (s *gradientSums) add(q backend.Request) *bucket {
	a := q.Attrs.(deferredSumAttrs)
	n, unit := len(q.Out.F32), 4
	if q.Out.F64 != nil {
		n, unit = len(q.Out.F64), 8
	}
	b := s.bucketFor(a.kind(), n*unit)
	b.grads, b.n = append(b.grads, bucketGrad{a.Params, q.Out, n}), b.n+n
	return b
}

// prepare returns the kernel that copies a gradient to its bucket. The kernel of
// the last gradient of a bucket starts the sum.
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

// keptSize returns the number of elements that a rank needs for the sums that newShards
// assigns to it, if the parameters have the order of the graph: its pieces of the buckets
// that all ranks sum, and its pieces of the other gradients.
func keptSize(g *graph.Graph, sequence []int, size, elemBytes int, m Mesh, rank int) int {
	fill := bucketBuilder{size: size}
	type chunk struct{ elements, params int } // a gradient may be that of several parameters
	chunks := map[*bucket][]chunk{}
	chunksOf := func(n *graph.Node, params int) (all []chunk) {
		for _, elements := range optim.ChunkSizes(n.Shape.Size()) {
			all = append(all, chunk{elements, params})
		}
		return all
	}
	summed := map[string]bool{} // parameters with chunks in a bucket
	for _, id := range sequence {
		if n := g.Nodes[id]; n.Op == sumRanksDeferred {
			a := n.Attrs.(deferredSumAttrs)
			if b := fill.bucketFor(a.kind(), n.ArenaElems()*elemBytes); m.sizeOver(a.Mesh) == m.Size() {
				chunks[b] = append(chunks[b], chunksOf(n, len(a.Params))...)
				for _, param := range a.Params {
					summed[param] = true
				}
			}
		}
	}
	var rest []chunk
	for _, n := range g.Nodes {
		if n.Kind == graph.KindParam && !summed[n.Name] {
			rest = append(rest, chunksOf(n, 1)...)
		}
	}
	k, kept := comm.Auto.Piece(rank, m.Size()), 0
	add := func(chunks []chunk) {
		sizes := make([]int, len(chunks))
		for i, c := range chunks {
			sizes[i] = c.elements
		}
		cuts, at := partition(sizes, m.Size()), 0
		for _, c := range chunks {
			if cuts[k] <= at && at < cuts[k+1] {
				kept += c.params * optim.AlignedSize(c.elements)
			}
			at += c.elements
		}
	}
	for _, all := range chunks {
		add(all)
	}
	add(rest)
	return kept
}

// setSize sets the size of buckets for the deferred sums of a graph.
func (f *bucketBuilder) setSize(g *graph.Graph, elemBytes, ranks int) {
	if f.size > 0 {
		return
	}
	bytes := 0
	for _, n := range g.Nodes {
		if n.Op == sumRanksDeferred {
			bytes += n.Shape.Size() * elemBytes
		}
	}
	f.size = bucketBytes(bytes, ranks)
}

// deferIn defers the sums of gradients of a rank. keep plans the memory of its pieces in
// the arena, which must be memory of the host.
func (s *gradientSums) deferIn(u *pass.Unit, m Mesh, rank int, keep bool) error {
	if err := deferSums(u, s.compression.selector(u.Graph)); err != nil {
		return err
	}
	s.setSize(u.Graph, u.ElemBytes, m.Size())
	if !s.sharded {
		return nil
	}
	bytes := u.ElemBytes
	u.ExternalGrads = func(g *graph.Graph, sequence []int) (memory pass.GradMemory) {
		memory, s.ended = planGradients(g, sequence, s.size, bytes)
		if keep && bytes == 4 { // not the float64 of the reference
			memory.KeptSize = keptSize(g, sequence, s.size, bytes, m, rank)
		}
		return memory
	}
	return nil
}

// planGradients plans the memory of gradients whose sums over ranks are kept in parts
// only. After the start of sum k it is reused by that of the first ended[k] sums: as
// many as leave room for the next bucket in the memory of liveBuckets.
func planGradients(g *graph.Graph, sequence []int, size, elemBytes int) (memory pass.GradMemory, ended []int) {
	fill := bucketBuilder{size: size}
	parts, last := map[*bucket][]int{}, map[*bucket]int{} // nodes, and the position of the last one
	for at, id := range sequence {
		if n := g.Nodes[id]; n.Op == sumRanksDeferred {
			b := fill.bucketFor(n.Attrs.(deferredSumAttrs).kind(), n.ArenaElems()*elemBytes)
			parts[b], last[b] = append(parts[b], id), at
		}
	}
	all := fill.buckets
	slices.SortFunc(all, func(a, b *bucket) int { return cmp.Compare(last[a], last[b]) })
	memory = pass.GradMemory{FreeAfter: map[int]int{}, KeptFrom: len(sequence)}
	if len(all) > 0 {
		memory.KeptFrom = last[all[0]]
	}
	most := liveBuckets * size
	for _, b := range all {
		most = max(most, b.bytes)
	}
	live, free := 0, 0
	for k, b := range all {
		if live += b.bytes; k+1 == len(all) {
			break
		}
		for ; free <= k && live+all[k+1].bytes > most; free++ {
			live -= all[free].bytes
			for _, id := range parts[all[free]] {
				memory.FreeAfter[id] = last[b]
			}
		}
		ended = append(ended, free)
	}
	for _, b := range all[free:] {
		for _, id := range parts[b] {
			memory.FreeAfter[id] = len(sequence)
		}
	}
	return memory, append(ended, free)
}

// assignGroups creates the process groups of the buckets. It is called after all
// kernels are prepared, by all ranks.
func (s *gradientSums) assignGroups(groups map[string]*comm.Comm) error {
	taskGroups := map[string]*comm.Comm{} // tasks need groups of their own: their messages must not match those of kernels
	groupOf := func(axes string) (*comm.Comm, error) {
		if taskGroups[axes] == nil {
			var err error
			if taskGroups[axes], err = groups[axes].Split(0, groups[axes].Rank()); err != nil {
				return nil, err
			}
		}
		return taskGroups[axes], nil
	}
	for _, b := range s.buckets {
		b.pending = len(b.grads)
		if b.sparse {
			if err := s.compression.prepare(b, groupOf); err != nil {
				return err
			}
			if b.group == nil { // the data axis only
				continue
			}
		} else {
			var err error
			if b.group, err = groupOf(b.axes); err != nil {
				return err
			}
		}
		var pieces []int
		for _, p := range b.grads {
			pieces = append(pieces, optim.ChunkSizes(p.n)...)
		}
		b.cuts = partition(pieces, b.group.Size())
	}
	return nil
}

// partition splits consecutive pieces among ranks into contiguous parts of nearly
// equal size without splitting a piece. It returns the ranks+1 boundaries.
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

// start starts the sum of a bucket after the sums started before it.
func (s *gradientSums) start(b *bucket) error {
	var last *comm.Task
	if n := len(s.tasks); n > 0 {
		last = s.tasks[n-1]
	}
	group := b.group
	if group == nil {
		group = b.dataGroup
	}
	began := time.Now()
	t := group.Go(last, func(g *comm.Comm) error {
		begin, before := time.Now(), b.traffic()
		defer func() {
			s.costs.Running += time.Since(begin)
			s.costs.Sent += b.traffic() - before
		}()
		if b.sparse {
			return s.sumSparse(b, g)
		}
		if b.grads[0].x.F64 != nil {
			return sumBucket(s, b, g, func(p bucketGrad) []float64 { return p.x.F64 })
		}
		s.norms.current.Rank += b.squares()
		err := sumBucket(s, b, g, func(p bucketGrad) []float32 { return p.x.F32 })
		s.norms.current.Sum += b.squares()
		return err
	})
	s.costs.Exposed += time.Since(began) // without a concurrent transport the sum has ended
	s.tasks = append(s.tasks, t)
	if s.blocking {
		return t.Wait(s.c)
	}
	if k := len(s.tasks) - 1; k < len(s.ended) && s.ended[k] > 0 { // tasks run in order, so this one ends last
		begin := time.Now()
		if err := s.tasks[s.ended[k]-1].Wait(s.c); err != nil {
			return err
		}
		s.costs.Exposed += time.Since(begin)
	}
	return nil
}

// sumBucket sums a bucket over the ranks of a group in place: a reduce-scatter
// followed by an all-gather. With a sharded optimiser the all-gather is omitted
// where every rank of the job takes part, because each rank reads only the sums of
// its own pieces. If only some mesh axes sum (a parameter that is a field), other
// ranks hold other values, and the all-gather remains.
//
// Cost: 2(P−1)/P·n values sent per rank, (P−1)/P·n if sharded.
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

// finish waits for the sums of a run and returns the first error. A non-nil err is
// the error of a failed kernel; the tasks are then cancelled.
func (s *gradientSums) finish(err error) error {
	begin := time.Now()
	for _, t := range s.tasks {
		if err != nil {
			t.Cancel()
		}
	}
	if n := len(s.tasks); n > 0 { // tasks run in order, so the last one ends last
		if e := s.tasks[n-1].Wait(s.c); err == nil {
			err = e
		}
	}
	s.tasks = s.tasks[:0]
	s.norms.end()
	for _, b := range s.buckets {
		b.pending = len(b.grads)
		var bytes int64
		for _, p := range b.grads {
			bytes += int64(4*len(p.x.F32) + 8*len(p.x.F64))
		}
		s.costs.Bytes += bytes
		s.costs.Dense += b.denseBytes(bytes)
	}
	s.costs.Runs++
	s.costs.Exposed += time.Since(begin)
	return err
}
