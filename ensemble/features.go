package ensemble

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ensemble-weather/ensemble/internal/fieldmath"
)

// Aggregate is a statistic of the members' fields of a variable that forms a channel.
type Aggregate string

// The aggregates. The published networks use the first two, in this order.
const (
	UsedSpread  Aggregate = "spread" // standard deviation over the used members, divided by its RMS in training
	FirstMember Aggregate = "first"  // standardised field of the first used member
	MeanOffset  Aggregate = "offset" // mean over the used members minus the first one, divided by the RMS of the spread
	UsedMean    Aggregate = "mean"   // standardised mean over the used members
)

// AggregateKind is a row of AggregateKinds.
type AggregateKind struct {
	Name      Aggregate
	Doc       string
	UsesFirst bool // whether the value depends on which member is the first
}

// AggregateKinds lists all aggregates.
var AggregateKinds = []AggregateKind{
	{UsedSpread, "ensemble spread", false},
	{FirstMember, "the first member", true},
	{MeanOffset, "ensemble mean minus first member", true},
	{UsedMean, "ensemble mean", false},
}

// kindOf returns the row of an aggregate; nil if there is none.
func (a Aggregate) kindOf() *AggregateKind {
	if i := slices.IndexFunc(AggregateKinds, func(k AggregateKind) bool { return k.Name == a }); i >= 0 {
		return &AggregateKinds[i]
	}
	return nil
}

// UsesFirst reports whether the value depends on which member is the first.
func (a Aggregate) UsesFirst() bool { return a.kindOf() != nil && a.kindOf().UsesFirst }

// Features converts the used members of a forecast to the input channels of a network.
//
// Channel c = (lead·A + aggregate)·V + variable for A aggregates of V variables. With three
// leads, spread and first member of seven variables these are the 42 channels of the
// published networks, except that spreads are scaled and each field is standardised with
// its own maps. The offset of the mean from the first member adds the information that this
// pair lacks. Optional channels follow: location (sin lat, cos lat sin lon,
// cos lat cos lon), season (sine and cosine of the phase of the year), and auxiliary
// fields, all the same at every level.
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
type Features struct {
	Axes       Axes        `json:"axes"`
	Aggregates []Aggregate `json:"aggregates"`
	Location   bool        `json:"location"`
	Season     bool        `json:"season"`
	DDOF       int         `json:"spread_ddof"` // the divisor of the standard deviation is members - DDOF
	// Auxiliary are constant fields; their channels come last.
	Auxiliary []Auxiliary `json:"auxiliary,omitempty"`
	// MemberInputs are the channels of each member, for networks with members as input; nil: none.
	MemberInputs []MemberChannel `json:"member_channels,omitempty"`
	// Exchangeable fits the normalisers to the fields of all used members, since none is special.
	Exchangeable bool `json:"-"`
	NewNoise     bool `json:"new_noise,omitempty"` // whether each epoch of the training has noise of its own
	// NoiseStreams are the streams of the noise of input fields, on ranks with a part of the levels; nil: 0, 1, 2, …
	NoiseStreams []int `json:"-"`

	// Fitted on training dates, [lead][variable][level] as Axes.
	Fields  []*Normaliser `json:"-"`       // normalisers of the first member's fields, or if Exchangeable of all used members'
	Spreads []float64     `json:"spreads"` // RMS of the used members' standard deviation
	// Maps, if not nil, reads the maps of the normaliser of field i from a file into n, whose
	// memory may be reused. It is used while Fields[i].Mean is nil, from several goroutines.
	Maps func(i int, n *Normaliser) error `json:"-"`
}

// Auxiliary is a standardised field that does not change with time, such as orography.
type Auxiliary struct {
	Name   string    `json:"name"`
	Values []float32 `json:"-"` // [point]; nil until they are read
}

// InputLimit is the largest absolute value of a channel of statistics or members, in training
// and prediction: values farther from the mean of training, in its standard deviations, are set to
// it, so that a network never amplifies them.
const InputLimit = 20

// limitInputs sets missing values to 0 and limits the others.
func limitInputs(x []float32) {
	for p, v := range x {
		if v != v {
			v = 0
		}
		x[p] = min(max(v, -InputLimit), InputLimit)
	}
}

// ConstantInputs names the fields that are constant in training, whose channels are 0:
// "2d 2m at 24h". It is empty where nothing was fitted.
func (f *Features) ConstantInputs() (names []string) {
	for t, lead := range f.Axes.Leads {
		for v, variable := range f.Axes.Variables {
			for l, level := range f.Axes.Levels {
				if i := f.index(t, v, l); i < len(f.Fields) && f.Fields[i].Mean != nil && f.Fields[i].Constant() {
					names = append(names, fmt.Sprintf("%s %s at %s", variable, level, lead))
				}
			}
		}
	}
	return names
}

// LocationChannels and SeasonChannels are the numbers of channels they add.
const (
	// LocationChannels and SeasonChannels are the numbers of optional channels.
	LocationChannels = 3
	SeasonChannels   = 2
)

// StatisticChannels is the number of channels of statistics over members, which come first.
func (f *Features) StatisticChannels() int {
	return len(f.Axes.Leads) * len(f.Aggregates) * len(f.Axes.Variables)
}

// Channels is the number of input channels.
func (f *Features) Channels() int {
	c := f.StatisticChannels()
	if f.Location {
		c += LocationChannels
	}
	if f.Season {
		c += SeasonChannels
	}
	return c + len(f.Auxiliary)
}

// ChannelName describes a channel: "spread(t) at 48h", "sin(lat)".
func (f *Features) ChannelName(c int) string {
	a, v := len(f.Aggregates), len(f.Axes.Variables)
	if n := len(f.Axes.Leads) * a * v; c >= n {
		names := []string{}
		if f.Location {
			names = append(names, "sin(lat)", "cos(lat)sin(lon)", "cos(lat)cos(lon)")
		}
		if f.Season {
			names = append(names, "sin(year)", "cos(year)")
		}
		for _, a := range f.Auxiliary {
			names = append(names, a.Name)
		}
		return names[c-n]
	}
	return fmt.Sprintf("%s(%s) at %s", f.Aggregates[c/v%a], f.Axes.Variables[c%v], f.Axes.Leads[c/(a*v)])
}

// Channel is the index of the channel of an aggregate, variable and lead, or −1.
func (f *Features) Channel(lead Lead, a Aggregate, variable string) int {
	for c := range len(f.Axes.Leads) * len(f.Aggregates) * len(f.Axes.Variables) {
		if f.ChannelName(c) == fmt.Sprintf("%s(%s) at %s", a, variable, lead) {
			return c
		}
	}
	return -1
}

// index is the index of lead t, variable v, level l in Fields and Spreads.
func (f *Features) index(t, v, l int) int {
	return (t*len(f.Axes.Variables)+v)*len(f.Axes.Levels) + l
}

// Gather gathers the values [level][point] of a whole grid from its parts on several processes. It
// returns nil on processes that do not fit.
type Gather func(part []float64) (whole []float64, err error)

// GatherLocal is the Gather of a single process.
func GatherLocal(part []float64) ([]float64, error) { return part, nil }

// Fit estimates normalisers and spread scales from training forecasts. used are positions on
// the member axis; the normalisers are fitted to the first of them, or if Exchangeable to all.
//
// Errors: no forecast, or none with values.
func (f *Features) Fit(train []*Forecast, used []int, kind Standardisation, las LASOptions) error {
	if len(train) == 0 {
		return fmt.Errorf("features: no training forecast to fit")
	}
	sums := f.NewSums(used)
	for _, fc := range train {
		sums.Add(fc)
	}
	return f.FitSums(sums, kind, las, train[0].Grid, GatherLocal)
}

// FeatureSums holds sums over dates at each grid point, from which features are fitted. Each
// process may hold those of a part of the levels and points.
//
// Memory: nine float64 numbers for each value of a member.
type FeatureSums struct {
	f         *Features
	used      []int
	fields    []fieldSums // [lead][variable][level]; nil before the first forecast
	levels    int
	year      int // year of the last forecast
	mean, std []float32
}

// fieldSums holds the sums of one field: of all past years, and of the current one.
type fieldSums struct {
	all, year PointSums // of the first member, or of all used members
	count, sq []float64 // number and sum of squares of the spreads
}

// NewSums returns the sums of no forecast. used are positions on the member axis.
func (f *Features) NewSums(used []int) *FeatureSums { return &FeatureSums{f: f, used: used} }

// Add adds one forecast. Forecasts must be in the order of their inits.
func (s *FeatureSums) Add(fc *Forecast) {
	if s.fields == nil {
		s.start(fc)
	}
	next := fc.Init.Year() != s.year
	s.year = fc.Init.Year()
	for t := range s.f.Axes.Leads {
		for v := range s.f.Axes.Variables {
			for l := range s.levels {
				x := s.fields[s.index(t, v, l)]
				if next {
					x.endYear()
				}
				fc.MeanStd(s.mean, s.std, t, v, l, s.used, s.f.DDOF)
				if s.f.Exchangeable {
					x.year.AddMoments(s.mean, s.std, 1-float64(s.f.DDOF)/float64(len(s.used)))
				} else {
					x.year.Add(fc.Field(t, s.used[0], v, l))
				}
				for p, d := range s.std {
					if d == d {
						x.count[p]++
						x.sq[p] += float64(d) * float64(d)
					}
				}
			}
		}
	}
}

// start allocates the sums for the shape of a forecast.
func (s *FeatureSums) start(fc *Forecast) {
	n := fc.Grid.Size()
	s.levels, s.year = len(fc.Axes.Levels), fc.Init.Year()
	s.mean, s.std = make([]float32, n), make([]float32, n)
	s.fields = make([]fieldSums, len(s.f.Axes.Leads)*len(s.f.Axes.Variables)*s.levels)
	for i := range s.fields {
		all := NewPointSums(fc.Grid)
		s.fields[i] = fieldSums{all, sumsAbout(all.Pivot), make([]float64, n), make([]float64, n)}
	}
}

// index is the index of lead t, variable v, level l in fields.
func (s *FeatureSums) index(t, v, l int) int { return (t*len(s.f.Axes.Variables)+v)*s.levels + l }

// endYear adds the current year to those before it.
func (x fieldSums) endYear() {
	x.all.join(x.year)
	for _, y := range [][]float64{x.year.N, x.year.Sum, x.year.Sq} {
		clear(y)
	}
}

// FitSums fits the features to the sums of all processes, which join gathers. The result does
// not depend on how the grid is divided. Where join returns nil, nothing is fitted. The sums
// are modified.
//
// The scale of the spread of a field is its area-weighted RMS over points and dates,
// √(Σ w s² / Σ w). If it is at most rounding, as of equal members, all scaled spreads are 0
// (Normaliser.Constant).
//
// Errors: as Fit; those of join.
func (f *Features) FitSums(s *FeatureSums, kind Standardisation, las LASOptions, grid *Grid, join Gather) error {
	if s.fields == nil {
		return fmt.Errorf("features: no training forecast to fit")
	}
	n := f.Axes.Fields()
	fields, spreads := make([]*Normaliser, n), make([]float64, n)
	w := grid.Weights()
	fits := true
	var bad error // returned after all joins, since other processes wait for them
	for t := range f.Axes.Leads {
		for v := range f.Axes.Variables {
			var sums [6][]float64 // of all levels: PointSums, and count and sum of squares of spreads
			for l := range s.levels {
				x := s.fields[s.index(t, v, l)]
				x.endYear()
				for i, part := range [6][]float64{x.all.N, x.all.Sum, x.all.Sq, x.all.Pivot, x.count, x.sq} {
					sums[i] = append(sums[i], part...)
				}
			}
			for i := range sums {
				var err error
				if sums[i], err = join(sums[i]); err != nil {
					return err
				}
			}
			if fits = sums[0] != nil; !fits {
				continue
			}
			for l := range f.Axes.Levels {
				of := func(i int) []float64 { return sums[i][l*grid.Size() : (l+1)*grid.Size()] }
				points := PointSums{of(0), of(1), of(2), of(3)}
				var err error
				if kind == LAS {
					fields[f.index(t, v, l)], err = points.LAS(grid, las)
				} else {
					fields[f.index(t, v, l)], err = points.Global(grid)
				}
				if err != nil && bad == nil {
					bad = fmt.Errorf("normaliser of %s %s at %s: %w", f.Axes.Variables[v], f.Axes.Levels[l], f.Axes.Leads[t], err)
				}
				var area, sq float64
				for p, x := range of(4) {
					area += w[p] * x
					sq += w[p] * of(5)[p]
				}
				size := 0.0
				if norm := fields[f.index(t, v, l)]; norm != nil {
					size = norm.Mean[0]
				}
				spreads[f.index(t, v, l)] = scaleOf(math.Sqrt(sq/area), size)
			}
		}
	}
	if fits {
		f.Fields, f.Spreads = fields, spreads
	}
	return bad
}

// Build writes the input channels of one forecast. used are positions on the member axis; the
// first of them is the trajectory of FirstMember.
//
// Shape: dst [Channels][level][NY*NX]. Missing: a missing value becomes 0, the mean of a
// standardised channel.
// Errors: a dst of another length; an unknown aggregate; those of Maps.
func (f *Features) Build(dst []float32, fc *Forecast, used []int) error {
	n, d := fc.Grid.Size(), len(f.Axes.Levels)
	if len(dst) != f.Channels()*d*n {
		return fmt.Errorf("features: dst has %[2]d values, want %[1]d", f.Channels()*d*n, len(dst))
	}
	for _, a := range f.Aggregates {
		if a.kindOf() == nil {
			return fmt.Errorf("features: unknown aggregate %q", a)
		}
	}
	if err := f.eachField(n, func(t, v, l int, r *Scratch) error {
		fields := make([][]float32, len(used))
		for i, m := range used {
			fields[i] = fc.Field(t, m, v, l)
		}
		return f.WriteField(dst, fields, t, v, l, r)
	}); err != nil {
		return err
	}
	f.WriteFixed(dst, fc.Init, fc.Grid)
	return nil
}

// WriteFixed writes the channels of location, season and auxiliary fields to the dst of Build.
func (f *Features) WriteFixed(dst []float32, init Init, grid *Grid) {
	n, d := grid.Size(), len(f.Axes.Levels)
	c := len(f.Axes.Leads) * len(f.Aggregates) * len(f.Axes.Variables)
	if f.Location {
		for l := range d {
			for j := range grid.NY {
				for i := range grid.NX {
					lat, lon := grid.LatAt(j, i)*math.Pi/180, grid.LonAt(j, i)*math.Pi/180
					for k, x := range [LocationChannels]float64{math.Sin(lat), math.Cos(lat) * math.Sin(lon), math.Cos(lat) * math.Cos(lon)} {
						dst[((c+k)*d+l)*n+j*grid.NX+i] = float32(x)
					}
				}
			}
		}
		c += LocationChannels
	}
	if f.Season {
		s, co := math.Sincos(SeasonAngle(init.Time))
		for k, x := range [SeasonChannels]float64{s, co} {
			out := dst[(c+k)*d*n : (c+k+1)*d*n]
			for p := range out {
				out[p] = float32(x)
			}
		}
		c += SeasonChannels
	}
	for k, a := range f.Auxiliary {
		for l := range d {
			copy(dst[((c+k)*d+l)*n:], a.Values)
		}
	}
}

// Scratch is the scratch memory for the channels of one field. Every goroutine needs its own.
type Scratch struct {
	mean, std []float32
	norm      Normaliser // maps read from a file
}

// NewScratch allocates scratch memory for fields of n points.
func NewScratch(n int) *Scratch { return &Scratch{mean: make([]float32, n), std: make([]float32, n)} }

// eachField calls do for every lead, variable and level on all processors, each with its own scratch memory for n points.
func (f *Features) eachField(n int, do func(t, v, l int, r *Scratch) error) error {
	d, vars := len(f.Axes.Levels), len(f.Axes.Variables)
	fields := len(f.Axes.Leads) * vars * d
	errs := make([]error, fields)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), fields) {
		wait.Go(func() {
			r := NewScratch(n)
			for i := int(next.Add(1)) - 1; i < fields; i = int(next.Add(1)) - 1 {
				errs[i] = do(i/d/vars, i/d%vars, i%d, r)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// WriteField writes the channels of variable v at lead t and level l. fields are those of the used
// members in order. Different fields can be written concurrently, each with its own r.
//
//	spread  s / Spreads,   first  (x₁ − Mean)/Scale,   offset  (x̄ − x₁)/Spreads,   mean  (x̄ − Mean)/Scale
//
// Shape: dst as in Build; each of fields [point].
// Missing: NaN becomes 0. Values beyond InputLimit become it. Errors: those of Maps.
func (f *Features) WriteField(dst []float32, fields [][]float32, t, v, l int, r *Scratch) error {
	first := fields[0]
	n, d := len(first), len(f.Axes.Levels)
	if slices.ContainsFunc(f.Aggregates, func(a Aggregate) bool { return a != FirstMember }) {
		f.MeanStd(r.mean, r.std, fields)
	}
	var norm *Normaliser
	if slices.Contains(f.Aggregates, FirstMember) || slices.Contains(f.Aggregates, UsedMean) {
		var err error
		if norm, err = f.normaliser(t, v, l, r); err != nil {
			return err
		}
	}
	inverse := float32(1 / f.Spreads[f.index(t, v, l)])
	for i, a := range f.Aggregates {
		c := (t*len(f.Aggregates)+i)*len(f.Axes.Variables) + v
		out := dst[(c*d+l)*n : (c*d+l+1)*n]
		switch a {
		case UsedSpread:
			fieldmath.Scale(out, r.std, inverse)
		case FirstMember:
			norm.applyWide(out, first)
		case UsedMean:
			norm.applyWide(out, r.mean)
		case MeanOffset:
			for p, x := range first {
				out[p] = (r.mean[p] - x) * inverse
			}
		}
		limitInputs(out)
	}
	return nil
}

// SeasonAngle is the phase of the year: 0 at the start of 1 January (UTC), 2π after a mean year
// of 365.25 days.
//
// Unit: radians.
func SeasonAngle(t time.Time) float64 {
	t = t.UTC()
	day := float64(t.YearDay()-1) + t.Sub(t.Truncate(24*time.Hour)).Hours()/24
	return 2 * math.Pi * day / 365.25
}
