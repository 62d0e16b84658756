package spatial

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/topk"
)

// minSparse is the least number of values of a parameter whose gradient is summed
// sparsely. Smaller ones are a small part of all bytes, and among them are parameters of
// few, important values.
const minSparse = 4096

// Compression sums gradients sparsely over the data axis of a mesh: first densely over
// all other axes, then the largest entries of each bucket by package topk.
//
// Dense remain the gradients of biases, of norms and of other parameters that are no
// weights; of the first and the last weight, which are those of the input and of the
// output; of parameters of less than 4096 values; and those that are not summed over the
// data axis.
//
// Source: Li and Hoefler 2022, arXiv:2201.07598; Lin et al. 2018, arXiv:1712.01887.
type Compression struct{ topk.Options }

// CompileCompressed is Compile for a training whose gradients are summed sparsely.
//
// Errors: also of a mesh without a data axis of at least two ranks, of a device with its
// own memory, and of options that topk.New refuses.
func CompileCompressed(g *graph.Graph, c *comm.Comm, m Mesh, k Compression, o engine.Options) (*Plan, error) {
	if !m.HasDataRanks() {
		return nil, fmt.Errorf("sparse sums on the mesh %q: it has no data axis of at least 2 ranks", fmt.Sprint(m))
	}
	if o.Backend != "" && o.Backend != "cpu" {
		return nil, fmt.Errorf("sparse sums of gradients on the backend %q: only cpu has them", o.Backend)
	}
	return compile(g, c, m, o, func(p *Plan) { p.sums.compression = &k })
}

// HasDataRanks reports whether the mesh has a data axis of several ranks.
func (m Mesh) HasDataRanks() bool { return m.DataRanks() > 1 }

// DataRanks returns the number of ranks along the data axis; 1 without one.
func (m Mesh) DataRanks() int { return m.sizeOver([]string{DataAxis}) }

// Fields returns the mesh without its axis data: that of the ranks with the same samples, which divide their fields.
func (m Mesh) Fields() Mesh {
	return slices.DeleteFunc(slices.Clone(m), func(a MeshAxis) bool { return a.Name == DataAxis })
}

// selector returns a function that reports whether the gradient of parameters is summed
// sparsely. A nil Compression has none that is.
func (k *Compression) selector(g *graph.Graph) func(a meshAxes, params []string) bool {
	if k == nil {
		return func(meshAxes, []string) bool { return false }
	}
	large := map[string]bool{}
	var first, last string
	for _, n := range g.Nodes {
		if n.Kind != graph.KindParam || n.Role != graph.Weight {
			continue
		}
		if first == "" {
			first = n.Name
		}
		last = n.Name
		large[n.Name] = n.Shape.Size() >= minSparse
	}
	return func(a meshAxes, params []string) bool {
		return slices.Contains(a.Mesh, DataAxis) && !slices.ContainsFunc(params, func(p string) bool { return !large[p] || p == first || p == last })
	}
}

// prepare sets the groups and the reducer of a sparse bucket. groupOf returns the group
// of tasks along mesh axes.
func (k *Compression) prepare(b *bucket, groupOf func(axes string) (*comm.Comm, error)) error {
	if b.grads[0].x.F32 == nil {
		return errors.New("sparse sums of gradients: want gradients in float32")
	}
	var err error
	if others := strings.Join(slices.DeleteFunc(strings.Fields(b.axes), func(a string) bool { return a == DataAxis }), " "); others != "" {
		if b.group, err = groupOf(others); err != nil {
			return err
		}
	}
	if b.dataGroup, err = groupOf(DataAxis); err != nil {
		return err
	}
	b.reducer, err = topk.New(b.n, k.Options)
	return err
}

// sumSparse sums a sparse bucket, in place; g is a group of the bucket in the calling task.
func (s *gradientSums) sumSparse(b *bucket, g *comm.Comm) error {
	if b.group != nil {
		if err := sumBucket(s, b, b.group.In(g), func(p bucketGrad) []float32 { return p.x.F32 }); err != nil {
			return err
		}
	}
	var x comm.Parts[float32]
	for _, p := range b.grads {
		x = append(x, p.x.F32)
	}
	_, err := b.reducer.Sum(b.dataGroup.In(g), x)
	if bad := (*topk.NotFiniteError)(nil); errors.As(err, &bad) {
		at := bad.Index
		for _, p := range b.grads {
			if at < p.n {
				return fmt.Errorf("summing gradients: value %d of the gradient of %s: %w", at, strings.Join(p.params, ", "), err)
			}
			at -= p.n
		}
	}
	if err != nil {
		return fmt.Errorf("summing gradients: %w", err)
	}
	return nil
}

// traffic returns the bytes sent so far in the groups of a bucket.
func (b *bucket) traffic() (bytes int64) {
	for _, g := range []*comm.Comm{b.group, b.dataGroup} {
		if g != nil {
			bytes += g.GroupTraffic().Bytes
		}
	}
	return bytes
}

// denseBytes returns the bytes that a rank sends to sum gradients of a number of bytes
// over all ranks of a bucket densely.
func (b *bucket) denseBytes(bytes int64) int64 {
	p := int64(1)
	for _, g := range []*comm.Comm{b.group, b.dataGroup} {
		if g != nil {
			p *= int64(g.Size())
		}
	}
	return 2 * bytes * (p - 1) / p
}

// SetDensity changes the density of all sparse sums from the next run on. All ranks call
// it in step. Plans without sparse sums ignore it.
//
// Errors: a density outside (0, 1].
func (p *Plan) SetDensity(d float64) error {
	for _, r := range p.sums.reducers() {
		if err := r.SetDensity(d); err != nil {
			return err
		}
	}
	return nil
}

// SetRate sets the learning rate of updates that are summed instead of gradients, from the next
// run on. All ranks call it in step. Plans without sparse sums ignore it.
func (p *Plan) SetRate(rate float64) {
	for _, r := range p.sums.reducers() {
		r.SetRate(rate)
	}
}

// SummedUpdates returns the parameters whose updates are summed instead of gradients.
func (p *Plan) SummedUpdates() (params []string) {
	if p.sums.compression == nil || !p.sums.compression.Updates {
		return nil
	}
	for _, b := range p.sums.buckets {
		for _, g := range b.grads {
			if b.sparse {
				params = append(params, g.params...)
			}
		}
	}
	return params
}

// ShiftWeights subtracts from the weights whose updates are summed what the residuals of this rank hold, and returns a function that
// restores the weights, bit for bit. The rank calls it before a run of a training step and restores them after it. So its gradients are those
// of weights that its own updates have moved, also those that wait, although the ranks' common weights have not moved yet. Without it
// each step would add to a movement that it does not see, and the sum would move too far when it is sent.
//
// The residual is the rank's share of the mean over ranks. Weights of 0 remain, since masks of pruning hold them there. Plans that sum
// gradients are not changed.
//
// Memory: a copy of these weights, kept for the next call.
// Source: Xie et al. 2020, arXiv:2007.13221 (CSER: residuals applied to models of the ranks), who apply all of the rank's update instead of
// its share of the mean.
func (p *Plan) ShiftWeights(s *engine.Store) (restore func()) {
	if p.sums.compression == nil || !p.sums.compression.Updates {
		return func() {}
	}
	common := p.sums.common[:0]
	for _, b := range p.sums.buckets {
		b.eachSparse(s, func(w, residual []float32) {
			common = append(common, w...)
			for i, e := range residual {
				if w[i] != 0 {
					w[i] -= e
				}
			}
		})
	}
	p.sums.common = common
	return func() {
		for _, b := range p.sums.buckets {
			b.eachSparse(s, func(w, _ []float32) { common = common[copy(w, common):] })
		}
	}
}

// eachSparse calls f for the weights of a sparse bucket, with their residuals. Several parameters may have one gradient, and residual.
func (b *bucket) eachSparse(s *engine.Store, f func(w, residual []float32)) {
	if b.reducer == nil {
		return
	}
	residual := b.reducer.State().Residual
	for _, g := range b.grads {
		for _, name := range g.params {
			w, _, _ := s.Get(name)
			f(w, residual[:g.n])
		}
		residual = residual[g.n:]
	}
}

// reducers returns those of the sparse buckets, in their order, which is the same on all
// ranks.
func (s *gradientSums) reducers() (all []*topk.Reducer) {
	for _, b := range s.buckets {
		if b.reducer != nil {
			all = append(all, b.reducer)
		}
	}
	return all
}

// sparseGroup returns a group of the ranks along the data axis.
func (s *gradientSums) sparseGroup() *comm.Comm {
	i := slices.IndexFunc(s.buckets, func(b *bucket) bool { return b.reducer != nil })
	return s.buckets[i].dataGroup
}

// residualTag is the message tag of GatherResiduals.
const residualTag = 0

// SparseStates are the states of the sparse sums of a plan: of each bucket those of all
// data ranks.
type SparseStates [][]topk.State

// GatherResiduals gathers the states of sparse sums on rank 0; other ranks get nil. All
// ranks call it between runs. Ranks that differ in other axes than data have equal states.
//
// Memory: a residual, with momentum a velocity, and with updates two moments, of each data
// rank on rank 0.
func (p *Plan) GatherResiduals() (SparseStates, error) {
	for _, a := range p.mesh {
		if a.Name != DataAxis && p.mesh.Coordinate(p.rank, a.Name) != 0 {
			return nil, nil
		}
	}
	var all SparseStates
	for _, b := range p.sums.buckets {
		if b.reducer == nil {
			continue
		}
		own := b.reducer.State()
		if p.rank != 0 {
			values := slices.Concat([]float32{own.Local}, own.Residual, own.Velocity, own.Squares)
			if err := b.dataGroup.Send(0, residualTag, values).Wait(); err != nil {
				return nil, fmt.Errorf("gathering residuals: %w", err)
			}
			continue
		}
		states := []topk.State{own}
		for r := 1; r < b.dataGroup.Size(); r++ {
			values := make([]float32, 1+len(own.Residual)+len(own.Velocity)+len(own.Squares))
			if err := b.dataGroup.Recv(r, residualTag, values).Wait(); err != nil {
				return nil, fmt.Errorf("gathering residuals: %w", err)
			}
			other := own
			other.Local, values = values[0], values[1:]
			for _, x := range []*[]float32{&other.Residual, &other.Velocity, &other.Squares} {
				*x, values = values[:len(*x)], values[len(*x):]
			}
			states = append(states, other)
		}
		all = append(all, states)
	}
	if len(p.sums.reducers()) == 0 {
		return all, nil
	}
	// No rank goes on, and perhaps leaves the job, before rank 0 has all.
	return all, comm.Barrier(p.sums.sparseGroup())
}

// ErrOtherSums is the error of states that belong to other sparse sums.
var ErrOtherSums = errors.New("the residuals are those of another mesh or network")

// SetResiduals continues from the states of GatherResiduals, which every rank has.
//
// Errors: ErrOtherSums for another number of data ranks, or of other buckets.
func (p *Plan) SetResiduals(all SparseStates) error {
	ranks := p.mesh.sizeOver([]string{DataAxis})
	own := make([]topk.State, len(all))
	for i, states := range all {
		if len(states) != ranks {
			return fmt.Errorf("%w: %d data ranks, want %d", ErrOtherSums, len(states), ranks)
		}
		own[i] = states[p.mesh.Coordinate(p.rank, DataAxis)]
	}
	return p.sums.setStates(own)
}

// ContinueSums continues the sparse sums of another plan of the same network and mesh, which may be closed.
//
// Errors: ErrOtherSums for another network.
func (p *Plan) ContinueSums(former *Plan) error {
	var states []topk.State
	for _, r := range former.sums.reducers() {
		states = append(states, r.State())
	}
	return p.sums.setStates(states)
}

// setStates sets the states of all sparse sums.
func (s *gradientSums) setStates(states []topk.State) error {
	reducers := s.reducers()
	if len(states) != len(reducers) {
		return fmt.Errorf("%w: %d buckets, want %d", ErrOtherSums, len(states), len(reducers))
	}
	for i, r := range reducers {
		if err := r.SetState(states[i]); err != nil {
			return fmt.Errorf("%w: %w", ErrOtherSums, err)
		}
	}
	return nil
}
