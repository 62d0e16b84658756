package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Optimum configures the benchmark with a known optimum (docs/decisions/0049-known-optimum.md). The zero value means
// the defaults.
//
// The analyses from which forecasts start are states of one long run of the nature physics. Truth of a case, and each
// member of its oracle, starts from the analysis plus an independent draw of one distribution of analysis errors, and
// is integrated by the nature physics. Given the analysis, truth and the members are exchangeable: no forecast made
// from the analyses can have a better expected score than the oracle with infinitely many members.
type Optimum struct {
	Seed          uint64
	FirstYear     int           // default 2001
	Years         int           // of initialisations; default 23
	TestYears     int           // the last of them, which have an oracle; default 2
	Interval      time.Duration // between initialisations, a multiple of 6 h; default 7 days
	Members       int           // of the forecast, including the control member; default 10
	OracleMembers int           // default 100
	// ReforecastMembers, if not 0, is the number of members in the years before the test years, which are then
	// reforecasts: all years have initialisations every Interval from 1 January (after February a day earlier in leap years), none within an
	// Interval of the next year.
	ReforecastMembers int
	Leads             []ensemble.Lead // ascending, multiples of 6 h; default 0, 24, 48 h
	Threads           int             // number of parallel cases; default GOMAXPROCS. The result does not depend on it
	// Progress, if it is not nil, is called during the stages "integrate" (days of the nature run) and "generate" (cases).
	Progress func(stage string, done, all int) `json:"-"`
}

const (
	defaultFirstYear = 2001
	defaultYears     = 23
)

// YearNumbers lists the years of the benchmark, ascending.
func (o Optimum) YearNumbers() (years []int) {
	for y := range cmp.Or(o.Years, defaultYears) {
		years = append(years, cmp.Or(o.FirstYear, defaultFirstYear)+y)
	}
	return years
}

// WithDefaults returns the Optimum with default values for unset fields.
//
// Errors: those of Config.WithDefaults; more test years than years; no year, or fewer than two oracle members; two cases with
// analyses of the same time.
func (o Optimum) WithDefaults() (Optimum, error) {
	o.FirstYear, o.Years, o.TestYears, o.OracleMembers = cmp.Or(o.FirstYear, defaultFirstYear), cmp.Or(o.Years, defaultYears), cmp.Or(o.TestYears, 2), cmp.Or(o.OracleMembers, 100)
	if o.Years < 1 || o.TestYears < 0 || o.TestYears > o.Years {
		return o, fmt.Errorf("demo: %d years with %d test years: want at least one year, and no more test years than years", o.Years, o.TestYears)
	}
	if o.OracleMembers < 2 || o.OracleMembers >= 1<<memberBits {
		return o, fmt.Errorf("demo: %d members of the oracle: want 2 to %d", o.OracleMembers, 1<<memberBits-1)
	}
	c, err := o.config()
	if err != nil {
		return o, err
	}
	o.Interval, o.Members, o.Leads, o.Threads = c.Interval, c.Members, c.Leads, c.Threads
	if o.ReforecastMembers < 0 || o.ReforecastMembers > o.Members {
		return o, fmt.Errorf("demo: %d members of reforecasts: want at most the %d of forecasts", o.ReforecastMembers, o.Members)
	}
	return o, o.checkValidTimes()
}

// checkValidTimes refuses two cases with an analysis of the same time: their truths are different weather.
func (o Optimum) checkValidTimes() error {
	for i, a := range o.Leads {
		for _, b := range o.Leads[:i] {
			if apart := time.Duration(a - b); apart%o.Interval == 0 {
				return fmt.Errorf("demo: starts every %v with leads %v and %v: two cases would have different analyses of one time; want an interval that does not divide %v", o.Interval, b, a, apart)
			}
		}
	}
	return nil
}

// config returns the Config of the forecasts.
func (o Optimum) config() (Config, error) {
	newYear := func(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
	c := Config{Seed: o.Seed, FirstInit: newYear(o.FirstYear), Interval: o.Interval, Members: o.Members, Leads: o.Leads, Threads: o.Threads}
	c, err := c.WithDefaults()
	if err != nil {
		return c, err
	}
	if o.ReforecastMembers == 0 {
		c.Inits = 1 + int((newYear(o.FirstYear+o.Years).Sub(c.FirstInit)-1)/c.Interval)
		return c, nil
	}
	for _, y := range o.YearNumbers() {
		for at := newYear(y); at.Equal(newYear(y)) || newYear(y+1).Sub(at) >= c.Interval; at = at.Add(c.Interval) {
			c.InitTimes = append(c.InitTimes, at)
		}
	}
	return c.WithDefaults()
}

// OptimumCase is a case of the benchmark. Its truth starts from an analysis of its own, so it is not the continuation of another's.
type OptimumCase struct {
	Case
	Oracle *ensemble.Forecast // members 1 to OracleMembers, without control; nil before the test years
}

// optimumWorld is the world of the benchmark.
type optimumWorld struct {
	*world
	Optimum
}

// newOptimumWorld makes the world of an Optimum with default values.
func newOptimumWorld(o Optimum) (*optimumWorld, error) {
	c, err := o.config()
	if err != nil {
		return nil, err
	}
	w := &optimumWorld{newWorld(c), o}
	if o.ReforecastMembers > 0 {
		w.membersOf = func(i int) int {
			if o.hasOracle(w.init(i).Year()) {
				return o.Members
			}
			return o.ReforecastMembers
		}
	}
	return w, nil
}

// init returns the initialisation of a case.
func (w *world) init(i int) ensemble.Init {
	return ensemble.InitAt(w.cfg.FirstInit.Add(time.Duration(w.offset(i)) * cycleLength))
}

// casesOf returns the range of cases with initialisations in a year.
func (w *optimumWorld) casesOf(year int) (from, to int) {
	for ; to < w.cfg.Inits && w.init(to).Year() <= year; to++ {
		if w.init(to).Year() < year {
			from = to + 1
		}
	}
	return from, to
}

// hasOracle reports whether a year is one of the test years.
func (o Optimum) hasOracle(year int) bool { return year >= o.FirstYear+o.Years-o.TestYears }

// runAnalyses runs the nature physics up to a case and stores its states as analyses.
//
// Errors: ctx.Err().
func (w *optimumWorld) runAnalyses(ctx context.Context, last int) error {
	tr := newNatureRun(w.natural, w.cfg.Seed, w.t0)
	const first = -assimilationSpinUpDays * 4
	for n := first; ; n++ {
		w.keepAnalysis(n, &tr.q)
		w.report("integrate", (n-first)/4, (w.offset(last)-first)/4)
		if n == w.offset(last) || ctx.Err() != nil {
			return ctx.Err()
		}
		tr.advance()
	}
}

// report calls Progress.
func (o Optimum) report(stage string, done, all int) {
	if o.Progress != nil {
		o.Progress(stage, done, all)
	}
}

// optimumForecaster computes cases of the benchmark on one goroutine.
type optimumForecaster struct {
	*forecaster
	optimum *optimumWorld
	twin    *integrator // of the nature physics
}

// newForecaster allocates the buffers of one goroutine.
func (w *optimumWorld) newForecaster() *optimumForecaster {
	return &optimumForecaster{w.world.newForecaster(), w, w.natural.integrator()}
}

// makeCase computes a case. Only the worker of a case writes its truth.
func (f *optimumForecaster) makeCase(i int) *OptimumCase {
	d := f.errorsOf(i)
	d.run(truthMember, func(l int, psi *state) { f.natural.vorticity(&f.nature[i][l], psi) })
	c := &OptimumCase{Case: *f.forecaster.makeCase(i)}
	fc := c.Forecast
	if !f.optimum.hasOracle(fc.Init.Year()) {
		return c
	}
	members := make([]ensemble.Member, f.optimum.OracleMembers)
	for m := range members {
		members[m] = ensemble.Member(m + 1)
	}
	c.Oracle = ensemble.NewForecast(fc.Init, fc.Axes, members, f.grid)
	for m, member := range members {
		d.run(int(member), func(l int, psi *state) {
			f.fields.fill(func(v, lev int) []float32 { return c.Oracle.Field(l, m, v, lev) }, psi)
		})
	}
	return c
}

// analysisErrors is the distribution of the analysis error of one case. All of it follows from the nature run before the
// analysis: it has no random number that a draw shares with another. A forecaster who knows the analyses therefore knows
// the distribution, and the oracle has no other.
type analysisErrors struct {
	*optimumForecaster
	i              int
	t              float64 // days
	before, centre state   // streamfunction breedingDays before the analysis, and forecast from it
	analysis       state   // streamfunction
}

// Parameters of analysis errors; docs/decisions/0049-known-optimum.md.
const (
	errorSeedNorm  = 2.0 // m s-1, wind norm of the noise that grows along the nature run
	errorNoiseNorm = 0.9 // m s-1, wind norm of the noise that is added

	truthMember = 0  // index of truth among the draws of a case
	memberBits  = 16 // of the index of a random stream; the others are the case
)

// errorsOf prepares the draws of a case.
func (f *optimumForecaster) errorsOf(i int) *analysisErrors {
	d := &analysisErrors{optimumForecaster: f, i: i, t: f.t0 + float64(f.offset(i))/4}
	f.twin.streamfunction(&d.analysis, &f.analysis[i])
	f.twin.streamfunction(&d.before, &f.breeding[i])
	d.centre = d.before
	f.twin.approach(&d.centre, d.t)
	return d
}

// draw returns an independent draw of the analysis error: noise that has grown along the nature run for breedingDays, plus
// noise, both larger where observations are few. Its size varies with the growth, so with the flow.
func (d *analysisErrors) draw(member int) (e state) {
	r := stream(d.cfg.Seed, forTwins, d.i<<memberBits|member)
	var n state
	d.seed(&e, r)
	scaleTo(&e, errorSeedNorm)
	addScaled(&e, &d.before, 1)
	d.twin.approach(&e, d.t)
	addScaled(&e, &d.centre, -1)
	d.mask(&e)
	d.seed(&n, r)
	scaleTo(&n, errorNoiseNorm)
	addScaled(&e, &n, 1)
	return e
}

// run integrates the nature physics from the analysis plus a draw, and passes the streamfunction at each lead time to a
// callback.
func (d *analysisErrors) run(member int, visit func(lead int, psi *state)) {
	psi := d.draw(member)
	addScaled(&psi, &d.analysis, 1)
	d.integrate(d.twin, &psi, d.t, visit)
}

// GenerateOptimum computes the cases of some years and calls emit for each of them in order of time. The result depends
// on the Optimum only, neither on Threads nor on the years.
//
// The nature run is integrated from its first day up to the last of the years. Then the cases are computed in parallel.
//
// Errors: those of o.WithDefaults; a year without initialisation; ctx.Err(), and errors of emit.
// Memory: 60 kB per case, and per thread two cases with their oracles, 240 kB per member.
func GenerateOptimum(ctx context.Context, o Optimum, years []int, emit func(*OptimumCase) error) error {
	o, err := o.WithDefaults()
	if err != nil || len(years) == 0 {
		return err
	}
	w, err := newOptimumWorld(o)
	if err != nil {
		return err
	}
	years = slices.Sorted(slices.Values(years))
	for _, y := range years {
		if from, to := w.casesOf(y); from == to {
			return fmt.Errorf("demo: no initialisation in the year %d of a benchmark of %d to %d, every %v", y, o.FirstYear, o.FirstYear+o.Years-1, o.Interval)
		}
	}
	_, last := w.casesOf(years[len(years)-1])
	if err := w.runAnalyses(ctx, last-1); err != nil {
		return err
	}
	done, all := 0, 0
	for _, y := range years {
		from, to := w.casesOf(y)
		all += to - from
	}
	for _, y := range years {
		from, to := w.casesOf(y)
		err := inOrder(ctx, o.Threads, from, to, func() func(int) *OptimumCase { return w.newForecaster().makeCase }, func(c *OptimumCase) error {
			if err := emit(c); err != nil {
				return err
			}
			done++
			o.report("generate", done, all)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
