package baseline

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/simd"
)

// lanes is the number of points that are fitted together: their cases lie side by
// side, so that a step over them is the same arithmetic on neighbouring numbers.
const lanes = simd.Lanes

// lane holds one number for each point of a group.
type lane [lanes]float64

const curvTerms = maxTerms * (maxTerms + 1) / 2

// group holds the cases of up to lanes points, each in its own units: the ensemble
// mean as anomaly over its standard deviation, observations as anomaly over their
// scatter about the line, spread over its mean (as its square or logarithm where the
// link asks so). Coefficients are then near 1 and nearly independent.
//
// Shape: season [date][…], the others [date][lane].
// Missing: obs is NaN where anything is.
type group struct {
	dates                int
	season               []float64
	anomaly, spread, obs []float32
}

// sums are mean CRPS, number of cases, gradient and curvature (lower triangle, row by
// row) of a group, as simd.NormalSums lays them out.
type sums []float64

const countRow = 1

func newSums() sums                   { return make(sums, simd.SumRows*lanes) }
func (q sums) value(l int) *float64   { return &q[l] }
func (q sums) count(l int) *float64   { return &q[countRow*lanes+l] }
func (q sums) grad(i, l int) *float64 { return &q[(2+i)*lanes+l] }
func (q sums) curv(i, l int) *float64 { return &q[(2+maxTerms+i)*lanes+l] }

// coefficients are those of a group.
//
// Shape: [maxTerms][lane].
type coefficients []float64

func newCoefficients() coefficients         { return make(coefficients, maxTerms*lanes) }
func (c coefficients) at(i, l int) *float64 { return &c[i*lanes+l] }

// units turn a point's coefficients in its own units into physical ones.
type units struct{ mean, meanSD, obs, scatter, spread float64 }

// fitter fits one group after another and allocates nothing on the way.
type fitter struct {
	r      *Regression
	terms  int // of location and scale together
	score  func(mu, sigma, y float64) scoreHessian
	group  group
	units  [lanes]units
	theta  coefficients
	trial  coefficients
	at     sums // at theta
	next   sums // at trial
	damp   lane
	active [lanes]bool
	// scaleOnly keeps the location at the ensemble mean.
	scaleOnly bool
	// common are the units of all points, if their coefficients are to be the same; pooled
	// then gives the sums over all of them, in the first lane.
	common *units
	pooled func(q sums, theta coefficients)
}

func newFitter(r *Regression, dates int, season []float64) *fitter {
	return &fitter{
		r: r, terms: r.locationTerms() + scaleTerms, score: crpsWithHessian(r.Family),
		group: group{
			dates: dates, season: season,
			anomaly: make([]float32, dates*lanes), spread: make([]float32, dates*lanes), obs: make([]float32, dates*lanes),
		},
		theta: newCoefficients(), trial: newCoefficients(), at: newSums(), next: newSums(),
	}
}

// fit fits the points lo to hi and stores their coefficients.
func (f *fitter) fit(s *Set, lo, hi int) {
	f.gather(s, lo, hi)
	f.minimise(f.r.Steps[lo:hi])
	for p := lo; p < hi; p++ {
		f.store(p, p-lo)
	}
}

// gather brings in the cases of the points lo to hi, finds their units and puts
// theta at the least-squares line with half of the scale constant, half from the
// spread.
func (f *fitter) gather(s *Set, lo, hi int) {
	n, g := s.Points(), &f.group
	var count, m, y, sd, mm, my, yy lane
	nan := float32(math.NaN())
	// Sums are of differences to the first complete case, so that squares keep their digits.
	var m0, y0 lane
	clear(g.anomaly) // what is missing is multiplied by 0, and so must be a number
	clear(g.spread)
	for i := range g.dates {
		row := g.obs[i*lanes : (i+1)*lanes]
		for l := range row {
			row[l] = nan
		}
		for l := range hi - lo {
			at := i*n + lo + l
			a, b, c := s.Mean[at], s.Obs[at], s.Std[at]
			if a != a || b != b || c != c || a < 0 && hasMomentParameters(f.r.Family) {
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
	for l := range lanes {
		c := count[l]
		if f.common != nil {
			f.units[l], f.active[l] = *f.common, c > 0
			continue
		}
		vm := (mm[l] - m[l]*m[l]/c) / c
		f.active[l] = c >= float64(2*f.terms) && vm > 0 && sd[l] > 0
		if !f.active[l] {
			f.units[l] = units{}
			continue
		}
		slope := (my[l] - m[l]*y[l]/c) / c / vm
		vy := (yy[l]-y[l]*y[l]/c)/c - slope*slope*vm
		u := units{mean: m0[l] + m[l]/c, meanSD: math.Sqrt(vm), obs: y0[l] + y[l]/c, scatter: math.Sqrt(max(0, vy)), spread: sd[l] / c}
		if f.scaleOnly {
			slope = 1
			u.scatter = math.Hypot(math.Sqrt(max(0, (yy[l]-2*my[l]+mm[l])/c-(y[l]-m[l])*(y[l]-m[l])/(c*c))), u.obs-u.mean)
		}
		f.active[l] = f.begin(l, u, slope)
	}
	f.normalise(hi - lo)
}

// begin puts lane l at the line of a slope, and its units to what the family wants of
// them; false says that the family cannot be fitted there.
func (f *fitter) begin(l int, u units, slope float64) bool {
	k := f.terms - scaleTerms
	if u.scatter < 1e-6*u.spread { // the line leaves nothing: any unit will do
		u.scatter = u.spread
	}
	if hasMomentParameters(f.r.Family) { // a mean above 0 for every forecast that is not below 0
		if u.mean <= 0 || u.obs <= 0 {
			f.units[l] = units{}
			return false
		}
		*f.theta.at(0, l), *f.theta.at(1, l) = 0.05*u.obs/u.scatter, 0.95*u.obs/u.scatter
		u.mean, u.meanSD, u.obs = 0, u.mean, 0
	} else {
		if isNonNegative(f.r.Family) { // whose place the units must keep
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

// normalise brings what gather copied into the units of the points.
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

// store writes lane l as the coefficients of point p, in physical units.
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
	a[1] = u.scatter * *f.theta.at(1, l) / u.meanSD
	a[0] = u.obs + u.scatter**f.theta.at(0, l) - a[1]*u.mean
	for i := 2; i < k; i++ {
		a[i] = u.scatter * *f.theta.at(i, l)
	}
	t, d := *f.theta.at(k, l), *f.theta.at(k+1, l)
	switch r := u.scatter / u.spread; f.r.Link {
	case LinearScale:
		c[0], c[1] = u.scatter*t, r*d
	case QuadraticScale:
		c[0], c[1] = u.scatter*u.scatter*t, r*r*d
	case LogScale:
		c[0], c[1] = math.Log(u.scatter)+t-d*math.Log(u.spread), d
	}
}

// bounds are the least values of the coefficients. A constant part of a thousandth of the
// scatter keeps every scale above 0, and every mean of a family by its moments.
func (f *fitter) bounds() (low [maxTerms]float64) {
	const least = 1e-3
	for i := range low {
		low[i] = math.Inf(-1)
	}
	if hasMomentParameters(f.r.Family) {
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

// scale gives the scale at η = c + d·spread with its first two derivatives.
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
	if f.pooled != nil {
		f.pooled(q, theta)
		return
	}
	g := &f.group
	if f.r.Family != dist.Normal || !simd.NormalSums(q, theta, g.season, g.anomaly, g.spread, g.obs, f.r.Link.kernel()) {
		f.evaluateGo(q, theta)
	}
}

func (k Link) kernel() simd.Link {
	switch k {
	case QuadraticScale:
		return simd.Quadratic
	case LogScale:
		return simd.Log
	}
	return simd.Linear
}

// evaluateGo is evaluate for any family, one lane after the other.
func (f *fitter) evaluateGo(q sums, theta coefficients) {
	g := &f.group
	k := f.terms - scaleTerms
	seasons := k - 2
	for l := range lanes {
		if !f.active[l] {
			continue
		}
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
			c := f.score(mu, sigma, y)
			count++
			value += c.value
			for a := range k {
				grad[a] += c.dmu * x[a]
			}
			dscale := c.dsigma * first
			grad[k] += dscale
			grad[k+1] += dscale * x[k+1]
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

// The limits of minimise: a mean score is near 1.
const (
	newtonSteps     = 100
	newtonTolerance = 1e-13
	// newtonFinalDecrease is what a step promises that is taken without another look: the step
	// behind it would be of the order of its square.
	newtonFinalDecrease = 1e-9
	newtonDamp          = 1e-3 // the first damping, after a step that failed without any
	newtonMaxDamp       = 1e12
)

// minimise lowers the mean CRPS of every active lane from theta; steps counts what it took.
// A step that does not lower the score is taken back and damped more.
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
			if !(*f.next.value(l) < *f.at.value(l)) {
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

// What step did: nothing, as there is nothing to be gained; a trial, to be judged by its
// score; or the last step, which is taken.
const (
	noStep = iota
	stepTried
	stepTaken
)

// step puts the trial of lane l one damped Newton step from theta, within the bounds, or
// theta itself if the step is surely the last. Coefficients that lie on their bound
// and would leave it stay where they are.
func (f *fitter) step(l int, low *[maxTerms]float64) int {
	n := f.terms
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

// solve gives x = h⁻¹ g for a symmetric h of n rows (lower triangle, row by row), which
// it destroys, and the decrease gᵀx/2 that a quadratic promises; ok is false unless h is
// positive.
func solve(x *[maxTerms]float64, h *[curvTerms]float64, g *[maxTerms]float64, n int) (decrease float64, ok bool) {
	for r := range n {
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
	for r := range n {
		v := g[r]
		for k := range r {
			v -= h[r*(r+1)/2+k] * x[k]
		}
		x[r] = v * h[r*(r+3)/2]
		decrease += x[r] * x[r] / 2
	}
	for r := n - 1; r >= 0; r-- {
		v := x[r]
		for k := r + 1; k < n; k++ {
			v -= h[k*(k+1)/2+r] * x[k]
		}
		x[r] = v * h[r*(r+3)/2]
	}
	return decrease, true
}

// hasMomentParameters says that a family's location and scale are here its mean, above 0, and its
// standard deviation: those of its own that it has are of the logarithm.
func hasMomentParameters(f *dist.Family) bool { return f == dist.LogNormal }

// logNormalCRPS is the CRPS of the log-normal distribution of mean m and standard deviation
// s, with its derivatives by these. With q = 1 + (s/m)², of dist.LogNormalFromMoments:
//
//	dσ²/dm = −2 s²/(m³ q),  dσ²/ds = 2 s/(m² q),  dμ = dm/m − dσ²/2
func logNormalCRPS(m, s, y float64) (crps, dm, ds float64) {
	mu, sigma := dist.LogNormalFromMoments(m, s)
	crps, dmu, dsigma := dist.LogNormalCRPS(mu, sigma, y)
	ratio := s / m
	perS := 2 * ratio / (m * (1 + ratio*ratio)) // dσ²/ds
	perM := -ratio * perS
	return crps, dmu*(1/m-perM/2) + dsigma*perM/(2*sigma), -dmu*perS/2 + dsigma*perS/(2*sigma)
}

// isNonNegative says that a family has no values below 0.
func isNonNegative(f *dist.Family) bool { return f != dist.Normal && f != dist.Logistic }

// locationScaleCRPS is the CRPS of a family of location and scale with its derivatives,
// without the slices of dist.Family; nil for any other family.
func locationScaleCRPS(f *dist.Family) func(mu, sigma, y float64) (crps, dmu, dsigma float64) {
	switch f {
	case dist.Normal:
		return dist.NormalCRPS
	case dist.Logistic:
		return dist.LogisticCRPS
	case dist.TruncatedNormal:
		return dist.TruncatedNormalCRPS
	case dist.TruncatedLogistic:
		return dist.TruncatedLogisticCRPS
	case dist.CensoredNormal:
		return dist.CensoredNormalCRPS
	case dist.CensoredLogistic:
		return dist.CensoredLogisticCRPS
	case dist.LogNormal:
		return logNormalCRPS
	}
	return nil
}

// scoreHessian is a score at one place with its first and second derivatives by location
// and scale.
type scoreHessian struct{ value, dmu, dsigma, mumu, musigma, sigmasigma float64 }

// crpsWithHessian is the family's CRPS with exact second derivatives where they are written
// down, else with central differences of the exact first ones.
func crpsWithHessian(f *dist.Family) func(mu, sigma, y float64) scoreHessian {
	// Of σ·g(z) with z = (y−μ)/σ the second derivatives are g″/σ times 1, z and z².
	whole := func(c, dmu, dsigma, bend, z float64) scoreHessian {
		return scoreHessian{c, dmu, dsigma, bend, bend * z, bend * z * z}
	}
	switch f {
	case dist.Normal:
		return func(mu, sigma, y float64) scoreHessian {
			c, dmu, dsigma := dist.NormalCRPS(mu, sigma, y)
			return whole(c, dmu, dsigma, dist.NormalCRPSCurvature(dsigma, sigma), (y-mu)/sigma)
		}
	case dist.Logistic: // g′ = 2F − 1, and the density is F(1−F)
		return func(mu, sigma, y float64) scoreHessian {
			c, dmu, dsigma := dist.LogisticCRPS(mu, sigma, y)
			return whole(c, dmu, dsigma, (1-dmu*dmu)/(2*sigma), (y-mu)/sigma)
		}
	}
	crps := locationScaleCRPS(f)
	return func(mu, sigma, y float64) scoreHessian {
		const part = 1e-5 // of the scale: its square is the relative error, rounding adds 1e-11
		h := part * sigma
		c, dmu, dsigma := crps(mu, sigma, y)
		_, up, upScale := crps(mu+h, sigma, y)
		_, down, downScale := crps(mu-h, sigma, y)
		_, _, wide := crps(mu, sigma+h, y)
		_, _, narrow := crps(mu, sigma-h, y)
		half := 0.5 / h
		return scoreHessian{c, dmu, dsigma, (up - down) * half, (upScale - downScale) * half, (wide - narrow) * half}
	}
}
