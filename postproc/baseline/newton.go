package baseline

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// gridCase is one case of a GridEMOS in units of its Scale.
type gridCase struct {
	sin, cos, anomaly float64 // regressors of a₁, a₂ and e
	miss              float64 // observation − ensemble mean
	spread            float64
}

// predict returns the shift of the mean and sigma:
//
//	shift = a + a₁ sin τ + a₂ cos τ + e·anomaly,   sigma = sp(p) + sp(q)·spread
func (c *gridCase) predict(t *[gridTerms]float64) (shift, sigma float64) {
	return t[0] + t[1]*c.sin + t[2]*c.cos + t[3]*c.anomaly, softplus(t[4]) + softplus(t[5])*c.spread
}

// quadraticModel holds value, gradient and second derivatives (lower triangle, row by row) of a
// function at one place.
type quadraticModel struct {
	value, weight float64 // weighted sum of the scores, and of the weights
	grad          [gridTerms]float64
	curv          [gridTerms * (gridTerms + 1) / 2]float64
}

// addCases adds w times the CRPS of the cases. The second derivatives of the CRPS with
// respect to mu and sigma are exact and positive semidefinite. Those of the softplus are
// added where they are positive, which keeps the matrix positive semidefinite.
//
// Shape: t [a a₁ a₂ e p q], as GridEMOS.Theta.
// Source: as dist.NormalCRPS and dist.NormalCRPSCurvature.
func (q *quadraticModel) addCases(t *[gridTerms]float64, cases []gridCase, w float64) {
	// With z = (y−mu)/sigma and k = 2φ(z)/sigma, the second derivatives of the CRPS with
	// respect to (mu, sigma) are k(1, z; z, z²). So the matrix is k g gᵀ with
	// g = (1, sin, cos, anomaly, sp'(p) z, sp'(q) z s).
	sp4, sp5 := softplus(t[4]), softplus(t[5])
	d4, d5 := logistic(t[4]), logistic(t[5])
	var dsig, dsigSpread float64
	for i := range cases {
		c := &cases[i]
		mu := t[0] + t[1]*c.sin + t[2]*c.cos + t[3]*c.anomaly
		sigma := sp4 + sp5*c.spread
		crps, dmu, dsigma := dist.NormalCRPS(mu, sigma, c.miss)
		q.value += w * crps
		g := [gridTerms]float64{1, c.sin, c.cos, c.anomaly, d4, d5 * c.spread}
		a, b := w*dmu, w*dsigma
		q.grad[0] += a
		q.grad[1] += a * g[1]
		q.grad[2] += a * g[2]
		q.grad[3] += a * g[3]
		q.grad[4] += b * g[4]
		q.grad[5] += b * g[5]
		dsig += b
		dsigSpread += b * c.spread
		z := (c.miss - mu) / sigma
		k := w * dist.NormalCRPSCurvature(dsigma, sigma)
		g[4] *= z
		g[5] *= z
		at := 0
		for r := range gridTerms {
			kr := k * g[r]
			for s := range r + 1 {
				q.curv[at] += kr * g[s]
				at++
			}
		}
	}
	// The second derivatives of sigma, sp'' = sp'(1−sp'), times ∂CRPS/∂sigma. Elements 14 and
	// 20 are the diagonal of p and q in the lower triangle.
	q.curv[14] += max(0, dsig*d4*(1-d4))
	q.curv[20] += max(0, dsigSpread*d5*(1-d5))
	q.weight += w * float64(len(cases))
}

// addPenalty adds strength·|t−target|².
func (q *quadraticModel) addPenalty(t, target *[gridTerms]float64, strength float64) {
	for k := range t {
		d := t[k] - target[k]
		q.value += strength * d * d
		q.grad[k] += 2 * strength * d
		q.curv[k*(k+3)/2] += 2 * strength
	}
}

// add adds the sums of other cases.
func (q *quadraticModel) add(o *quadraticModel) {
	q.value += o.value
	q.weight += o.weight
	for k, v := range o.grad {
		q.grad[k] += v
	}
	for k, v := range o.curv {
		q.curv[k] += v
	}
}

// divide divides all sums by a number.
func (q *quadraticModel) divide(by float64) {
	q.value /= by
	for k := range q.grad {
		q.grad[k] /= by
	}
	for k := range q.curv {
		q.curv[k] /= by
	}
}

// newton minimises f from x by damped Newton steps (Levenberg–Marquardt): a step that does
// not lower the value is rejected and the damping increased tenfold, otherwise it is
// decreased tenfold. It ends if the predicted decrease is below 1e-10, for mean scores
// near 1.
//
// Source: Marquardt 1963, doi:10.1137/0111030, for the damping.
func newton(x [gridTerms]float64, f func(x *[gridTerms]float64) quadraticModel) [gridTerms]float64 {
	const tolerance = 1e-10 // expected decrease of a mean score near 1
	q := f(&x)
	damp := 1e-6
	for range 60 {
		step, decrease, ok := q.solve(damp)
		if ok && decrease < tolerance {
			break
		}
		if ok {
			y := x
			for k := range y {
				y[k] -= step[k]
			}
			if r := f(&y); r.value < q.value {
				x, q = y, r
				damp = max(damp/10, 1e-9)
				continue
			}
		}
		if damp *= 10; damp > 1e6 {
			break
		}
	}
	return x
}

// solve computes the step (H + damp·I)⁻¹ g by Cholesky decomposition, and the decrease
// predicted by the quadratic model. ok is false if H + damp·I is not positive definite.
func (q *quadraticModel) solve(damp float64) (step [gridTerms]float64, decrease float64, ok bool) {
	l := q.curv
	for r := range gridTerms {
		row := r * (r + 1) / 2
		l[row+r] += damp
		for c := range r + 1 {
			col := c * (c + 1) / 2
			v := l[row+c]
			for k := range c {
				v -= l[row+k] * l[col+k]
			}
			if c < r {
				l[row+c] = v / l[col+c]
			} else if v > 0 {
				l[row+c] = math.Sqrt(v)
			} else {
				return step, 0, false
			}
		}
	}
	for r := range gridTerms { // L u = g
		v := q.grad[r]
		for k := range r {
			v -= l[r*(r+1)/2+k] * step[k]
		}
		step[r] = v / l[r*(r+3)/2]
		decrease += step[r] * step[r] / 2
	}
	for r := gridTerms - 1; r >= 0; r-- { // Lᵀ step = u
		v := step[r]
		for k := r + 1; k < gridTerms; k++ {
			v -= l[k*(k+1)/2+r] * step[k]
		}
		step[r] = v / l[r*(r+3)/2]
	}
	return step, decrease, true
}

// softplus is log(1+exp(x)), a smooth positive function.
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// logistic is 1/(1+exp(−x)), the derivative of softplus.
func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
