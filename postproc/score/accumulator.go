package score

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Target is the quantity that the systems of one Accumulator forecast.
type Target struct {
	Variable string
	Level    ensemble.Level
	Lead     ensemble.Lead
	Unit     string
}

// System is a forecast system as the results name it.
type System struct {
	Name string
	// MembersUsed is the number of members that the forecast was made from, for
	// display only. 0: none (climatology).
	MembersUsed int
	// Provides is the content of the system's samples: Members; or Mean and Spread; or
	// one of these two; or Parameters of a Family, with Mean and Spread if scores of
	// moments are wanted too.
	Provides Need
	Family   *dist.Family
	// Thresholds and Levels are those of Options for which its samples give the probability
	// of exceedance and the quantile, instead of those of its distribution.
	Thresholds, Levels []float64
	// PublishedOnly leaves all other scores than those of thresholds and levels to another system.
	PublishedOnly bool
}

// Sample is the forecast of one system for one date.
//
// Shape: Members [member][point]; Earlier [lead][member][point], the same members at
// earlier leads; Mean and Spread [point]; Parameters [parameter][point] in the order
// of Family.Parameters; Exceedance and Quantiles [number][point] of System.Thresholds and
// Levels. Fields that System.Provides does not name are ignored.
// Unit: that of the variable. Missing: NaN.
type Sample struct {
	Members      [][]float32
	Earlier      [][][]float32
	Mean, Spread []float32
	Parameters   [][]float32

	Exceedance, Quantiles [][]float32
}

// Reference holds the verifying fields of one date, and the fields that weight or
// select points.
//
// Shape: [point] unless stated. Unit: that of the variable; the index has none.
// Missing: NaN.
type Reference struct {
	Obs        []float32
	FullSpread []float32 // spread of the full ensemble, the target of spread_rmse; nil unless Options.FullSpread
	Index      []float32 // extreme forecast index, the weight of eecrps; nil unless Options.Index
	// Extremes is the index whose absolute value selects the points of LargestEFI; nil
	// unless Options.Extremes. Climate [quantile][point] holds Options.Climate quantiles
	// of the climate at equal steps of probability from 0 to 1.
	Extremes []float32
	Climate  [][]float32
	// Earlier [lead][point] holds the observations at earlier leads; nil unless a system gives Leads.
	Earlier [][]float32
}

// Grid is the area that scores are averaged over.
type Grid struct {
	Weights []float64 // [point], not negative, any scale
	Name    string    // name of the weights in results: "cos(latitude)"
	// NX is the number of points in a row, for scores of neighbouring points; 0: a list
	// of points. Periodic: the last point of a row is a neighbour of the first.
	NX       int
	Periodic bool
	// Neighbourhood computes means over the points within Radius, in metres, of each point; NaN
	// counts as missing. nil: no scores of fractions.
	Neighbourhood func(fields ...[]float32) [][]float32
	Radius        float64
}

// Everywhere and AllYear are the names of the whole area and of all dates in results.
// LargestEFI names the points where the absolute extreme forecast index of a date is
// largest; these points differ from date to date.
const (
	Everywhere = "all"
	AllYear    = "all"
	LargestEFI = "largest_efi"
)

// Region is a part of the area that is scored in addition to the whole.
type Region struct {
	Name string
	Mask []bool // [point], true inside
}

// Options select what is computed. The zero value computes the Default scores over the whole area.
type Options struct {
	Scores     []string  // ids of the table; nil means Default
	Thresholds []float64 // of events, in the unit of the variable
	Levels     []float64 // probabilities of quantiles, between 0 and 1
	Regions    []Region  // scored in addition to the whole area
	Seasons    bool      // score DJF, MAM, JJA and SON (by valid time) in addition to all dates
	FullSpread bool      // Reference.FullSpread is given
	Index      bool      // Reference.Index is given
	// Extremes is the fraction of the area, by weight, that forms the region LargestEFI on
	// each date: the points where |Reference.Extremes| is largest. 0: no such region.
	Extremes float64
	Climate  int // number of quantiles in Reference.Climate; 0: none
}

// check returns the selected scores in the order of Table.
//
// Errors: unknown ids, thresholds that do not ascend, regions with a wrong number of
// points or a duplicate name; all faults are joined.
func (o Options) check(points int) ([]*Score, error) {
	ids := o.Scores
	if ids == nil {
		ids = Default
	}
	var errs []error
	for _, id := range ids {
		if ByID(id) == nil {
			errs = append(errs, fmt.Errorf("score: unknown score %q; available: %s", id, strings.Join(IDs(), ", ")))
		}
	}
	if !slices.IsSorted(o.Thresholds) || slices.ContainsFunc(o.Thresholds, math.IsNaN) {
		errs = append(errs, fmt.Errorf("score: thresholds %v: want ascending numbers", o.Thresholds))
	}
	if !slices.IsSorted(o.Levels) || slices.ContainsFunc(o.Levels, func(p float64) bool { return !(p > 0 && p < 1) }) {
		errs = append(errs, fmt.Errorf("score: quantiles of probabilities %v: want ascending numbers between 0 and 1", o.Levels))
	}
	if !(o.Extremes >= 0 && o.Extremes < 1) || o.Climate == 1 || o.Climate < 0 {
		errs = append(errs, fmt.Errorf("score: extremes in a fraction %g of the area (want 0 to below 1), %d quantiles of the climate (want 0 or at least 2)", o.Extremes, o.Climate))
	}
	seen := []string{Everywhere, LargestEFI}
	for _, r := range o.Regions {
		if len(r.Mask) != points || slices.Contains(seen, r.Name) || r.Name == "" {
			errs = append(errs, fmt.Errorf("score: region %q: %d points (want %d), or an empty or duplicate name", r.Name, len(r.Mask), points))
		}
		seen = append(seen, r.Name)
	}
	return slices.DeleteFunc(slices.Clone(Table), func(s *Score) bool { return !slices.Contains(ids, s.ID) }), errors.Join(errs...)
}

// IDs returns the ids of all scores in the order of Table.
func IDs() []string {
	out := make([]string, len(Table))
	for i, s := range Table {
		out[i] = s.ID
	}
	return out
}

// Accumulator sums, date by date, the quantities from which all scores of all
// systems for one target are computed. The zero value is not usable; see New. It is not
// safe for concurrent use. Add uses all processors; the order of its sums does not
// depend on their number.
//
// Memory: a few hundred numbers per date, system and region; no fields are kept.
type Accumulator struct {
	target  Target
	grid    Grid
	o       Options
	systems []System
	plan    [][]planned // [system] scores that its samples allow

	dates   []Date
	members []int // [system] number of members scored; 0: a distribution
}

// planned is a score of a system for the threshold number event, or −1 if the score has
// no single threshold.
type planned struct {
	*Score
	event int
}

// entry locates the sums of a planned score in a row of sums: size numbers from index at.
type entry struct {
	planned
	at, size int
	ownsSums bool // it fills the sums; later entries at the same place only read them
}

// Date holds the contribution of one date to the scores of all systems, as sums over
// its points. Joining dates that were summed elsewhere gives the same bits as summing
// them here.
type Date struct {
	Init    ensemble.Init
	Members []int        // [system] number of members scored; 0: a distribution
	Regions []RegionSums // [region], the whole area first
}

// RegionSums holds the contribution of one date in one region: Σ w and the sums of all scores.
type RegionSums struct {
	Weight          float64
	Points, Missing int       // points scored, and points left out
	MissingMembers  []int     // [system] number of missing member values
	Sums            []float64 // Σ w·x, laid out by Accumulator.layout
}

// New returns an Accumulator without dates.
//
// Errors: duplicate system names, a system without members, moments or parameters,
// negative weights, options that do not fit the grid.
func New(target Target, grid Grid, systems []System, o Options) (*Accumulator, error) {
	if len(grid.Weights) == 0 || len(systems) == 0 {
		return nil, fmt.Errorf("score: %s: %d points and %d systems", target.Variable, len(grid.Weights), len(systems))
	}
	for p, w := range grid.Weights {
		if !(w >= 0) {
			return nil, fmt.Errorf("score: %s: weight %g at point %d", target.Variable, w, p)
		}
	}
	if grid.NX > 0 && len(grid.Weights)%grid.NX != 0 {
		return nil, fmt.Errorf("score: %s: %d points in rows of %d", target.Variable, len(grid.Weights), grid.NX)
	}
	chosen, err := o.check(len(grid.Weights))
	if err != nil {
		return nil, err
	}
	a := &Accumulator{target: target, grid: grid, systems: systems, o: o, members: make([]int, len(systems))}
	seen := map[string]bool{}
	for _, s := range systems {
		if seen[s.Name] {
			return nil, fmt.Errorf("score: two systems named %q", s.Name)
		}
		seen[s.Name] = true
		has := s.Provides
		if has&Members != 0 {
			has |= Mean | Spread
		}
		if has&(Mean|Spread|Parameters) == 0 {
			return nil, fmt.Errorf("score: system %q has no members, mean, spread or parameters", s.Name)
		}
		if (has&Parameters != 0) != (s.Family != nil) || has&Members != 0 && s.Family != nil {
			return nil, fmt.Errorf("score: system %q: a distribution needs both a family and its parameters, and no members", s.Name)
		}
		if has&Parameters != 0 || has&(Mean|Spread) == Mean|Spread {
			has |= Distribution
		}
		for need, given := range map[Need]bool{FullSpread: o.FullSpread, Index: o.Index, Events: len(o.Thresholds) > 0, Levels: len(o.Levels) > 0, Neighbours: grid.NX > 0, Fractions: grid.Neighbourhood != nil,
			Quantiles: o.Climate > 1, Tails: o.Climate > 100} {
			if given {
				has |= need
			}
		}
		var plan []planned
		for _, sc := range chosen {
			switch {
			case sc.Needs&^has != 0 || sc.DistributionsOnly && has&Members != 0 || sc.NormalOnly && s.Family != nil,
				sc.NeedsExpectedCRPS && s.Family != nil && s.Family.HalfMeanDifference == nil, s.PublishedOnly && sc.Needs != Distribution|Events && sc.Needs != Distribution|Levels:
			case sc.IsPerThreshold():
				for e := range o.Thresholds {
					plan = append(plan, planned{sc, e})
				}
			case sc.IsPerQuantile():
				for e := range o.Levels {
					plan = append(plan, planned{sc, e})
				}
			default:
				plan = append(plan, planned{sc, -1})
			}
		}
		a.plan = append(a.plan, plan)
	}
	return a, nil
}

// layout assigns a place to the sums of all planned scores, for the given numbers of
// members. Scores with the same shared sums get the same place. width is the length of
// a row.
func (a *Accumulator) layout(members []int) (at [][]entry, width int) {
	for s, plan := range a.plan {
		var row []entry
		for _, p := range plan {
			e := entry{planned: p, at: width, size: p.size(members[s], len(a.o.Thresholds)), ownsSums: true}
			if p.SharedSums != nil {
				// PerDate overwrites the sums of whole-field scores, so those are not shared.
				if i := slices.IndexFunc(row, func(o entry) bool { return o.SharedSums == p.SharedSums && o.event == p.event }); i >= 0 && p.PerDate == nil {
					e.at, e.ownsSums = row[i].at, false
				}
			}
			if e.ownsSums {
				width += e.size
			}
			row = append(row, e)
		}
		at = append(at, row)
	}
	return at, width
}

// Add adds one date. samples are in the order of the systems given to New.
//
// Errors: those of Sum and Join.
func (a *Accumulator) Add(init ensemble.Init, ref Reference, samples []Sample) error {
	d, err := a.Sum(init, ref, samples)
	if err != nil {
		return err
	}
	return a.Join(d)
}

// Sum computes the contribution of one date without adding it.
//
// Points are summed in chunks of a fixed size, and the chunks in order, so the bits do
// not depend on the number of processors.
//
// Errors: fields whose length differs from that of the weights; fewer members than a
// score needs (a spread needs two).
func (a *Accumulator) Sum(init ensemble.Init, ref Reference, samples []Sample) (Date, error) {
	d := Date{Init: init, Members: make([]int, len(a.systems))}
	if err := a.check(init, ref, samples); err != nil {
		return d, err
	}
	for i, s := range a.systems {
		if s.Provides&Members != 0 {
			d.Members[i] = len(samples[i].Members)
		}
	}
	entries, width := a.layout(d.Members)
	extreme, fractions := a.extreme(ref), a.fractionsOf(d.Members, entries, ref, samples)
	const chunk = 4096 // fixed, so that sums do not depend on the number of processors
	n := len(a.grid.Weights)
	parts := make([][]RegionSums, (n+chunk-1)/chunk)
	var next sync.Mutex
	at := 0
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		wg.Go(func() {
			w := a.newWorker(d.Members, entries, width)
			w.fractions = fractions
			for {
				next.Lock()
				k := at
				at++
				next.Unlock()
				if k >= len(parts) {
					return
				}
				parts[k] = w.run(k*chunk, min(n, (k+1)*chunk), ref, samples, extreme)
			}
		})
	}
	wg.Wait()
	d.Regions = a.newRegionSums(width)
	for _, p := range parts {
		for r, c := range p {
			d.Regions[r].add(c)
		}
	}
	for _, c := range d.Regions {
		daily(entries, d.Members, c)
	}
	return d, nil
}

// daily turns the sums of whole-field scores of one date into one value per date, times
// the weight of the date.
func daily(entries [][]entry, members []int, c RegionSums) {
	for s, row := range entries {
		for _, e := range row {
			if e.PerDate == nil || c.Weight == 0 {
				continue
			}
			sums := c.Sums[e.at : e.at+e.size]
			for i := range sums {
				sums[i] /= c.Weight
			}
			e.PerDate(sums, members[s])
			clear(sums[1:])
			sums[0] *= c.Weight
		}
	}
}

// newRegionSums returns zero sums for all regions.
func (a *Accumulator) newRegionSums(width int) []RegionSums {
	out := make([]RegionSums, len(a.areas()))
	for r := range out {
		out[r] = RegionSums{MissingMembers: make([]int, len(a.systems)), Sums: make([]float64, width)}
	}
	return out
}

// add adds the sums of other points of the same region.
func (c *RegionSums) add(o RegionSums) {
	c.Weight += o.Weight
	c.Points += o.Points
	c.Missing += o.Missing
	for i, v := range o.MissingMembers {
		c.MissingMembers[i] += v
	}
	for i, v := range o.Sums {
		c.Sums[i] += v
	}
}

// Join adds a date that was summed for the same target, systems and options, by this
// Accumulator or by another one.
//
// Errors: a duplicate date, numbers of members that differ from those of earlier dates,
// sums of other scores.
func (a *Accumulator) Join(d Date) error {
	if len(d.Members) != len(a.systems) || len(d.Regions) != len(a.areas()) {
		return fmt.Errorf("score: %s %s: sums were computed for other systems or regions", a.target.Variable, d.Init)
	}
	_, width := a.layout(d.Members)
	for _, c := range d.Regions {
		if len(c.Sums) != width || len(c.MissingMembers) != len(a.systems) {
			return fmt.Errorf("score: %s %s: %d sums, want %d: computed for other scores", a.target.Variable, d.Init, len(c.Sums), width)
		}
	}
	for _, other := range a.dates {
		if other.Init.Equal(d.Init.Time) {
			return fmt.Errorf("score: %s: init %s was added twice", a.target.Variable, d.Init)
		}
	}
	for i, m := range d.Members {
		if len(a.dates) > 0 && a.members[i] != m {
			return fmt.Errorf("score: %s %s: %s has %d members, earlier dates %d", a.target.Variable, d.Init, a.systems[i].Name, m, a.members[i])
		}
	}
	copy(a.members, d.Members)
	a.dates = append(a.dates, d)
	return nil
}

// WeightedSum is the contribution of one date to a score: Σ w and Σ w·x over its points.
type WeightedSum struct {
	Init        ensemble.Init
	Weight, Sum float64
}

// WeightedSums returns the contribution of every date to a score that is a single weighted
// mean, over a region or Everywhere, in the order in which the dates were added. It returns nil
// if the system has no such score, or there is no such region.
func (a *Accumulator) WeightedSums(system, id, region string) (out []WeightedSum) {
	s, r := slices.IndexFunc(a.systems, func(y System) bool { return y.Name == system }), slices.Index(a.areas(), region)
	if s < 0 || r < 0 {
		return nil
	}
	for _, d := range a.dates {
		at, _ := a.layout(d.Members)
		for _, e := range at[s] {
			if e.ID == id && e.event < 0 && e.size == 1 {
				out = append(out, WeightedSum{d.Init, d.Regions[r].Weight, d.Regions[r].Sums[e.at]})
			}
		}
	}
	return out
}

// EmptyDates counts the dates without any point that all systems and the reference have, and all dates.
func (a *Accumulator) EmptyDates() (empty, all int) {
	for _, d := range a.dates {
		if d.Regions[0].Weight == 0 {
			empty++
		}
	}
	return empty, len(a.dates)
}

// check compares the shapes of one date with those of the grid, systems and options.
func (a *Accumulator) check(init ensemble.Init, ref Reference, samples []Sample) error {
	n := len(a.grid.Weights)
	bad := func(what string, got int) error {
		return fmt.Errorf("score: %s %s: %s has %d points, want %d", a.target.Variable, init, what, got, n)
	}
	if len(ref.Obs) != n {
		return bad("the observation", len(ref.Obs))
	}
	if a.o.FullSpread && len(ref.FullSpread) != n {
		return bad("the full ensemble's spread", len(ref.FullSpread))
	}
	if a.o.Index && len(ref.Index) != n {
		return bad("the extreme forecast index", len(ref.Index))
	}
	if a.o.Extremes > 0 && len(ref.Extremes) != n {
		return bad("the index that selects extremes", len(ref.Extremes))
	}
	for _, f := range ref.Earlier {
		if len(f) != n {
			return bad("an observation at an earlier lead", len(f))
		}
	}
	if len(ref.Climate) != a.o.Climate {
		return fmt.Errorf("score: %s %s: %d quantiles of the climate, want %d", a.target.Variable, init, len(ref.Climate), a.o.Climate)
	}
	for _, f := range ref.Climate {
		if len(f) != n {
			return bad("a quantile of the climate", len(f))
		}
	}
	if len(samples) != len(a.systems) {
		return fmt.Errorf("score: %s %s: %d samples for %d systems", a.target.Variable, init, len(samples), len(a.systems))
	}
	for i, s := range a.systems {
		x := samples[i]
		if len(x.Exceedance) != len(s.Thresholds) || len(x.Quantiles) != len(s.Levels) {
			return fmt.Errorf("score: %s %s: %s has %d probabilities and %d quantiles, want %d and %d", a.target.Variable, init, s.Name, len(x.Exceedance), len(x.Quantiles), len(s.Thresholds), len(s.Levels))
		}
		for _, f := range slices.Concat(x.Exceedance, x.Quantiles) {
			if len(f) != n {
				return bad("a probability or quantile of "+s.Name, len(f))
			}
		}
		switch {
		case s.Provides&Members != 0:
			m := len(x.Members)
			for _, sc := range a.plan[i] {
				if m < max(1, sc.MinMembers) {
					return fmt.Errorf("score: %s %s: %s of %s needs %d members, got %d", a.target.Variable, init, sc.ID, s.Name, max(1, sc.MinMembers), m)
				}
			}
			fields := slices.Clone(x.Members)
			if s.Provides&Leads != 0 {
				if len(x.Earlier) == 0 || len(x.Earlier) != len(ref.Earlier) || slices.ContainsFunc(x.Earlier, func(f [][]float32) bool { return len(f) != m }) {
					return fmt.Errorf("score: %s %s: members of %s at %d earlier leads, references at %d", a.target.Variable, init, s.Name, len(x.Earlier), len(ref.Earlier))
				}
				fields = append(slices.Concat(x.Earlier...), fields...)
			}
			for _, f := range fields {
				if len(f) != n {
					return bad("a member of "+s.Name, len(f))
				}
			}
		default:
			if s.Provides&Mean != 0 && len(x.Mean) != n {
				return bad("the mean of "+s.Name, len(x.Mean))
			}
			if s.Provides&Spread != 0 && len(x.Spread) != n {
				return bad("the spread of "+s.Name, len(x.Spread))
			}
			if s.Family == nil {
				continue
			}
			if len(x.Parameters) != len(s.Family.Parameters) {
				return fmt.Errorf("score: %s %s: %d parameters of %s, want %v", a.target.Variable, init, len(x.Parameters), s.Name, s.Family.Parameters)
			}
			for _, f := range x.Parameters {
				if len(f) != n {
					return bad("a parameter of "+s.Name, len(f))
				}
			}
		}
	}
	return nil
}

// worker scores chunks of one date. It allocates its memory once.
type worker struct {
	a              *Accumulator
	entries        [][]entry
	width          int
	cases          []Case            // [system], all at the same point
	missingMembers []int             // [system] missing member values at this point
	parts          []float64         // result of Score.Point
	limits         []float64         // of the thresholds, as ensemble.AboveLimit
	fractions      []*fractionFields // [system]; nil without a radius
}

// newWorker allocates a worker for the given numbers of members.
func (a *Accumulator) newWorker(members []int, entries [][]entry, width int) *worker {
	limits := make([]float64, len(a.o.Thresholds))
	for i, t := range a.o.Thresholds {
		limits[i] = ensemble.AboveLimit(t)
	}
	w := &worker{a: a, limits: limits, entries: entries, width: width, cases: make([]Case, len(members)), missingMembers: make([]int, len(members))}
	for s, m := range members {
		w.cases[s] = Case{Members: make([]float64, m), Thresholds: a.o.Thresholds, Exceedance: make([]float64, len(a.o.Thresholds)), Family: a.systems[s].Family,
			Climate: make([]float64, a.o.Climate), Levels: a.o.Levels, Quantiles: make([]float64, len(a.o.Levels))}
		if f := a.systems[s].Family; f != nil {
			w.cases[s].Parameters = make([]float64, len(f.Parameters))
		}
	}
	most := 0
	for _, s := range Table {
		most = max(most, s.Parts)
	}
	w.parts = make([]float64, most)
	return w
}

// run scores the points lo ≤ p < hi. extreme [point] marks the region LargestEFI, nil if
// there is none.
func (w *worker) run(lo, hi int, ref Reference, samples []Sample, extreme []bool) []RegionSums {
	a := w.a
	out := a.newRegionSums(w.width)
	in := make([]int, 0, len(out))
	for p := lo; p < hi; p++ {
		in = append(in[:0], 0)
		for r, region := range a.o.Regions {
			if region.Mask[p] {
				in = append(in, r+1)
			}
		}
		if extreme != nil && extreme[p] {
			in = append(in, len(out)-1)
		}
		ok := w.load(p, ref, samples)
		for _, r := range in {
			c := &out[r]
			for s, n := range w.missingMembers {
				c.MissingMembers[s] += n
			}
			if !ok {
				c.Missing++
				continue
			}
			c.Weight += a.grid.Weights[p]
			c.Points++
		}
		if ok {
			w.score(out, in, a.grid.Weights[p])
		}
	}
	return out
}

// score adds the cases of one point to all regions that contain it; in holds their indices.
func (w *worker) score(out []RegionSums, in []int, weight float64) {
	for s := range w.a.systems {
		c := &w.cases[s]
		w.fillEvents(s)
		for _, e := range w.entries[s] {
			if !e.ownsSums {
				continue
			}
			c.ThresholdIndex = max(e.event, 0)
			if e.SharedSums != nil {
				for _, r := range in {
					e.SharedSums.Add(out[r].Sums[e.at:e.at+e.size], weight, c)
				}
				continue
			}
			parts := w.parts[:e.Parts]
			e.Point(parts, c)
			for _, r := range in {
				sums := out[r].Sums[e.at:]
				for i, v := range parts {
					sums[i] += weight * v
				}
			}
		}
	}
}

// fillEvents fills probabilities of exceedance and quantiles of a system: those of its sample, and
// those of its distribution for others.
func (w *worker) fillEvents(system int) {
	c, s := &w.cases[system], &w.a.systems[system]
	at := func(f [][]float32, i int) (float64, bool) {
		if i < 0 {
			return 0, false
		}
		return float64(f[i][c.location.p]), true
	}
	for i, t := range c.Thresholds {
		if p, ok := at(c.location.exceedance, slices.Index(s.Thresholds, t)); ok {
			c.Exceedance[i] = min(max(p, 0), 1)
		} else {
			c.Exceedance[i] = c.exceedance(t, c.limit(i))
		}
	}
	for i, p := range c.Levels {
		if q, ok := at(c.location.quantiles, slices.Index(s.Levels, p)); ok {
			c.Quantiles[i] = q
		} else {
			c.Quantiles[i] = c.quantile(p)
		}
	}
}

// load fills the cases of point p. It returns false if any value is missing.
func (w *worker) load(p int, ref Reference, samples []Sample) bool {
	a, y := w.a, float64(ref.Obs[p])
	ok := !math.IsNaN(y)
	for s := range a.systems {
		c := &w.cases[s]
		c.Obs = y
		if a.o.FullSpread {
			c.FullSpread = float64(ref.FullSpread[p])
			ok = ok && !math.IsNaN(c.FullSpread)
		}
		if a.o.Index {
			c.Index = float64(ref.Index[p])
			ok = ok && !math.IsNaN(c.Index)
		}
		for k, f := range ref.Climate {
			c.Climate[k] = float64(f[p])
			ok = ok && !math.IsNaN(c.Climate[k])
		}
		w.missingMembers[s] = c.load(a.systems[s].Provides, samples[s], p)
		ok = ok && w.missingMembers[s] == 0 && !math.IsNaN(c.Mean) && (len(c.Members) > 0 || !math.IsNaN(c.Spread))
		for _, v := range c.Parameters {
			ok = ok && !math.IsNaN(v)
		}
		for _, fields := range [][][]float32{samples[s].Exceedance, samples[s].Quantiles} {
			for _, f := range fields {
				ok = ok && f[p] == f[p]
			}
		}
		c.location = location{limits: w.limits, exceedance: samples[s].Exceedance, quantiles: samples[s].Quantiles, members: samples[s].Members, obs: ref.Obs, earlier: samples[s].Earlier, earlierObs: ref.Earlier, p: p, neighbours: a.grid.neighbours(p)}
		if w.fractions != nil {
			c.location.fractions = w.fractions[s]
		}
	}
	return ok
}

// neighbours returns the indices of the points east and south of p, −1 at the edge of the grid.
func (g *Grid) neighbours(p int) (out [2]int) {
	out = [2]int{-1, -1}
	if g.NX == 0 {
		return out
	}
	switch {
	case (p+1)%g.NX != 0:
		out[0] = p + 1
	case g.Periodic && g.NX > 2:
		out[0] = p + 1 - g.NX
	}
	if p+g.NX < len(g.Weights) {
		out[1] = p + g.NX
	}
	return out
}

// load fills the case from a sample at point p and returns the number of missing members.
func (c *Case) load(gives Need, x Sample, p int) (absent int) {
	if gives&Members != 0 {
		for i, f := range x.Members {
			v := float64(f[p])
			c.Members[i] = v
			if math.IsNaN(v) {
				absent++
			}
		}
		c.Mean, c.Spread = ensemble.MeanSpread(c.Members, 1) // before sorting, so the bits do not depend on it
		slices.Sort(c.Members)
		return absent
	}
	if gives&Mean != 0 {
		c.Mean = float64(x.Mean[p])
	}
	if gives&Spread != 0 {
		c.Spread = float64(x.Spread[p])
	}
	for i := range c.Parameters {
		c.Parameters[i] = float64(x.Parameters[i][p])
	}
	return 0
}

// sortedDates returns the sums of all dates, ascending by init.
func (a *Accumulator) sortedDates() []Date {
	return slices.SortedFunc(slices.Values(a.dates), func(x, y Date) int { return x.Init.Compare(y.Init.Time) })
}

// Dates returns the inits added so far, ascending.
func (a *Accumulator) Dates() []ensemble.Init {
	out := make([]ensemble.Init, len(a.dates))
	for i, d := range a.dates {
		out[i] = d.Init
	}
	slices.SortFunc(out, func(x, y ensemble.Init) int { return x.Compare(y.Time) })
	return out
}
