package baseline

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/simd"
)

// lanes is the number of points that are fitted together. Their cases are interleaved, so
// that each operation applies to neighbouring numbers (SIMD).
const lanes = simd.Lanes

// lane holds one number for each point of a group.
type lane [lanes]float64

// curvTerms is the size of the lower triangle of the second derivatives.
const curvTerms = maxTerms * (maxTerms + 1) / 2

// group holds the cases of up to lanes points, each standardised: the ensemble mean as
// anomaly divided by its standard deviation, observations as anomaly divided by the
// residual standard deviation of the regression line, the spread (or its square or
// logarithm, by the link) divided by its mean. Coefficients are then near 1 and nearly
// independent.
//
// Shape: season [date][…], the others [date][lane].
// Missing: obs is NaN where any value is.
type group struct {
	dates                int
	season               []float64
	anomaly, spread, obs []float32
	cases                lane // number of complete cases, by gatherCases
}

// sums holds mean CRPS, number of cases, gradient and second derivatives (lower triangle, row
// by row) of a group, in the layout of simd.NormalSums.
type sums []float64

// countRow is the row of sums with the number of cases.
const countRow = 1

// newSums allocates sums; the methods return the address of one number for lane l.
func newSums() sums                   { return make(sums, simd.SumRows*lanes) }
func (q sums) value(l int) *float64   { return &q[l] }
func (q sums) count(l int) *float64   { return &q[countRow*lanes+l] }
func (q sums) grad(i, l int) *float64 { return &q[(2+i)*lanes+l] }
func (q sums) curv(i, l int) *float64 { return &q[(2+maxTerms+i)*lanes+l] }

// coefficients holds the coefficients of a group.
//
// Shape: [maxTerms][lane].
type coefficients []float64

// newCoefficients allocates zero coefficients.
func newCoefficients() coefficients         { return make(coefficients, maxTerms*lanes) }
func (c coefficients) at(i, l int) *float64 { return &c[i*lanes+l] }

// units holds the offsets and scales of a point, to convert coefficients to physical units.
type units struct{ mean, meanSD, obs, scatter, spread float64 }

// fitter fits one group of points after another without allocation.
//
// The mean CRPS at a point is a function of the coefficients θ with the exact gradient g and
// second derivatives H. Each iteration solves (H + damp·I) step = g for every lane of the
// group and evaluates the score of all lanes at theta − step in one pass over the dates. A
// lane accepts the step if its score decreases. Lanes that have converged become inactive;
// the group ends with its last lane.
//
// For the linear link and the normal or logistic family the mean CRPS is convex, so H is
// positive semidefinite and damping is rarely needed. For other families H can be
// indefinite, and damping also makes it positive definite.
type fitter struct {
	r      *Regression
	terms  int // number of coefficients of location and scale
	family *regressionFamily
	group  group
	units  [lanes]units
	theta  coefficients
	trial  coefficients
	at     sums // at theta
	next   sums // at trial
	damp   lane // damping of the Newton step
	active [lanes]bool
	// scaleOnly fixes the location at the ensemble mean.
	scaleOnly bool
	// gather copies the cases of the points lo to hi to the group.
	gather func(s *Set, lo, hi int)
	// common holds the units of all points in a pooled fit, nil otherwise.
	common *units
	// sumsAt fills the sums at theta; nil: those of the group, see evaluate.
	sumsAt func(q sums, theta coefficients)
}

// newFitter allocates a fitter for a number of dates.
func newFitter(r *Regression, dates int, season []float64) *fitter {
	f := &fitter{
		r: r, terms: r.locationTerms() + scaleTerms, family: r.row(),
		group: group{
			dates: dates, season: season,
			anomaly: make([]float32, dates*lanes), spread: make([]float32, dates*lanes), obs: make([]float32, dates*lanes),
		},
		theta: newCoefficients(), trial: newCoefficients(), at: newSums(), next: newSums(),
	}
	f.gather = f.gatherCases
	return f
}

// fit fits the points lo to hi and stores their coefficients.
func (f *fitter) fit(s *Set, lo, hi int) {
	f.gather(s, lo, hi)
	f.minimise(f.r.Steps[lo:hi])
	for p := lo; p < hi; p++ {
		f.store(p, p-lo)
	}
}

// gatherCases copies the cases of the points lo to hi, computes their units, and sets theta to
// the initial coefficients: the least-squares line, with half of the scale from the
// constant and half from the spread.
//
// A point is active if it has at least twice as many complete cases as coefficients, a
// varying ensemble mean, and spread.
//
// Missing: obs is NaN and the other fields are 0 in incomplete cases and unused lanes.
func (f *fitter) gatherCases(s *Set, lo, hi int) {
	n, g := s.Points(), &f.group
	// Sums over the complete cases of each point: their number, and Σ m, Σ y, Σ s, Σ m²,
	// Σ m y, Σ y², with m and y relative to m0 and y0.
	var count, m, y, sd, mm, my, yy lane
	nan := float32(math.NaN())
	// Sums are of differences from the first complete case, against cancellation.
	var m0, y0 lane
	clear(g.anomaly) // missing cases are multiplied by 0, so they must not be NaN
	clear(g.spread)
	for i := range g.dates {
		row := g.obs[i*lanes : (i+1)*lanes]
		for l := range row {
			row[l] = nan
		}
		for l := range hi - lo {
			at := i*n + lo + l
			a, b, c := s.Mean[at], s.Obs[at], s.Std[at]
			if a != a || b != b || c != c || a < 0 && f.family.moments {
				continue
			}
			row[l], g.anomaly[i*lanes+l], g.spread[i*lanes+l] = b, a, c
			if count[l] == 0 {
				m0[l], y0[l] = float64(a), float64(b)
			}
			x, o := float64(a)-m0[l], float64(b)-y0[l]
			count[l]++
			m[l] += x
			y[l] += o
			sd[l] += float64(c)
			mm[l] += x * x
			my[l] += x * o
			yy[l] += o * o
		}
	}
	clear(f.theta)
	g.cases = count
	for l := range lanes {
		c := count[l]
		if f.common != nil {
			f.units[l], f.active[l] = *f.common, c > 0
			continue
		}
		// vm and vy are the variances of the ensemble mean and of the residual of the line.
		vm := (mm[l] - m[l]*m[l]/c) / c
		f.active[l] = c >= float64(2*f.terms) && vm > 0 && sd[l] > 0
		if !f.active[l] {
			f.units[l] = units{}
			continue
		}
		slope := (my[l] - m[l]*y[l]/c) / c / vm
		vy := (yy[l]-y[l]*y[l]/c)/c - slope*slope*vm
		u := units{mean: m0[l] + m[l]/c, meanSD: math.Sqrt(vm), obs: y0[l] + y[l]/c, scatter: math.Sqrt(max(0, vy)), spread: sd[l] / c}
		if f.scaleOnly { // the location is m: the residual is y − m, bias included
			slope = 1
			u.scatter = math.Hypot(math.Sqrt(max(0, (yy[l]-2*my[l]+mm[l])/c-(y[l]-m[l])*(y[l]-m[l])/(c*c))), u.obs-u.mean)
		}
		f.active[l] = f.begin(l, u, slope)
	}
	f.normalise(hi - lo)
}

// begin sets the initial coefficients of lane l for a slope, and its units as the family
// requires. It returns false if the family cannot be fitted at this point.
func (f *fitter) begin(l int, u units, slope float64) bool {
	k := f.terms - scaleTerms
	if u.scatter < 1e-6*u.spread { // no residual: use the spread as the unit
		u.scatter = u.spread
	}
	if f.family.moments { // a positive mean for every non-negative forecast
		if u.mean <= 0 || u.obs <= 0 {
			f.units[l] = units{}
			return false
		}
		*f.theta.at(0, l), *f.theta.at(1, l) = 0.05*u.obs/u.scatter, 0.95*u.obs/u.scatter
		u.mean, u.meanSD, u.obs = 0, u.mean, 0
	} else {
		if f.family.nonNegative { // 0 must keep its place: no offset of the observations
			*f.theta.at(0, l) = u.obs / u.scatter
			u.obs = 0
		}
		*f.theta.at(1, l) = slope * u.meanSD / u.scatter
		if f.scaleOnly {
			*f.theta.at(0, l) = (u.mean - u.obs) / u.scatter
		}
	}
	if f.r.Link != LogScale {
		*f.theta.at(k, l), *f.theta.at(k+1, l) = 0.5, 0.5
	}
	f.units[l] = u
	return true
}

// normalise standardises the cases that gatherCases copied:
//
//	m' = (m − mean)/meanSD,   y' = (y − obs)/scatter,   s' = s/spread, (s/spread)² or log(s/spread)
func (f *fitter) normalise(points int) {
	g := &f.group
	var inverse [lanes]struct{ mean, obs, spread float64 }
	for l := range points {
		u := &f.units[l]
		inverse[l].mean, inverse[l].obs, inverse[l].spread = 1/u.meanSD, 1/u.scatter, 1/u.spread
	}
	for i := range g.dates {
		for l := range points {
			at := i*lanes + l
			if o := g.obs[at]; o != o {
				continue
			}
			u, v := &f.units[l], &inverse[l]
			g.anomaly[at] = float32((float64(g.anomaly[at]) - u.mean) * v.mean)
			g.obs[at] = float32((float64(g.obs[at]) - u.obs) * v.obs)
			z := float64(g.spread[at]) * v.spread
			switch f.r.Link {
			case QuadraticScale:
				z *= z
			case LogScale:
				z = math.Log(max(z, minSpread))
			}
			g.spread[at] = float32(z)
		}
	}
}

// store converts the coefficients of lane l to physical units and stores them for point p.
// Points that could not be fitted get NaN.
func (f *fitter) store(p, l int) {
	k := f.terms - scaleTerms
	a, c, u := f.r.Location[p*k:(p+1)*k], f.r.Scale[p*scaleTerms:(p+1)*scaleTerms], f.units[l]
	if u == (units{}) {
		for i := range a {
			a[i] = math.NaN()
		}
		c[0], c[1] = math.NaN(), math.NaN()
		return
	}
	// From obs' = θ₀ + θ₁ m' + … with m' = (m − mean)/meanSD and obs' = (y − obs)/scatter.
	a[1] = u.scatter * *f.theta.at(1, l) / u.meanSD
	a[0] = u.obs + u.scatter**f.theta.at(0, l) - a[1]*u.mean
	for i := 2; i < k; i++ {
		a[i] = u.scatter * *f.theta.at(i, l)
	}
	t, d := *f.theta.at(k, l), *f.theta.at(k+1, l)
	// From scale' = link(t + d·s') with scale' = scale/scatter and s' = s/spread, its square or
	// its logarithm.
	switch r := u.scatter / u.spread; f.r.Link {
	case LinearScale:
		c[0], c[1] = u.scatter*t, r*d
	case QuadraticScale:
		c[0], c[1] = u.scatter*u.scatter*t, r*r*d
	case LogScale:
		c[0], c[1] = math.Log(u.scatter)+t-d*math.Log(u.spread), d
	}
}

// resume sets the coefficients of lane l to physical ones, the inverse of store. The lane has its units.
func (f *fitter) resume(l int, location, scale []float64) {
	k, u := f.terms-scaleTerms, f.units[l]
	*f.theta.at(1, l) = location[1] * u.meanSD / u.scatter
	*f.theta.at(0, l) = (location[0] + location[1]*u.mean - u.obs) / u.scatter
	for i := 2; i < k; i++ {
		*f.theta.at(i, l) = location[i] / u.scatter
	}
	t, d := scale[0], scale[1]
	switch r := u.scatter / u.spread; f.r.Link {
	case LinearScale:
		t, d = t/u.scatter, d/r
	case QuadraticScale:
		t, d = t/(u.scatter*u.scatter), d/(r*r)
	case LogScale:
		t += d*math.Log(u.spread) - math.Log(u.scatter)
	}
	*f.theta.at(k, l), *f.theta.at(k+1, l) = t, d
}

// bounds returns the lower bounds of the coefficients. A constant of at least a thousandth of
// the residual standard deviation keeps every scale positive, and every mean of a family
// with moments as parameters.
func (f *fitter) bounds() (low [maxTerms]float64) {
	const least = 1e-3
	for i := range low {
		low[i] = math.Inf(-1)
	}
	if f.family.moments {
		low[0], low[1] = least, 0
	}
	k := f.terms - scaleTerms
	switch f.r.Link {
	case LinearScale:
		low[k], low[k+1] = least, 0
	case QuadraticScale:
		low[k], low[k+1] = least*least, 0
	}
	return low
}

// scale returns the scale at η = c + d·spread with its first two derivatives:
//
//	linear     η,         1,          0
//	quadratic  √η,        1/(2√η),    −1/(4 η√η)
//	log        exp(η),    exp(η),     exp(η)
func (k Link) scale(eta float64) (sigma, first, second float64) {
	switch k {
	case QuadraticScale:
		sigma = math.Sqrt(eta)
		first = 0.5 / sigma
		return sigma, first, -0.5 * first / eta
	case LogScale:
		sigma = math.Exp(eta)
		return sigma, sigma, sigma
	}
	return eta, 1, 0
}

// evaluate fills q with the sums of the active lanes at theta.
func (f *fitter) evaluate(q sums, theta coefficients) {
	if f.sumsAt != nil {
		f.sumsAt(q, theta)
		return
	}
	g := &f.group
	if !f.family.kernel || !simd.NormalSums(q, theta, g.season, g.anomaly, g.spread, g.obs, f.r.Link.kernel()) {
		f.evaluateGo(q, theta)
	}
}

// kernel is the link in the C kernel.
func (k Link) kernel() simd.Link {
	switch k {
	case QuadraticScale:
		return simd.Quadratic
	case LogScale:
		return simd.Log
	}
	return simd.Linear
}

// evaluateGo is evaluate in Go for any family, one lane after the other. With x the regressors of
// the location (first k) and of the scale, and g the CRPS:
//
//	∂g/∂θ_a = g_μ x_a  or  g_σ σ' x_a,   ∂²g: g_μμ, g_μσ σ', g_σσ σ'² + g_σ σ''
//
// It is also the reference for the kernel.
func (f *fitter) evaluateGo(q sums, theta coefficients) {
	g := &f.group
	k := f.terms - scaleTerms
	seasons := k - 2
	for l := range lanes {
		if !f.active[l] {
			continue
		}
		// x holds the regressors of the location in 0…k−1 and those of the scale in k, k+1.
		var t, grad, x [maxTerms]float64
		var curv [curvTerms]float64
		var value, count float64
		for i := range f.terms {
			t[i] = *theta.at(i, l)
		}
		x[0], x[k] = 1, 1
		for i := range g.dates {
			at := i*lanes + l
			y := float64(g.obs[at])
			if y != y {
				continue
			}
			x[1] = float64(g.anomaly[at])
			mu := t[0] + t[1]*x[1]
			for h, s := range g.season[i*seasons : (i+1)*seasons] {
				x[2+h] = s
				mu += t[2+h] * s
			}
			x[k+1] = float64(g.spread[at])
			sigma, first, second := f.r.Link.scale(t[k] + t[k+1]*x[k+1])
			c := f.family.hessian(mu, sigma, y)
			count++
			value += c.value
			for a := range k {
				grad[a] += c.dmu * x[a]
			}
			dscale := c.dsigma * first
			grad[k] += dscale
			grad[k+1] += dscale * x[k+1]
			// Second derivatives with respect to location and η: twice location, mixed, twice η.
			ll, ls, ss := c.mumu, c.musigma*first, c.sigmasigma*first*first+c.dsigma*second
			j := 0
			for a := range k {
				w := ll * x[a]
				for b := range a + 1 {
					curv[j] += w * x[b]
					j++
				}
			}
			for a := k; a < k+scaleTerms; a++ {
				w := ls * x[a]
				for b := range k {
					curv[j] += w * x[b]
					j++
				}
				w = ss * x[a]
				for b := k; b <= a; b++ {
					curv[j] += w * x[b]
					j++
				}
			}
		}
		inverse := 1 / count
		*q.count(l), *q.value(l) = count, value*inverse
		for i := range f.terms {
			*q.grad(i, l) = grad[i] * inverse
		}
		for i := range f.terms * (f.terms + 1) / 2 {
			*q.curv(i, l) = curv[i] * inverse
		}
	}
}

// The limits of minimise, for mean scores near 1.
const (
	newtonSteps     = 100
	newtonTolerance = 1e-13
	// newtonFinalDecrease is the predicted decrease below which a step is taken as the last one
	// without evaluation: Newton steps converge quadratically.
	newtonFinalDecrease = 1e-9
	newtonDamp          = 1e-3 // first damping after an undamped step that failed
	newtonMaxDamp       = 1e12
)

// minimise lowers the mean CRPS of every active lane, beginning with theta, by damped Newton
// steps within bounds. steps counts the steps of each lane. A step that does not lower the
// score is rejected, and the damping is increased.
//
// Source: Marquardt 1963, doi:10.1137/0111030, for the damping; Bertsekas 1982,
// doi:10.1137/0320018, for the bounds.
func (f *fitter) minimise(steps []int) {
	low := f.bounds()
	f.damp = lane{}
	f.evaluate(f.at, f.theta)
	for range newtonSteps {
		copy(f.trial, f.theta)
		busy := false
		for l := range steps {
			if !f.active[l] {
				continue
			}
			switch f.step(l, &low) {
			case stepTried:
				busy = true
			case stepTaken:
				steps[l]++
				f.active[l] = false
			case noStep:
				f.active[l] = false
			}
		}
		if !busy {
			return
		}
		f.evaluate(f.next, f.trial)
		for l := range steps {
			if !f.active[l] {
				continue
			}
			steps[l]++
			if !(*f.next.value(l) < *f.at.value(l)) { // rejected, also for NaN
				f.damp[l] = max(newtonDamp, 10*f.damp[l])
				continue
			}
			if f.damp[l] /= 10; f.damp[l] < newtonDamp/100 {
				f.damp[l] = 0
			}
			*f.at.value(l) = *f.next.value(l)
			for i := range f.terms {
				*f.theta.at(i, l) = *f.trial.at(i, l)
				*f.at.grad(i, l) = *f.next.grad(i, l)
			}
			for i := range f.terms * (f.terms + 1) / 2 {
				*f.at.curv(i, l) = *f.next.curv(i, l)
			}
		}
	}
}

// The results of step: converged without a step; a trial that has to be evaluated; or the
// last step, already applied.
const (
	noStep = iota
	stepTried
	stepTaken
)

// step sets the trial of lane l to theta plus one damped Newton step within the bounds. If
// the step is the last one, it changes theta itself. Coefficients at their bound whose
// gradient points outwards are held fixed.
func (f *fitter) step(l int, low *[maxTerms]float64) int {
	n := f.terms
	// held marks the fixed coefficients. Their rows and columns become those of the identity,
	// and their gradient 0, so that their step is 0.
	var held [maxTerms]bool
	for a := range n - scaleTerms {
		held[a] = f.scaleOnly
	}
	for a, b := range low[:n] {
		held[a] = held[a] || *f.theta.at(a, l) <= b && *f.at.grad(a, l) > 0
	}
	var h [curvTerms]float64
	var g, step [maxTerms]float64
	for ; f.damp[l] <= newtonMaxDamp; f.damp[l] = max(newtonDamp, 10*f.damp[l]) {
		j := 0
		for a := range n {
			g[a] = *f.at.grad(a, l)
			if held[a] {
				g[a] = 0
			}
			for b := range a + 1 {
				h[j] = *f.at.curv(j, l)
				if (held[a] || held[b]) && a != b {
					h[j] = 0
				}
				j++
			}
			h[j-1] += f.damp[l]
			if held[a] {
				h[j-1] = 1
			}
		}
		decrease, ok := solve(&step, &h, &g, n)
		if !ok {
			continue
		}
		if decrease < newtonTolerance {
			return noStep
		}
		last := decrease < newtonFinalDecrease && f.damp[l] == 0
		for a, b := range low[:n] {
			to := *f.theta.at(a, l) - step[a]
			last = last && to >= b
			*f.trial.at(a, l) = max(b, to)
		}
		if last {
			for a := range n {
				*f.theta.at(a, l) = *f.trial.at(a, l)
			}
			return stepTaken
		}
		return stepTried
	}
	return noStep
}

// solve computes x = h⁻¹ g by Cholesky decomposition h = L Lᵀ for a symmetric h of n rows
// (lower triangle, row by row), which it overwrites, and the decrease gᵀx/2 of the quadratic
// model. ok is false unless h is positive definite.
//
// Cost: n³/6 multiplications; no allocation.
func solve(x *[maxTerms]float64, h *[curvTerms]float64, g *[maxTerms]float64, n int) (decrease float64, ok bool) {
	for r := range n { // h = L Lᵀ
		row := r * (r + 1) / 2
		for c := range r + 1 {
			col := c * (c + 1) / 2
			v := h[row+c]
			for k := range c {
				v -= h[row+k] * h[col+k]
			}
			if c < r {
				h[row+c] = v * h[col+c]
			} else if v > 0 {
				h[row+c] = 1 / math.Sqrt(v) // the diagonal is kept as its inverse
			} else {
				return 0, false
			}
		}
	}
	for r := range n { // L u = g; gᵀx = uᵀu
		v := g[r]
		for k := range r {
			v -= h[r*(r+1)/2+k] * x[k]
		}
		x[r] = v * h[r*(r+3)/2]
		decrease += x[r] * x[r] / 2
	}
	for r := n - 1; r >= 0; r-- { // Lᵀ x = u
		v := x[r]
		for k := r + 1; k < n; k++ {
			v -= h[k*(k+1)/2+r] * x[k]
		}
		x[r] = v * h[r*(r+3)/2]
	}
	return decrease, true
}
