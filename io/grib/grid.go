package grib

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/order"
	"github.com/ensemble-weather/ensemble/io/projection"
)

// MaxPoints bounds the points of a grid, so that a damaged number cannot request
// more memory than the machine has. A global grid with 2 km spacing has 2·10⁸
// points.
const MaxPoints = 1 << 28

// ParsedGrid is a parsed grid section: either a grid, or the reason why its fields
// cannot be used.
type ParsedGrid struct {
	Grid   *ensemble.Grid // nil if Reason is set
	Reason string         // why fields on this grid are not used; empty if they are
}

// Reasons for grids that occur in practice and are not supported, with the remedy.
const (
	hintSpectral = "its values are spectral coefficients, not grid-point values; transform them to a grid first, for example with `cdo sp2gpl`, or request a grid from the archive"
	hintHEALPix  = "its grid is HEALPix, which has no rows and columns; interpolate it to a latitude-longitude grid first, for example with `cdo remapnn`"
	hintCells    = "its grid is unstructured (triangles or other cells), and its coordinates are in another file; interpolate it to a latitude-longitude grid first, for example with `cdo remapnn`"
)

// notSupported returns the reason for a grid type, by its name in ecCodes (key
// gridType).
func notSupported(name string) string {
	return "grid type " + name + " is not supported; interpolate it to a latitude-longitude grid first"
}

// unsupported2 gives the reason for each grid definition template of edition 2
// (code table 3.1) that is not supported.
var unsupported2 = map[int]string{2: notSupported("stretched_ll"), 3: notSupported("stretched_rotated_ll"), 12: notSupported("transverse_mercator"),
	41: notSupported("rotated_gg"), 42: notSupported("stretched_gg"), 43: notSupported("stretched_rotated_gg"), 50: hintSpectral, 51: hintSpectral, 52: hintSpectral, 53: hintSpectral,
	90: notSupported("space_view"), 100: hintCells, 101: hintCells, 110: notSupported("equatorial_azimuthal_equidistant"), 150: hintHEALPix}

// unsupported1 gives the reason for each data representation type of edition 1
// (code table 6) that is not supported.
var unsupported1 = map[int]string{2: notSupported("gnomonic"), 14: notSupported("rotated_gg"), 20: notSupported("stretched_ll"), 24: notSupported("stretched_gg"),
	50: hintSpectral, 60: hintSpectral, 70: hintSpectral, 80: hintSpectral, 90: notSupported("space_view"), 192: hintCells}

// gridParameters holds the contents of a grid section of either edition. Angles are
// in degrees, lengths in metres. Names follow the WMO manual: Ni and Nj points
// along a parallel and a meridian, La1 and Lo1 of the first and La2 and Lo2 of the
// last grid point.
type gridParameters struct {
	ni, nj               int
	la1, lo1, la2, lo2   float64
	gaussian             int   // number of parallels between a pole and the equator (N); 0 for an equidistant grid
	scan                 int   // scanning mode, flag table 3.4
	points               int64 // number of data points stated by the message; -1 if not stated
	rows                 []int // number of points of each row of a reduced grid, in storage order; nil for a regular grid
	fullCircleRows       bool  // rows counts points on full circles; only those from lo1 to lo2 are stored
	rotated              bool  // la and lo are relative to the rotated pole in mapping
	projected            bool  // a map projection: only la1, lo1, dx, dy and mapping are used
	dx, dy               float64
	dj                   increment      // between rows; zero if not given
	mapping              map[string]any // CF grid mapping attributes; nil without a projection
	semiMajor, semiMinor float64
	windAlongAxes        bool // bit 5 of the resolution and component flags
}

// increment is a distance between grid points, and the unit in which it is coded.
type increment struct{ degrees, unit float64 }

// A small message with a large grid is a constant field, or damage that requests
// memory. Above smallGrid points, each byte of the message may represent at most
// pointsPerByte points. The best compression observed in real files is about 20.
const (
	smallGrid     = 1 << 22
	pointsPerByte = 200
)

// IsImplausible reports whether a number of points in a number of bytes exceeds the
// compression of real fields.
func IsImplausible(points, bytes int64) bool {
	return points > smallGrid && points > pointsPerByte*bytes
}

// maxGaussian bounds the parallels between pole and equator. The finest operational
// grids have 2560.
const maxGaussian = 1 << 12

// ParseGrid reads a grid section: section 2 of edition 1 or section 3 of edition 2.
// size is the length of the message in bytes, against which the number of points is
// checked. A valid section of an unsupported grid has a Reason.
//
// Shape: latitudes and longitudes in normal order (package order); Source records
// the storage order.
// Unit: degrees; axes of projections in metres.
// Errors: a *Fault for damage.
// Source: FM 92 GRIB1, section 2; FM 92 GRIB2, section 3, templates 3.0, 3.1, 3.10,
// 3.20, 3.30, 3.40 and 3.140.
func ParseGrid(edition int, o Octets, bytes int64) (ParsedGrid, *Fault) {
	var a gridParameters
	var reason string
	var fault *Fault
	if edition == 1 {
		a, reason, fault = parseGrid1(o)
	} else {
		a, reason, fault = parseGrid2(o)
	}
	if fault != nil || reason != "" {
		return ParsedGrid{Reason: reason}, fault
	}
	if a.scan&0x0f != 0 {
		return ParsedGrid{Reason: fmt.Sprintf("scanning mode %d has staggered rows, which is not supported", a.scan)}, nil
	}
	if a.rows != nil {
		if math.Abs(a.la1) > 90+1e-6 || math.Abs(a.la2) > 90+1e-6 || math.Abs(a.lo1) > 720 || math.Abs(a.lo2) > 720 {
			return ParsedGrid{}, cornerFault(a)
		}
		return reducedGrid(a, bytes)
	}
	if a.ni < 1 || a.nj < 1 || int64(a.ni)*int64(a.nj) > MaxPoints {
		return ParsedGrid{}, faultf("invalid grid", "%d x %d points", a.ni, a.nj)
	}
	if IsImplausible(int64(a.ni)*int64(a.nj), bytes) {
		return ParsedGrid{}, faultf("invalid grid", "%d x %d points in a message of %d bytes", a.ni, a.nj, bytes)
	}
	if a.points >= 0 && a.points != int64(a.ni)*int64(a.nj) {
		return ParsedGrid{}, faultf("invalid grid", "%d x %d points do not make %d", a.ni, a.nj, a.points)
	}
	if math.Abs(a.la1) > 90+1e-6 || math.Abs(a.lo1) > 720 || !a.projected && (math.Abs(a.la2) > 90+1e-6 || math.Abs(a.lo2) > 720) {
		return ParsedGrid{}, cornerFault(a)
	}
	switch {
	case a.projected:
		return projectedGrid(a)
	case a.rotated:
		return rotatedGrid(a)
	}
	return latLonGrid(a)
}

// cornerFault reports grid points outside of the sphere.
func cornerFault(a gridParameters) *Fault {
	return faultf("invalid grid", "corner at latitude %g or %g, longitude %g or %g", a.la1, a.la2, a.lo1, a.lo2)
}

// sourceOrder returns the storage order of the points: bits 1 to 4 of the scanning
// mode.
//
// Source: FM 92 GRIB2, flag table 3.4; FM 92 GRIB1, code table 8.
func (a gridParameters) sourceOrder() ensemble.SourceOrder {
	return ensemble.SourceOrder{SouthFirst: a.scan&0x40 != 0, EastFirst: a.scan&0x80 != 0, ColumnMajor: a.scan&0x20 != 0, ScanningMode: a.scan}
}

// latitudes returns the n latitudes of a grid from north to south. Gaussian
// latitudes are computed, because messages round them to 10⁻³ or 10⁻⁶ degrees.
func (a gridParameters) latitudes(n int) ([]float64, *Fault) {
	north, south := a.la1, a.la2
	if a.sourceOrder().SouthFirst {
		north, south = south, north
	}
	if n > 1 && !(north > south) {
		return nil, faultf("invalid grid", "scanning mode %d contradicts latitudes %g to %g", a.scan, a.la1, a.la2)
	}
	if a.gaussian == 0 {
		return linspace(north, south, n), a.checkRowDistance(north-south, n)
	}
	all := ensemble.GaussianLatitudes(2 * a.gaussian)
	// A limited area has the rows between its first and last latitude, which are
	// rounded to 10⁻³ or 10⁻⁶ degrees.
	first := 0
	for first < len(all)-1 && all[first] > north+0.01 {
		first++
	}
	if first+n > len(all) || math.Abs(all[first]-north) > 0.01 || math.Abs(all[first+n-1]-south) > 0.01 {
		return nil, faultf("invalid grid", "%d rows from %g to %g are not Gaussian latitudes of number %d", n, north, south, a.gaussian)
	}
	return all[first : first+n], nil
}

// checkRowDistance compares Dj with n rows over a number of degrees. Rounded distances add up to less than half a row, or to
// the rounding of each.
func (a gridParameters) checkRowDistance(degrees float64, n int) *Fault {
	rows := float64(n - 1)
	if a.dj.degrees == 0 || n < 2 || math.Abs(a.dj.degrees*rows-degrees) <= max(degrees/rows/2, a.dj.unit*rows) {
		return nil
	}
	return faultf("invalid grid", "%d rows from latitude %g to %g are %g degrees apart, not %g (Dj)", n, a.la1, a.la2, degrees/rows, a.dj.degrees)
}

// linspace returns n equidistant numbers from a to b.
func linspace(a, b float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = a + (b-a)*float64(i)/float64(max(n-1, 1))
	}
	return out
}

// latLonGrid makes a regular latitude-longitude or Gaussian grid.
//
// Source: FM 92 GRIB2, templates 3.0 and 3.40.
func latLonGrid(a gridParameters) (def ParsedGrid, fault *Fault) {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: a.ni, NY: a.nj, Source: a.sourceOrder()}
	if a.gaussian > 0 {
		g.Kind = ensemble.RegularGaussian
	}
	if g.Lat, fault = a.latitudes(a.nj); fault != nil {
		return def, fault
	}
	west, east := a.lo1, a.lo2
	if g.Source.EastFirst {
		west, east = east, west
	}
	g.Source.FirstLon = west
	g.Lon, g.Source.Roll = order.Longitudes(west, east, a.ni)
	if g.Lon == nil {
		return def, faultf("invalid grid", "%d columns from %g to %g E", a.ni, west, east)
	}
	def.Grid = g
	return def, nil
}

// rotatedGrid makes a regular grid on rotated latitudes and longitudes.
//
// Source: FM 92 GRIB2, template 3.1.
func rotatedGrid(a gridParameters) (def ParsedGrid, fault *Fault) {
	p, err := projection.FromCF(a.mapping)
	if err != nil {
		return ParsedGrid{Reason: err.Error()}, nil
	}
	g := &ensemble.Grid{Kind: ensemble.Projected, NX: a.ni, NY: a.nj, Source: a.sourceOrder(), Mapping: a.mapping, WindAlongAxes: a.windAlongAxes}
	if g.Y, fault = a.latitudes(a.nj); fault != nil {
		return def, fault
	}
	west, east := a.lo1, a.lo2
	if g.Source.EastFirst {
		west, east = east, west
	}
	for east < west {
		east += 360
	}
	// Limited areas lie around meridian 0 of the rotated grid. Centring the axis on
	// it avoids a jump of 360° inside the area.
	turn := 360 * math.Round((west+east)/2/360)
	g.X = linspace(west-turn, east-turn, a.ni)
	g.Source.FirstLon = west
	g.Lat, g.Lon = projection.Coordinates(p, g.X, g.Y)
	def.Grid = g
	return def, nil
}

// reducedGrid makes a grid whose rows have different numbers of points. size is the
// length of the message in bytes.
//
// Source: FM 92 GRIB2, section 3, code table 3.11.
func reducedGrid(a gridParameters, bytes int64) (def ParsedGrid, fault *Fault) {
	if a.scan&0x20 != 0 {
		return ParsedGrid{Reason: "its rows have different numbers of points and it is stored by columns, which is not supported"}, nil
	}
	g := &ensemble.Grid{Kind: ensemble.ReducedLatLon, NY: 1, Source: a.sourceOrder()}
	if a.gaussian > 0 {
		g.Kind = ensemble.ReducedGaussian
	}
	lat, fault := a.latitudes(len(a.rows))
	if fault != nil {
		return def, fault
	}
	west, east := a.lo1, a.lo2
	if g.Source.EastFirst {
		west, east = east, west
	}
	for east < west {
		east += 360
	}
	counts := slices.Clone(a.rows)
	if g.Source.SouthFirst {
		slices.Reverse(counts)
	}
	whole := east-west > 360-1.5*360/float64(slices.Max(counts)) // around the globe
	total := int64(0)
	for _, n := range counts {
		total += int64(n)
	}
	if total > MaxPoints || total > smallGrid && total > pointsPerByte*bytes {
		return def, faultf("invalid grid", "%d points in %d rows, in a message of %d bytes", total, len(counts), bytes)
	}
	for j, n := range counts {
		if n < 1 {
			return ParsedGrid{Reason: fmt.Sprintf("row %d of its reduced grid has no points", j+1)}, nil
		}
		lon := rowLongitudes(west, east, n, whole, a.fullCircleRows)
		if len(lon) == 0 {
			return ParsedGrid{Reason: fmt.Sprintf("row %d of its reduced grid has no points between %g and %g E", j+1, west, east)}, nil
		}
		g.Rows = append(g.Rows, len(lon))
		for _, x := range lon {
			g.Lat, g.Lon = append(g.Lat, lat[j]), append(g.Lon, x)
		}
	}
	g.NX = len(g.Lon)
	if a.points >= 0 && a.points != int64(g.NX) {
		return def, faultf("invalid grid", "rows of %d points in all do not make %d", g.NX, a.points)
	}
	g.Source.FirstLon = west
	def.Grid = g
	return def, nil
}

// rowLongitudes returns the ascending longitudes of a row of a reduced grid, the
// first in [0, 360). whole: n points around the globe. circles: those of n points
// on the full circle that lie between west and east. Otherwise: n points from west
// to east.
//
// Source: FM 92 GRIB2, code table 3.11 (interpretation of the list of numbers of
// points).
func rowLongitudes(west, east float64, n int, whole, circles bool) []float64 {
	var out []float64
	switch {
	case whole:
		out = linspace(west, west+360*float64(n-1)/float64(n), n)
	case circles:
		const rounding = 1e-3 // degrees: edition 1 stores corners in 10⁻³ degrees
		step := 360 / float64(n)
		for k := math.Ceil((west - rounding) / step); k*step <= east+rounding; k++ {
			out = append(out, k*step)
		}
	default:
		out = linspace(west, east, n)
	}
	if len(out) > 0 {
		turn := 360 * math.Floor(out[0]/360+1e-12)
		for i := range out {
			out[i] -= turn
		}
	}
	return out
}

// projectedGrid makes a grid on the axes of a map projection. The first grid point
// is projected; the spacing dx, dy gives the others.
//
// Source: FM 92 GRIB2, templates 3.10, 3.20, 3.30 and 3.140.
func projectedGrid(a gridParameters) (def ParsedGrid, fault *Fault) {
	p, err := projection.FromCF(a.mapping)
	if err != nil {
		return ParsedGrid{Reason: err.Error()}, nil
	}
	if !(a.dx > 0) || !(a.dy > 0) {
		return def, faultf("invalid grid", "distances of %g and %g m between points", a.dx, a.dy)
	}
	x0, y0 := p.Forward(a.la1, a.lo1)
	src := a.sourceOrder()
	g := &ensemble.Grid{Kind: ensemble.Projected, NX: a.ni, NY: a.nj, Source: src, Mapping: a.mapping, WindAlongAxes: a.windAlongAxes}
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
			return def, faultf("invalid grid", "point %d is outside of the projection %v", k+1, a.mapping["grid_mapping_name"])
		}
	}
	def.Grid = g
	return def, nil
}

// windAlongAxes is the bit of the resolution and component flags that declares u
// and v relative to the axes of the grid, instead of eastward and northward.
//
// Source: FM 92 GRIB1, code table 7; FM 92 GRIB2, flag table 3.3.
const windAlongAxes = 0x08

// Bits of the resolution and component flags that declare increments as given: of both directions in edition 1, of j in
// edition 2.
//
// Source: FM 92 GRIB1, code table 7; FM 92 GRIB2, flag table 3.3.
const (
	incrementsGiven1   = 0x80
	rowIncrementGiven2 = 0x10
)

// Values of Ni and Nj for reduced grids: missing (all bits 1) in two and in four
// octets.
const (
	missingCount1 = 0xffff
	missingCount2 = 0xffffffff
)

// parseGrid1 reads section 2 (grid description section) of edition 1. Angles are in
// 10⁻³ degrees, distances in metres.
//
// The figure of the Earth is a sphere of 6367.47 km, or the IAU 1965 spheroid
// (6378.160 km, 1/297) if bit 2 of the resolution and component flags is set.
//
// Source: FM 92 GRIB1, section 2, code tables 6 (data representation type) and 7.
func parseGrid1(o Octets) (gridParameters, string, *Fault) {
	kind := o.U1(6)
	degrees := func(n int) float64 { return float64(o.S3(n)) / 1e3 }
	a := gridParameters{ni: o.U2(7), nj: o.U2(9), points: -1, scan: o.U1(28), windAlongAxes: o.U1(17)&windAlongAxes != 0,
		la1: degrees(11), lo1: degrees(14), la2: degrees(18), lo2: degrees(21), semiMajor: 6367470, semiMinor: 6367470}
	if o.U1(17)&0x40 != 0 {
		a.semiMajor, a.semiMinor = 6378160, 6378160*(1-1/297.0)
	}
	if reason, found := unsupported1[kind]; found {
		return a, reason, nil
	}
	if (kind == 0 || kind == 10) && o.U1(17)&incrementsGiven1 != 0 && o.U2(26) != missingCount1 {
		a.dj = increment{float64(o.U2(26)) / 1e3, 1e-3}
	}
	if kind == 4 {
		if a.gaussian = o.U2(26); a.gaussian == 0 || a.gaussian > maxGaussian {
			return a, "", faultf("invalid grid", "Gaussian number %d", a.gaussian)
		}
	}
	switch kind {
	case 0, 4:
		if a.nj == missingCount1 {
			return a, "the columns of its grid have different numbers of points, which is not supported", nil
		}
		if a.ni == missingCount1 {
			return a, "", a.parseRows1(o)
		}
	case 1:
		a.projected = true
		a.dx, a.dy = float64(o.U3(29)), float64(o.U3(32))
		a.mercator(degrees(24))
	case 3, 5:
		a.projected = true
		a.dx, a.dy = float64(o.U3(21)), float64(o.U3(24))
		if lov := degrees(18); kind == 3 {
			a.lambertConformal(degrees(29), degrees(32), degrees(29), lov)
		} else {
			a.polarStereographic(60, lov, o.U1(27)&0x80 != 0) // edition 1 defines distances at 60° latitude
		}
	case 10:
		a.rotatedPole(degrees(33), degrees(36), float64(o.U4(39)&0x7fffffff)) // an IBM number is zero if all bits except the sign are zero
	default:
		return a, "", faultf("unknown grid type", "data representation type %d", kind)
	}
	if a.rotated && a.mapping == nil {
		return a, reasonRotationAngle, nil
	}
	return a, "", nil
}

const reasonRotationAngle = "its rotated grid has an angle of rotation, which is not supported"

// parseRows1 reads the list of points per row (PL) of edition 1, which follows the
// vertical coordinates. On Gaussian grids the list counts points on full circles;
// centres write limited areas this way.
//
// Source: FM 92 GRIB1, section 2, octets 4 and 5.
func (a *gridParameters) parseRows1(o Octets) *Fault {
	at := o.U1(5) + 4*o.U1(4)
	if o.U1(5) == 0 || o.U1(5) == 255 || a.nj < 1 || !o.Has(at+2*a.nj-1) {
		return faultf("invalid grid", "the list of %d rows is not in the grid section", a.nj)
	}
	for j := range a.nj {
		a.rows = append(a.rows, o.U2(at+2*j))
	}
	a.fullCircleRows = a.gaussian > 0
	return nil
}

// parseGrid2 reads section 3 (grid definition section) of edition 2.
//
// Angles are in 10⁻⁶ degrees, unless basic angle and subdivisions define another
// unit. Distances are in 10⁻³ m.
//
// Source: FM 92 GRIB2, section 3, code table 3.1 and templates 3.0, 3.1, 3.10,
// 3.20, 3.30, 3.40, 3.140.
func parseGrid2(o Octets) (gridParameters, string, *Fault) {
	template := o.U2(13)
	if o.U1(6) != 0 {
		return gridParameters{}, fmt.Sprintf("predefined grid %d is not supported", o.U1(6)), nil
	}
	a := gridParameters{ni: int(o.U4(31)), nj: int(o.U4(35)), points: o.U4(7)}
	if a.points > MaxPoints {
		return a, "", faultf("invalid grid", "%d points", a.points)
	}
	if reason, found := unsupported2[template]; found {
		return a, reason, nil
	}
	need, known := minGridLength[template]
	if !known {
		return a, "", faultf("unknown grid template", "template %d", template)
	}
	if len(o) < need {
		return a, "", faultf("grid section too short", "template %d needs %d octets, it has %d", template, need, len(o))
	}
	switch template {
	case 0, 1, 40:
		// Octets 39 to 46: basic angle and subdivisions; 0 or missing means 10⁻⁶
		// degrees.
		unit := 1e-6
		if b, s := o.U4(39), o.U4(43); b != 0 && b != 0xffffffff && s != 0 && s != 0xffffffff {
			unit = float64(b) / float64(s)
		}
		a.la1, a.lo1, a.la2, a.lo2 = float64(o.S4(47))*unit, float64(o.S4(51))*unit, float64(o.S4(56))*unit, float64(o.S4(60))*unit
		a.scan, a.windAlongAxes = o.U1(72), o.U1(55)&windAlongAxes != 0
		if template != 40 && o.U1(55)&rowIncrementGiven2 != 0 && o.U4(68) != missingCount2 {
			a.dj = increment{float64(o.U4(68)) * unit, unit}
		}
		if template == 40 {
			if n := o.U4(68); n == 0 || n > maxGaussian {
				return a, "", faultf("invalid grid", "Gaussian number %d", n)
			}
			a.gaussian = int(o.U4(68))
		}
		if o.U4(35) == missingCount2 {
			return a, "the columns of its grid have different numbers of points, which is not supported", nil
		}
		if o.U1(11) != 0 || o.U4(31) == missingCount2 {
			if template == 1 {
				return a, notSupported("reduced_rotated_ll"), nil
			}
			return a.parseRows2(o)
		}
		if template == 1 {
			a.rotatedPole(float64(o.S4(73))*unit, float64(o.S4(77))*unit, float64(o.U4(81)))
			if a.mapping == nil {
				return a, reasonRotationAngle, nil
			}
		}
	default:
		a.projected = true
		// Templates of projections share octets 15 to 46: shape of the Earth, Nx,
		// Ny, La1, Lo1.
		a.la1, a.lo1 = float64(o.S4(39))*1e-6, float64(o.S4(43))*1e-6
		a.dx, a.dy = float64(o.U4(56))*1e-3, float64(o.U4(60))*1e-3
		a.scan, a.windAlongAxes = o.U1(65), o.U1(47)&windAlongAxes != 0
		var ok bool
		if a.semiMajor, a.semiMinor, ok = earthAxes(o); !ok {
			return a, fmt.Sprintf("shape of the Earth %d is not supported", o.U1(15)), nil
		}
		switch template {
		case 10:
			a.scan = o.U1(60)
			a.dx, a.dy = float64(o.U4(65))*1e-3, float64(o.U4(69))*1e-3
			if o.U4(61) != 0 {
				return a, "its Mercator grid is rotated against the equator, which is not supported", nil
			}
			a.mercator(float64(o.S4(48)) * 1e-6)
		case 20:
			a.polarStereographic(float64(o.S4(48))*1e-6, float64(o.S4(52))*1e-6, o.U1(64)&0x80 != 0)
		case 30:
			a.lambertConformal(float64(o.S4(66))*1e-6, float64(o.S4(70))*1e-6, float64(o.S4(48))*1e-6, float64(o.S4(52))*1e-6)
		case 140:
			a.scan, a.windAlongAxes = o.U1(64), o.U1(55)&windAlongAxes != 0
			a.setMapping(map[string]any{"grid_mapping_name": "lambert_azimuthal_equal_area",
				"latitude_of_projection_origin": float64(o.S4(47)) * 1e-6, "longitude_of_projection_origin": float64(o.S4(51)) * 1e-6})
		}
	}
	return a, "", nil
}

// minGridLength is the minimum length of section 3 by grid definition template.
var minGridLength = map[int]int{0: 72, 1: 84, 10: 72, 20: 65, 30: 81, 40: 72, 140: 64}

// parseRows2 reads the list of points per row that follows section 3 of edition 2.
// width octets hold each number.
//
// Source: FM 92 GRIB2, section 3, octets 11 and 12, code table 3.11.
func (a gridParameters) parseRows2(o Octets) (gridParameters, string, *Fault) {
	width, meaning := o.U1(11), o.U1(12)
	if meaning != 1 && meaning != 2 {
		return a, fmt.Sprintf("its reduced grid uses entry %d of code table 3.11, which is not supported", meaning), nil
	}
	if a.nj < 1 || width != 1 && width != 2 && width != 4 || !o.Has(minGridLength[0]+a.nj*width) {
		return a, "", faultf("invalid grid", "the list of %d rows of %d octets is not in the grid section", a.nj, width)
	}
	for j := range a.nj {
		at := minGridLength[0] + 1 + j*width
		n := int64(o.U1(at))
		switch width {
		case 2:
			n = int64(o.U2(at))
		case 4:
			n = o.U4(at)
		}
		if n > MaxPoints {
			return a, "", faultf("invalid grid", "a row of %d points", n)
		}
		a.rows = append(a.rows, int(n))
	}
	a.fullCircleRows = meaning == 1
	return a, "", nil
}

// setMapping sets the CF grid mapping m, with the figure of the Earth.
//
// Source: CF conventions 1.8, appendix F.
func (a *gridParameters) setMapping(m map[string]any) {
	if a.semiMajor == a.semiMinor {
		m["earth_radius"] = a.semiMajor
	} else {
		m["semi_major_axis"], m["semi_minor_axis"] = a.semiMajor, a.semiMinor
	}
	a.mapping = m
}

// lambertConformal sets a Lambert conformal conic projection with one or two
// standard parallels. lat0 is the latitude of dx and dy, lon0 the central meridian.
func (a *gridParameters) lambertConformal(lat1, lat2, lat0, lon0 float64) {
	sp := []float64{lat1, lat2}
	if lat1 == lat2 {
		sp = sp[:1]
	}
	a.setMapping(map[string]any{"grid_mapping_name": "lambert_conformal_conic", "standard_parallel": sp,
		"latitude_of_projection_origin": lat0, "longitude_of_central_meridian": lon0})
}

// polarStereographic sets a polar stereographic projection that is true at latitude
// std, with lon0 parallel to the y axis.
func (a *gridParameters) polarStereographic(std, lon0 float64, south bool) {
	pole := 90.0
	if south {
		pole = -90
		std = -math.Abs(std)
	}
	a.setMapping(map[string]any{"grid_mapping_name": "polar_stereographic", "latitude_of_projection_origin": pole,
		"standard_parallel": std, "straight_vertical_longitude_from_pole": lon0})
}

// mercator sets a Mercator projection that is true at latitude std.
func (a *gridParameters) mercator(std float64) {
	// The origin is the meridian of the first point, so that x increases without a
	// jump.
	a.setMapping(map[string]any{"grid_mapping_name": "mercator", "standard_parallel": std, "longitude_of_projection_origin": a.lo1})
}

// rotatedPole sets a rotated pole by the position of the southern pole. An angle of
// rotation about the new polar axis leaves no mapping.
func (a *gridParameters) rotatedPole(southLat, southLon, turn float64) {
	a.rotated = true
	if turn == 0 {
		a.mapping = map[string]any{"grid_mapping_name": "rotated_latitude_longitude", "grid_north_pole_latitude": -southLat,
			"grid_north_pole_longitude": math.Mod(southLon+180, 360)}
	}
}

// earthAxes returns the semi-major and the semi-minor axis in metres. ok is false
// for shapes that are not supported.
//
// Source: FM 92 GRIB2, code table 3.2.
func earthAxes(o Octets) (a, b float64, ok bool) {
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
