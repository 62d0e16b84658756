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

// Product holds the fields that one init gives, on one grid, and what a reader
// must know of how they were made.
type Product struct {
	Init   ensemble.Init
	Grid   *ensemble.Grid
	Fields []Field
	Metadata

	// Locations are the stations that a grid of single places is of; nil for other grids.
	Locations []ensemble.Station
	// AtStations is what the same distribution gives at single places; nil for none.
	AtStations *Product
}

// Field is one statistic of one variable at one level and lead.
//
// Shape: Values [NY*NX] of the product's grid. Unit: SI; 1 for a probability. Missing: NaN.
type Field struct {
	Variable string // short name
	Unit     string // only needed for a variable that ensemble.Variables does not list
	Level    ensemble.Level
	Lead     ensemble.Lead
	Kind     Kind
	Below    float64         // of a Quantile: the probability of values below it
	Event    ensemble.Event  // of a Probability, and of one of a neighbourhood
	Radius   float64         // of a neighbourhood, in metres
	Member   ensemble.Member // of a Member
	Values   []float32
	// Members is how many members were used for this field; 0 means all of the
	// product's. Counts says it by point, where it varies.
	Members int
	Counts  []int32
	// Period is the length of the interval that ends at the valid time, for
	// accumulations and extremes; 0 is a value at an instant. Method is what was done over
	// it in the words of CF; empty is what the vocabulary says of the variable.
	Period time.Duration
	Method string
	// Incomplete is how many points of a neighbourhood's field have missing ones around.
	Incomplete    int
	Parameter     string // of a Parameter: its name
	Dimensionless bool   // a Parameter without a unit
	// Distribution names what quantiles, probabilities and members are of.
	Distribution string
	// Template is the GRIB message of a field of this variable, level and lead
	// that the product was made from; nil where there is none. The GRIB2 output is
	// a clone of it.
	Template []byte
}

// Metadata is how data came about. It goes into every file.
type Metadata struct {
	Title        string
	Institution  string
	Source       string // model and method
	References   string
	License      string
	ForecastType string
	Command      string    // the command line, for the history
	Version      string    // of the program
	Created      time.Time // time in the history; zero means SOURCE_DATE_EPOCH, or the init

	Members       []ensemble.Member // used
	Coupling      string            // how calibrated members are made; empty without any
	LeadsRead     string            // by the network, where these are fewer than it was trained with
	Fallback      string            // what forecasts in place of the network: a baseline or "raw"; empty for the network
	TemplateTimes []ensemble.Valid  // times of the analyses in whose order they are; nil for raw members
	MemberAges    []time.Duration   // of the members of a lagged ensemble, in their order; else nil
	DDOF          int               // spreads divide by members - DDOF
	Control       string            // policy: include, exclude, mean_only, none
	ModelChecksum string            // "sha256:…"
	Inputs        []manifest.File
}

// Longitudes is the range in which longitudes are written.
type Longitudes string

// The ranges of longitudes.
const (
	KeepLongitudes Longitudes = "" // as the input had them
	From0          Longitudes = "0_360"
	From180        Longitudes = "180_180"
)

// Profile is the group of readers that a NetCDF file must open in without a
// warning; one file cannot please both.
type Profile string

// The profiles.
const (
	XarrayProfile Profile = "" // CF to the letter: scalar coordinates are listed
	CDOProfile    Profile = "cdo"
)

// Scan says how far a GRIB file keeps the input's scanning mode.
type Scan string

// The ways to scan. cfgrib 0.9 and CDO 2.1 misread, without a word, messages
// that run from east to west, by meridians, or with every second row backwards;
// so by default only the direction of the rows, which all read right, is kept.
const (
	ReadableScan Scan = ""
	KeepScan     Scan = "keep"
)

// Options of the writers; the zero value is the default.
type Options struct {
	Profile   Profile
	Longitude Longitudes
	Deflate   int    // NetCDF: level 1 to 9; 0 means 4
	Scan      Scan   // GRIB2
	Packing   string // GRIB2: grid_ccsds ("" means this) or grid_simple
	// Quantise packs values into so many bits, from minBits to maxBits: whole numbers over
	// the range of a variable in NetCDF, of a message in GRIB2. 0 means float32 and
	// gribBits.
	Quantise int
}

// gribBits are the bits per value of a GRIB2 message unless others are asked for; the
// others are what a short integer of NetCDF can hold besides a mark for missing values.
const (
	gribBits = 16
	minBits  = 2
	maxBits  = 16
)

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
		return o, usage(fmt.Sprintf("unknown scan %q", o.Scan), "readable or keep")
	case o.Deflate < 1 || o.Deflate > 9:
		return o, usage(fmt.Sprintf("deflate level %d", o.Deflate), "1 to 9")
	case o.Packing != "grid_ccsds" && o.Packing != "grid_simple":
		return o, usage(fmt.Sprintf("unknown GRIB packing %q", o.Packing), "grid_ccsds or grid_simple")
	case o.Quantise != 0 && (o.Quantise < minBits || o.Quantise > maxBits):
		return o, usage(fmt.Sprintf("%d bits per value", o.Quantise), fmt.Sprintf("%d to %d", minBits, maxBits))
	}
	return o, nil
}

// Leads lists the leads that have fields, ascending.
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

// Select is the product with only those fields that keep wants.
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

// variable is the vocabulary's entry of a field's variable, or one made up from
// the field for a variable that has none.
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

// members is the number of members that a field was made from.
func (p *Product) members(f Field) int { return cmp.Or(f.Members, len(p.Members)) }

// realizations is how many calibrated members there are of a member's kind: as many as it was
// made from, unless they have a template of their own.
func (p *Product) realizations(f Field) (n int) {
	if p.TemplateTimes == nil {
		return p.members(f)
	}
	for _, o := range p.Fields {
		if o.Kind == Member && o.Variable == f.Variable && o.Level == f.Level && o.Lead == f.Lead {
			n++
		}
	}
	return n
}

// compare orders fields as files hold them: lead, variable, kind, what tells fields of the
// kind apart, level with pressure falling.
func compare(a, b Field) int {
	return cmp.Or(cmp.Compare(a.Lead, b.Lead), cmp.Compare(a.Variable, b.Variable), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Below, b.Below), a.Event.Compare(b.Event), cmp.Compare(a.Parameter, b.Parameter), cmp.Compare(a.Radius, b.Radius), cmp.Compare(a.Member, b.Member),
		cmp.Compare(a.Level.Kind, b.Level.Kind), cmp.Compare(b.Level.Value, a.Level.Value))
}

// check refuses what must never be published.
//
// Errors: exit 70, since everything it finds is a fault of the program.
func (p *Product) check() error {
	bug := func(format string, args ...any) error {
		return &exit.Error{Code: exit.Bug, What: fmt.Sprintf(format, args...), At: "product of " + p.Init.String(),
			Fix: "report it with the config and the first input file; nothing was published"}
	}
	if len(p.Fields) == 0 || p.Grid == nil {
		return bug("a product without fields")
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
			return bug("nobody knows which parameter %s is", name)
		}
		if f.Kind == Quantile && !(f.Below > 0 && f.Below < 1) || s.probability() && f.Event.Relation == ensemble.NoEvent || (f.Kind == Neighbourhood || f.Kind == NeighbourhoodAny) != (f.Radius > 0) {
			return bug("nobody knows what %s is of", name)
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
			return bug("%s stands twice in a product", name)
		}
		for at, v := range f.Values {
			if math.IsInf(float64(v), 0) || (s.of == ensemble.Spread || s.probability()) && v < 0 || s.probability() && v > 1 {
				return bug("%s is %g at row %d, column %d", name, v, at/p.Grid.NX, at%p.Grid.NX)
			}
		}
	}
	return nil
}

// created is the time in the history of a file.
//
// Source: reproducible-builds.org, SOURCE_DATE_EPOCH.
func (m Metadata) created(init ensemble.Init) (time.Time, error) {
	if !m.Created.IsZero() {
		return m.Created.UTC(), nil
	}
	if t, ok, err := SourceDate(); ok || err != nil {
		return t, err
	}
	return init.UTC(), nil
}

// SourceDate is the time that SOURCE_DATE_EPOCH asks to be written in place of
// the present one; ok says whether it is set.
//
// Errors: exit 64 if it is set and not a number of seconds.
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
