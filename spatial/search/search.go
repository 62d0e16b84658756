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

// Options of a search. The zero value looks at uniform plans only.
type Options struct {
	// PerStage also looks for plans in which stages differ in distribution.
	PerStage bool
	// IsExecutable tells whether the program can execute a mesh; nil takes all.
	IsExecutable func(spatial.Mesh) bool
}

// Result is what a search found.
type Result struct {
	// Best is the plan to take: the best uniform one, or the best of all with
	// Options.PerStage, if that takes MinSaving less time.
	Best Plan
	// Uniform is the best uniform plan.
	Uniform Plan
	// Meshes are the uniform plans of all meshes: those that fit into memory first, then by
	// time.
	Meshes []Plan
}

// MinSaving is the share of the time of the best uniform plan that another one must save: less
// is within what the model leaves out.
const MinSaving = 0.01

// ErrMesh is a number of ranks that no mesh has.
var ErrMesh = errors.New("no mesh")

// ErrMemory is a network that no plan fits into the memory of the ranks.
var ErrMemory = errors.New("no plan fits into memory")

// Search looks for the plan of so many ranks that takes least time among those that fit
// into memory.
//
// Errors: ErrMesh; ErrMemory, with the leanest uniform plan as Result.Best.
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
		return r, fmt.Errorf("the leanest plan holds %d bytes a rank, the limit is %d: %w", r.Best.Memory, m.Memory, ErrMemory)
	}
	return r, nil
}

// searchPerStage looks for plans in which stages differ, on all meshes, the best uniform ones first.
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

// evenTime is the time of computing if so many ranks shared it evenly: none can do with less.
func (n Network) evenTime(m *Machine, ranks int) (t cluster.Time) {
	for _, l := range n.Layers {
		for _, work := range [][]Work{l.Forward, l.Backward, l.Filter, l.Data} {
			t += m.computeTime(work, 1/float64(ranks), 0)
		}
	}
	return t
}

// minShardRows is the number of latitudes and longitudes below which a part is all rim.
const minShardRows = 4

// Meshes lists the meshes of so many ranks along whose axes the largest fields have a part
// for each rank, of minShardRows latitudes and longitudes on average.
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

// CostOf is the plan of one mesh, with its changes.
func CostOf(n Network, m Machine, mesh spatial.Mesh) Plan {
	return newCostModel(n, &m, mesh, newSplitter(n)).planOf(mesh)
}

// planOf is the plan that cuts all stages as a mesh says.
func (p *costModel) planOf(mesh spatial.Mesh) Plan {
	to := make([]stageSplit, len(p.cuts.stages))
	for i := range to {
		to[i] = p.cuts.splitFor(mesh, i)
	}
	return p.plan(to)
}
