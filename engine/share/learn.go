package share

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Softmax trains coefficients that are positive with sum 1, of templates that all layers have in common. Layers with similar
// coefficients are those that can share a store (LearnGroups).
//
// Source: Plummer et al. 2020, arXiv:2006.10598, section 3.1 (learned layer groups).
const Softmax = "softmax"

// layerName is the name by which groups list a layer: that of its filter without suffix.
func layerName(filter string) string { return strings.TrimSuffix(filter, ".weight") }

// assignSections gives the layers of a group the same templates: equal sections of the store, so that the coefficients of
// different layers have one meaning. A layer that is smaller than a section reads its first values; a larger one upsamples
// it. The whole store starts with the variance of the first layer's filter, and scale gives each layer its own:
//
//	scale² · σ²/K · variance of the upsampling = σ² of the layer, with coefficients scale/K
func (p *Plan) assignSections(g *Group) error {
	section := g.Size / p.o.Templates
	if section == 0 {
		return fmt.Errorf("%d parameters for %d templates: %w", g.Size, p.o.Templates, ErrInfeasible)
	}
	like := p.Layers[g.layers[0]].init
	g.init = graph.Segments([]graph.InitSegment{{Size: g.Size, Name: g.Name, Init: like, Factor: 1}})
	for _, i := range g.layers {
		l := &p.Layers[i]
		l.Store, l.Templates, l.Upsampled = g.Name, p.o.Templates, section < l.Shape.Size()
		l.templates = op.Templates{To: l.Shape}
		if l.Upsampled {
			l.templates.Rows, l.templates.Columns = templateSize(l.Shape, section)
		}
		for k := range l.Templates {
			l.templates.Offsets = append(l.templates.Offsets, k*section)
		}
		l.scale = l.init.Std() / like.Std() * math.Sqrt(float64(l.Templates)/l.templates.Variance())
	}
	return nil
}

// softmax computes exp(z)/Σ exp(z), in float64.
func softmax(z []float32) []float64 {
	out, most, sum := make([]float64, len(z)), slices.Max(z), 0.0
	for i, v := range z {
		out[i] = math.Exp(float64(v - most))
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// LearnGroups divides the layers of a trained plan with Softmax into at most Options.GroupCount groups, by their coefficients. get
// returns a trained parameter by name. Groups list layers by the names of their filters without the suffix ".weight", in
// the order of the network; they are the value of Options.Learned.
//
// Errors: a parameter that is missing or has another size.
func (p *Plan) LearnGroups(get func(name string) ([]float32, bool)) ([][]string, error) {
	var names []string
	var points [][]float64
	for _, l := range p.Layers {
		if l.Store == "" {
			continue
		}
		z, ok := get(l.Name + coefficientsSuffix)
		if !ok || len(z) != l.Templates {
			return nil, fmt.Errorf("parameter %q: %d values, want %d", l.Name+coefficientsSuffix, len(z), l.Templates)
		}
		names, points = append(names, layerName(l.Name)), append(points, softmax(z))
	}
	var groups [][]string
	for i, g := range cluster(points, p.o.GroupCount) {
		if g == len(groups) {
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], names[i])
	}
	return groups, nil
}

// distance is the squared distance of two points.
func distance(a, b []float64) (d float64) {
	for i, v := range a {
		d += (v - b[i]) * (v - b[i])
	}
	return d
}

// nearest is the centre nearest to a point, the first of equal ones, and the squared distance.
func nearest(x []float64, centres [][]float64) (at int, d float64) {
	d = math.Inf(1)
	for i, c := range centres {
		if e := distance(x, c); e < d {
			at, d = i, e
		}
	}
	return at, d
}

// maxClusterRounds bounds the rounds of Lloyd's algorithm, which ends by itself: no division of points occurs twice.
const maxClusterRounds = 1000

// cluster divides points into at most count clusters by k-means (Lloyd's algorithm). The first centre is the first point,
// each next one the point that is farthest from all centres, so that the result needs no random numbers. There are fewer
// clusters if fewer points differ. Clusters are numbered in the order of their first points.
//
// Shape: points [n][dimensions] → [n].
// Source: Lloyd 1982, doi:10.1109/TIT.1982.1056489; Gonzalez 1985, doi:10.1016/0304-3975(85)90224-5 (farthest points).
func cluster(points [][]float64, count int) []int {
	centres := [][]float64{slices.Clone(points[0])}
	for len(centres) < count {
		far := slices.MaxFunc(points, func(a, b []float64) int {
			_, x := nearest(a, centres)
			_, y := nearest(b, centres)
			return cmp.Compare(x, y)
		})
		if _, d := nearest(far, centres); d == 0 {
			break
		}
		centres = append(centres, slices.Clone(far))
	}
	of := make([]int, len(points))
	for range maxClusterRounds {
		before := slices.Clone(of)
		for i, x := range points {
			of[i], _ = nearest(x, centres)
		}
		for c := range centres {
			moveCentre(centres[c], points, of, c)
		}
		if slices.Equal(of, before) {
			break
		}
	}
	return renumber(of)
}

// moveCentre moves a centre to the mean of its points; a centre without points stays.
func moveCentre(centre []float64, points [][]float64, of []int, c int) {
	sum, n := make([]float64, len(centre)), 0.0
	for i, x := range points {
		if of[i] == c {
			n++
			for j, v := range x {
				sum[j] += v
			}
		}
	}
	for j := range centre {
		if n > 0 {
			centre[j] = sum[j] / n
		}
	}
}

// renumber numbers clusters in the order of their first points.
func renumber(of []int) []int {
	var order []int
	for i, c := range of {
		if !slices.Contains(order, c) {
			order = append(order, c)
		}
		of[i] = slices.Index(order, c)
	}
	return of
}

// groupLearned makes the groups that Options.Learned lists. Layers that it does not list keep their filters, and so does the
// layer of a group that has no other.
//
// Errors: a name without a layer, or of a layer in two groups.
func (p *Plan) groupLearned() (groups []Group, err error) {
	of := make([]int, len(p.Layers)) // number of the group, from 1
	for k, names := range p.o.Learned {
		g := Group{Name: fmt.Sprintf("share.group%d.store", k+1)}
		for _, pattern := range names {
			found := false
			for i, l := range p.Layers {
				if ok, _ := path.Match(pattern, layerName(l.Name)); !ok {
					continue
				}
				if found = true; of[i] > 0 {
					return nil, fmt.Errorf("layer %s is in groups %d and %d", layerName(l.Name), of[i], k+1)
				}
				of[i] = k + 1
				g.layers = append(g.layers, i)
			}
			if !found {
				return nil, fmt.Errorf("group %d: the network has no layer %s that can share its filter", k+1, pattern)
			}
		}
		slices.Sort(g.layers)
		groups = append(groups, g)
	}
	return groups, nil
}
