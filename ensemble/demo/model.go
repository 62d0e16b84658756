package demo

import (
	"math"
)

// state is the prognostic field on the three levels 250, 500 and 850 hPa: potential vorticity without
// the constant part f(1+h/scale), s-1. The type is also used for streamfunctions, m2 s-1.
type state [nlev]spectrum

// stepsPerDay is the number of time steps of the third-order Adams–Bashforth scheme; a step is 1 h.
const stepsPerDay = 24

// model is the quasi-geostrophic model with one set of physics parameters:
//
//	∂q₀/∂t = −J(ψ₀,q₀)           − R₁⁻²H₁          − c∇⁸q₀
//	∂q₁/∂t = −J(ψ₁,q₁)           + R₁⁻²H₁ − R₂⁻²H₂ − c∇⁸q₁
//	∂q₂/∂t = −J(ψ₂,q₂+fh/scale)  + R₂⁻²H₂ − ∇×(kV₂) − c∇⁸q₂
//
// with q₀ = ∇²ψ₀ − R₁⁻²(ψ₀−ψ₁) + f, and q₁ and q₂ accordingly. H₁ and H₂ are the heating of the two
// thicknesses: Newtonian relaxation, latent heat and heat from the sea. The fluxes Vq and kV are
// computed on the grid. Their divergence is computed by integration by parts in the Legendre
// transform. Without forcing, energy is therefore conserved up to rounding errors, and enstrophy up
// to quadrature errors.
//
// Source: Marshall & Molteni 1993, doi:10.1175/1520-0469(1993)050<1792:TADUOP>2.0.CO;2.
//
// Several integrators can share a model.
type model struct {
	phys              physics
	inverse           [trunc + 1][nlev][nlev]float64 // ψ from q, by degree
	damp              [trunc + 1]float64             // hyperdiffusion, s-1
	relax1, relax2    float64                        // s-1
	upper, lower      harmonic
	coriolis          [nlat]float64
	mountain          []float64 // fh/scale
	dragFix, dragGust []float64 // s-1, and s-1 per (m s-1)
	sea               [3][]float64
	seaFix, seaGust   []float64 // s-1, and s-1 per (m s-1)
	latent            []float64 // 1
	hemisphere        [nlat]float64
	kelvin            [nlat]float64
}

// newModel computes all fields that do not change in time. Storms is the weight of the latitudes of
// storm tracks, 1 at 44° and nearly 0 at the equator and the poles, for latent heat and heat of the
// sea. Drag and heat of the sea have a constant part and one that is proportional to the wind speed;
// both together have the given value at 10 m s-1.
func newModel(p physics, pl *planet) *model {
	m := &model{phys: p}
	t := newTransform()
	r1, r2 := 1/(rossby1*rossby1), 1/(rossby2*rossby2)
	for n := 1; n <= trunc; n++ {
		l := -float64(n*(n+1)) / (earthRadius * earthRadius)
		m.inverse[n] = invert3([nlev][nlev]float64{{l - r1, r1, 0}, {r1, l - r1 - r2, r2}, {0, r2, l - r2}})
		if p.diffusion > 0 {
			m.damp[n] = math.Pow(float64(n*(n+1))/(trunc*(trunc+1)), 4) / (p.diffusion * day)
		}
	}
	if p.relaxUpper > 0 {
		m.relax1, m.relax2 = 1/(p.relaxUpper*day), 1/(p.relaxLower*day)
	}
	upper, lower, sea := p.equilibrium(pl)
	m.upper, m.lower = upper, lower
	for i, s := range []*spectrum{&sea.mean, &sea.cos, &sea.sin} {
		m.sea[i] = make([]float64, npoint)
		t.toGrid(m.sea[i], s)
	}
	m.mountain = m.smoothMountains(pl, t)
	for _, g := range []*[]float64{&m.dragFix, &m.dragGust, &m.seaFix, &m.seaGust, &m.latent} {
		*g = make([]float64, npoint)
	}
	for j := range nlat {
		lat := latitude(j)
		m.coriolis[j] = 2 * omega * sphere.mu[j]
		m.hemisphere[j] = math.Copysign(1, lat)
		m.kelvin[j] = perKelvin(j)
		storms := math.Exp(-square((math.Abs(lat) - 44) / 18))
		for i := range nlon {
			k := j*nlon + i
			land := pl.land[k]
			drag := (p.dragSea + p.dragLand*land + p.dragHeight*(1-math.Exp(-pl.height[k]/1000))) / day
			m.dragFix[k] = drag * (1 - p.gust)
			m.dragGust[k] = drag * p.gust / 10
			heat := p.seaHeat / day * (1 - land) * storms
			m.seaFix[k] = heat * (1 - p.seaGust)
			m.seaGust[k] = heat * p.seaGust / 10
			m.latent[k] = (p.latentSea*(1-land) + p.latentLand*land) * storms
		}
	}
	return m
}

// smoothMountains returns fh/scale on the grid for the filtered orography: coefficients of degree n are
// multiplied by exp(−(n/N)⁴), so that the spectral truncation causes no ripples.
//
// Unit: s-1.
func (m *model) smoothMountains(pl *planet, t *transform) []float64 {
	g := make([]float64, npoint)
	var s spectrum
	t.toSpectrum(&s, pl.height)
	for k := range s {
		n := float64(sphere.deg[k])
		s[k] *= complex(m.phys.heightFactor*math.Exp(-math.Pow(n/m.phys.heightDegree, 4)), 0)
	}
	t.toGrid(g, &s)
	for k := range g {
		g[k] *= 2 * omega * sphere.mu[k/nlon] / scaleHeight
	}
	t.toSpectrum(&s, g)
	t.toGrid(g, &s)
	return g
}

// streamfunction computes the streamfunction from potential vorticity. By degree n it is a 3×3 system:
// with l = −n(n+1)/a², the matrix of vorticity is
//
//	l − R₁⁻²   R₁⁻²              0
//	R₁⁻²       l − R₁⁻² − R₂⁻²   R₂⁻²
//	0          R₂⁻²              l − R₂⁻²
//
// newModel inverts it once for each degree.
//
// Unit: q in s-1, psi in m2 s-1.
func (m *model) streamfunction(psi, q *state) {
	for k := range ncoef {
		a := &m.inverse[sphere.deg[k]]
		q0, q1, q2 := q[0][k], q[1][k], q[2][k]
		for l := range nlev {
			psi[l][k] = complex(a[l][0], 0)*q0 + complex(a[l][1], 0)*q1 + complex(a[l][2], 0)*q2
		}
	}
}

// vorticity computes potential vorticity without the constant part: the matrix of streamfunction, not
// inverted.
func (m *model) vorticity(q, psi *state) {
	r1, r2 := complex(1/(rossby1*rossby1), 0), complex(1/(rossby2*rossby2), 0)
	for k := range ncoef {
		n := sphere.deg[k]
		lap := complex(-float64(n*(n+1))/(earthRadius*earthRadius), 0)
		p0, p1, p2 := psi[0][k], psi[1][k], psi[2][k]
		q[0][k] = lap*p0 - r1*(p0-p1)
		q[1][k] = lap*p1 + r1*(p0-p1) - r2*(p1-p2)
		q[2][k] = lap*p2 + r2*(p1-p2)
	}
}

// row is the buffer of one latitude. Each complex transform contains two real rows and is computed
// in place.
type row struct {
	wave [5][nlon]complex128 // V₀+iU₀ V₁+iU₁ V₂+iU₂ q₀+iq₁ q₂+i(ψ₁−ψ₂)/R₂²; spectra, then grid values
	flux [4][nlon]complex128 // (Vq)₀ (Vq)₁ (Vq)₂, each east+i·north; H₁+iH₂; grid values, then spectra
}

// integrator integrates a model on one goroutine. Only its constructor allocates memory.
type integrator struct {
	*model
	north    row
	south    row
	psi      state
	tendency [3]state // ring buffer; newest is the index of the latest tendency
	steps    int      // number of tendencies since the last restart
	newest   int
}

// integrator returns an integrator without stored tendencies.
func (m *model) integrator() *integrator {
	return &integrator{model: m}
}

// restart discards the stored tendencies before a new trajectory. Tendencies of another trajectory
// would be an error of first order.
func (g *integrator) restart() { g.steps = 0 }

// run integrates q over n steps from time t in days since the start of the year, by the third-order
// Adams–Bashforth scheme:
//
//	q ← q + Δt (23 f₀ − 16 f₁ + 5 f₂) / 12
//
// with f₀ the present tendency, f₁ and f₂ those of the steps before. The first step after a restart is
// Euler's, the second of second order: (3 f₀ − f₁)/2.
//
// Source: Durran 1991, doi:10.1175/1520-0493(1991)119<0702:TTOABM>2.0.CO;2.
func (g *integrator) run(q *state, t float64, n int) {
	const dt = day / stepsPerDay
	for i := range n {
		g.newest = (g.newest + 2) % 3
		now := &g.tendency[g.newest]
		last, before := &g.tendency[(g.newest+1)%3], &g.tendency[(g.newest+2)%3]
		g.rate(now, q, t+float64(i)/stepsPerDay)
		var a, b, c complex128
		switch g.steps {
		case 0:
			a = dt
		case 1:
			a, b = 1.5*dt, -0.5*dt
		default:
			a, b, c = 23.0/12*dt, -16.0/12*dt, 5.0/12*dt
		}
		g.steps++
		for l := range q {
			x, f0, f1, f2 := &q[l], &now[l], &last[l], &before[l]
			for k := range x {
				x[k] += complex(real(a)*real(f0[k])+real(b)*real(f1[k])+real(c)*real(f2[k]),
					real(a)*imag(f0[k])+real(b)*imag(f1[k])+real(c)*imag(f2[k]))
			}
		}
	}
}

// rate computes the time derivative of q. Products are formed on the grid, row by row: Legendre sums and
// Fourier transforms lead to the grid values of a pair of rows symmetric about the equator, and their
// transposes back to coefficients (the transform method, Orszag 1970).
func (g *integrator) rate(dq, q *state, t float64) {
	g.streamfunction(&g.psi, q)
	*dq = state{}
	seasonCos, seasonSin := phase(t)
	for j := range npair {
		g.synthesize(j, q)
		for f := range g.north.wave {
			fourier64(&g.north.wave[f], &inverseOrder)
			fourier64(&g.south.wave[f], &inverseOrder)
		}
		g.pointwise(&g.north, j, seasonCos, seasonSin)
		g.pointwise(&g.south, nlat-1-j, seasonCos, seasonSin)
		for f := range g.north.flux {
			fourier64(&g.north.flux[f], &forwardOrder)
			fourier64(&g.south.flux[f], &forwardOrder)
		}
		g.analyse(j, dq)
	}
	g.linear(dq, q, seasonCos, seasonSin)
}

// synthesize computes the Legendre sums for a pair of rows and fills the packed spectra. U and V
// contain the factor cosφ.
func (g *integrator) synthesize(j int, q *state) {
	const inv = 1 / earthRadius
	// The two fields of a packed pair must have similar magnitudes, because of rounding errors. The
	// thickness is therefore scaled to a vorticity.
	const perThickness = 1 / (rossby2 * rossby2)
	p, h := &sphere.p[j], &sphere.h[j]
	for f := range g.north.wave { // contains grid values of the previous rows
		clear(g.north.wave[f][trunc+1 : nlon-trunc])
		clear(g.south.wave[f][trunc+1 : nlon-trunc])
	}
	for m := range trunc + 1 {
		lo, hi := sphere.off[m], sphere.off[m+1]
		dm := float64(m) * inv
		var n, s [nlev]complex128 // ψ sums
		var qn, qs [nlev]complex128
		for l := range nlev {
			pe, po, he, ho, qe, qo := legendreSums(p[lo:hi], h[lo:hi], g.psi[l][lo:hi], q[l][lo:hi])
			n[l], s[l] = pe+po, pe-po
			qn[l], qs[l] = qe+qo, qe-qo
			vn := complex(-dm*imag(n[l]), dm*real(n[l]))
			vs := complex(-dm*imag(s[l]), dm*real(s[l]))
			un := complex(-inv*real(he+ho), -inv*imag(he+ho))
			us := complex(-inv*real(ho-he), -inv*imag(ho-he))
			pack(&g.north.wave[l], m, vn, un)
			pack(&g.south.wave[l], m, vs, us)
		}
		pack(&g.north.wave[3], m, qn[0], qn[1])
		pack(&g.south.wave[3], m, qs[0], qs[1])
		pack(&g.north.wave[4], m, qn[2], (n[1]-n[2])*perThickness)
		pack(&g.south.wave[4], m, qs[2], (s[1]-s[2])*perThickness)
	}
}

// legendreSums computes Σpψ, Σhψ and Σpq separately for even and odd indices. An index counts from
// the order m, so even indices are the functions that are symmetric about the equator: north and
// south are their sum and their difference with the odd ones, and one loop serves both rows. Real
// and imaginary parts are separate sums, which the compiler keeps in registers.
func legendreSums(p, h []float64, psi, q []complex128) (pe, po, he, ho, qe, qo complex128) {
	n := len(p)
	h, psi, q = h[:n], psi[:n], q[:n]
	var per, pei, por, poi, her, hei, hor, hoi, qer, qei, qor, qoi float64
	k := 0
	for ; k+1 < n; k += 2 {
		p0, h0, a0, b0 := p[k], h[k], psi[k], q[k]
		per += p0 * real(a0)
		pei += p0 * imag(a0)
		her += h0 * real(a0)
		hei += h0 * imag(a0)
		qer += p0 * real(b0)
		qei += p0 * imag(b0)
		p1, h1, a1, b1 := p[k+1], h[k+1], psi[k+1], q[k+1]
		por += p1 * real(a1)
		poi += p1 * imag(a1)
		hor += h1 * real(a1)
		hoi += h1 * imag(a1)
		qor += p1 * real(b1)
		qoi += p1 * imag(b1)
	}
	if k < n {
		p0, h0, a0, b0 := p[k], h[k], psi[k], q[k]
		per += p0 * real(a0)
		pei += p0 * imag(a0)
		her += h0 * real(a0)
		hei += h0 * imag(a0)
		qer += p0 * real(b0)
		qei += p0 * imag(b0)
	}
	return complex(per, pei), complex(por, poi), complex(her, hei), complex(hor, hoi), complex(qer, qei), complex(qor, qoi)
}

// pack inserts coefficient m of two real rows f, g into the spectrum of f+ig: one complex transform then
// serves two real rows.
func pack(z *[nlon]complex128, m int, f, g complex128) {
	if m == 0 {
		z[0] = complex(real(f), real(g))
		return
	}
	z[m] = complex(real(f)-imag(g), imag(f)+real(g))
	z[nlon-m] = complex(real(f)+imag(g), real(g)-imag(f))
}

// unpack extracts coefficient m of two real rows f, g from the transform of f+ig. It is the inverse
// of pack: with Z the transform of both, F = (Z_m + Z*_{−m})/2 and G = (Z_m − Z*_{−m})/2i.
func unpack(z *[nlon]complex128, m int) (f, g complex128) {
	a, b := z[m], z[(nlon-m)%nlon]
	f = complex((real(a)+real(b))/2, (imag(a)-imag(b))/2)
	g = complex((imag(a)+imag(b))/2, (real(b)-real(a))/2)
	return f, g
}

// pointwise computes the fluxes and the heating on one row:
//
//	flux_l = V_l q_l, in the lowest layer plus k (v₂, −u₂), whose divergence is k times vorticity
//	k = k₀ + k₁ |V₂|
//	latent heat = L · A · max(0.2, 1 + ½ vapour · θ)², for warm advection A > 0
//	heat of the sea = (s₀ + s₁ |V₂|)(θ_sea − θ), weaker where the sea is colder than the air
//
// θ is the thickness of the lower layer, with the sign that is warm in both hemispheres.
func (g *integrator) pointwise(r *row, j int, seasonCos, seasonSin float64) {
	f := g.coriolis[j]
	perCos2 := 1 / sphere.cos2[j]
	hem, kelvin := g.hemisphere[j], g.kelvin[j]
	vapour, share, stable := g.phys.vapour/2, g.phys.latentUpper, g.phys.stable
	base := j * nlon
	mountain := g.mountain[base : base+nlon]
	dragFix, dragGust := g.dragFix[base:base+nlon], g.dragGust[base:base+nlon]
	seaFix, seaGust := g.seaFix[base:base+nlon], g.seaGust[base:base+nlon]
	sea0, sea1, sea2 := g.sea[0][base:base+nlon], g.sea[1][base:base+nlon], g.sea[2][base:base+nlon]
	latent := g.latent[base : base+nlon]
	for i := range nlon {
		v0, u0 := real(r.wave[0][i]), imag(r.wave[0][i])
		v1, u1 := real(r.wave[1][i]), imag(r.wave[1][i])
		v2, u2 := real(r.wave[2][i]), imag(r.wave[2][i])
		q0, q1 := real(r.wave[3][i])+f, imag(r.wave[3][i])+f
		q2, theta := real(r.wave[4][i])+f+mountain[i], imag(r.wave[4][i])*(rossby2*rossby2)
		speed := math.Sqrt((u2*u2 + v2*v2) * perCos2)
		drag := dragFix[i] + dragGust[i]*speed
		r.flux[0][i] = complex(u0*q0, v0*q0)
		r.flux[1][i] = complex(u1*q1, v1*q1)
		r.flux[2][i] = complex(u2*q2+drag*v2, v2*q2-drag*u2)

		// −½(V₁+V₂)·∇(ψ₁−ψ₂): temperature advection in the lower layer, positive for warm
		// advection (the sign of the thickness is reversed in the south).
		warm := hem * (u1*v2 - u2*v1) * perCos2
		var heat float64
		if warm > 0 {
			wet := 1 + vapour*kelvin*theta
			if wet < 0.2 {
				wet = 0.2
			}
			heat = latent[i] * warm * wet * wet
		}
		fromSea := hem * (sea0[i] + seasonCos*sea1[i] + seasonSin*sea2[i] - theta)
		rate := seaFix[i] + seaGust[i]*speed
		if fromSea < 0 {
			rate *= stable
		}
		r.flux[3][i] = complex(hem*share*heat, hem*(heat+rate*fromSea))
	}
}

// analyse adds the divergence of the fluxes and the heating of a pair of rows. With Gaussian weights w
// and μ = sin φ, integration by parts of −∇·F against Yₙᵐ gives
//
//	Σ w [ −im Fx P + Fy (1−μ²) dP/dμ ] / (a cos²φ)
//
// Even and odd Legendre functions are summed separately from the sum and difference of the two rows.
func (g *integrator) analyse(j int, dq *state) {
	const r1, r2 = 1 / (rossby1 * rossby1), 1 / (rossby2 * rossby2)
	p, h := &sphere.p[j], &sphere.h[j]
	w := sphere.w[j] / nlon
	div := w / (earthRadius * sphere.cos2[j])
	for m := range trunc + 1 {
		lo, hi := sphere.off[m], sphere.off[m+1]
		dm := float64(m) * div
		n1, n2 := unpack(&g.north.flux[3], m)
		s1, s2 := unpack(&g.south.flux[3], m)
		for l := range nlev {
			xn, yn := unpack(&g.north.flux[l], m)
			xs, ys := unpack(&g.south.flux[l], m)
			var hn, hs complex128
			switch l {
			case 0:
				hn, hs = complex(-r1*w, 0)*n1, complex(-r1*w, 0)*s1
			case 1:
				hn = complex(r1*w, 0)*n1 - complex(r2*w, 0)*n2
				hs = complex(r1*w, 0)*s1 - complex(r2*w, 0)*s2
			default:
				hn, hs = complex(r2*w, 0)*n2, complex(r2*w, 0)*s2
			}
			an := hn + complex(dm*imag(xn), -dm*real(xn)) // −im x
			as := hs + complex(dm*imag(xs), -dm*real(xs))
			even, odd := an+as, an-as
			// H has the opposite parity
			bEven := complex(div*real(yn-ys), div*imag(yn-ys))
			bOdd := complex(div*real(yn+ys), div*imag(yn+ys))
			addLegendre(dq[l][lo:hi], p[lo:hi], h[lo:hi], even, odd, bEven, bOdd)
		}
	}
}

// addLegendre adds p·a + h·b to the coefficients of one order. It is the transpose of legendreSums.
func addLegendre(dst []complex128, p, h []float64, aEven, aOdd, bEven, bOdd complex128) {
	n := len(dst)
	p, h = p[:n], h[:n]
	k := 0
	for ; k+1 < n; k += 2 {
		p0, h0 := p[k], h[k]
		dst[k] += complex(p0*real(aEven)+h0*real(bEven), p0*imag(aEven)+h0*imag(bEven))
		p1, h1 := p[k+1], h[k+1]
		dst[k+1] += complex(p1*real(aOdd)+h1*real(bOdd), p1*imag(aOdd)+h1*imag(bOdd))
	}
	if k < n {
		p0, h0 := p[k], h[k]
		dst[k] += complex(p0*real(aEven)+h0*real(bEven), p0*imag(aEven)+h0*imag(bEven))
	}
}

// linear adds relaxation and diffusion, and sets the global mean to zero:
//
//	H₁ = k₁ R₁⁻² (θ₁* − (ψ₀ − ψ₁)),   H₂ = k₂ R₂⁻² (θ₂* − (ψ₁ − ψ₂)),   −c (n(n+1))⁴ q
//
// θ* are equilibrium thicknesses with an annual cycle.
func (g *integrator) linear(dq, q *state, seasonCos, seasonSin float64) {
	const r1, r2 = 1 / (rossby1 * rossby1), 1 / (rossby2 * rossby2)
	c, s := complex(seasonCos, 0), complex(seasonSin, 0)
	k1, k2 := complex(r1*g.relax1, 0), complex(r2*g.relax2, 0)
	for k := range ncoef {
		h1 := k1 * (g.upper.mean[k] + c*g.upper.cos[k] + s*g.upper.sin[k] - (g.psi[0][k] - g.psi[1][k]))
		h2 := k2 * (g.lower.mean[k] + c*g.lower.cos[k] + s*g.lower.sin[k] - (g.psi[1][k] - g.psi[2][k]))
		d := complex(g.damp[sphere.deg[k]], 0)
		dq[0][k] -= h1 + d*q[0][k]
		dq[1][k] += h1 - h2 - d*q[1][k]
		dq[2][k] += h2 - d*q[2][k]
	}
	for l := range dq {
		dq[l][0] = 0
	}
}

// invert3 inverts a 3×3 matrix by cofactors. The matrices of newModel are diagonally dominant for n
// ≥ 1, so the determinant is not 0.
func invert3(a [nlev][nlev]float64) (b [nlev][nlev]float64) {
	var det float64
	for i := range 3 {
		i1, i2 := (i+1)%3, (i+2)%3
		for j := range 3 {
			j1, j2 := (j+1)%3, (j+2)%3
			b[j][i] = a[i1][j1]*a[i2][j2] - a[i1][j2]*a[i2][j1]
		}
		det += a[0][i] * (a[1][i1]*a[2][i2] - a[1][i2]*a[2][i1])
	}
	for i := range b {
		for j := range b {
			b[i][j] /= det
		}
	}
	return b
}
