// Package projection converts the x and y axes of map projections to latitudes and
// longitudes and back, on the sphere and the ellipsoid. It has the projections of
// forecast grids.
//
// Source: Snyder 1987, Map Projections: A Working Manual, USGS Professional Paper
// 1395; equation numbers in the code are his. Names of parameters: CF conventions
// 1.8, appendix F.
package projection

import (
	"fmt"
	"math"
)

// Projection is a map projection with its parameters.
//
// Unit: degrees for latitude and longitude, metres for x and y. For a rotated pole,
// x and y are longitude and latitude on the rotated sphere, in degrees.
type Projection interface {
	// Forward projects a point. A point outside of the projection gives NaN or Inf.
	Forward(lat, lon float64) (x, y float64)
	// Inverse returns the point at x and y. The longitude may be any multiple of
	// 360° away from the input of Forward.
	Inverse(x, y float64) (lat, lon float64)
}

// Names lists the CF grid mappings that FromCF accepts.
var Names = []string{"lambert_azimuthal_equal_area", "lambert_conformal_conic", "mercator", "polar_stereographic", "rotated_latitude_longitude"}

// FromCF returns the projection that a CF grid mapping describes. m holds the
// attributes of the grid mapping variable; numbers are float64 or []float64.
//
// Errors: a mapping that is not in Names, or lacks a parameter.
// Source: CF conventions 1.8, appendix F.
func FromCF(m map[string]any) (Projection, error) {
	name, _ := m["grid_mapping_name"].(string)
	p := params{m: m}
	var out Projection
	switch name {
	case "lambert_azimuthal_equal_area":
		out = newLambertAzimuthal(p.earth(), p.required("latitude_of_projection_origin"), p.required("longitude_of_projection_origin"), p.offset())
	case "lambert_conformal_conic":
		sp := p.list("standard_parallel")
		if len(sp) == 0 || len(sp) > 2 {
			return nil, fmt.Errorf("grid mapping %s: got standard parallels %v, want one or two", name, sp)
		}
		out = newLambertConformal(p.earth(), sp[0], sp[len(sp)-1], p.optional("latitude_of_projection_origin", sp[0]), p.required("longitude_of_central_meridian"), p.offset())
	case "polar_stereographic":
		origin := p.required("latitude_of_projection_origin")
		lon := p.optional("straight_vertical_longitude_from_pole", p.optional("longitude_of_projection_origin", math.NaN()))
		if lon != lon {
			return nil, fmt.Errorf("grid mapping %s: straight_vertical_longitude_from_pole is missing", name)
		}
		std := p.optional("standard_parallel", origin)
		k := p.optional("scale_factor_at_projection_origin", math.NaN())
		out = newPolarStereographic(p.earth(), origin < 0, std, k, lon, p.offset())
	case "mercator":
		k := p.optional("scale_factor_at_projection_origin", math.NaN())
		out = newMercator(p.earth(), p.optional("standard_parallel", 0), k, p.required("longitude_of_projection_origin"), p.offset())
	case "rotated_latitude_longitude":
		out = newRotatedPole(p.required("grid_north_pole_latitude"), p.required("grid_north_pole_longitude"), p.optional("north_pole_grid_longitude", 0))
	default:
		return nil, fmt.Errorf("grid mapping %q is not supported", name)
	}
	if p.err != nil {
		return nil, fmt.Errorf("grid mapping %s: %w", name, p.err)
	}
	return out, nil
}

// Coordinates returns the latitudes and longitudes of all points of a grid with
// these axes.
//
// Shape: lat, lon [len(y)·len(x)], row by row.
// Unit: degrees, longitudes in [0, 360).
func Coordinates(p Projection, x, y []float64) (lat, lon []float64) {
	lat, lon = make([]float64, len(x)*len(y)), make([]float64, len(x)*len(y))
	k := 0
	for _, yj := range y {
		for _, xi := range x {
			lat[k], lon[k] = p.Inverse(xi, yj)
			lon[k] = math.Mod(lon[k]+720, 360)
			k++
		}
	}
	return lat, lon
}

// params reads numbers from the attributes of a grid mapping and keeps the first
// error.
type params struct {
	m   map[string]any
	err error
}

// list returns an attribute as a slice, nil if it is absent or not numeric.
func (p *params) list(name string) []float64 {
	switch v := p.m[name].(type) {
	case float64:
		return []float64{v}
	case []float64:
		return v
	}
	return nil
}

// optional returns the first number of an attribute, or a default.
func (p *params) optional(name string, otherwise float64) float64 {
	if v := p.list(name); len(v) > 0 {
		return v[0]
	}
	return otherwise
}

// required returns the first number of an attribute and records an error if it is
// absent.
func (p *params) required(name string) float64 {
	v := p.list(name)
	if len(v) == 0 {
		if p.err == nil {
			p.err = fmt.Errorf("%s is missing", name)
		}
		return 0
	}
	return v[0]
}

// offset reads false easting and false northing.
func (p *params) offset() offset {
	return offset{p.optional("false_easting", 0), p.optional("false_northing", 0)}
}

// DefaultRadius is the radius of the Earth in metres for a mapping without a figure
// of the Earth: that of ECMWF and of GRIB2 code table 3.2, entry 6.
const DefaultRadius = 6371229.0

// earth reads the figure of the Earth: semi-major axis and semi-minor axis, inverse
// flattening, or radius.
func (p *params) earth() ellipsoid {
	a := p.optional("semi_major_axis", p.optional("earth_radius", DefaultRadius))
	b := p.optional("semi_minor_axis", math.NaN())
	if b != b {
		b = a
		if f := p.optional("inverse_flattening", 0); f != 0 {
			b = a * (1 - 1/f)
		}
	}
	return newEllipsoid(a, b)
}

// offset holds false easting and false northing in metres.
type offset struct{ east, north float64 }

// ellipsoid is the figure of the Earth: semi-major axis a in metres and
// eccentricity e, 0 for a sphere.
type ellipsoid struct {
	a, e float64
	qp   float64 // q at the pole
}

// newEllipsoid makes an ellipsoid from its semi-axes. It makes a sphere if b is not
// between 0 and a.
func newEllipsoid(a, b float64) ellipsoid {
	if b == a || b <= 0 || b > a {
		return ellipsoid{a: a, qp: 2}
	}
	el := ellipsoid{a: a, e: math.Sqrt(1 - b*b/(a*a))}
	el.qp = el.q(math.Pi / 2)
	return el
}

// rad is one degree in radians.
const rad = math.Pi / 180

// m is (14-15): the radius of a parallel divided by a.
func (el ellipsoid) m(phi float64) float64 {
	s := el.e * math.Sin(phi)
	return math.Cos(phi) / math.Sqrt(1-s*s)
}

// t is (15-9): the tangent of half of the conformal colatitude.
func (el ellipsoid) t(phi float64) float64 {
	s := el.e * math.Sin(phi)
	return math.Tan(math.Pi/4-phi/2) / math.Pow((1-s)/(1+s), el.e/2)
}

// tolerance ends iterations: a change of an angle in radians that corresponds to
// about a nanometre on the ground.
const tolerance = 1e-15

// phi inverts t by the iteration (7-9). Each round reduces the error by a factor of
// e² ≈ 1/150, so eight rounds reach tolerance.
func (el ellipsoid) phi(t float64) float64 {
	p := math.Pi/2 - 2*math.Atan(t)
	for round := 0; el.e > 0 && round < 8; round++ {
		s := el.e * math.Sin(p)
		next := math.Pi/2 - 2*math.Atan(t*math.Pow((1-s)/(1+s), el.e/2))
		done := math.Abs(next-p) < tolerance
		if p = next; done {
			break
		}
	}
	return p
}

// q is (3-12): the sine of the authalic latitude times q at the pole.
func (el ellipsoid) q(phi float64) float64 {
	s := math.Sin(phi)
	if el.e == 0 {
		return 2 * s
	}
	es := el.e * s
	return (1 - el.e*el.e) * (s/(1-es*es) - math.Log((1-es)/(1+es))/(2*el.e))
}

// phiFromQ inverts q. The series (3-18) is accurate to about 10⁻⁹; one step of
// Newton's method (3-16) squares the error.
func (el ellipsoid) phiFromQ(q float64) float64 {
	if el.e == 0 {
		return math.Asin(max(-1, min(1, q/2)))
	}
	qp := el.qp
	if math.Abs(q) >= qp {
		return math.Copysign(math.Pi/2, q)
	}
	beta := math.Asin(q / qp)
	e2 := el.e * el.e
	e4, e6 := e2*e2, e2*e2*e2
	s, c := math.Sincos(2 * beta)
	s2, c2 := 2*s*c, c*c-s*s // of 4β
	s3 := s2*c + c2*s        // of 6β
	p := beta + (e2/3+31*e4/180+517*e6/5040)*s + (23*e4/360+251*e6/3780)*s2 + 761*e6/45360*s3
	sp, cp := math.Sincos(p)
	if cp < 1e-6 {
		return p // the step would divide by zero at the pole
	}
	es := el.e * sp
	d := 1 - es*es
	qOfP := (1 - e2) * (sp/d - math.Log((1-es)/(1+es))/(2*el.e))
	return p + d*d/(2*cp)*(q-qOfP)/(1-e2)
}

// wrap returns an angle in [−π, π].
func wrap(a float64) float64 { return math.Remainder(a, 2*math.Pi) }
