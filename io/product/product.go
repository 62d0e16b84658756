package product

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// Product holds the fields of one initialisation on one grid, and their metadata.
type Product struct {
	Init   ensemble.Init
	Grid   *ensemble.Grid
	Fields []Field
	Metadata

	Locations []ensemble.Station // Locations holds the stations of a grid of points; nil for other grids.
	// AtStations holds the product of the same distribution at stations; nil
	// without stations.
	AtStations *Product
}

// Field is one statistic of one variable at one level and lead.
//
// Shape: Values [NY·NX] of the product's grid.
// Unit: SI; 1 for a probability.
// Missing: NaN.
type Field struct {
	Variable string // short name
	Unit     string // needed only for a variable that ensemble.Variables lacks
	Level    ensemble.Level
	Lead     ensemble.Lead
	Kind     Kind
	Below    float64         // probability level of a Quantile
	Event    ensemble.Event  // of a Probability or a neighbourhood
	Radius   float64         // of a neighbourhood, in metres
	Member   ensemble.Member // of a Member
	Values   []float32
	// Members is the number of members used; 0 means all of the product. Counts
	// holds it for each point if it varies.
	Members int
	Counts  []int32
	// Period is the length of the interval that ends at the valid time, for
	// accumulations and extremes; 0 is an instant. Method is the CF cell method
	// over it; "" is that of ensemble.Variables.
	Period        time.Duration
	Method        string
	Incomplete    int    // Incomplete is the number of points whose neighbourhood has missing points.
	Parameter     string // name of a Parameter
	Dimensionless bool   // a Parameter without unit
	Distribution  string // Distribution is the family of quantiles, probabilities and members.
	// Template is the GRIB message of a field with this variable, level and lead in
	// the input; nil without one. The GRIB2 output is a clone of it.
	Template []byte
	// TemplateUnit is the unit of the template's values; "" is that of the variable.
	TemplateUnit string
}

// Metadata describes the origin of data. It is written to all files.
type Metadata struct {
	Title        string
	Institution  string
	Source       string // model and method
	References   string
	License      string
	ForecastType string
	Command      string    // command line, for the history
	Version      string    // of the program
	Created      time.Time // time in the history, unless SOURCE_DATE_EPOCH is set; zero: the initialisation

	Members   []ensemble.Member // used members
	Coupling  string            // method that makes calibrated members; "" without members
	LeadsRead string            // leads that the network read, if fewer than in training
	Fallback  string            // fallback forecast: a baseline or "raw"; "" for the network
	// times of the analyses whose rank order calibrated members have; nil for that
	// of the raw members
	TemplateTimes []ensemble.Valid
	MemberAges    []time.Duration // of the members of a lagged ensemble, in their order; else nil
	DDOF          int             // spreads have the divisor M − DDOF
	Control       string          // use of the control: include, exclude, none
	ModelChecksum string          // "sha256:…"
	Inputs        []manifest.File
}

// Longitudes is the range of written longitudes.
type Longitudes string

// The ranges of longitudes.
const (
	KeepLongitudes Longitudes = "" // as in the input
	From0          Longitudes = "0_360"
	From180        Longitudes = "180_180"
)

// Profile is the form of quantiles, probabilities and members in NetCDF files. CDO and
// GDAL have no dimension for them beside levels.
type Profile string

// The profiles.
const (
	XarrayProfile Profile = ""    // dimensions
	CDOProfile    Profile = "cdo" // a variable each
)

// Scan states whether a GRIB file keeps the scanning mode of the input.
type Scan string

// cfgrib 0.9 and CDO 2.1 silently misread messages that scan from east to west, by
// columns or with alternating rows. Therefore ReadableScan keeps only the direction
// of rows, which all readers support.
const (
	ReadableScan Scan = ""
	KeepScan     Scan = "keep"
)

// Options configures the writers. The zero value is the default.
type Options struct {
	Profile   Profile
	Longitude Longitudes
	Deflate   int    // NetCDF, Zarr: level 1 to 9; 0 means 4
	Scan      Scan   // GRIB2
	Packing   string // GRIB2: grid_ccsds (default) or grid_simple
	// Quantise is the number of bits of packed values, from minBits to maxBits.
	// Integers span the range of a variable in NetCDF and of a message in GRIB2. 0
	// means float32 in NetCDF and gribBits in GRIB2.
	Quantise int
}

// gribBits is the default number of bits of GRIB2. minBits and maxBits bound
// Options.Quantise: a 16-bit integer of NetCDF also needs a code for missing
// values.
const (
	gribBits = 16
	minBits  = 2
	maxBits  = 16
)

// check replaces defaults and rejects invalid options.
//
// Errors: exit 64, with the permitted values.
func (o Options) check() (Options, error) {
	if o.Profile == "xarray" {
		o.Profile = XarrayProfile
	}
	if o.Scan == "readable" {
		o.Scan = ReadableScan
	}
	if o.Longitude == "keep" {
		o.Longitude = KeepLongitudes
	}
	o.Packing = cmp.Or(o.Packing, "grid_ccsds")
	o.Deflate = cmp.Or(o.Deflate, 4)
	usage := func(what, fix string) error { return &exit.Error{Code: exit.Usage, What: what, Fix: fix} }
	switch {
	case o.Profile != XarrayProfile && o.Profile != CDOProfile:
		return o, usage(fmt.Sprintf("unknown NetCDF profile %q", o.Profile), "xarray or cdo")
	case o.Longitude != KeepLongitudes && o.Longitude != From0 && o.Longitude != From180:
		return o, usage(fmt.Sprintf("unknown range of longitudes %q", o.Longitude), "keep, 0_360 or 180_180")
	case o.Scan != ReadableScan && o.Scan != KeepScan:
		return o, usage(fmt.Sprintf("unknown scanning mode %q", o.Scan), "readable or keep")
	case o.Deflate < 1 || o.Deflate > 9:
		return o, usage(fmt.Sprintf("deflate level %d", o.Deflate), "1 to 9")
	case o.Packing != "grid_ccsds" && o.Packing != "grid_simple":
		return o, usage(fmt.Sprintf("unknown GRIB packing %q", o.Packing), "grid_ccsds or grid_simple")
	case o.Quantise != 0 && (o.Quantise < minBits || o.Quantise > maxBits):
		return o, usage(fmt.Sprintf("%d bits per value", o.Quantise), fmt.Sprintf("%d to %d", minBits, maxBits))
	}
	return o, nil
}

// Leads returns the leads of the fields, ascending.
func (p *Product) Leads() []ensemble.Lead {
	var leads []ensemble.Lead
	for _, f := range p.Fields {
		if !slices.Contains(leads, f.Lead) {
			leads = append(leads, f.Lead)
		}
	}
	slices.Sort(leads)
	return leads
}

// Select returns the product with the fields for which keep returns true. Values are
// shared with p.
func (p *Product) Select(keep func(Field) bool) *Product {
	q := *p
	q.Fields = nil
	for _, f := range p.Fields {
		if keep(f) {
			q.Fields = append(q.Fields, f)
		}
	}
	return &q
}

// variable returns the entry of ensemble.Variables, or one made from the field. The
// identifier of an unknown variable has letters, digits and underscores only (CF section
// 2.3), and no GRIB2 code (Discipline −1).
func (f Field) variable() ensemble.Variable {
	if v, ok := ensemble.VariableNamed(f.Variable); ok {
		return v
	}
	id := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, f.Variable)
	if id == "" || id[0] >= '0' && id[0] <= '9' || id[0] == '_' {
		id = "v" + id
	}
	return ensemble.Variable{Name: f.Variable, Identifier: id, LongName: f.Variable, Unit: f.Unit, Level: f.Level, Discipline: -1}
}

// members returns the number of members that a field was made from.
func (p *Product) members(f Field) int { return cmp.Or(f.Members, len(p.Members)) }

// realizations returns the number of calibrated members of a field's variable,
// level and lead. It differs from members if they follow a template, or are drawn.
func (p *Product) realizations(f Field) (n int) {
	if p.Coupling == "" {
		return p.members(f)
	}
	for _, o := range p.Fields {
		if o.Kind == Member && o.Variable == f.Variable && o.Level == f.Level && o.Lead == f.Lead {
			n++
		}
	}
	return n
}

// compare orders fields as in files: lead, variable, kind, position along the axis of
// the kind, level with decreasing pressure. It is 0 only for fields that a file cannot
// hold both.
func compare(a, b Field) int {
	return cmp.Or(cmp.Compare(a.Lead, b.Lead), cmp.Compare(a.Variable, b.Variable), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Below, b.Below), a.Event.Compare(b.Event), cmp.Compare(a.Parameter, b.Parameter), cmp.Compare(a.Radius, b.Radius), cmp.Compare(a.Member, b.Member),
		cmp.Compare(a.Level.Kind, b.Level.Kind), cmp.Compare(b.Level.Value, a.Level.Value), cmp.Compare(b.Level.End, a.Level.End))
}

// check rejects products that must not be published.
//
// Errors: exit 70, since all problems are errors of the program.
func (p *Product) check() error {
	bug := func(format string, args ...any) error {
		return &exit.Error{Code: exit.Bug, What: fmt.Sprintf(format, args...), At: "product of " + p.Init.String(),
			Fix: "report it with the config and the first input file; nothing was published"}
	}
	if len(p.Fields) == 0 || p.Grid == nil {
		return bug("a product without fields or grid")
	}
	if places := p.Grid.Kind == ensemble.Points; places != (p.Locations != nil) || places && len(p.Locations) != p.Grid.Size() {
		return bug("%d stations for %s", len(p.Locations), p.Grid)
	}
	sorted := slices.SortedFunc(slices.Values(p.Fields), compare)
	for i, f := range sorted {
		name := fmt.Sprintf("%s %s %s at %s", f.Variable, f.Statistic(), f.Level, f.Lead)
		s, ok := statisticOf(f.Kind)
		if !ok {
			return bug("unknown kind of product in %s", name)
		}
		if f.variable().Unit == "" {
			return bug("no unit for %s", name)
		}
		if (f.Kind == Parameter) != (f.Parameter != "") {
			return bug("the parameter of %s is not set", name)
		}
		if f.Kind == Quantile && !(f.Below > 0 && f.Below < 1) || s.probability() && f.Event.Relation == ensemble.NoEvent || (f.Kind == Neighbourhood || f.Kind == NeighbourhoodAny) != (f.Radius > 0) {
			return bug("the quantile, event or radius of %s is not set", name)
		}
		if f.Counts != nil && len(f.Counts) != len(f.Values) {
			return bug("%s has %d counts of members for %d values", name, len(f.Counts), len(f.Values))
		}
		if len(f.Values) != p.Grid.Size() {
			return bug("%s has %d values, the grid %d", name, len(f.Values), p.Grid.Size())
		}
		if p.members(f) < 1 {
			return bug("no count of members for %s", name)
		}
		if i > 0 && compare(sorted[i-1], f) == 0 {
			return bug("%s is listed twice in a product", name)
		}
		for at, v := range f.Values {
			if math.IsInf(float64(v), 0) || (s.of == ensemble.Spread || s.probability()) && v < 0 || s.probability() && v > 1 {
				return bug("%s is %g at row %d, column %d", name, v, at/p.Grid.NX, at%p.Grid.NX)
			}
		}
	}
	return nil
}

// created returns the time in the history of a file. Without both, the initialisation
// makes files reproducible.
//
// Source: reproducible-builds.org, SOURCE_DATE_EPOCH.
func (m Metadata) created(init ensemble.Init) (time.Time, error) {
	if t, ok, err := SourceDate(); ok || err != nil {
		return t, err
	}
	if !m.Created.IsZero() {
		return m.Created.UTC(), nil
	}
	return init.UTC(), nil
}

// SourceDate returns the time in SOURCE_DATE_EPOCH, which replaces the current
// time. ok is false if it is not set.
//
// Errors: exit 64 if it is not a number of seconds.
func SourceDate() (t time.Time, ok bool, err error) {
	s := os.Getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return time.Time{}, false, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, false, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("SOURCE_DATE_EPOCH is %q", s),
			Fix: "set it to seconds since 1970-01-01T00:00Z, or unset it", Err: err}
	}
	return time.Unix(n, 0).UTC(), true, nil
}
