package baseline

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/simd"
)

// gridFitter fits the coefficients of a GridEMOS to one group of points after another. The cases
// are in units of Scale:
//
//	anomaly (m − m̄)/Scale,  obs (y − m)/Scale,  spread S/Scale
//
// so that the location is the shift of the mean. Coefficients are in the order of
// simd.NormalSums, see fitOrder. Its scale is c + d·spread with c = sp(p) and d = sp(q): the sums
// are those of the kernel at (c, d), transformed to (p, q) by the chain rule.
//
// Source: GridEMOS has the model and its source; the derivatives of softplus follow from
// sp′ = 1/(1 + e⁻ˣ).
type gridFitter struct {
	*fitter
	g      *GridEMOS
	linear coefficients // those of the kernel
	// strength and target are those of the penalty; a strength of 0 is none.
	strength float64
	target   [maxTerms]float64
}

// fitOrder holds the position in Theta of each coefficient of a fit: a, e, then a₁ and a₂ if the
// fit has them, p, q.
func (g *GridEMOS) fitOrder() []int {
	if g.seasonal {
		return []int{0, 3, 1, 2, 4, 5}
	}
	return []int{0, 3, 4, 5}
}

// newGridFitter allocates a fitter for the dates of a set.
func (g *GridEMOS) newGridFitter(s *Set) *gridFitter {
	r := &Regression{Family: dist.Normal, Link: softplusScale}
	if g.seasonal {
		r.Harmonics = 1
	}
	f := &gridFitter{fitter: newFitter(r, len(s.Valid), seasonTable(s.Valid, r.Harmonics)), g: g, linear: newCoefficients()}
	f.sumsAt = f.sums
	for i, k := range g.fitOrder() {
		f.target[i] = g.Global[k]
	}
	return f
}

// gatherShifts copies the cases of the points lo to hi. A point with a case is active.
//
// Missing: obs is NaN and the other fields are 0 in incomplete cases and unused lanes.
func (f *gridFitter) gatherShifts(s *Set, lo, hi int) {
	n, g := s.Points(), &f.group
	nan, inverse := float32(math.NaN()), 1/f.g.Scale
	f.active = [lanes]bool{}
	clear(g.anomaly)
	clear(g.spread)
	bar := f.g.MeanBar[lo:hi]
	for i := range g.dates {
		obs, anomaly, spread := g.obs[i*lanes:][:lanes], g.anomaly[i*lanes:][:lanes], g.spread[i*lanes:][:lanes]
		means, stds, truth := s.Mean[i*n+lo:i*n+hi], s.Std[i*n+lo:i*n+hi], s.Obs[i*n+lo:i*n+hi]
		for l := len(bar); l < lanes; l++ {
			obs[l] = nan
		}
		for l, b := range bar {
			m, sd, y := means[l], stds[l], truth[l]
			if m != m || sd != sd || y != y {
				obs[l] = nan
				continue
			}
			obs[l] = float32((float64(y) - float64(m)) * inverse)
			anomaly[l] = float32((float64(m) - b) * inverse)
			spread[l] = float32(float64(sd) * inverse)
			f.active[l] = true
		}
	}
}

// load sets the coefficients to those of the points lo to hi, and save stores them there.
func (f *gridFitter) load(lo, hi int) {
	for l := range hi - lo {
		for i, k := range f.g.fitOrder() {
			*f.theta.at(i, l) = f.g.Theta[(lo+l)*gridTerms+k]
		}
	}
}

func (f *gridFitter) save(lo, hi int) {
	for l := range hi - lo {
		for i, k := range f.g.fitOrder() {
			f.g.Theta[(lo+l)*gridTerms+k] = *f.theta.at(i, l)
		}
	}
}

// minimiseFor minimises at the points that were gathered, for a strength, beginning with the
// present coefficients.
func (f *gridFitter) minimiseFor(points int, strength float64) {
	var steps [lanes]int
	fitted := f.active
	f.strength = strength
	f.minimise(steps[:points])
	f.active = fitted
}

// linearise sets the coefficients of the kernel: those of theta, with sp(p) and sp(q) for p and q.
func (f *gridFitter) linearise(theta coefficients) {
	copy(f.linear, theta)
	for i := f.terms - scaleTerms; i < f.terms; i++ {
		for l := range lanes {
			*f.linear.at(i, l) = softplus(*theta.at(i, l))
		}
	}
}

// kernelSums fills q with the sums of all lanes at theta, with derivatives with respect to c and d instead of p and q.
func (f *gridFitter) kernelSums(q sums, theta coefficients) {
	g := &f.group
	f.linearise(theta)
	if !simd.NormalSums(q, f.linear, g.season, g.anomaly, g.spread, g.obs, simd.Linear) {
		f.evaluateGo(q, f.linear)
	}
}

// sums fills q with the sums of all lanes at theta, with the penalty.
func (f *gridFitter) sums(q sums, theta coefficients) {
	f.kernelSums(q, theta)
	for l := range lanes {
		if f.active[l] {
			f.chain(q, theta, l)
			f.penalise(q, theta, l)
		}
	}
}

// chain transforms the derivatives of lane l with respect to c = sp(p) and d = sp(q) to p and q:
//
//	∂/∂p = sp′(p) ∂/∂c,   ∂²/∂p² = sp′(p)² ∂²/∂c² + sp″(p) ∂/∂c,   sp″ = sp′(1 − sp′)
//
// The term with sp″ is added where it is positive, which keeps the matrix positive semidefinite.
func (f *gridFitter) chain(q sums, theta coefficients, l int) {
	for a := f.terms - scaleTerms; a < f.terms; a++ {
		slope := logistic(*theta.at(a, l))
		row := a * (a + 1) / 2
		for b := range a {
			*q.curv(row+b, l) *= slope
		}
		*q.curv(row+a, l) = slope**q.curv(row+a, l)*slope + max(0, slope*(1-slope)**q.grad(a, l))
		for b := a + 1; b < f.terms; b++ {
			*q.curv(b*(b+1)/2+a, l) *= slope
		}
		*q.grad(a, l) *= slope
	}
}

// penalise adds (strength/n)·|θ − target|² to lane l, with n the number of cases.
func (f *gridFitter) penalise(q sums, theta coefficients, l int) {
	if f.strength == 0 {
		return
	}
	w := f.strength / *q.count(l)
	for a := range f.terms {
		d := *theta.at(a, l) - f.target[a]
		*q.value(l) += w * d * d
		*q.grad(a, l) += 2 * w * d
		*q.curv(a*(a+3)/2, l) += 2 * w
	}
}

// score is the weighted sum of the CRPS of the points lo to hi, in units of Scale, and the sum of
// the weights, with the coefficients that are loaded.
func (f *gridFitter) score(s *Set, lo, hi int) (crps, weight float64) {
	f.strength = 0
	f.sums(f.at, f.theta)
	for l := range hi - lo {
		if f.active[l] {
			w := s.weight(lo+l) * *f.at.count(l)
			crps += w * *f.at.value(l)
			weight += w
		}
	}
	return crps, weight
}

// softplus is log(1+exp(x)), a smooth positive function.
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// logistic is 1/(1+exp(−x)), the derivative of softplus.
func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
