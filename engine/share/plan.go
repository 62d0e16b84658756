package share

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// How layers are grouped; the layers of a group have one store.
const (
	Auto     = "auto"    // the first of the others that the budget allows (Plan.Grouping)
	ByShape  = "shape"   // layers whose filters have the same shape; a layer without another one of its shape keeps its filter
	ByKernel = "kernel"  // as ByShape, and the layers that have a shape of their own by the extent of their filters [kD kH kW]
	OneGroup = "one"     // all layers in one group
	Learned  = "learned" // the groups of Options.Learned, which a training with Softmax found
)

// Groupings are the ways to group layers, the default first.
var Groupings = []string{Auto, ByShape, ByKernel, OneGroup, Learned}

// autoGroupings are those that Auto chooses from.
var autoGroupings = []string{ByShape, ByKernel, OneGroup}

// How the coefficients a_k of a layer are obtained.
const (
	// Average gives all templates of a layer the weight 1/K. There are no trained coefficients.
	Average = "average"
	// Free trains the coefficients of each layer independently.
	Free = "free"
	// Embedding trains a vector for each layer and a linear map for each group, a = M·e.
	Embedding = "embedding"
)

// embeddingSize is the length of a layer's vector e, as in the code of the paper.
const embeddingSize = 24

// Options select how parameters are shared. The zero value of a string or number is its default.
type Options struct {
	Budget       float64 `json:"budget"`       // parameters of all filters as a fraction of those of the network without sharing; above 1 for more
	Groups       string  `json:"groups"`       // empty means Auto
	Coefficients string  `json:"coefficients"` // empty means Free
	Templates    int     `json:"templates"`    // maximum per layer, number with Softmax; 0 means 2, as in the code of the paper
	// Learned lists the groups of the grouping Learned, by names of filters without the suffix ".weight"; * matches any text.
	Learned [][]string `json:"learned,omitempty"`
	// GroupCount is the largest number of groups that LearnGroups finds; 0 means 3.
	GroupCount int `json:"group_count,omitempty"`
}

// withDefaults sets defaults.
func (o Options) withDefaults() Options {
	o.Groups, o.Coefficients = cmp.Or(o.Groups, Auto), cmp.Or(o.Coefficients, Free)
	o.Templates, o.GroupCount = cmp.Or(o.Templates, 2), cmp.Or(o.GroupCount, 3)
	return o
}

// ErrInfeasible marks a budget that is smaller than the number of parameters of layers that share
// nothing.
var ErrInfeasible = errors.New("infeasible budget")

// BudgetError is an ErrInfeasible with the least budget of the grouping.
type BudgetError struct {
	Least float64 // as Options.Budget
	err   error
}

// Error describes the numbers of parameters.
func (e *BudgetError) Error() string { return e.err.Error() }

// Unwrap returns ErrInfeasible with the numbers.
func (e *BudgetError) Unwrap() error { return e.err }

// Layer is a convolution whose filter is shared or could be.
type Layer struct {
	Name      string      `json:"filter"` // name of the filter's parameter
	Shape     graph.Shape `json:"shape"`
	Store     string      `json:"store,omitempty"`     // name of the store; empty if the layer keeps its filter
	Templates int         `json:"templates,omitempty"` // number of templates
	Upsampled bool        `json:"upsampled,omitempty"` // templates are upsampled, as the store is smaller than the filter

	init      graph.Init   // initialisation of the filter without sharing
	templates op.Templates // position and shape of the templates in the store
	scale     float64      // initial coefficient that gives the filter the variance of its own initialisation
}

// Plan assigns layers to stores, and templates to sections of the stores.
type Plan struct {
	Layers []Layer `json:"layers"`
	Groups []Group `json:"groups,omitempty"`
	// Grouping is the grouping in use, which Auto has chosen.
	Grouping string `json:"grouping"`
	// Filters is the number of weights of all filters. Unshared of them are parameters of layers that
	// share nothing. Stored is the total size of the stores, Coefficients the number of trained
	// values that the combinations need.
	Filters      int `json:"filters"`
	Unshared     int `json:"unshared"`
	Stored       int `json:"stored"`
	Coefficients int `json:"coefficients"`
	// Learned lists the groups that a training with Softmax found, as Options.Learned.
	Learned [][]string `json:"learned,omitempty"`

	o Options
}

// Group is a store and the layers that build their filters from it.
type Group struct {
	Name   string `json:"store"` // name of the store's parameter
	Size   int    `json:"size"`  // number of values
	layers []int  // indices in Plan.Layers
	init   graph.Init
}

// Find lists the filters of a network that can be shared: parameters with random initialisation
// that only convolutions read, also in another shape: filters of fields without levels have four
// axes. The last layer of a network often starts at 0 and keeps its filter,
// as do biases, norms and maps.
func Find(g *graph.Graph) (all []Layer) {
	other := make([]bool, len(g.Nodes)) // used other than as a filter
	filter := make([]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && n.Op.Alias {
			continue // its readers count
		}
		for i, id := range n.In {
			if f := n.Op.Filter; f != nil && !f.Transposed() && i == f.Operand {
				filter[g.AliasRoot(id)] = true
			} else {
				other[g.AliasRoot(id)] = true
			}
		}
	}
	for _, id := range g.Roots() {
		other[g.AliasRoot(id)] = true
	}
	for i, n := range g.Nodes {
		if n.Kind == graph.KindParam && filter[i] && !other[i] && n.Init.Std() > 0 {
			all = append(all, Layer{Name: n.Name, Shape: n.Shape, init: n.Init})
		}
	}
	return all
}

// New plans the sharing of the filters of a network. The plan depends on the shapes in the graph
// and on o alone.
//
// Auto takes the first grouping whose stores get at least half of the budget's share of their
// layers: a finer grouping keeps layers apart that have nothing in common, but leaves a small
// budget to filters that share nothing. One group is always possible.
//
// Errors: BudgetError with the numbers of parameters; a network without filters that can be
// shared, or without two layers of the same shape.
func New(g *graph.Graph, o Options) (*Plan, error) {
	o = o.withDefaults()
	p := &Plan{Layers: Find(g), o: o}
	if len(p.Layers) == 0 {
		return nil, errors.New("no convolution of the network has a randomly initialised filter")
	}
	for _, l := range p.Layers {
		p.Filters += l.Shape.Size()
	}
	choices := []string{o.Groups}
	if o.Groups == Auto {
		choices = autoGroupings
	}
	var err error
	for _, c := range choices {
		if err = p.group(c); err != nil {
			continue
		}
		if share := o.Budget * float64(p.Filters-p.Unshared); c == choices[len(choices)-1] || 2*float64(p.Stored) >= share {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range p.Groups {
		if o.Coefficients != Softmax {
			p.assignTemplates(&p.Groups[i])
		} else if err := p.assignSections(&p.Groups[i]); err != nil {
			return nil, &BudgetError{Least: math.Ceil(1000*float64(len(p.Groups)*o.Templates)/float64(p.Filters)) / 1000, err: err}
		}
	}
	p.Coefficients = p.countCoefficients()
	return p, nil
}

// group divides the layers and the budget by a grouping.
//
// Errors: those of New.
func (p *Plan) group(grouping string) error {
	groups, err := p.groupLayers(grouping)
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		return fmt.Errorf("grouping by %s: none of the %d filters has a second one", grouping, len(p.Layers))
	}
	var sums []int
	grouped := 0
	for _, g := range groups {
		n := 0
		for _, i := range g.layers {
			n += p.Layers[i].Shape.Size()
		}
		sums, grouped = append(sums, n), grouped+n
	}
	own := p.Filters - grouped
	budget := int(math.Round(p.o.Budget * float64(p.Filters)))
	sizes, err := SplitBudget(budget, own, sums)
	if err != nil {
		return &BudgetError{Least: p.leastBudget(own, sums), err: err}
	}
	p.Grouping, p.Groups, p.Unshared, p.Stored = grouping, groups, own, 0
	for i := range groups {
		groups[i].Size = sizes[i]
		p.Stored += sizes[i]
	}
	return nil
}

// leastBudget is an Options.Budget, rounded up to a thousandth, that gives every store of a grouping a
// parameter: as many as the smallest of sums is contained in their total.
func (p *Plan) leastBudget(own int, sums []int) float64 {
	smallest := slices.Min(sums)
	least := own + max(len(sums), (p.Filters-own+smallest-1)/smallest)
	return math.Ceil(1000*float64(least)/float64(p.Filters)) / 1000
}

// groupLayers puts layers into groups of at least two, in the order of their first layers. One
// group may have a single layer.
//
// Errors: those of groupLearned.
func (p *Plan) groupLayers(grouping string) (groups []Group, err error) {
	single := func(g Group) bool { return len(g.layers) < 2 }
	if grouping == Learned {
		groups, err = p.groupLearned()
		return slices.DeleteFunc(groups, single), err
	}
	if grouping == OneGroup {
		g := Group{Name: "share.all.store"}
		for i := range p.Layers {
			g.layers = append(g.layers, i)
		}
		return []Group{g}, nil
	}
	by := func(layers []int, from int) []Group {
		var groups []Group
		for _, i := range layers {
			name := "share"
			for _, d := range p.Layers[i].Shape[from:] {
				name += fmt.Sprintf(".%d", d)
			}
			name += ".store"
			at := slices.IndexFunc(groups, func(g Group) bool { return g.Name == name })
			if at < 0 {
				at, groups = len(groups), append(groups, Group{Name: name})
			}
			groups[at].layers = append(groups[at].layers, i)
		}
		return groups
	}
	all := make([]int, len(p.Layers))
	for i := range all {
		all[i] = i
	}
	groups = by(all, 0)
	if grouping == ByKernel {
		var alone []int
		for _, g := range groups {
			if single(g) {
				alone = append(alone, g.layers...)
			}
		}
		groups = append(slices.DeleteFunc(groups, single), by(alone, 2)...)
		slices.SortFunc(groups, func(a, b Group) int { return a.layers[0] - b.layers[0] })
	}
	return slices.DeleteFunc(groups, single), nil
}

// SplitBudget divides a budget of parameters. own of them belong to layers that share nothing. The
// rest is divided among the groups in proportion to the sums of the sizes of their layers, by the
// largest remainder method.
//
// Shape: sums [groupLayers] → sizes [groupLayers].
// Errors: ErrInfeasible if a group would get nothing.
func SplitBudget(budget, own int, sums []int) ([]int, error) {
	left, total := budget-own, 0
	for _, n := range sums {
		total += n
	}
	if left < len(sums) {
		return nil, fmt.Errorf("budget of %d parameters, of which filters without sharing need %d: %d remain for %d stores: %w", budget, own, left, len(sums), ErrInfeasible)
	}
	sizes, order, given := make([]int, len(sums)), make([]int, len(sums)), 0
	for i, n := range sums {
		sizes[i], order[i] = left*n/total, i
		given += sizes[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return left*sums[b]%total - left*sums[a]%total })
	for _, i := range order[:left-given] {
		sizes[i]++
	}
	if at := slices.Index(sizes, 0); at >= 0 {
		return nil, fmt.Errorf("%d parameters for %d stores, one of which would be empty: %w", left, len(sums), ErrInfeasible)
	}
	return sizes, nil
}

// TemplateCount is the number of templates of a layer with n weights in a store of m values, at
// most most:
//
//	k = min(max(1, ⌊m/n⌋), most)
//
// enlarged reports whether the templates are smaller than the layer.
func TemplateCount(m, n, most int) (k int, enlarged bool) { return min(max(1, m/n), most), m < n }

// assignTemplates places the templates of a group's layers in the store and chooses its
// initialisation.
//
// Templates follow each other in the store. If the next one does not fit, it starts at 0 again, so
// templates of different layers overlap.
//
// Each section of the store is initialised as the filter of the layer that uses it. Where layers
// overlap, the layer whose shape is most frequent decides. Then scale is chosen such that every
// filter starts with the variance of its own initialisation:
//
//	scale² · Σ_j σ_j²/(size·K) · variance of the upsampling = σ² of the layer
func (p *Plan) assignTemplates(g *Group) {
	next := 0
	pieces := make([][]graph.InitSegment, len(p.Layers))
	like := map[string]int{} // number of layers by shape
	for _, i := range g.layers {
		l := &p.Layers[i]
		like[l.Shape.String()]++
		l.Store = g.Name
		l.Templates, l.Upsampled = TemplateCount(g.Size, l.Shape.Size(), p.o.Templates)
		l.templates = op.Templates{To: l.Shape}
		size := l.Shape.Size()
		if l.Upsampled {
			l.templates.Rows, l.templates.Columns = templateSize(l.Shape, g.Size)
			size = l.templates.Rows * l.templates.Columns
		}
		factor := 1.0
		if p.o.Coefficients == Average { // the mean of K independent values has 1/K of their variance
			factor = math.Sqrt(float64(l.Templates))
		}
		for k := range l.Templates {
			if next+size > g.Size {
				next = 0
			}
			name := l.Name
			if k > 0 {
				name += fmt.Sprintf(".%d", k+1)
			}
			l.templates.Offsets = append(l.templates.Offsets, next)
			pieces[i] = append(pieces[i], graph.InitSegment{At: next, Size: size, Name: name, Init: l.init, Factor: factor})
			next += size
		}
	}
	order := slices.Clone(g.layers)
	slices.SortStableFunc(order, func(a, b int) int { return like[p.Layers[a].Shape.String()] - like[p.Layers[b].Shape.String()] })
	var all []graph.InitSegment
	std := make([]float64, g.Size)
	for _, i := range order {
		for _, piece := range pieces[i] {
			all = append(all, piece)
			for j := range piece.Size {
				std[piece.At+j] = piece.Init.Std() * piece.Factor
			}
		}
	}
	all = append(all, p.unusedPieces(g, std, all)...)
	g.init = graph.Segments(all)
	for _, i := range g.layers {
		l := &p.Layers[i]
		var squares float64
		for _, piece := range pieces[i] {
			for _, s := range std[piece.At:][:piece.Size] {
				squares += s * s / float64(piece.Size*l.Templates)
			}
		}
		l.scale = 1
		if have := math.Sqrt(squares * l.templates.Variance()); math.Abs(have-l.init.Std()) > 1e-9*have { // within rounding the factor is exactly 1
			l.scale = l.init.Std() / have
		}
	}
}

// unusedPieces initialises values that no template reads, as the first section. They get no
// gradient and do not change.
func (p *Plan) unusedPieces(g *Group, std []float64, pieces []graph.InitSegment) (more []graph.InitSegment) {
	for from := 0; from < len(std); from++ {
		if std[from] > 0 {
			continue
		}
		to := from
		for to < len(std) && std[to] == 0 {
			to++
		}
		more = append(more, graph.InitSegment{At: from, Size: to - from, Name: g.Name, Init: pieces[0].Init, Factor: pieces[0].Factor})
		from = to
	}
	return more
}

// templateSize is the size of a template for a filter of shape s that is larger than the store. The
// filter is seen as a matrix [out, in·k³], and the template has about its aspect ratio.
func templateSize(s graph.Shape, store int) (rows, columns int) {
	rows, columns = s[0], s[1:].Size()
	rows = min(max(int(math.Round(float64(rows)*math.Sqrt(float64(store)/float64(s.Size())))), 1), rows, store)
	return rows, min(columns, store/rows)
}

// countCoefficients counts the trained values besides stores and filters: coefficients, or vectors
// and maps.
func (p *Plan) countCoefficients() (n int) {
	if p.o.Coefficients == Average {
		return 0
	}
	for _, g := range p.Groups {
		templates := 0
		for _, i := range g.layers {
			templates = max(templates, p.Layers[i].Templates)
			if p.o.Coefficients != Embedding {
				n += p.Layers[i].Templates
			} else {
				n += embeddingSize
			}
		}
		if p.o.Coefficients == Embedding {
			n += templates * embeddingSize
		}
	}
	return n
}

// String summarises the plan in one line.
func (p *Plan) String() string {
	return fmt.Sprintf("%d filter weights in %d layers are computed from %d parameters: %d unshared, %d in %d stores (groups: %s), %d for coefficients",
		p.Filters, len(p.Layers), p.Unshared+p.Stored+p.Coefficients, p.Unshared, p.Stored, len(p.Groups), p.Grouping, p.Coefficients)
}
