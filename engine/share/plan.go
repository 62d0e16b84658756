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

// Groups of layers that have a store together.
const (
	ByShape  = "shape" // layers whose filters have one shape; a layer without another one like it keeps its own filter
	OneGroup = "one"   // all layers
)

// Where coefficients come from.
const (
	// Average weights all templates of a layer alike: its coefficients are not trained.
	Average = "average"
	// Free coefficients are trained, each by itself.
	Free = "free"
	// Embedding: those of a layer are a linear map, which is the group's, of a vector of the layer; both are trained.
	Embedding = "embedding"
)

// embeddingSize is the length of a layer's vector, as in the paper's code.
const embeddingSize = 24

// Options say how parameters are shared.
type Options struct {
	Budget       float64 `json:"budget"`       // parameters of all filters, as a share of those of the network itself; above 1 it gets more
	Groups       string  `json:"groups"`       // empty: ByShape
	Coefficients string  `json:"coefficients"` // empty: Free
	Templates    int     `json:"templates"`    // of a layer at most; 0: 2, as in the paper's code
}

func (o Options) withDefaults() Options {
	o.Groups, o.Coefficients = cmp.Or(o.Groups, ByShape), cmp.Or(o.Coefficients, Free)
	o.Templates = cmp.Or(o.Templates, 2)
	return o
}

// ErrInfeasible marks a budget that is less than what layers need that share nothing.
var ErrInfeasible = errors.New("infeasible budget")

// Layer is a convolution whose filter is shared, or could be.
type Layer struct {
	Name      string      `json:"filter"` // of the filter's parameter
	Shape     graph.Shape `json:"shape"`
	Store     string      `json:"store,omitempty"` // from which it is built; empty if it is a parameter of its own
	Templates int         `json:"templates,omitempty"`
	Upsampled bool        `json:"upsampled,omitempty"` // as the store is smaller than the filter

	init      graph.Init
	templates op.Templates
	scale     float64 // of its coefficients at first, with which filters have the variance of their own start
}

// Plan says which layers build their filters from which store.
type Plan struct {
	Layers []Layer `json:"layers"`
	Groups []Group `json:"groups,omitempty"`
	// Filters is the number of values of all filters, of which Own are parameters themselves; Stored that of all stores. Coefficients
	// are the trained numbers that combinations need.
	Filters      int `json:"filters"`
	Unshared     int `json:"unshared"`
	Stored       int `json:"stored"`
	Coefficients int `json:"coefficients"`

	o Options
}

// Group is a store and the layers that build their filters from it.
type Group struct {
	Name   string `json:"store"` // of the store's parameter
	Size   int    `json:"size"`
	layers []int
	init   graph.Init
}

// Find gives the filters of a network that can be shared: those that start at random and that only
// convolutions read. The last layer of a network that starts at 0 keeps its own, and so do biases, norms and maps.
func Find(g *graph.Graph) (all []Layer) {
	other := make([]bool, len(g.Nodes)) // read as something else than a filter
	filter := make([]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		for i, id := range n.In {
			if f := n.Op.Filter; f != nil && !f.Transposed() && i == f.Operand {
				filter[id] = true
			} else {
				other[id] = true
			}
		}
	}
	for _, id := range g.Roots() {
		other[id] = true
	}
	for i, n := range g.Nodes {
		if n.Kind == graph.KindParam && filter[i] && !other[i] && n.Init.Std() > 0 {
			all = append(all, Layer{Name: n.Name, Shape: n.Shape, init: n.Init})
		}
	}
	return all
}

// New plans the sharing of the filters of a network.
//
// Errors: ErrInfeasible, with the numbers; a network without filters that can be shared, or in which no two layers are alike.
func New(g *graph.Graph, o Options) (*Plan, error) {
	o = o.withDefaults()
	p := &Plan{Layers: Find(g), o: o}
	if len(p.Layers) == 0 {
		return nil, errors.New("no convolution of the network has a filter that starts at random")
	}
	groups := p.groupLayers()
	var sums []int
	grouped := 0
	for _, l := range p.Layers {
		p.Filters += l.Shape.Size()
	}
	for _, g := range groups {
		n := 0
		for _, i := range g.layers {
			n += p.Layers[i].Shape.Size()
		}
		sums, grouped = append(sums, n), grouped+n
	}
	if p.Unshared = p.Filters - grouped; len(groups) == 0 {
		return nil, fmt.Errorf("no two of the %d filters have one shape, so that groups by shape share nothing", len(p.Layers))
	}
	sizes, err := SplitBudget(int(math.Round(o.Budget*float64(p.Filters))), p.Unshared, sums)
	if err != nil {
		return nil, err
	}
	for i := range groups {
		groups[i].Size = sizes[i]
		p.Stored += sizes[i]
		p.assignTemplates(&groups[i])
	}
	p.Groups = groups
	p.Coefficients = p.countCoefficients()
	return p, nil
}

// groupLayers puts layers into groups of at least two, in the order of their first layers.
func (p *Plan) groupLayers() (groups []Group) {
	if p.o.Groups == OneGroup {
		g := Group{Name: "share.all.store"}
		for i := range p.Layers {
			g.layers = append(g.layers, i)
		}
		return []Group{g}
	}
	for i, l := range p.Layers {
		name := "share"
		for _, d := range l.Shape {
			name += fmt.Sprintf(".%d", d)
		}
		name += ".store"
		at := slices.IndexFunc(groups, func(g Group) bool { return g.Name == name })
		if at < 0 {
			at, groups = len(groups), append(groups, Group{Name: name})
		}
		groups[at].layers = append(groups[at].layers, i)
	}
	return slices.DeleteFunc(groups, func(g Group) bool { return len(g.layers) < 2 })
}

// SplitBudget divides a budget of parameters: own are those of layers that share nothing, and the rest goes to groups in proportion to the
// sizes of their layers, whole numbers with the largest remainders rounded up.
//
// Errors: ErrInfeasible, if a group would get nothing.
func SplitBudget(budget, own int, sums []int) ([]int, error) {
	left, total := budget-own, 0
	for _, n := range sums {
		total += n
	}
	if left < len(sums) {
		return nil, fmt.Errorf("%d parameters, where filters that share nothing have %d: %d are left for %d stores: %w", budget, own, left, len(sums), ErrInfeasible)
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
		return nil, fmt.Errorf("%d parameters are left for %d stores, of which one would get none: %w", left, len(sums), ErrInfeasible)
	}
	return sizes, nil
}

// TemplateCount is how many templates a layer of n weights has of a store of m values, and whether they are smaller than the layer.
func TemplateCount(m, n, most int) (k int, enlarged bool) { return min(max(1, m/n), most), m < n }

// assignTemplates gives the layers of a group their templates, one behind the other in the store, and from its start again where the next
// does not fit; and the store its start: that of the layers whose templates these are, of the most common shape last.
func (p *Plan) assignTemplates(g *Group) {
	next := 0
	pieces := make([][]graph.InitSegment, len(p.Layers))
	like := map[string]int{} // layers by shape
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
		if p.o.Coefficients == Average { // a mean of K independent values has 1/K of their variance
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
		if have := math.Sqrt(squares * l.templates.Variance()); math.Abs(have-l.init.Std()) > 1e-9*have { // else exactly its own start
			l.scale = l.init.Std() / have
		}
	}
}

// unusedPieces starts what no template reads as the first piece does: such values stay as they are.
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

// templateSize is the plane of a template for a filter of a shape that fits into a store: of the filter's proportions.
func templateSize(s graph.Shape, store int) (rows, columns int) {
	rows, columns = s[0], s[1:].Size()
	rows = min(max(int(math.Round(float64(rows)*math.Sqrt(float64(store)/float64(s.Size())))), 1), rows, store)
	return rows, min(columns, store/rows)
}

// countCoefficients counts the trained numbers beside stores and filters.
func (p *Plan) countCoefficients() (n int) {
	if p.o.Coefficients == Average {
		return 0
	}
	for _, g := range p.Groups {
		most := 0
		for _, i := range g.layers {
			most = max(most, p.Layers[i].Templates)
			if p.o.Coefficients == Free {
				n += p.Layers[i].Templates
			} else {
				n += embeddingSize
			}
		}
		if p.o.Coefficients == Embedding {
			n += most * embeddingSize
		}
	}
	return n
}

// String is one line.
func (p *Plan) String() string {
	return fmt.Sprintf("%d filter weights of %d layers come from %d parameters: %d of their own, %d in %d stores, %d for coefficients",
		p.Filters, len(p.Layers), p.Unshared+p.Stored+p.Coefficients, p.Unshared, p.Stored, len(p.Groups), p.Coefficients)
}
