package demo

import (
	"math"
	"math/rand/v2"
)

// purpose identifies a random stream. The numbers therefore do not depend on the order of execution.
type purpose uint64

const (
	forSpinUp purpose = iota + 1
	forObservations
	forSeeds
	forMembers
	forTwins
)

// stream returns the random number generator of a purpose for one index. The upper 16 bits of the
// second word are the purpose, the lower 48 the index, so no two streams are equal.
//
// Source: O'Neill 2014, PCG (math/rand/v2).
func stream(seed uint64, p purpose, index int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(p)<<48^uint64(int64(index))&(1<<48-1)))
}

// noise draws a random streamfunction on the three levels. The root mean square wind is about 1 m
// s-1. peak is the degree with the largest kinetic energy, barotropic the share b of a field that
// all levels have in common.
//
// The energy of degree n is proportional to (n/peak)² exp(1 − (n/peak)²) and is distributed equally
// over its 2n+1 orders. A level is
//
//	ψ_l = b·common + √(1 − b²)·own_l
//
// with correlation b² between levels and equal variance for each b.
func noise(dst *state, r *rand.Rand, peak, barotropic float64) {
	var amp [trunc + 1]float64
	var energy float64
	for n := 1; n <= trunc; n++ {
		x := float64(n) / peak
		e := x * x * math.Exp(1-x*x) // sum over all orders of the degree
		energy += e
		amp[n] = math.Sqrt(e/(float64(n)*float64(n+1)*float64(2*n+1))) * earthRadius
	}
	own := math.Sqrt(1 - barotropic*barotropic)
	draw := func(k int) complex128 {
		if k < sphere.off[1] {
			return complex(r.NormFloat64(), 0)
		}
		return complex(r.NormFloat64(), r.NormFloat64()) * complex(math.Sqrt(0.5), 0)
	}
	// The mean square is ½Σ|a|² over both signs of m: a unit mean square needs a variance of 2.
	unit := math.Sqrt(2 / energy)
	for k := range ncoef {
		common := draw(k)
		for l := range nlev {
			a := complex(amp[sphere.deg[k]]*unit, 0)
			dst[l][k] = a * (complex(barotropic, 0)*common + complex(own, 0)*draw(k))
		}
	}
}

// windNorm returns the root mean square wind of a streamfunction over all levels, m s-1. The mean
// square wind of degree n is n(n+1)/a² times that of ψ, by Green's theorem on the sphere.
func windNorm(psi *state) float64 {
	var sum float64
	var s spectrum
	for l := range psi {
		for k, v := range psi[l] {
			n := float64(sphere.deg[k])
			s[k] = v * complex(math.Sqrt(n*(n+1))/earthRadius, 0)
		}
		sum += meanSquare(&s)
	}
	return math.Sqrt(sum / nlev)
}

// scaleTo rescales a streamfunction to a given windNorm. A streamfunction of 0 has no direction and
// gives NaN; random ones are never 0.
func scaleTo(psi *state, norm float64) {
	f := complex(norm/windNorm(psi), 0)
	for l := range psi {
		for k := range psi[l] {
			psi[l][k] *= f
		}
	}
}

// addScaled adds f·b to a.
func addScaled(a, b *state, f float64) {
	for l := range a {
		for k := range a[l] {
			a[l][k] += b[l][k] * complex(f, 0)
		}
	}
}
