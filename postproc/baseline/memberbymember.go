package baseline

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// MemberByMember corrects the ensemble mean x̄ by a line and the deviations from it by a
// factor. Members keep their rank order and most of their spatial structure:
//
//	x'_m = A + B·x̄ + T·(x_m − x̄),  T ≥ 0
//
// Unit: A that of the variable.
// Source: Van Schaeybroeck and Vannitsem 2015, doi:10.1002/qj.2397.
type MemberByMember struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
	T float64 `json:"t"`
}

// FitMemberMoments computes A and B by least squares of the observations on the ensemble
// mean, and T from the condition for a reliable ensemble:
//
//	T² = mean (A+B·x̄−y)² / ( (1+1/M) mean s² ),  s² with divisor M−1
//
// Shape: x [date][member] in one slice, y [date]; M ≥ 2.
// Missing: a date with any NaN is left out. Errors: wrong shapes, ErrNoCases.
// Source: Van Schaeybroeck and Vannitsem 2015, doi:10.1002/qj.2397.
func FitMemberMoments(x, y []float64) (MemberByMember, error) {
	c, err := memberCases(x, y)
	if err != nil {
		return MemberByMember{}, err
	}
	var spread float64
	for _, d := range c.distance {
		spread += d * d
	}
	spread /= float64(len(c.y) * (c.members - 1))
	t := 1.0 // equal members have no deviations to scale
	if spread > 0 {
		t = c.residual / math.Sqrt((1+1/float64(c.members))*spread)
	}
	return MemberByMember{c.obs - c.slope*c.mean, c.slope, t}, nil
}

// FitMemberCRPS finds A, B and T of least mean CRPS of the corrected members, with the plain
// or fair CRPS or a mixture. Use the plain CRPS: all members depend on the same mean, so
// the fair one would reward excessive spread.
//
// The score is convex and piecewise linear in the three coefficients. The minimum lies at a
// vertex and is found exactly, up to rounding in float64, as a linear program.
//
// Shape, Missing: as FitMemberMoments.
// Errors: as FitMemberMoments; a score without a minimum (the fair CRPS of two members).
// Cost: about ten passes over the members, each with a sort.
// Source: Van Schaeybroeck and Vannitsem 2015, doi:10.1002/qj.2397.
func FitMemberCRPS(x, y []float64, f dist.Fairness) (MemberByMember, error) {
	c, err := memberCases(x, y)
	if err != nil {
		return MemberByMember{}, err
	}
	m := c.members
	// In units of the standard deviations the coefficients are near 1.
	for i := range c.distance {
		c.distance[i] /= c.unit
	}
	p := &leastAbsolute{}
	var pairs, distances float64
	w := 1 / float64(len(c.y)*m)
	sorted := make([]float64, m)
	for i, o := range c.y {
		d := c.distance[i*m : (i+1)*m]
		copy(sorted, d)
		// The CRPS of members d for an observation of 0 is mean|d| minus the pair term.
		spread := -dist.KernelCRPS(sorted, 0, f)
		for _, v := range d {
			spread += math.Abs(v) / float64(m)
			p.rows = append(p.rows, absoluteRow{[3]float64{1, c.x[i], v}, o, w})
			distances += w * math.Abs(v)
		}
		pairs += spread / float64(len(c.y))
	}
	// T ≥ 0 by an exact penalty |T| − T, which is 0 for T ≥ 0 and otherwise exceeds any decrease.
	penalty := 2 * (distances + math.Abs(pairs))
	p.rows = append(p.rows, absoluteRow{[3]float64{0, 0, 1}, 0, penalty})
	p.linear[2] = -pairs - penalty
	if distances == 0 {
		return MemberByMember{}, fmt.Errorf("member by member: all members are equal on every date: %w", ErrNoCases)
	}
	theta, err := p.minimise()
	if err != nil {
		return MemberByMember{}, err
	}
	b := theta[1] * c.unit / c.meanSD
	return MemberByMember{c.obs + c.unit*theta[0] - b*c.mean, b, max(0, theta[2])}, nil
}

// Predict fills dst with the corrected members of every point.
//
// Shape: dst and x [member][point]; dst may be x. Missing: NaN in any member of a
// point makes all of its members NaN.
func (b MemberByMember) Predict(dst, x [][]float32) {
	inverse := 1 / float64(len(x))
	for p := range x[0] {
		var mean float64
		for _, f := range x {
			mean += float64(f[p])
		}
		mean *= inverse
		centre := b.A + b.B*mean
		for m, f := range x {
			dst[m][p] = float32(centre + b.T*(float64(f[p])-mean))
		}
	}
}

// cases holds the complete dates of one point.
//
// Shape: x (ensemble mean) and y [date], as anomalies about mean and obs divided by meanSD
// and unit; distance [date][member], deviations from the ensemble mean in physical units.
type cases struct {
	x, y, distance                           []float64
	members                                  int
	mean, meanSD, obs, unit, slope, residual float64
}

// memberCases collects the complete dates and standardises them.
//
// Errors: wrong shapes; ErrNoCases for fewer than three dates or a constant mean.
func memberCases(x, y []float64) (*cases, error) {
	if len(y) == 0 || len(x)%len(y) != 0 || len(x)/len(y) < 2 {
		return nil, fmt.Errorf("member by member: %d member values for %d observations: want at least 2 for each", len(x), len(y))
	}
	m := len(x) / len(y)
	c := &cases{members: m}
	for i, o := range y {
		row := x[i*m : (i+1)*m]
		var sum float64
		for _, v := range row {
			sum += v
		}
		if sum != sum || o != o {
			continue
		}
		mean := sum / float64(m)
		c.x, c.y = append(c.x, mean), append(c.y, o)
		for _, v := range row {
			c.distance = append(c.distance, v-mean)
		}
	}
	n := float64(len(c.y))
	if n < 3 {
		return nil, fmt.Errorf("member by member: %d complete dates: %w", len(c.y), ErrNoCases)
	}
	for i := range c.y {
		c.mean += c.x[i] / n
		c.obs += c.y[i] / n
	}
	var xx, xy, yy float64
	for i := range c.y {
		a, b := c.x[i]-c.mean, c.y[i]-c.obs
		xx += a * a / n
		xy += a * b / n
		yy += b * b / n
	}
	if xx == 0 {
		return nil, fmt.Errorf("member by member: the ensemble mean is the same on all dates: %w", ErrNoCases)
	}
	c.meanSD, c.slope = math.Sqrt(xx), xy/xx
	c.unit = math.Sqrt(yy)
	if c.unit == 0 {
		c.unit = c.meanSD
	}
	c.residual = math.Sqrt(max(0, yy-xy*c.slope))
	for i := range c.y {
		c.x[i] = (c.x[i] - c.mean) / c.meanSD
		c.y[i] = (c.y[i] - c.obs) / c.unit
	}
	return c, nil
}

// absoluteRow is one term w·|x·θ − y|.
type absoluteRow struct {
	x    [3]float64
	y, w float64
}

// leastAbsolute is the linear program
//
//	min over θ of  linear·θ + Σ_k w_k |x_k·θ − y_k|
//
// in three unknowns. minimise moves from vertex to vertex, where three terms are 0: along
// the edge of steepest descent that leaves one of these terms, past all terms whose sign
// changes, as far as the objective decreases.
//
// Source: Barrodale and Roberts 1973, doi:10.1137/0710069.
type leastAbsolute struct {
	rows   []absoluteRow
	linear [3]float64
}

// breakpoint is a point of a line where a term changes sign: its distance, the increase in slope, and the term.
type breakpoint struct {
	at, turn float64
	row      int
}

// minimise solves the program. More than three terms that vanish at one vertex could make
// the path cycle. Each y is therefore perturbed by a different amount below 1e-9, and the
// final vertex is computed with the original y. The result is at most Σ w·1e-9 above the
// minimum.
func (p *leastAbsolute) minimise() ([3]float64, error) {
	const nudge = 1e-9
	n := len(p.rows)
	residual := make([]float64, n)
	in := make([]bool, n)
	var theta [3]float64
	y := make([]float64, n)
	for k, r := range p.rows {
		// Multiples of the golden ratio have distinct fractional parts.
		_, part := math.Modf(float64(k+1) * math.Phi)
		y[k] = r.y + nudge*(part-0.5)
		residual[k] = -y[k]
	}
	var basis [3]int
	var path []breakpoint
	// walk moves theta along d, on which the objective has the initial slope, to the term
	// where it stops decreasing, and returns that term; −1 if it decreases without bound.
	walk := func(d [3]float64, slope float64) int {
		path = path[:0]
		for k := range p.rows {
			if v := dot3(p.rows[k].x, d); v != 0 && !in[k] {
				if at := -residual[k] / v; at > 0 {
					path = append(path, breakpoint{at, 2 * p.rows[k].w * math.Abs(v), k})
				}
			}
		}
		slices.SortFunc(path, func(a, b breakpoint) int { return cmp.Compare(a.at, b.at) })
		for _, c := range path {
			if slope += c.turn; slope >= 0 {
				for i := range theta {
					theta[i] += c.at * d[i]
				}
				for k := range p.rows {
					residual[k] = dot3(p.rows[k].x, theta) - y[k]
				}
				return c.row
			}
		}
		return -1
	}
	gradient := func() [3]float64 {
		g := p.linear
		for k, r := range p.rows {
			if in[k] || residual[k] == 0 {
				continue
			}
			w := math.Copysign(r.w, residual[k])
			for i := range g {
				g[i] += w * r.x[i]
			}
		}
		return g
	}
	unbounded := errors.New("member by member: the score has no minimum")
	for size := range 3 { // descend to the first vertex
		g := gradient()
		var d [3]float64
		switch size {
		case 0:
			d = [3]float64{-1, 0, 0}
		case 1:
			if d = cross3(p.rows[basis[0]].x, [3]float64{1, 0, 0}); d == ([3]float64{}) {
				d = [3]float64{0, 1, 0}
			}
		case 2:
			d = cross3(p.rows[basis[0]].x, p.rows[basis[1]].x)
		}
		slope := dot3(g, d)
		if slope > 0 {
			slope = -slope
			for i := range d {
				d[i] = -d[i]
			}
		}
		k := walk(d, slope)
		if k < 0 {
			return theta, unbounded
		}
		basis[size], in[k] = k, true
	}
	for range 20 * n {
		inverse, ok := p.inverse(basis)
		if !ok {
			return theta, fmt.Errorf("member by member: the members of all dates are collinear: %w", ErrNoCases)
		}
		// Solve for the vertex, so that rounding errors do not accumulate along the path.
		for i := range theta {
			theta[i] = 0
			for j, k := range basis {
				theta[i] += inverse[i][j] * y[k]
			}
		}
		for k := range p.rows {
			residual[k] = dot3(p.rows[k].x, theta) - y[k]
		}
		g := gradient()
		// u are the dual variables of the terms at the vertex, which is the minimum if no |u|
		// exceeds the weight of its term.
		leave, steepest, side := -1, -1e-12, 0.0
		for j, k := range basis {
			u := -(g[0]*inverse[0][j] + g[1]*inverse[1][j] + g[2]*inverse[2][j])
			if slope := p.rows[k].w - math.Abs(u); slope < steepest {
				leave, steepest, side = j, slope, math.Copysign(1, u)
			}
		}
		if leave < 0 {
			for i := range theta {
				theta[i] = 0
				for j, k := range basis {
					theta[i] += inverse[i][j] * p.rows[k].y
				}
			}
			return theta, nil
		}
		d := [3]float64{side * inverse[0][leave], side * inverse[1][leave], side * inverse[2][leave]}
		k := walk(d, steepest)
		if k < 0 {
			return theta, unbounded
		}
		in[basis[leave]], in[k] = false, true
		basis[leave] = k
	}
	return theta, fmt.Errorf("member by member: no minimum after %d vertices", 20*n)
}

// inverse is the inverse of the matrix of the three terms at a vertex.
func (p *leastAbsolute) inverse(basis [3]int) (inv [3][3]float64, ok bool) {
	a, b, c := p.rows[basis[0]].x, p.rows[basis[1]].x, p.rows[basis[2]].x
	columns := [3][3]float64{cross3(b, c), cross3(c, a), cross3(a, b)}
	det := dot3(a, columns[0])
	if math.Abs(det) < 1e-14 {
		return inv, false
	}
	for i := range 3 {
		for j := range 3 {
			inv[i][j] = columns[j][i] / det
		}
	}
	return inv, true
}

// dot3 and cross3 are the scalar and the vector product.
func dot3(a, b [3]float64) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func cross3(a, b [3]float64) [3]float64 {
	return [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}
