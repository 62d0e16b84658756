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
	// Changes also looks for plans in which layers differ in distribution.
	Changes bool
	// Runs tells whether the program can execute a mesh; nil takes all.
	Runs func(spatial.Mesh) bool
}

// Result is what a search found.
type Result struct {
	// Executable is the best uniform plan, Best the best of all: the same without
	// Options.Changes.
	Executable, Best Plan
	// Meshes are the uniform plans of all meshes: those that fit into memory first, then by
	// time.
	Meshes []Plan
}

// ErrMesh is a number of ranks that no mesh has.
var ErrMesh = errors.New("no mesh")

// ErrMemory is a network that no uniform plan fits into the memory of the ranks.
var ErrMemory = errors.New("no plan fits into memory")

// Search looks for the plan of so many ranks that takes least time among those that fit
// into memory.
//
// Errors: ErrMesh; ErrMemory, with the leanest plan as Result.Executable.
func Search(n Network, ranks int, m Machine, o Options) (Result, error) {
	c := newCutter(n)
	var r Result
	prices := map[string]*pricer{}
	for _, mesh := range Meshes(n, ranks) {
		p := newPricer(n, &m, mesh, c)
		prices[mesh.String()] = p
		r.Meshes = append(r.Meshes, p.uniform())
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
	if o.Runs != nil {
		at = slices.IndexFunc(r.Meshes, func(p Plan) bool { return o.Runs(p.Mesh) })
	}
	if at < 0 || len(r.Meshes) == 0 {
		return r, fmt.Errorf("%d ranks for fields %v: %w", ranks, n.Layers[0].Out, ErrMesh)
	}
	r.Executable = r.Meshes[at]
	r.Best = r.Executable
	if o.Changes {
		for _, mesh := range r.Meshes {
			bound := cluster.Time(math.MaxInt64 / 4)
			if r.Best.Fits {
				bound = r.Best.Step - r.Best.Optimiser
			}
			if p, ok := prices[mesh.Mesh.String()].best(bound); ok && (!r.Best.Fits || p.Step < r.Best.Step) {
				r.Best = p
			}
		}
	}
	if !r.Executable.Fits {
		return r, fmt.Errorf("the leanest plan that can be executed holds %d bytes a rank, the limit is %d: %w", r.Executable.Memory, m.Memory, ErrMemory)
	}
	return r, nil
}

// leastPart is the number of latitudes and longitudes below which a part is all rim.
const leastPart = 4

// Meshes lists the meshes of so many ranks along whose axes the largest fields have a part
// for each rank, of leastPart latitudes and longitudes on average.
func Meshes(n Network, ranks int) []spatial.Mesh {
	c := newCutter(n)
	var most []spatial.MeshAxis
	for _, name := range []string{"data", "level", "lat", "lon"} {
		a := spatial.MeshAxis{Name: name}
		a.Size = c.sizes[a.Field()][0]
		if name == "lat" || name == "lon" {
			a.Size = max(1, a.Size/leastPart)
		}
		most = append(most, a)
	}
	return spatial.Meshes(ranks, most)
}

// Price is the uniform plan of one mesh.
func Price(n Network, m Machine, mesh spatial.Mesh) Plan {
	return newPricer(n, &m, mesh, newCutter(n)).uniform()
}
