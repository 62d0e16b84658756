package grib

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/order"
	"github.com/ensemble-weather/ensemble/io/projection"
)

// MaxPoints bounds the points of a grid, so that a damaged number cannot ask
// for more memory than a machine has. A global grid of 2 km has 200 million.
const MaxPoints = 1 << 28

// ParsedGrid is a grid section understood, or why not.
type ParsedGrid struct {
	Grid   *ensemble.Grid
	Reason string // why fields on it cannot be used; Grid is nil then
}

// Hints for grids that are met but not used: what the user can do about them.
const (
	hintSpectral = "it holds spectral coefficients, which are no values at points; transform them to a grid first, for example with `cdo sp2gpl` or by asking the archive for a grid"
	hintHEALPix  = "its grid is HEALPix, which has no rows and columns; bring it to a latitude-longitude grid first, for example with `cdo remapnn`"
	hintCells    = "its grid is unstructured (triangles or other cells), and where its points are stands in another file; bring it to a latitude-longitude grid first, for example with `cdo remapnn`"
)

func notSupported(name string) string {
	return "grid type " + name + " is not supported; bring it to a latitude-longitude grid first"
}

// unsupported2 says of the grid templates of edition 2 that are met but not used why.
var unsupported2 = map[int]string{2: notSupported("stretched_ll"), 3: notSupported("stretched_rotated_ll"), 12: notSupported("transverse_mercator"),
	41: notSupported("rotated_gg"), 42: notSupported("stretched_gg"), 43: notSupported("stretched_rotated_gg"), 50: hintSpectral, 51: hintSpectral, 52: hintSpectral, 53: hintSpectral,
	90: notSupported("space_view"), 100: hintCells, 101: hintCells, 110: notSupported("equatorial_azimuthal_equidistant"), 150: hintHEALPix}

// unsupported1 does so for the data representation types of edition 1.
var unsupported1 = map[int]string{2: notSupported("gnomonic"), 14: notSupported("rotated_gg"), 20: notSupported("stretched_ll"), 24: notSupported("stretched_gg"),
	50: hintSpectral, 60: hintSpectral, 70: hintSpectral, 80: hintSpectral, 90: notSupported("space_view"), 192: hintCells}

// gridParameters is what both editions say about one grid, in degrees and metres.
type gridParameters struct {
	ni, nj               int
	la1, lo1, la2, lo2   float64
	gaussian             int // latitudes between pole and equator; 0 for lat-lon
	scan                 int
	points               int64 // announced by the message; -1 where it does not say
	rows                 []int // of a reduced grid: points of each row, in the order of the file
	fullCircleRows       bool  // rows count the points of full circles, of which those between lo1 and lo2 are there
	rotated              bool  // la and lo are in the grid of mapping's pole
	projected            bool  // projections: la1/lo1, dx/dy and mapping count
	dx, dy               float64
	mapping              map[string]any
	semiMajor, semiMinor float64
	windAlongAxes        bool // bit 5 of the resolution and component flags
}

// A small message with a large grid is a constant field, or damage that asks for
// memory: beyond smallGrid points, a byte of the message must stand for at most
// pointsPerByte of them (the best compression met in real files is about 20).
const (
	smallGrid     = 1 << 22
	pointsPerByte = 200
)

// IsImplausible says whether so many points in so many bytes are more than compression makes of
// real fields.
func IsImplausible(points, bytes int64) bool {
	return points > smallGrid && points > pointsPerByte*bytes
}

// maxGaussian bounds the latitudes between pole and equator; the finest grids in
// use have 2560.
const maxGaussian = 1 << 12

// ParseGrid reads a grid section of either edition, found in a message of so many
// bytes. The fault is damage; a grid that is sound but not supported has a Reason.
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
		return ParsedGrid{Reason: fmt.Sprintf("scanning mode %d shifts rows against each other, which is not supported", a.scan)}, nil
	}
	if a.rows != nil {
		if math.Abs(a.la1) > 90+1e-6 || math.Abs(a.la2) > 90+1e-6 || math.Abs(a.lo1) > 720 || math.Abs(a.lo2) > 720 {
			return ParsedGrid{}, cornerFault(a)
		}
		return reducedGrid(a, bytes)
	}
	if a.ni < 1 || a.nj < 1 || int64(a.ni)*int64(a.nj) > MaxPoints {
		return ParsedGrid{}, faultf("impossible grid", "%d x %d points", a.ni, a.nj)
	}
	if IsImplausible(int64(a.ni)*int64(a.nj), bytes) {
		return ParsedGrid{}, faultf("impossible grid", "%d x %d points in a message of %d bytes", a.ni, a.nj, bytes)
	}
	if a.points >= 0 && a.points != int64(a.ni)*int64(a.nj) {
		return ParsedGrid{}, faultf("impossible grid", "%d x %d points do not make %d", a.ni, a.nj, a.points)
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

func cornerFault(a gridParameters) *Fault {
	return faultf("impossible grid", "corner at latitude %g or %g, longitude %g or %g", a.la1, a.la2, a.lo1, a.lo2)
}

// sourceOrder is the order in which the file has the points.
func (a gridParameters) sourceOrder() ensemble.SourceOrder {
	return ensemble.SourceOrder{SouthFirst: a.scan&0x40 != 0, EastFirst: a.scan&0x80 != 0, ColumnMajor: a.scan&0x20 != 0, ScanningMode: a.scan}
}

// latitudes gives the n latitudes of a grid from north to south, Gaussian ones exactly.
func (a gridParameters) latitudes(n int) ([]float64, *Fault) {
	north, south := a.la1, a.la2
	if a.sourceOrder().SouthFirst {
		north, south = south, north
	}
	if n > 1 && !(north > south) {
		return nil, faultf("impossible grid", "scanning mode %d contradicts latitudes %g to %g", a.scan, a.la1, a.la2)
	}
	if a.gaussian == 0 {
		return linspace(north, south, n), nil
	}
	all := ensemble.GaussianLatitudes(2 * a.gaussian)
	// A part of the globe keeps the rows between its first and last latitude;
	// these are stored to a thousandth or millionth of a degree.
	first := 0
	for first < len(all)-1 && all[first] > north+0.01 {
		first++
	}
	if first+n > len(all) || math.Abs(all[first]-north) > 0.01 || math.Abs(all[first+n-1]-south) > 0.01 {
		return nil, faultf("impossible grid", "%d rows from %g to %g are not Gaussian latitudes of number %d", n, north, south, a.gaussian)
	}
	return all[first : first+n], nil
}

// linspace gives n equidistant numbers from a to b.
func linspace(a, b float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = a + (b-a)*float64(i)/float64(max(n-1, 1))
	}
	return out
}

// latLonGrid makes a regular grid on latitudes and longitudes.
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
		return def, faultf("impossible grid", "%d columns from %g to %g E", a.ni, west, east)
	}
	def.Grid = g
	return def, nil
}

// rotatedGrid makes a regular grid on the latitudes and longitudes of another pole.
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
	// Limited areas lie around the meridian 0 of the rotated grid, so that is where
	// the axis is least likely to jump.
	turn := 360 * math.Round((west+east)/2/360)
	g.X = linspace(west-turn, east-turn, a.ni)
	g.Source.FirstLon = west
	g.Lat, g.Lon = projection.Coordinates(p, g.X, g.Y)
	def.Grid = g
	return def, nil
}

// reducedGrid makes a grid whose rows have unlike numbers of points.
func reducedGrid(a gridParameters, bytes int64) (def ParsedGrid, fault *Fault) {
	if a.scan&0x20 != 0 {
		return ParsedGrid{Reason: "its rows have unlike numbers of points and are stored by columns"}, nil
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
	whole := east-west > 360-1.5*360/float64(slices.Max(counts)) // once around the globe
	total := int64(0)
	for _, n := range counts {
		total += int64(n)
	}
	if total > MaxPoints || total > smallGrid && total > pointsPerByte*bytes {
		return def, faultf("impossible grid", "%d points in %d rows, in a message of %d bytes", total, len(counts), bytes)
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
		return def, faultf("impossible grid", "rows of %d points in all do not make %d", g.NX, a.points)
	}
	g.Source.FirstLon = west
	def.Grid = g
	return def, nil
}

// rowLongitudes gives the ascending longitudes of a row of a reduced grid from west to
// east, the first of them in [0, 360): n points once around the globe, or those of n on
// a full circle that lie between the two, or n between them.
//
// Source: FM 92 GRIB2, code table 3.11.
func rowLongitudes(west, east float64, n int, whole, circles bool) []float64 {
	var out []float64
	switch {
	case whole:
		out = linspace(west, west+360*float64(n-1)/float64(n), n)
	case circles:
		const rounding = 1e-3 // degrees, to which edition 1 stores corners
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

// projectedGrid makes a grid on the axes of a map projection.
func projectedGrid(a gridParameters) (def ParsedGrid, fault *Fault) {
	p, err := projection.FromCF(a.mapping)
	if err != nil {
		return ParsedGrid{Reason: err.Error()}, nil
	}
	if !(a.dx > 0) || !(a.dy > 0) {
		return def, faultf("impossible grid", "distances of %g and %g m between points", a.dx, a.dy)
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
			return def, faultf("impossible grid", "point %d has no place on the Earth in projection %v", k+1, a.mapping["grid_mapping_name"])
		}
	}
	def.Grid = g
	return def, nil
}

// windAlongAxes is the bit of the resolution and component flags (table 7 of edition 1, code
// table 3.3 of edition 2) by which u and v are along the axes of the grid.
const windAlongAxes = 0x08

// unlike marks a number of points that differs from row to row.
const (
	missingCount1 = 0xffff
	missingCount2 = 0xffffffff
)

// parseGrid1 reads a grid section of edition 1 (angles in thousandths of a degree).
func parseGrid1(o Octets) (gridParameters, string, *Fault) {
	kind := o.U1(6)
	degrees := func(n int) float64 { return float64(o.S3(n)) / 1e3 }
	a := gridParameters{ni: o.U2(7), nj: o.U2(9), points: -1, scan: o.U1(28), windAlongAxes: o.U1(17)&windAlongAxes != 0,
		la1: degrees(11), lo1: degrees(14), la2: degrees(18), lo2: degrees(21), semiMajor: 6367470, semiMinor: 6367470}
	if o.U1(17)&0x40 != 0 {
		a.semiMajor, a.semiMinor = 6378160, 6378160*(1-1/297.0)
	}
	if reason, met := unsupported1[kind]; met {
		return a, reason, nil
	}
	if kind == 4 {
		if a.gaussian = o.U2(26); a.gaussian == 0 || a.gaussian > maxGaussian {
			return a, "", faultf("impossible grid", "Gaussian number %d", a.gaussian)
		}
	}
	switch kind {
	case 0, 4:
		if a.nj == missingCount1 {
			return a, "its columns have unlike numbers of points, which is not supported", nil
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
			a.polarStereographic(60, lov, o.U1(27)&0x80 != 0) // edition 1 gives distances at 60 degrees
		}
	case 10:
		a.rotatedPole(degrees(33), degrees(36), float64(o.U4(39)&0x7fffffff)) // an IBM number is zero where its bits but the sign are
	default:
		return a, "", faultf("grid type not known", "data representation type %d", kind)
	}
	if a.rotated && a.mapping == nil {
		return a, reasonRotationAngle, nil
	}
	return a, "", nil
}

const reasonRotationAngle = "its rotated grid is turned around the new pole, which is not supported"

// parseRows1 reads the list behind a grid section of edition 1. On Gaussian grids it counts
// the points of full circles, as centres write parts of the globe.
func (a *gridParameters) parseRows1(o Octets) *Fault {
	at := o.U1(5) + 4*o.U1(4)
	if o.U1(5) == 0 || o.U1(5) == 255 || a.nj < 1 || !o.Has(at+2*a.nj-1) {
		return faultf("impossible grid", "the list of %d rows is not in the grid section", a.nj)
	}
	for j := range a.nj {
		a.rows = append(a.rows, o.U2(at+2*j))
	}
	a.fullCircleRows = a.gaussian > 0
	return nil
}

// parseGrid2 reads a grid section of edition 2.
func parseGrid2(o Octets) (gridParameters, string, *Fault) {
	template := o.U2(13)
	if o.U1(6) != 0 {
		return gridParameters{}, fmt.Sprintf("predefined grid %d is not supported", o.U1(6)), nil
	}
	a := gridParameters{ni: int(o.U4(31)), nj: int(o.U4(35)), points: o.U4(7)}
	if a.points > MaxPoints {
		return a, "", faultf("impossible grid", "%d points", a.points)
	}
	if reason, met := unsupported2[template]; met {
		return a, reason, nil
	}
	need, known := minGridLength[template]
	if !known {
		return a, "", faultf("grid template not known", "template %d", template)
	}
	if len(o) < need {
		return a, "", faultf("grid section too short", "template %d needs %d octets, it has %d", template, need, len(o))
	}
	switch template {
	case 0, 1, 40:
		unit := 1e-6
		if b, s := o.U4(39), o.U4(43); b != 0 && b != 0xffffffff && s != 0 && s != 0xffffffff {
			unit = float64(b) / float64(s)
		}
		a.la1, a.lo1, a.la2, a.lo2 = float64(o.S4(47))*unit, float64(o.S4(51))*unit, float64(o.S4(56))*unit, float64(o.S4(60))*unit
		a.scan, a.windAlongAxes = o.U1(72), o.U1(55)&windAlongAxes != 0
		if template == 40 {
			if n := o.U4(68); n == 0 || n > maxGaussian {
				return a, "", faultf("impossible grid", "Gaussian number %d", n)
			}
			a.gaussian = int(o.U4(68))
		}
		if o.U4(35) == missingCount2 {
			return a, "its columns have unlike numbers of points, which is not supported", nil
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
				return a, "its Mercator grid is turned against the equator, which is not supported", nil
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

// minGridLength is the least length of a grid section by template of edition 2.
var minGridLength = map[int]int{0: 72, 1: 84, 10: 72, 20: 65, 30: 81, 40: 72, 140: 64}

// parseRows2 reads the list behind a grid section of edition 2 (code table 3.11).
func (a gridParameters) parseRows2(o Octets) (gridParameters, string, *Fault) {
	width, meaning := o.U1(11), o.U1(12)
	if meaning != 1 && meaning != 2 {
		return a, fmt.Sprintf("the rows of its reduced grid are described in way %d of code table 3.11, which is not supported", meaning), nil
	}
	if a.nj < 1 || width != 1 && width != 2 && width != 4 || !o.Has(minGridLength[0]+a.nj*width) {
		return a, "", faultf("impossible grid", "the list of %d rows of %d octets is not in the grid section", a.nj, width)
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
			return a, "", faultf("impossible grid", "a row of %d points", n)
		}
		a.rows = append(a.rows, int(n))
	}
	a.fullCircleRows = meaning == 1
	return a, "", nil
}

func (a *gridParameters) setMapping(m map[string]any) {
	if a.semiMajor == a.semiMinor {
		m["earth_radius"] = a.semiMajor
	} else {
		m["semi_major_axis"], m["semi_minor_axis"] = a.semiMajor, a.semiMinor
	}
	a.mapping = m
}

func (a *gridParameters) lambertConformal(lat1, lat2, lat0, lon0 float64) {
	sp := []float64{lat1, lat2}
	if lat1 == lat2 {
		sp = sp[:1]
	}
	a.setMapping(map[string]any{"grid_mapping_name": "lambert_conformal_conic", "standard_parallel": sp,
		"latitude_of_projection_origin": lat0, "longitude_of_central_meridian": lon0})
}

func (a *gridParameters) polarStereographic(std, lon0 float64, south bool) {
	pole := 90.0
	if south {
		pole = -90
		std = -math.Abs(std)
	}
	a.setMapping(map[string]any{"grid_mapping_name": "polar_stereographic", "latitude_of_projection_origin": pole,
		"standard_parallel": std, "straight_vertical_longitude_from_pole": lon0})
}

func (a *gridParameters) mercator(std float64) {
	// The meridian of the first point: x rises from there without a jump.
	a.setMapping(map[string]any{"grid_mapping_name": "mercator", "standard_parallel": std, "longitude_of_projection_origin": a.lo1})
}

// rotatedPole puts the south pole of the grid somewhere else. A turn around the new pole
// leaves no mapping.
func (a *gridParameters) rotatedPole(southLat, southLon, turn float64) {
	a.rotated = true
	if turn == 0 {
		a.mapping = map[string]any{"grid_mapping_name": "rotated_latitude_longitude", "grid_north_pole_latitude": -southLat,
			"grid_north_pole_longitude": math.Mod(southLon+180, 360)}
	}
}

// earthAxes gives the half axes of code table 3.2.
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
