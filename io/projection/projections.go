package projection

import "math"

// lambertConformal is the Lambert conformal conic projection.
//
// Source: Snyder, section 15.
type lambertConformal struct {
	el                  ellipsoid
	n, af, rho0, lambda float64
	off                 offset
}

// newLambertConformal makes a projection with standard parallels lat1 and lat2,
// which may be equal, and origin lat0, lon0.
func newLambertConformal(el ellipsoid, lat1, lat2, lat0, lon0 float64, off offset) lambertConformal {
	p1, p2 := lat1*rad, lat2*rad
	n := math.Sin(p1)
	if math.Abs(lat1-lat2) > 1e-9 {
		n = (math.Log(el.m(p1)) - math.Log(el.m(p2))) / (math.Log(el.t(p1)) - math.Log(el.t(p2))) // (15-8)
	}
	c := lambertConformal{el: el, n: n, lambda: lon0 * rad, off: off}
	c.af = el.a * el.m(p1) / (n * math.Pow(el.t(p1), n)) // a·F of (15-10)
	c.rho0 = c.af * math.Pow(el.t(lat0*rad), n)
	return c
}

// Forward is (14-1), (14-2) and (15-7).
func (c lambertConformal) Forward(lat, lon float64) (x, y float64) {
	rho := c.af * math.Pow(c.el.t(lat*rad), c.n)
	s, co := math.Sincos(c.n * wrap(lon*rad-c.lambda))
	return c.off.east + rho*s, c.off.north + c.rho0 - rho*co
}

// Inverse is (14-10), (14-11) and (15-11).
func (c lambertConformal) Inverse(x, y float64) (lat, lon float64) {
	dx, dy := x-c.off.east, c.rho0-(y-c.off.north)
	rho := math.Copysign(math.Hypot(dx, dy), c.n)
	theta := math.Atan2(math.Copysign(1, c.n)*dx, math.Copysign(1, c.n)*dy)
	phi := c.el.phi(math.Pow(rho/c.af, 1/c.n))
	return phi / rad, (theta/c.n + c.lambda) / rad
}

// polarStereographic is the polar stereographic projection.
//
// Source: Snyder, section 21.
type polarStereographic struct {
	el     ellipsoid
	sign   float64 // -1 around the South Pole, else 1
	scale  float64 // ρ = scale·t
	lambda float64
	off    offset
}

// newPolarStereographic makes a projection that is true at latitude std. A scale
// factor k0 at the pole has precedence; NaN is none.
func newPolarStereographic(el ellipsoid, south bool, std, k0, lon float64, off offset) polarStereographic {
	s := polarStereographic{el: el, sign: 1, lambda: lon * rad, off: off}
	if south {
		s.sign = -1
	}
	pc := math.Abs(std) * rad
	switch {
	case k0 == k0 || math.Abs(pc-math.Pi/2) < 1e-9:
		if k0 != k0 {
			k0 = 1
		}
		e := el.e
		s.scale = 2 * el.a * k0 / math.Sqrt(math.Pow(1+e, 1+e)*math.Pow(1-e, 1-e)) // (21-33)
	default:
		s.scale = el.a * el.m(pc) / el.t(pc) // (21-34)
	}
	return s
}

// Forward is (21-30) and (21-31).
func (s polarStereographic) Forward(lat, lon float64) (x, y float64) {
	rho := s.scale * s.el.t(s.sign*lat*rad)
	si, co := math.Sincos(wrap(lon*rad - s.lambda))
	return s.off.east + rho*si, s.off.north - s.sign*rho*co
}

// Inverse is (20-16), (20-18) and (21-39).
func (s polarStereographic) Inverse(x, y float64) (lat, lon float64) {
	dx, dy := x-s.off.east, y-s.off.north
	phi := s.sign * s.el.phi(math.Hypot(dx, dy)/s.scale)
	return phi / rad, (s.lambda + math.Atan2(dx, -s.sign*dy)) / rad
}

// lambertAzimuthal is the Lambert azimuthal equal-area projection.
//
// Source: Snyder, section 24.
type lambertAzimuthal struct {
	el               ellipsoid
	lambda           float64
	qp, rq, d        float64
	sinB, cosB, phi0 float64
	off              offset
}

// newLambertAzimuthal makes a projection with its centre at lat0, lon0.
func newLambertAzimuthal(el ellipsoid, lat0, lon0 float64, off offset) lambertAzimuthal {
	a := lambertAzimuthal{el: el, lambda: lon0 * rad, phi0: lat0 * rad, off: off}
	a.qp = el.qp
	a.rq = el.a * math.Sqrt(a.qp/2) // (3-13)
	beta := math.Asin(max(-1, min(1, el.q(a.phi0)/a.qp)))
	a.sinB, a.cosB = math.Sincos(beta)
	a.d = 1
	if math.Abs(math.Abs(lat0)-90) > 1e-9 {
		a.d = el.a * el.m(a.phi0) / (a.rq * a.cosB) // (24-20)
	}
	return a
}

// Forward is (24-17) to (24-19).
func (a lambertAzimuthal) Forward(lat, lon float64) (x, y float64) {
	sb := max(-1, min(1, a.el.q(lat*rad)/a.qp))
	cb := math.Sqrt(1 - sb*sb)
	sl, cl := math.Sincos(wrap(lon*rad - a.lambda))
	b := a.rq * math.Sqrt(2/(1+a.sinB*sb+a.cosB*cb*cl))
	return a.off.east + b*a.d*cb*sl, a.off.north + b/a.d*(a.cosB*sb-a.sinB*cb*cl)
}

// Inverse is (24-26) to (24-29).
func (a lambertAzimuthal) Inverse(x, y float64) (lat, lon float64) {
	dx, dy := (x-a.off.east)/a.d, (y-a.off.north)*a.d
	rho := math.Hypot(dx, dy)
	if rho == 0 {
		return a.phi0 / rad, a.lambda / rad
	}
	sc, cc := math.Sincos(2 * math.Asin(min(1, rho/(2*a.rq))))
	phi := a.el.phiFromQ(a.qp * (cc*a.sinB + dy*sc*a.cosB/rho))
	return phi / rad, (a.lambda + math.Atan2(dx*sc, rho*a.cosB*cc-dy*a.sinB*sc)) / rad
}

// mercator is the Mercator projection.
//
// Source: Snyder, section 7.
type mercator struct {
	el            ellipsoid
	scale, lambda float64 // a·k₀ in metres
	off           offset
}

// newMercator makes a projection that is true at latitude std. A scale factor k0 at
// the equator has precedence; NaN is none.
func newMercator(el ellipsoid, std, k0, lon0 float64, off offset) mercator {
	if k0 != k0 {
		k0 = el.m(std * rad)
	}
	return mercator{el: el, scale: el.a * k0, lambda: lon0 * rad, off: off}
}

// Forward is (7-6) and (7-7).
func (m mercator) Forward(lat, lon float64) (x, y float64) {
	return m.off.east + m.scale*wrap(lon*rad-m.lambda), m.off.north - m.scale*math.Log(m.el.t(lat*rad))
}

// Inverse is (7-10) and (7-12).
func (m mercator) Inverse(x, y float64) (lat, lon float64) {
	return m.el.phi(math.Exp(-(y-m.off.north)/m.scale)) / rad, (m.lambda + (x-m.off.east)/m.scale) / rad
}

// rotatedPole is the sphere with another pole: x and y are longitude and latitude
// relative to it.
//
// Source: Snyder, section 5.
type rotatedPole struct {
	sinP, cosP float64 // of the latitude of the rotated north pole
	lambda     float64 // longitude of the rotated north pole, radians
	shift      float64 // longitude of the true North Pole in the rotated grid, radians
}

// newRotatedPole makes a rotation by the position of the rotated north pole. shift
// is north_pole_grid_longitude.
func newRotatedPole(poleLat, poleLon, shift float64) rotatedPole {
	s, c := math.Sincos(poleLat * rad)
	return rotatedPole{sinP: s, cosP: c, lambda: poleLon * rad, shift: shift * rad}
}

// Forward is (5-7) and (5-8b), with −180 < x ≤ 180.
func (r rotatedPole) Forward(lat, lon float64) (x, y float64) {
	s, c := math.Sincos(lat * rad)
	sl, cl := math.Sincos(lon*rad - r.lambda)
	y = math.Asin(max(-1, min(1, r.sinP*s+r.cosP*c*cl)))
	x = math.Atan2(-c*sl, r.cosP*s-r.sinP*c*cl)
	return wrap(x+r.shift) / rad, y / rad
}

// Inverse is (5-9) and (5-10b).
func (r rotatedPole) Inverse(x, y float64) (lat, lon float64) {
	s, c := math.Sincos(y * rad)
	sl, cl := math.Sincos(x*rad - r.shift)
	lat = math.Asin(max(-1, min(1, r.sinP*s+r.cosP*c*cl)))
	return lat / rad, (r.lambda + math.Atan2(-c*sl, r.cosP*s-r.sinP*c*cl)) / rad
}
