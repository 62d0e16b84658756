package baseline

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// gridCase is one case of a GridEMOS in units of its scale.
type gridCase struct {
	sin, cos, anomaly float64 // what a₁, a₂ and e multiply
	miss              float64 // observation − ensemble mean
	spread            float64
}

// predict gives the shift of the mean, and sigma.
func (c *gridCase) predict(t *[gridTerms]float64) (shift, sigma float64) {
	return t[0] + t[1]*c.sin + t[2]*c.cos + t[3]*c.anomaly, softplus(t[4]) + softplus(t[5])*c.spread
}

// quadraticModel is a function's value, gradient and curvature at one place (lower
// triangle of a symmetric matrix, row by row).
type quadraticModel struct {
	value, weight float64
	grad          [gridTerms]float64
	curv          [gridTerms * (gridTerms + 1) / 2]float64
}

// addCases adds w times the CRPS of the cases. Of the curvature, what the CRPS
// itself has (never negative) is exact; the bend of the softplus enters where it
// is positive.
func (q *quadraticModel) addCases(t *[gridTerms]float64, cases []gridCase, w float64) {
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
	// σ's own second derivatives: sp'' = sp'(1−sp')
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

func (q *quadraticModel) divide(by float64) {
	q.value /= by
	for k := range q.grad {
		q.grad[k] /= by
	}
	for k := range q.curv {
		q.curv[k] /= by
	}
}

// newton minimises f from x by damped Newton steps: damping grows until a step
// lowers the value, and fades when steps succeed.
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

// solve gives the step (H + damp·I)⁻¹ g by Cholesky decomposition, and the
// decrease that the quadratic promises; ok is false if H is not positive.
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

// softplus is log(1+exp(x)), a smooth way to stay above 0.
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// logistic is 1/(1+exp(−x)), the derivative of softplus.
func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
