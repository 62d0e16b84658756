package search

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Options of a search. The zero value considers uniform plans only.
type Options struct {
	// PerStage also considers plans whose stages have different distributions.
	PerStage bool
	// IsExecutable reports whether the program can execute a mesh; nil accepts all.
	IsExecutable func(spatial.Mesh) bool
}

// Result is the result of a search.
type Result struct {
	// Best is the recommended plan: the best uniform one, or with Options.PerStage
	// the best of all if it saves at least MinSaving of the time.
	Best    Plan
	Uniform Plan // the best uniform plan
	// Meshes holds the uniform plans of all meshes: those that fit into memory
	// first, then by time.
	Meshes []Plan
}

// MinSaving is the minimum share of the best uniform plan's time that another plan
// must save. Smaller savings are within the error of the model.
const MinSaving = 0.01

// ErrMesh means that no mesh has the number of ranks.
var ErrMesh = errors.New("no mesh")

// ErrMemory means that no plan fits into the memory of the ranks.
var ErrMemory = errors.New("no plan fits into memory")

// Search finds the fastest plan for a number of ranks that fits into memory. It
// first evaluates the uniform plan of every mesh, in which all stages are split by
// the names of the mesh axes. With Options.PerStage it then searches each mesh for
// a plan whose stages differ.
//
// Errors: ErrMesh; ErrMemory, with the uniform plan of least memory as Result.Best.
func Search(n Network, ranks int, m Machine, o Options) (Result, error) {
	c := newSplitter(n)
	var r Result
	for _, mesh := range Meshes(n, ranks) {
		r.Meshes = append(r.Meshes, newCostModel(n, &m, mesh, c).planOf(mesh))
	}
	slices.SortStableFunc(r.Meshes, func(a, b Plan) int {
		switch {
		case a.Fits != b.Fits && a.Fits:
			return -1
		case a.Fits != b.Fits:
			return 1
		case !a.Fits:
			return cmp.Compare(a.Memory, b.Memory)
		}
		return cmp.Compare(a.Step, b.Step)
	})
	at := 0
	if o.IsExecutable != nil {
		at = slices.IndexFunc(r.Meshes, func(p Plan) bool { return o.IsExecutable(p.Mesh) })
	}
	if at < 0 || len(r.Meshes) == 0 {
		return r, fmt.Errorf("%d ranks for fields %v: %w", ranks, n.Layers[0].Out, ErrMesh)
	}
	r.Uniform = r.Meshes[at]
	r.Best = r.Uniform
	if o.PerStage {
		r.searchPerStage(n, &m, c, o)
	}
	if !r.Best.Fits {
		return r, fmt.Errorf("the smallest plan needs %d bytes per rank, the limit is %d: %w", r.Best.Memory, m.Memory, ErrMemory)
	}
	return r, nil
}

// searchPerStage searches plans whose stages differ, on all meshes, those with the
// best uniform plans first. Each result lowers the bound for the next mesh. The
// search ends when even a perfectly even split of the computing exceeds the bound.
func (r *Result) searchPerStage(n Network, m *Machine, c *splitter, o Options) {
	bound := cluster.Time(math.MaxInt64 / 4)
	if r.Uniform.Fits {
		bound = cluster.Time(float64(r.Uniform.Step)*(1-MinSaving)) - r.Uniform.Optimiser
	}
	for _, mesh := range r.Meshes {
		if bound < n.evenTime(m, mesh.Mesh.Size()) {
			return
		}
		p, ok := newCostModel(n, m, mesh.Mesh, c).best(bound)
		if ok && !p.IsUniform() && (o.IsExecutable == nil || o.IsExecutable(p.Mesh)) {
			r.Best = p
			bound = p.Step - p.Optimiser - 1
		}
	}
}

// evenTime returns the computing time of a perfectly even split over the ranks, a
// lower bound for every plan.
func (n Network) evenTime(m *Machine, ranks int) (t cluster.Time) {
	for _, l := range n.Layers {
		for _, work := range [][]Work{l.Forward, l.Backward, l.Filter, l.Data} {
			t += m.computeTime(work, 1/float64(ranks), 0)
		}
	}
	return t
}

// minShardRows is the minimum number of latitudes and longitudes per shard. Smaller
// shards consist mostly of halo.
const minShardRows = 4

// Meshes returns the meshes of a number of ranks for which the largest fields have
// a shard for each rank, with at least minShardRows latitudes and longitudes on
// average.
func Meshes(n Network, ranks int) []spatial.Mesh {
	c := newSplitter(n)
	var most []spatial.MeshAxis
	for _, name := range []string{"data", "level", "lat", "lon"} {
		a := spatial.MeshAxis{Name: name}
		a.Size = c.sizes[a.FieldAxis()][0]
		if name == "lat" || name == "lon" {
			a.Size = max(1, a.Size/minShardRows)
		}
		most = append(most, a)
	}
	return spatial.Meshes(ranks, most)
}

// CostOf returns the plan of one mesh, overrides included.
func CostOf(n Network, m Machine, mesh spatial.Mesh) Plan {
	return newCostModel(n, &m, mesh, newSplitter(n)).planOf(mesh)
}

// planOf returns the plan that splits all stages as a mesh states.
func (p *costModel) planOf(mesh spatial.Mesh) Plan {
	to := make([]stageSplit, len(p.cuts.stages))
	for i := range to {
		to[i] = p.cuts.splitFor(mesh, i)
	}
	return p.plan(to)
}
