package regrid

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// nearest computes the weights of Nearest. A target is outside if its distance from
// all source points exceeds half of the diagonal of the cells there. For global
// grids and lists of points no target is outside.
func (b *builder) nearest(from, to *ensemble.Grid) {
	t := newKDTree(unitVectors(from))
	limit := func(int) float64 { return math.Inf(1) }
	if r, ok := gridRows(from); ok && !(r.reachesPole(true) && r.reachesPole(false)) {
		limit = func(k int) float64 { return r.diagonal(k) / 2 }
	} else if from.Kind == ensemble.Projected {
		limit = func(k int) float64 { return diagonal(t.at, from, k) / 2 }
	}
	forEachPoint(to, func(lat, lon float64) {
		k, chord := t.nearest(unitVector(lat, lon))
		// The tolerance covers the difference between chord and arc, and the
		// rounding of coordinates.
		if far := limit(k)*1.01 + edgeTolerance*rad; chord <= far*far {
			b.addWeight(k, 1)
		}
		b.nextTarget()
	})
}

// diagonal returns the longest diagonal, in radians, of the cells around point k.
func (r rows) diagonal(k int) float64 {
	row := 0
	for row+1 < len(r.first) && r.first[row+1] <= k {
		row++
	}
	var dy, dx float64
	if row > 0 {
		dy = r.lat[row-1] - r.lat[row]
	}
	if row+1 < len(r.lat) {
		dy = max(dy, r.lat[row]-r.lat[row+1])
	}
	if x, i := r.lon[row], k-r.first[row]; len(x) > 1 {
		if i > 0 {
			dx = x[i] - x[i-1]
		}
		if i+1 < len(x) {
			dx = max(dx, x[i+1]-x[i])
		}
	}
	return math.Hypot(dy, dx*math.Cos(r.lat[row]*rad)) * rad
}

// diagonal returns the longest diagonal, in radians, of the quadrilaterals around
// point k of a projected grid.
func diagonal(at []vector, g *ensemble.Grid, k int) float64 {
	j, i := k/g.NX, k%g.NX
	most := 0.0
	for dj := -1; dj <= 1; dj++ {
		for di := -1; di <= 1; di++ {
			if y, x := j+dj, i+di; y >= 0 && y < g.NY && x >= 0 && x < g.NX {
				most = max(most, at[k].squaredChord(at[y*g.NX+x]))
			}
		}
	}
	return math.Sqrt(most)
}

// kdTree finds the nearest of a set of points. It is a balanced k-d tree without
// pointers: the middle element of each range of order splits that range along axis
// depth mod 3.
//
// Source: Bentley 1975, Commun. ACM 18, 509.
type kdTree struct {
	at    []vector
	order []int32
}

// newKDTree builds the tree in O(n log n).
func newKDTree(at []vector) *kdTree {
	t := &kdTree{at: at, order: make([]int32, len(at))}
	for i := range t.order {
		t.order[i] = int32(i)
	}
	t.split(t.order, 0)
	return t
}

// split orders a range as a subtree. The left half recurses and the right half is the next
// turn of the loop, so the depth is that of the tree.
func (t *kdTree) split(o []int32, axis int) {
	for len(o) > 1 {
		m := len(o) / 2
		t.partition(o, m, axis)
		axis = (axis + 1) % 3
		t.split(o[:m], axis)
		o = o[m+1:]
	}
}

// partition moves element m of the order along an axis to position m, smaller
// elements before it and larger ones after it.
//
// Cost: O(n) on average.
// Source: Hoare 1961, Algorithm 65: FIND, Commun. ACM 4, 321.
func (t *kdTree) partition(o []int32, m, axis int) {
	less := func(a, b int32) bool { return t.at[a][axis] < t.at[b][axis] }
	for lo, hi := 0, len(o)-1; lo < hi; {
		pivot := o[(lo+hi)/2]
		i, j := lo, hi
		for i <= j {
			for less(o[i], pivot) {
				i++
			}
			for less(pivot, o[j]) {
				j--
			}
			if i <= j {
				o[i], o[j] = o[j], o[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case m <= j:
			hi = j
		case m >= i:
			lo = i
		default:
			return
		}
	}
}

// nearest returns the nearest point and the square of its distance. Of equally near
// points it returns the first.
func (t *kdTree) nearest(p vector) (k int, chord float64) {
	s := nearestSearch{t: t, p: p, best: -1, chord: math.Inf(1)}
	s.visit(t.order, 0)
	return int(s.best), s.chord
}

// nearestSearch is the state of one query.
type nearestSearch struct {
	t     *kdTree
	p     vector
	best  int32
	chord float64
}

// visit searches a range. It skips the far side of a split plane that is farther
// than the best point.
func (s *nearestSearch) visit(o []int32, axis int) {
	for len(o) > 0 {
		m := len(o) / 2
		k := o[m]
		if d := s.p.squaredChord(s.t.at[k]); d < s.chord || d == s.chord && k < s.best {
			s.best, s.chord = k, d
		}
		off := s.p[axis] - s.t.at[k][axis]
		near, far := o[:m], o[m+1:]
		if off >= 0 {
			near, far = far, near
		}
		axis = (axis + 1) % 3
		s.visit(near, axis)
		if off*off > s.chord {
			return
		}
		o = far
	}
}
