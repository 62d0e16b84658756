package demo

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Variables are the short names of the variables of a Case, in order.
var Variables = []string{"gh", "t", "u", "v", "vo"}

// Levels are the levels of a Case, in order.
var Levels = []ensemble.Level{ensemble.PressureLevel(500), ensemble.PressureLevel(850)}

// Global means of the standard atmosphere. The dynamics do not determine them.
var (
	meanHeight      = [2]float64{5574, 1457}   // m, at Levels
	meanTemperature = [2]float64{253.0, 278.6} // K, at Levels
)

// Grid is the 64×32 Gaussian grid of all fields.
func Grid() *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.RegularGaussian, NX: nlon, NY: nlat, Lat: make([]float64, nlat), Lon: make([]float64, nlon)}
	for j := range g.Lat {
		g.Lat[j] = latitude(j)
	}
	for i := range g.Lon {
		g.Lon[i] = longitude(i)
	}
	g.Source.ScanningMode = -1
	return g
}

// fieldMaker computes the output variables from streamfunctions.
type fieldMaker struct {
	t       *transform
	scratch [5][]float64 // in the order of Variables
}

// newFieldMaker allocates the buffers; one fieldMaker serves one goroutine.
func newFieldMaker() *fieldMaker {
	f := &fieldMaker{t: newTransform()}
	for i := range f.scratch {
		f.scratch[i] = make([]float64, npoint)
	}
	return f
}

// fill computes the fields of one state. dst returns the destination for indices into Variables and
// Levels.
//
// Geopotential height is in linear balance with the wind, ∇²Φ = ∇·(f∇ψ). Temperature is
// hydrostatic: it is linear in ln p and has the layer means of the two layers.
//
// The mean temperature of a layer between p₁ and p₂ is (Φ₁ − Φ₂)/(R ln(p₂/p₁)), the hypsometric
// equation. Relative vorticity is ∇²ψ, degree by degree −n(n+1)/a² ψₙ.
//
// Unit: `gh` in m, `t` in K, `u` and `v` in m s-1, `vo` in s-1.
func (f *fieldMaker) fill(dst func(v, l int) []float32, psi *state) {
	var phi state
	var lnp [nlev]float64
	for l := range phi {
		balance(&phi[l], &psi[l])
		lnp[l] = math.Log(pressure[l])
	}
	var upper, lower, s spectrum // mean temperatures of the layers
	for k := range s {
		upper[k] = (phi[0][k] - phi[1][k]) / complex(gasConstant*(lnp[1]-lnp[0]), 0)
		lower[k] = (phi[1][k] - phi[2][k]) / complex(gasConstant*(lnp[2]-lnp[1]), 0)
	}
	above, below := (lnp[0]+lnp[1])/2, (lnp[1]+lnp[2])/2

	gh, t, u, v, vo := f.scratch[0], f.scratch[1], f.scratch[2], f.scratch[3], f.scratch[4]
	for i := range Levels {
		l := i + 1
		for k := range s {
			s[k] = phi[l][k] / gravity
		}
		s[0] = complex(meanHeight[i]*math.Sqrt2, 0) // P₀₀ = 1/√2
		f.t.toGrid(gh, &s)

		weight := complex((lnp[l]-above)/(below-above), 0)
		for k := range s {
			s[k] = upper[k] + weight*(lower[k]-upper[k])
		}
		s[0] = complex(meanTemperature[i]*math.Sqrt2, 0)
		f.t.toGrid(t, &s)

		f.t.wind(u, v, &psi[l])

		for k := range s {
			n := float64(sphere.deg[k])
			s[k] = psi[l][k] * complex(-n*(n+1)/(earthRadius*earthRadius), 0)
		}
		f.t.toGrid(vo, &s)

		for at, values := range f.scratch {
			out := dst(at, i)
			for p, x := range values {
				out[p] = float32(x)
			}
		}
	}
}

// balance solves ∇²Φ = ∇·(f∇ψ) degree by degree:
// Φₙ = 2Ω[(n−1)/n εₙψₙ₋₁ + (n+2)/(n+1) εₙ₊₁ψₙ₊₁]. The global mean is zero.
//
// It is the linear balance equation with the recurrence of μPₙ; the terms with n−1 and n+1 follow
// from f = 2Ωμ. The first coefficient of an order has no n−1.
func balance(phi, psi *spectrum) {
	for m := range trunc + 1 {
		for k := sphere.off[m]; k < sphere.off[m+1]; k++ {
			n := float64(sphere.deg[k])
			var v complex128
			if k > sphere.off[m] {
				v = complex((n-1)/n*sphere.eps[k], 0) * psi[k-1]
			}
			if k+1 < sphere.off[m+1] {
				v += complex((n+2)/(n+1)*sphere.eps[k+1], 0) * psi[k+1]
			}
			phi[k] = v * complex(2*omega, 0)
		}
	}
	phi[0] = 0
}
