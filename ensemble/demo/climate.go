package demo

import "math"

// Pressures of the three levels, Pa, and what ties them together.
const (
	nlev        = 3
	rossby1     = 7.0e5 // m, Rossby radius between levels 0 and 1
	rossby2     = 4.5e5 // m, between levels 1 and 2
	scaleHeight = 9.0e3 // m, height that would stretch a column by all of f
	equatorF    = 0.25  // latitudes below asin of this have no thermal wind to speak of
	midwinter   = 20.0  // day of the year of the northern thermal midwinter over land
	seaLag      = 40.0  // days by which the sea lags
)

var pressure = [nlev]float64{25000, 50000, 85000}

// harmonic is a spectrum that swings with the seasons: mean + cos·c + sin·s of
// the phase counted from northern midwinter.
type harmonic struct{ mean, cos, sin spectrum }

// phase of the seasons at a time in days since the turn of the year.
func phase(t float64) (cos, sin float64) {
	sin, cos = math.Sincos(2 * math.Pi * (t - midwinter) / year)
	return cos, sin
}

// equilibrium gives what the two thicknesses (streamfunction differences,
// m2 s-1) are relaxed to, and the temperature of the sea surface expressed in
// the same way, as the thickness ψ1−ψ2 of air in balance with it.
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
	for k := range sea.mean { // the sea has half the amplitude, later
		sea.sin[k] = sea.cos[k] * complex(0.5*lagSin, 0)
		sea.cos[k] *= complex(0.5*lagCos, 0)
	}

	// Land against sea: a pattern in temperature, made a streamfunction with the
	// local Coriolis parameter, fading towards the equator.
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

// perKelvin is the temperature of the lower layer that one unit of thickness
// ψ1−ψ2 means at row j, K per m2 s-1: T = f(ψ1−ψ2)/(R ln p2/p1), with f kept
// away from zero near the equator.
func perKelvin(j int) float64 {
	s := sphere.mu[j]
	f := 2 * omega * (s*s + equatorF*equatorF*math.Exp(-square(s/equatorF))) / s
	return f / (gasConstant * math.Log(pressure[2]/pressure[1]))
}

// zonalStreamfunction gives the streamfunction of a zonal wind: the vorticity
// −1/(a cosφ) ∂(u cosφ)/∂φ projected by parts, inverted.
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
