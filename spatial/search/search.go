package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Plan is a mesh with the predicted cost of its step.
type Plan struct {
	Mesh   spatial.Mesh // with overrides
	Layers []Layer
	Estimate
	Fits bool // whether Memory is within the limit of the machine
}

// IsUniform reports whether every layer is split along the axes that the mesh
// names, where it has enough points.
func (p Plan) IsUniform() bool {
	return !slices.ContainsFunc(p.Mesh, func(a spatial.MeshAxis) bool { return len(a.Overrides) > 0 })
}

// Options of a search. The zero value considers uniform plans only.
type Options struct {
	// PerStage also considers plans whose stages, the fields of one size, have different distributions.
	PerStage bool
}

// Result is the result of a search.
type Result struct {
	// Best is the recommended plan: the best uniform one, or with Options.PerStage
	// the best of all if it saves at least MinSaving of the time.
	Best Plan
	// Meshes holds the uniform plans of all meshes that can be executed: those that fit into memory
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

// searching is a network on a machine for which plans are searched.
type searching struct {
	g *graph.Graph // spatial.WholeStep
	m *Machine
	o Optimiser
}

// newSearching completes the step of a graph with a loss.
func newSearching(g *graph.Graph, m *Machine, o Optimiser) (*searching, error) {
	whole, err := wholeStep(g, 0)
	return &searching{g: whole, m: m, o: o}, err
}

// wholeStep is spatial.WholeStep of a graph with a loss.
func wholeStep(g *graph.Graph, maxFactorSide int) (*graph.Graph, error) {
	if g.Loss < 0 {
		return nil, errors.New("the network has no loss, so there is no training step to plan")
	}
	return spatial.WholeStep(g, maxFactorSide)
}

// closest is the number of uniform plans whose slowest rank is determined exactly. perStage is the number of plans from
// which others with different distributions are derived.
const (
	closest  = 8
	perStage = 3
)

// Search finds the fastest plan of a training step for a number of ranks that fits into memory. It compiles the step of
// a rank for every mesh and prices what that rank computes and sends, first for the uniform plans, in which all
// stages are split by the names of the mesh axes. With Options.PerStage it then changes the distribution of small
// fields as long as that saves time.
//
// Errors: ErrMesh; ErrMemory, with the uniform plan of least memory as Result.Best; a graph without a loss; that of the
// context.
// Cost: some milliseconds for each mesh, on one processor.
func Search(ctx context.Context, g *graph.Graph, ranks int, m Machine, o Optimiser, options Options) (Result, error) {
	var r Result
	s, err := newSearching(g, &m, o)
	if err != nil {
		return r, err
	}
	var refused error
	for _, mesh := range Meshes(g, ranks) {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		p, err := s.plan(mesh, typicalRank(mesh))
		if err != nil {
			refused = err
			continue
		}
		r.Meshes = append(r.Meshes, p)
	}
	if len(r.Meshes) == 0 {
		return r, errors.Join(fmt.Errorf("%d ranks for fields %v: %w", ranks, inputShape(g), ErrMesh), refused)
	}
	slices.SortStableFunc(r.Meshes, byPreference)
	for i := range min(closest, len(r.Meshes)) {
		if err := s.slowest(ctx, &r.Meshes[i]); err != nil {
			return r, err
		}
	}
	slices.SortStableFunc(r.Meshes, byPreference)
	r.Best = r.Meshes[0]
	if options.PerStage {
		if err := s.searchPerStage(ctx, &r); err != nil {
			return r, err
		}
	}
	if !r.Best.Fits {
		return r, fmt.Errorf("the smallest plan needs %d bytes per rank, the limit is %d: %w", r.Best.Memory, m.Memory, ErrMemory)
	}
	return r, nil
}

// searchPerStage derives plans with different distributions from the best ones of two kinds: the uniform plans, and those
// that cut the latitudes or longitudes of every size of field as evenly as possible.
func (s *searching) searchPerStage(ctx context.Context, r *Result) error {
	sizes := stageSizes(s.g)
	start := slices.Clone(r.Meshes)
	for _, p := range r.Meshes {
		for _, even := range [][]string{{"lat"}, {"lon"}, {"lat", "lon"}} {
			if err := ctx.Err(); err != nil {
				return err
			}
			mesh, cut := p.Mesh, 0
			for k, a := range p.Mesh {
				if slices.Contains(even, a.Name) {
					mesh, _ = withOverride(mesh, k, sizes, a.Name)
					cut++
				}
			}
			if cut < len(even) {
				continue
			}
			if q, err := s.plan(mesh, typicalRank(mesh)); err == nil {
				start = append(start, q)
			}
		}
	}
	slices.SortStableFunc(start, byPreference)
	for _, p := range start[:min(perStage, len(start))] {
		if err := s.improve(ctx, p, sizes, &r.Best); err != nil {
			return err
		}
	}
	return nil
}

// byPreference compares plans: those that fit into memory first, by time; the others by memory.
func byPreference(a, b Plan) int {
	switch {
	case a.Fits != b.Fits && a.Fits:
		return -1
	case a.Fits != b.Fits:
		return 1
	case !a.Fits:
		return cmp.Compare(a.Memory, b.Memory)
	}
	return cmp.Compare(a.Step, b.Step)
}

// CostOf returns the plan of one mesh, overrides included.
//
// Errors: a mesh on which the graph cannot be computed.
func CostOf(ctx context.Context, g *graph.Graph, m Machine, o Optimiser, mesh spatial.Mesh) (Plan, error) {
	return CostWithFactors(ctx, g, m, o, mesh, 0)
}

// plan returns the plan of a mesh, priced for one rank.
func (s *searching) plan(mesh spatial.Mesh, rank int) (Plan, error) {
	p := Plan{Mesh: mesh}
	e, step, err := newPricer(s.m, s.o, mesh).price(s.g, rank)
	if err != nil {
		return p, err
	}
	p.Estimate, p.Layers = e, layersOf(step)
	p.Fits = s.m.Memory == 0 || e.Memory <= s.m.Memory
	return p, nil
}

// typicalRank has the second part along every axis but "data", the first of two: a large part, as larger ones come
// first, with halos on both sides where there are more than two.
func typicalRank(m spatial.Mesh) int { return rankAt(m, typicalPart) }

// typicalPart is the coordinate of typicalRank along an axis.
func typicalPart(a spatial.MeshAxis) int {
	if a.Name == spatial.DataAxis || a.Size < 3 {
		return 0
	}
	return 1
}

// rankAt returns the rank with coordinates of its own along each axis.
func rankAt(m spatial.Mesh, of func(a spatial.MeshAxis) int) int {
	rank := 0
	for _, a := range m {
		rank = rank*a.Size + of(a)
	}
	return rank
}

// slowest prices a plan also for the other combinations of the first two parts of each axis, and keeps the estimate of
// the slowest. Larger parts come first, and parts beyond the second differ from it in size only, so the slowest rank is
// among them, except on axes whose ends have wider halos than their middle.
func (s *searching) slowest(ctx context.Context, p *Plan) error {
	var others []int
	for set := range 1 << len(p.Mesh) {
		k := -1
		rank := rankAt(p.Mesh, func(a spatial.MeshAxis) int {
			if k++; set>>k&1 == 1 {
				return min(1, a.Size-1) - typicalPart(a) // the other of the first two
			}
			return typicalPart(a)
		})
		if rank != typicalRank(p.Mesh) && !slices.Contains(others, rank) {
			others = append(others, rank)
		}
	}
	for _, rank := range others {
		if err := ctx.Err(); err != nil {
			return err
		}
		q, err := s.plan(p.Mesh, rank)
		if err != nil {
			return err
		}
		memory := max(p.Memory, q.Memory)
		if q.Step > p.Step {
			p.Estimate = q.Estimate
		}
		p.Memory = memory
		p.Fits = s.m.Memory == 0 || memory <= s.m.Memory
	}
	return nil
}

// minShardRows is the minimum number of latitudes and longitudes per shard. Smaller
// shards consist mostly of halo.
const minShardRows = 4

// Meshes returns the meshes of a number of ranks for which the first input of a graph has
// a part for each rank, with at least minShardRows latitudes and longitudes on
// average.
func Meshes(g *graph.Graph, ranks int) []spatial.Mesh {
	s := inputShape(g)
	if s == nil {
		return nil
	}
	var most []spatial.MeshAxis
	for _, name := range []string{"data", "level", "lat", "lon"} {
		a := spatial.MeshAxis{Name: name}
		a.Size = s[a.FieldAxis()]
		if name == "lat" || name == "lon" {
			a.Size = max(1, a.Size/minShardRows)
		}
		most = append(most, a)
	}
	return spatial.Meshes(ranks, most)
}

// inputShape returns the shape of the first field that enters a graph, which package spatial splits; nil if there is
// none.
func inputShape(g *graph.Graph) graph.Shape {
	for _, n := range g.Nodes {
		if n.Kind == graph.KindInput && len(n.Shape) == fieldAxes {
			return n.Shape
		}
	}
	return nil
}

// improve derives plans with different distributions from one plan. In the fields of some size and all smaller
// ones a mesh axis splits another axis, or none, or its own axis as evenly as that size permits, or no axis of the mesh
// splits anything. It repeats the change that saves most, and puts the result into best if it saves at least MinSaving
// of its time.
func (s *searching) improve(ctx context.Context, p Plan, sizes []size, best *Plan) error {
	for {
		found := p
		for _, mesh := range changesOf(p.Mesh, sizes) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if q, err := s.plan(mesh, typicalRank(mesh)); err == nil && q.Fits && q.Step < cluster.Time(float64(found.Step)*(1-MinSaving)) {
				found = q
			}
		}
		if found.Mesh.String() == p.Mesh.String() {
			break
		}
		p = found
	}
	if p.IsUniform() {
		return nil
	}
	if err := s.slowest(ctx, &p); err != nil {
		return err
	}
	if p.Fits && (!best.Fits || float64(p.Step) < float64(best.Step)*(1-MinSaving)) {
		*best = p
	}
	return nil
}

// changesOf returns the meshes that differ from a mesh by one change. The fields of the first size, that of the input,
// are split by the names of the axes.
func changesOf(m spatial.Mesh, sizes []size) []spatial.Mesh {
	var all []spatial.Mesh
	for from := range sizes {
		whole, possible := m, from > 0 && len(m) > 1
		for k := range m {
			for _, to := range []string{"none", "channel", "data", "level", "lat", "lon"} {
				if from == 0 && to != m[k].Name {
					continue
				}
				if changed, ok := withOverride(m, k, sizes[from:], to); ok {
					all = append(all, changed)
				}
			}
			if changed, ok := withOverride(whole, k, sizes[from:], "none"); ok {
				whole = changed
			}
		}
		if possible {
			all = append(all, whole)
		}
	}
	return all
}

// size holds the levels, latitudes and longitudes of a field. All fields of one size have the same distribution.
type size [3]int

// stageSizes returns the sizes of the fields of a graph, that of the first input first, then in descending order.
func stageSizes(g *graph.Graph) []size {
	first := size(inputShape(g)[levels:])
	all := []size{first}
	for _, n := range g.Nodes[:g.Loss+1] { // the gradients of filters are no fields
		if n.Kind != graph.KindOp || len(n.Shape) != fieldAxes {
			continue
		}
		if s := size(n.Shape[levels:]); s[1] > 1 && s[2] > 1 && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all[1:], func(a, b size) int { return cmp.Compare(b[0]*b[1]*b[2], a[0]*a[1]*a[2]) })
	return all
}

// withOverride returns a mesh whose axis k splits the axis to, or none, in fields of the given sizes. ok is false if
// another axis of the mesh splits that axis there, or if nothing changes.
func withOverride(m spatial.Mesh, k int, sizes []size, to string) (changed spatial.Mesh, ok bool) {
	m = slices.Clone(m)
	a := &m[k]
	a.Overrides = slices.Clone(a.Overrides)
	for _, s := range sizes {
		shape := graph.Shape{1, 1, s[0], s[1], s[2]}
		for i, b := range m {
			if axis, _ := b.SplitAxis(shape); i != k && axis >= 0 && axis == (spatial.MeshAxis{Name: to}).FieldAxis() {
				return nil, false
			}
		}
		o := spatial.Override{Level: s[0], Lat: s[1], Lon: s[2], To: to}
		at := slices.IndexFunc(a.Overrides, func(p spatial.Override) bool { return p.Level == o.Level && p.Lat == o.Lat && p.Lon == o.Lon })
		switch {
		case at < 0:
			a.Overrides, ok = append(a.Overrides, o), true
		case a.Overrides[at].To != to:
			a.Overrides[at], ok = o, true
		}
	}
	return m, ok
}
