package product

import (
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// relationAttribute states how the probabilities along a threshold relate to it,
// relationWords its values.
//
// Source: IMPROVER.
const relationAttribute = "spp__relative_to_threshold"

var relationWords = map[ensemble.Relation]string{ensemble.Above: "greater_than", ensemble.Below: "less_than", ensemble.Between: "between_thresholds",
	ensemble.AtLeast: "greater_than_or_equal_to", ensemble.AtMost: "less_than_or_equal_to"}

// statisticAxes adds the coordinates of quantiles, thresholds and members to a file,
// each once. Variables with equal positions share a coordinate; others get quantile_2,
// quantile_3 and so on.
type statisticAxes struct {
	b    *ncBuilder
	seen []statisticCoord
}

// statisticCoord is one such coordinate.
type statisticCoord struct {
	axis         axis
	standardName string // of the quantity of a threshold
	unit         string
	places       []Field // the values, in fields without other content
	dim          string
	listed       []string // auxiliary coordinates that variables must list
}

// dimensionOf returns the outer dimension of a variable, none for a single field, and
// the auxiliary coordinates that the variable must list. It adds the coordinate if no
// variable before had the same positions, unit and quantity.
//
// Source: CF section 5.7 (scalar coordinates) and 6.1 (labels and alternative
// coordinates).
func (as *statisticAxes) dimensionOf(st *stack) (dims, listed []string) {
	if st.stat.axis == noAxis || st.standalone {
		return nil, nil
	}
	a := statisticCoord{axis: st.stat.axis}
	if st.stat.axis == thresholdAxis {
		a.standardName, a.unit = st.variable.StandardName, st.variable.Unit
	}
	for _, f := range st.places() {
		a.places = append(a.places, Field{Below: f.Below, Event: f.Event, Member: f.Member})
	}
	for _, o := range as.seen {
		if o.axis == a.axis && o.standardName == a.standardName && o.unit == a.unit &&
			slices.EqualFunc(o.places, a.places, func(x, y Field) bool { return x.Below == y.Below && x.Event == y.Event && x.Member == y.Member }) {
			return []string{o.dim}, o.listed
		}
	}
	switch st.stat.axis {
	case quantileAxis:
		a.dim = as.freeDim("quantile")
		as.b.addQuantiles(&a)
	case thresholdAxis:
		a.dim = as.freeDim("threshold")
		as.b.addThresholds(&a)
	case memberAxis:
		a.dim = as.freeDim("realization")
		members := make([]ensemble.Member, len(a.places))
		for i, f := range a.places {
			members[i] = f.Member
		}
		as.b.addRealization(a.dim, members)
	}
	as.seen = append(as.seen, a)
	return []string{a.dim}, a.listed
}

// freeDim returns an unused dimension name. It is also the name of the coordinate
// variable.
func (as *statisticAxes) freeDim(name string) string {
	return unusedName(name, func(try string) bool {
		return slices.ContainsFunc(as.seen, func(a statisticCoord) bool { return a.dim == try })
	})
}

// addQuantiles adds the coordinate of quantiles, from 0 to 1, and the percentiles that
// IMPROVER expects. Percentiles are whole numbers where they are whole: 100·0.29 is
// 28.999999999999996 in float64, and readers select by equality.
func (b *ncBuilder) addQuantiles(a *statisticCoord) {
	below, percent := make([]float64, len(a.places)), make([]float64, len(a.places))
	for i, f := range a.places {
		below[i], percent[i] = f.Below, 100*f.Below
		if p, whole := percentile(f.Below); whole {
			percent[i] = float64(p)
		}
	}
	b.addDimension(a.dim, len(below))
	b.addDoubles(a.dim, []string{a.dim}, below, text("long_name", "probability of values below the quantile"), text("units", "1"))
	name := "percentile" + a.dim[len("quantile"):]
	b.addDoubles(name, []string{a.dim}, percent, text("long_name", "percentile"), text("units", "%"))
	a.listed = []string{name}
}

// addThresholds adds the coordinate of thresholds, in the unit and with the
// standard name of the quantity. Events between two limits have bounds.
//
// Source: IMPROVER, threshold coordinates (spp__relative_to_threshold); CF section 7.1
// (bounds).
func (b *ncBuilder) addThresholds(a *statisticCoord) {
	points := make([]float64, len(a.places))
	var bounds []float64
	for i, f := range a.places {
		points[i] = f.Event.Threshold()
		if f.Event.Relation == ensemble.Between {
			bounds = append(bounds, f.Event.Lower, f.Event.Upper)
		}
	}
	b.addDimension(a.dim, len(points))
	var attrs []encode.Attribute
	if a.standardName != "" {
		attrs = append(attrs, text("standard_name", a.standardName))
	}
	attrs = append(attrs, text("long_name", "threshold"), text("units", a.unit), text(relationAttribute, relationWords[a.places[0].Event.Relation]))
	if bounds == nil {
		b.addDoubles(a.dim, []string{a.dim}, points, attrs...)
		return
	}
	b.addBoundsDimension()
	b.addDoubles(a.dim, []string{a.dim}, points, append(attrs, text("bounds", a.dim+"_bnds"))...)
	b.addDoubles(a.dim+"_bnds", []string{a.dim, "bnds"}, bounds)
}

// addRealization adds the coordinate of members. Its values are the numbers of the
// members, not positions: members may be missing.
//
// Source: CF standard name realization; section 4.5 (discrete axis).
func (b *ncBuilder) addRealization(dim string, members []ensemble.Member) {
	numbers := make([]int32, len(members))
	for i, id := range members {
		numbers[i] = int32(id)
	}
	b.addDimension(dim, len(members))
	b.addInts(dim, []string{dim}, numbers, text("standard_name", "realization"), text("long_name", "ensemble member"), text("units", "1"))
}
