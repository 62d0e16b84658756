package demo

import "math"

// Parameters of the three levels and of the climate.
const (
	nlev        = 3
	rossby1     = 7.0e5 // m, Rossby radius between levels 0 and 1
	rossby2     = 4.5e5 // m, between levels 1 and 2
	scaleHeight = 9.0e3 // m, of the orographic vorticity source f·h/scaleHeight
	equatorF    = 0.25  // sine of the latitude below which the thermal wind is reduced
	midwinter   = 20.0  // day of the year of the northern thermal midwinter over land
	seaLag      = 40.0  // lag of the sea in days
)

var pressure = [nlev]float64{25000, 50000, 85000}

// harmonic is a spectrum with an annual cycle: mean + cos·c + sin·s, with the phase relative to
// northern midwinter. Values between are mean + cos(φ)·c + sin(φ)·s with the phase φ of the year.
type harmonic struct{ mean, cos, sin spectrum }

// phase returns the phase of the annual cycle at a time in days since the start of the year. They
// are 1 and 0 on day midwinter.
func phase(t float64) (cos, sin float64) {
	sin, cos = math.Sincos(2 * math.Pi * (t - midwinter) / year)
	return cos, sin
}

// equilibrium returns the equilibrium of the two thicknesses (streamfunction differences, m2 s-1)
// for the Newtonian relaxation, and the sea surface temperature as an equivalent thickness ψ1−ψ2.
//
// The zonal wind shear of each thickness is a Gaussian jet in each hemisphere,
//
//	u(φ) = U (1 + s Δ) exp(−((|φ| − φ₀ + s δ)/width)²)
//
// with s = +1 in midwinter and −1 in midsummer: stronger and nearer to the equator in winter. Land
// cools the lower layer in winter; of that the upper layer gets 0.4.
//
// Source: docs/decisions/0003-demo-atmosphere.md.
func (p *physics) equilibrium(pl *planet) (upper, lower, sea harmonic) {
	t := newTransform()
	zonal := func(shear, c float64) spectrum {
		// c: +1 northern midwinter, −1 southern
		var u [nlat]float64
		for j := range u {
			lat := latitude(j)
			s := c
			if lat < 0 {
				s = -c
			}
			centre := p.jetLat - s*p.seasonShift
			u[j] = shear * (1 + s*p.seasonShear) * math.Exp(-square((math.Abs(lat)-centre)/p.jetWidth))
		}
		return zonalStreamfunction(&u)
	}
	mix := func(shear float64) harmonic {
		a, b := zonal(shear, 1), zonal(shear, -1)
		var h harmonic
		for k := range a {
			h.mean[k] = (a[k] + b[k]) / 2
			h.cos[k] = (a[k] - b[k]) / 2
		}
		return h
	}
	upper, lower = mix(p.shearUpper), mix(p.shearLower)
	sea = lower
	lagCos, lagSin := phase(midwinter + seaLag)
	for k := range sea.mean { // half amplitude and a lag over the sea
		sea.sin[k] = sea.cos[k] * complex(0.5*lagSin, 0)
		sea.cos[k] *= complex(0.5*lagCos, 0)
	}

	// Land-sea contrast: a temperature pattern, converted to a streamfunction with the local
	// Coriolis parameter and damped towards the equator.
	grid := make([]float64, npoint)
	var landSea, excess spectrum
	for j := range nlat {
		var mean float64
		for i := range nlon {
			mean += pl.land[j*nlon+i] / nlon
		}
		fade := 1 - math.Exp(-square(latitude(j)/25))
		for i := range nlon {
			k := j*nlon + i
			// colder in the winter of the hemisphere: −1 for the northern at phase 0
			sign := -1.0
			if j >= npair {
				sign = 1
			}
			grid[k] = sign * p.contrast * (pl.land[k] - mean) * fade / perKelvin(j)
		}
	}
	t.toSpectrum(&landSea, grid)
	for j := range nlat {
		for i := range nlon {
			grid[j*nlon+i] = p.seaExcess / perKelvin(j)
		}
	}
	t.toSpectrum(&excess, grid)
	for k := range landSea {
		lower.cos[k] += landSea[k]
		upper.cos[k] += landSea[k] * 0.4
		sea.mean[k] += excess[k]
	}
	for _, h := range []*harmonic{&upper, &lower, &sea} {
		h.mean[0], h.cos[0], h.sin[0] = 0, 0, 0
	}
	return upper, lower, sea
}

// perKelvin returns the temperature of the lower layer per unit of thickness ψ1−ψ2 at row j, K per
// m2 s-1: T = f(ψ1−ψ2)/(R ln p2/p1). The magnitude of f has a lower limit near the equator. On the
// sphere f = 2Ω sin φ changes its sign at the equator, and so does the streamfunction of a warm
// area; f therefore has the form 2Ω (s² + s₀² exp(−(s/s₀)²))/s, which is about 2Ωs for |s| ≫ s₀.
func perKelvin(j int) float64 {
	s := sphere.mu[j]
	f := 2 * omega * (s*s + equatorF*equatorF*math.Exp(-square(s/equatorF))) / s
	return f / (gasConstant * math.Log(pressure[2]/pressure[1]))
}

// zonalStreamfunction returns the streamfunction of a zonal wind. It projects the vorticity
// −1/(a cosφ) ∂(u cosφ)/∂φ with integration by parts and inverts the Laplacian.
//
// Unit: u in m s-1 by row, north to south; the result in m2 s-1.
func zonalStreamfunction(u *[nlat]float64) spectrum {
	var s spectrum
	for j := range nlat {
		sign := 1.0
		north := j
		if j >= npair {
			north, sign = nlat-1-j, -1
		}
		for n := 1; n <= trunc; n++ {
			h := sphere.h[north][n]
			if n%2 == 0 {
				h *= sign // H of even degree is odd about the equator
			}
			vorticity := sphere.w[j] * u[j] * sqrt(sphere.cos2[j]) * h / (earthRadius * sphere.cos2[j])
			s[n] -= complex(vorticity*earthRadius*earthRadius/float64(n*(n+1)), 0)
		}
	}
	return s
}
