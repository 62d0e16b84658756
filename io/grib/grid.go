package grib

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/order"
	"github.com/ensemble-weather/ensemble/io/projection"
)

// MaxPoints bounds the points of a grid, so that a damaged number cannot ask
// for more memory than a machine has. A global grid of 2 km has 200 million.
const MaxPoints = 1 << 28

// GridDef is a grid section understood, or why not.
type GridDef struct {
	Grid   *ensemble.Grid
	Reason string // why fields on it cannot be used; Grid is nil then
}

// gridTypes names the grid templates of edition 2 that are met but not used.
var gridTypes = map[int]string{1: "rotated_ll", 2: "stretched_ll", 3: "stretched_rotated_ll", 10: "mercator", 12: "transverse_mercator",
	41: "rotated_gg", 42: "stretched_gg", 43: "stretched_rotated_gg", 50: "sh", 51: "rotated_sh", 90: "space_view",
	100: "triangular_grid", 101: "unstructured_grid", 110: "equatorial_azimuthal_equidistant", 150: "healpix"}

// gridTypes1 names the data representation types of edition 1, likewise.
var gridTypes1 = map[int]string{1: "mercator", 2: "gnomonic", 10: "rotated_ll", 14: "rotated_gg", 20: "stretched_ll", 24: "stretched_gg",
	50: "sh", 60: "rotated_sh", 70: "stretched_sh", 80: "stretched_rotated_sh", 90: "space_view", 192: "triangular_grid"}

// axis is what both editions say about one grid, in degrees and metres.
type axis struct {
	ni, nj               int
	la1, lo1, la2, lo2   float64
	gaussian             int // latitudes between pole and equator; 0 for lat-lon
	scan                 int
	points               int64 // announced by the message; -1 where it does not say
	firstOnly            bool  // projections: la1/lo1, dx/dy and mapping count
	dx, dy               float64
	mapping              map[string]any
	semiMajor, semiMinor float64
}

// A small message with a large grid is a constant field, or damage that asks for
// memory: beyond smallGrid points, a byte of the message must stand for at most
// pointsPerByte of them (the best compression met in real files is about 20).
const (
	smallGrid     = 1 << 22
	pointsPerByte = 200
)

// Inflates says whether so many points in so many bytes are more than compression makes of
// real fields.
func Inflates(points, bytes int64) bool {
	return points > smallGrid && points > pointsPerByte*bytes
}

// maxGaussian bounds the latitudes between pole and equator; the finest grids in
// use have 2560.
const maxGaussian = 1 << 12

// ParseGrid reads a grid section of either edition, found in a message of so many
// bytes. The fault is damage; a grid that is sound but not supported has a Reason.
func ParseGrid(edition int, o Octets, bytes int64) (GridDef, *Fault) {
	var a axis
	var reason string
	var fault *Fault
	if edition == 1 {
		a, reason, fault = axes1(o)
	} else {
		a, reason, fault = axes2(o)
	}
	if fault != nil || reason != "" {
		return GridDef{Reason: reason}, fault
	}
	if a.ni < 1 || a.nj < 1 || int64(a.ni)*int64(a.nj) > MaxPoints {
		return GridDef{}, faultf("impossible grid", "%d x %d points", a.ni, a.nj)
	}
	if Inflates(int64(a.ni)*int64(a.nj), bytes) {
		return GridDef{}, faultf("impossible grid", "%d x %d points in a message of %d bytes", a.ni, a.nj, bytes)
	}
	if a.points >= 0 && a.points != int64(a.ni)*int64(a.nj) {
		return GridDef{}, faultf("impossible grid", "%d x %d points do not make %d", a.ni, a.nj, a.points)
	}
	if a.scan&0x0f != 0 {
		return GridDef{}, faultf("scanning mode not known", "reserved bits are set: %#02x", a.scan)
	}
	if math.Abs(a.la1) > 90+1e-6 || math.Abs(a.lo1) > 720 || !a.firstOnly && (math.Abs(a.la2) > 90+1e-6 || math.Abs(a.lo2) > 720) {
		return GridDef{}, faultf("impossible grid", "corner at latitude %g or %g, longitude %g or %g", a.la1, a.la2, a.lo1, a.lo2)
	}
	def := GridDef{}
	src := ensemble.SourceOrder{SouthFirst: a.scan&0x40 != 0, EastFirst: a.scan&0x80 != 0, ColumnMajor: a.scan&0x20 != 0, ScanningMode: a.scan}
	if a.firstOnly {
		return projected(a, def, src)
	}
	return latLon(a, def, src)
}

// latLon makes a regular grid on latitudes and longitudes.
func latLon(a axis, def GridDef, src ensemble.SourceOrder) (GridDef, *Fault) {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: a.ni, NY: a.nj, Source: src}
	north, south := a.la1, a.la2
	if src.SouthFirst {
		north, south = south, north
	}
	if a.nj > 1 && !(north > south) {
		return def, faultf("impossible grid", "scanning mode %d contradicts latitudes %g to %g", a.scan, a.la1, a.la2)
	}
	if a.gaussian > 0 {
		g.Kind = ensemble.RegularGaussian
		all := order.GaussianLatitudes(2 * a.gaussian)
		// A part of the globe keeps the rows between its first and last latitude;
		// these are stored to a thousandth or millionth of a degree.
		first := 0
		for first < len(all)-1 && all[first] > north+0.01 {
			first++
		}
		if first+a.nj > len(all) || math.Abs(all[first]-north) > 0.01 || math.Abs(all[first+a.nj-1]-south) > 0.01 {
			return def, faultf("impossible grid", "%d rows from %g to %g are not Gaussian latitudes of number %d", a.nj, north, south, a.gaussian)
		}
		g.Lat = all[first : first+a.nj]
	} else {
		g.Lat = make([]float64, a.nj)
		for j := range g.Lat {
			g.Lat[j] = north + (south-north)*float64(j)/float64(max(a.nj-1, 1))
		}
	}
	west, east := a.lo1, a.lo2
	if src.EastFirst {
		west, east = east, west
	}
	g.Source.FirstLon = west
	g.Lon, g.Source.Roll = order.Longitudes(west, east, a.ni)
	if g.Lon == nil {
		return def, faultf("impossible grid", "%d columns from %g to %g E", a.ni, west, east)
	}
	def.Grid = g
	return def, nil
}

// projected makes a grid on the axes of a map projection.
func projected(a axis, def GridDef, src ensemble.SourceOrder) (GridDef, *Fault) {
	p, err := projection.FromCF(a.mapping)
	if err != nil {
		return GridDef{Reason: err.Error()}, nil
	}
	if !(a.dx > 0) || !(a.dy > 0) {
		return def, faultf("impossible grid", "distances of %g and %g m between points", a.dx, a.dy)
	}
	x0, y0 := p.Forward(a.la1, a.lo1)
	g := &ensemble.Grid{Kind: ensemble.Projected, NX: a.ni, NY: a.nj, Source: src, Mapping: a.mapping}
	g.X, g.Y = make([]float64, a.ni), make([]float64, a.nj)
	for i := range g.X {
		g.X[i] = x0 + float64(i)*a.dx
		if src.EastFirst {
			g.X[i] = x0 - float64(a.ni-1-i)*a.dx
		}
	}
	for j := range g.Y {
		g.Y[j] = y0 - float64(j)*a.dy
		if src.SouthFirst {
			g.Y[j] = y0 + float64(a.nj-1-j)*a.dy
		}
	}
	g.Source.FirstLon = a.lo1
	g.Lat, g.Lon = projection.Coordinates(p, g.X, g.Y)
	for k, lat := range g.Lat {
		if lat != lat || g.Lon[k] != g.Lon[k] {
			return def, faultf("impossible grid", "point %d has no place on the Earth in projection %v", k+1, a.mapping["grid_mapping_name"])
		}
	}
	def.Grid = g
	return def, nil
}

// axes1 reads a grid section of edition 1 (angles in thousandths of a degree).
func axes1(o Octets) (axis, string, *Fault) {
	kind := o.U1(6)
	a := axis{ni: o.U2(7), nj: o.U2(9), points: -1, scan: o.U1(28),
		la1: float64(o.S3(11)) / 1e3, lo1: float64(o.S3(14)) / 1e3, la2: float64(o.S3(18)) / 1e3, lo2: float64(o.S3(21)) / 1e3}
	sphere := o.U1(17)&0x40 == 0
	switch kind {
	case 0, 4:
		if a.ni == 0xffff || a.nj == 0xffff {
			return a, "grid type reduced_" + map[int]string{0: "ll", 4: "gg"}[kind] + " is not supported", nil
		}
		if kind == 4 {
			if a.gaussian = o.U2(26); a.gaussian == 0 || a.gaussian > maxGaussian {
				return a, "", faultf("impossible grid", "Gaussian number %d", a.gaussian)
			}
		}
	case 3, 5:
		a.firstOnly = true
		a.dx, a.dy = float64(o.U3(21)), float64(o.U3(24))
		a.semiMajor, a.semiMinor = 6367470, 6367470
		if !sphere {
			a.semiMajor, a.semiMinor = 6378160, 6378160*(1-1/297.0)
		}
		south := o.U1(27)&0x80 != 0
		lov := float64(o.S3(18)) / 1e3
		if kind == 3 {
			a.conformal(float64(o.S3(29))/1e3, float64(o.S3(32))/1e3, float64(o.S3(29))/1e3, lov)
		} else {
			a.stereographic(60, lov, south) // edition 1 gives distances at 60 degrees
		}
	default:
		if name, ok := gridTypes1[kind]; ok {
			return a, "grid type " + name + " is not supported", nil
		}
		return a, "", faultf("grid type not known", "data representation type %d", kind)
	}
	return a, "", nil
}

// axes2 reads a grid section of edition 2.
func axes2(o Octets) (axis, string, *Fault) {
	template := o.U2(13)
	if o.U1(6) != 0 {
		return axis{}, fmt.Sprintf("predefined grid %d is not supported", o.U1(6)), nil
	}
	a := axis{ni: int(o.U4(31)), nj: int(o.U4(35)), points: o.U4(7)}
	if a.points > MaxPoints {
		return a, "", faultf("impossible grid", "%d points", a.points)
	}
	switch template {
	case 0, 40:
		if len(o) < 72 {
			return a, "", faultf("grid section too short", "template %d needs 72 octets, it has %d", template, len(o))
		}
		if o.U1(11) != 0 || o.U4(31) == 0xffffffff || o.U4(35) == 0xffffffff {
			return a, "grid type reduced_" + map[int]string{0: "ll", 40: "gg"}[template] + " is not supported", nil
		}
		unit := 1e-6
		if b, s := o.U4(39), o.U4(43); b != 0 && b != 0xffffffff && s != 0 && s != 0xffffffff {
			unit = float64(b) / float64(s)
		}
		a.la1, a.lo1, a.la2, a.lo2 = float64(o.S4(47))*unit, float64(o.S4(51))*unit, float64(o.S4(56))*unit, float64(o.S4(60))*unit
		a.scan = o.U1(72)
		if template == 40 {
			if n := o.U4(68); n == 0 || n > maxGaussian {
				return a, "", faultf("impossible grid", "Gaussian number %d", n)
			}
			a.gaussian = int(o.U4(68))
		}
	case 20, 30, 140:
		if need := map[int]int{20: 65, 30: 81, 140: 64}[template]; len(o) < need {
			return a, "", faultf("grid section too short", "template %d needs %d octets, it has %d", template, need, len(o))
		}
		a.firstOnly = true
		a.la1, a.lo1 = float64(o.S4(39))*1e-6, float64(o.S4(43))*1e-6
		a.dx, a.dy = float64(o.U4(56))*1e-3, float64(o.U4(60))*1e-3
		var ok bool
		if a.semiMajor, a.semiMinor, ok = earth(o); !ok {
			return a, fmt.Sprintf("shape of the Earth %d is not supported", o.U1(15)), nil
		}
		switch template {
		case 20:
			a.scan = o.U1(65)
			a.stereographic(float64(o.S4(48))*1e-6, float64(o.S4(52))*1e-6, o.U1(64)&0x80 != 0)
		case 30:
			a.scan = o.U1(65)
			a.conformal(float64(o.S4(66))*1e-6, float64(o.S4(70))*1e-6, float64(o.S4(48))*1e-6, float64(o.S4(52))*1e-6)
		case 140:
			a.scan = o.U1(64)
			a.mapped(map[string]any{"grid_mapping_name": "lambert_azimuthal_equal_area",
				"latitude_of_projection_origin": float64(o.S4(47)) * 1e-6, "longitude_of_projection_origin": float64(o.S4(51)) * 1e-6})
		}
	default:
		if name, ok := gridTypes[template]; ok {
			return a, "grid type " + name + " is not supported", nil
		}
		return a, "", faultf("grid template not known", "template %d", template)
	}
	return a, "", nil
}

func (a *axis) mapped(m map[string]any) {
	if a.semiMajor == a.semiMinor {
		m["earth_radius"] = a.semiMajor
	} else {
		m["semi_major_axis"], m["semi_minor_axis"] = a.semiMajor, a.semiMinor
	}
	a.mapping = m
}

func (a *axis) conformal(lat1, lat2, lat0, lon0 float64) {
	sp := []float64{lat1, lat2}
	if lat1 == lat2 {
		sp = sp[:1]
	}
	a.mapped(map[string]any{"grid_mapping_name": "lambert_conformal_conic", "standard_parallel": sp,
		"latitude_of_projection_origin": lat0, "longitude_of_central_meridian": lon0})
}

func (a *axis) stereographic(std, lon0 float64, south bool) {
	pole := 90.0
	if south {
		pole = -90
		std = -math.Abs(std)
	}
	a.mapped(map[string]any{"grid_mapping_name": "polar_stereographic", "latitude_of_projection_origin": pole,
		"standard_parallel": std, "straight_vertical_longitude_from_pole": lon0})
}

// earth gives the half axes of code table 3.2.
func earth(o Octets) (a, b float64, ok bool) {
	scaled := func(n int) float64 { return float64(o.U4(n+1)) / math.Pow10(o.S1(n)) }
	switch o.U1(15) {
	case 0:
		a, b = 6367470, 6367470
	case 1:
		a = scaled(16)
		b = a
	case 2:
		a, b = 6378160, 6356775
	case 3:
		a, b = 1e3*scaled(21), 1e3*scaled(26)
	case 4:
		a, b = 6378137, 6356752.314
	case 5:
		a, b = 6378137, 6356752.314245
	case 6:
		a, b = 6371229, 6371229
	case 7:
		a, b = scaled(21), scaled(26)
	case 8:
		a, b = 6371200, 6371200
	case 9:
		a, b = 6377563.396, 6356256.909
	}
	return a, b, a > 0 && b > 0 && b <= a
}
