package demo

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Generate computes the cases of a Config and calls emit for each of them in order of time. The
// result depends on the Config only, not on Threads.
//
// The nature run and the assimilation cycle run first over the whole period. Then the cases are
// computed in parallel: breeding, perturbation and forecast.
//
// Errors: those of cfg.WithDefaults, ctx.Err(), and errors of emit.
// Cost: about 50 s of CPU time for the default. Memory: 50 kB per case and a few MB per thread.
func Generate(ctx context.Context, cfg Config, emit func(*Case) error) error {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return err
	}
	w := newWorld(cfg)
	if err := w.runHistory(ctx); err != nil {
		return err
	}
	return w.runForecasts(ctx, emit)
}

// world contains the data that all cases share. After runHistory it is read only, so all goroutines
// share it.
type world struct {
	cfg               Config
	t0                float64 // first initialisation time, days since the start of its year
	planet            *planet
	natural, forecast *model
	grid              *ensemble.Grid
	breeding          []state             // analysis breedingDays before each initialisation time
	analysis          []state             // analysis at each initialisation time
	nature            [][]state           // nature run at each initialisation time and lead time
	spread            []float64           // [npoint] local amplitude of the initial perturbations
	membersOf         func(i int) int     // number of members of a case
	progress          func(done, all int) // of runHistory, in cycles; nil shows nothing
}

// newWorld makes planet and both models. The amplitude of perturbations is 1 where nothing is
// observed and 0.4 where the density of observations is 1.
func newWorld(cfg Config) *world {
	pl := newPlanet()
	turn := time.Date(cfg.FirstInit.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{
		cfg: cfg, t0: cfg.FirstInit.Sub(turn).Hours() / 24, planet: pl, grid: Grid(),
		natural: newModel(natural, pl), forecast: newModel(modelled, pl),
		breeding: make([]state, cfg.Inits), analysis: make([]state, cfg.Inits), nature: make([][]state, cfg.Inits),
		spread: make([]float64, npoint), membersOf: func(int) int { return cfg.Members },
	}
	for k := range w.spread {
		w.spread[k] = 1 - 0.6*pl.observed[k]
	}
	for i := range w.nature {
		w.nature[i] = make([]state, len(cfg.Leads))
	}
	return w
}

// runHistory runs the nature run and the assimilation cycle on two goroutines, and stores the states
// that the cases need.
//
// The channel holds some states, so that the nature run is ahead of the assimilation, which reads
// each of its states once. A gap in cycles moves the time of the nature run without integration.
//
// Errors: ctx.Err().
func (w *world) runHistory(ctx context.Context) error {
	cycles := w.cycles()
	if w.progress != nil {
		w.progress(0, len(cycles))
	}
	tr := newNatureRun(w.natural, w.cfg.Seed, w.t0)
	states := make(chan state, 16)
	go func() {
		defer close(states)
		for n, at := range cycles {
			if n > 0 {
				tr.time += float64(at-cycles[n-1]-1) / 4
				tr.advance()
			}
			select {
			case states <- tr.q:
			case <-ctx.Done():
				return
			}
		}
	}()
	var as *assimilationCycle
	n := 0
	for q := range states {
		if as == nil {
			as = newAssimilationCycle(w.forecast, w.planet, &q, w.cfg.Seed)
		} else {
			as.advance(w.t0+float64(cycles[n]-1)/4, n, &q)
		}
		w.keep(cycles[n], &q, &as.q)
		n++
		if w.progress != nil {
			w.progress(n, len(cycles))
		}
	}
	return ctx.Err()
}

// offset returns the index of the assimilation cycle of a case, counted from the first case. The
// first case has 0.
func (w *world) offset(i int) int {
	if w.cfg.InitTimes != nil {
		return int(w.cfg.InitTimes[i].Sub(w.cfg.FirstInit) / cycleLength)
	}
	return i * int(w.cfg.Interval/cycleLength)
}

// cycles returns the indices of the cycles of the nature run and the assimilation, counted from the
// first initialisation time: all cycles, or with InitTimes only the needed cycles.
func (w *world) cycles() []int {
	const settle = assimilationSpinUpDays * 4 // before the first initialisation time
	ahead := int(time.Duration(w.cfg.Leads[len(w.cfg.Leads)-1]) / cycleLength)
	var out []int
	next := -settle
	for i := range w.cfg.Inits {
		at := w.offset(i)
		if i > 0 && w.cfg.InitTimes != nil {
			next = max(next, at-gapSpinUpDays*4)
		}
		for ; next <= at+ahead; next++ {
			out = append(out, next)
		}
	}
	return out
}

// keep stores the states of one cycle. The index counts from the first initialisation time. A state
// may be that of several cases: the nature run of one lead is the analysis time of a later case.
func (w *world) keep(n int, truth, analysis *state) {
	w.keepAnalysis(n, analysis)
	for i := range w.cfg.Inits {
		for l, lead := range w.cfg.Leads {
			if n-w.offset(i) == int(time.Duration(lead)/cycleLength) {
				w.nature[i][l] = *truth
			}
		}
	}
}

// keepAnalysis stores the analysis of one cycle if a case starts from it or breeds from it.
func (w *world) keepAnalysis(n int, analysis *state) {
	for i := range w.cfg.Inits {
		switch n - w.offset(i) {
		case 0:
			w.analysis[i] = *analysis
		case -int(breedingDays * 4):
			w.breeding[i] = *analysis
		}
	}
}

// runForecasts computes the cases with Threads workers and emits them in order of time.
//
// Errors: that of emit; ctx.Err().
func (w *world) runForecasts(ctx context.Context, emit func(*Case) error) error {
	return inOrder(ctx, w.cfg.Threads, 0, w.cfg.Inits, func() func(i int) *Case { return w.newForecaster().makeCase }, emit)
}

// inOrder computes items from to to−1 with a number of workers, each of which calls worker once, and emits the
// results in order.
//
// The queue has the places of the results in order; each place is a channel for one result, which a
// worker fills when it is done. Its length bounds the results in memory, and emit is called from this
// goroutine only.
//
// Errors: that of emit; ctx.Err().
func inOrder[T any](ctx context.Context, threads, from, to int, worker func() func(i int) *T, emit func(*T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type slot chan *T
	queue := make(chan slot, threads) // in order of items
	type job struct {
		index int
		out   slot
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range threads {
		workers.Go(func() {
			compute := worker()
			for j := range jobs {
				j.out <- compute(j.index)
			}
		})
	}
	go func() {
		defer close(queue)
		defer close(jobs)
		for i := from; i < to; i++ {
			s := make(slot, 1)
			select {
			case queue <- s:
			case <-ctx.Done():
				return
			}
			select {
			case jobs <- job{i, s}:
			case <-ctx.Done():
				close(s)
				return
			}
		}
	}()
	var err error
	for s := range queue {
		if err == nil {
			err = context.Cause(ctx) // after an error or cancellation emit is not called again
		}
		if err != nil {
			continue // drain the queue, so that the workers can end
		}
		if st := <-s; st != nil {
			if err = emit(st); err != nil {
				cancel()
			}
		}
	}
	workers.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// forecaster computes cases on one goroutine.
type forecaster struct {
	*world
	g      *integrator
	fields *fieldMaker
	points []float64
}

// newForecaster allocates the buffers of one goroutine.
func (w *world) newForecaster() *forecaster {
	return &forecaster{world: w, g: w.forecast.integrator(), fields: newFieldMaker(), points: make([]float64, npoint)}
}

// makeCase computes one case. Member 0 is the control, the forecast from the analysis without
// perturbation.
func (f *forecaster) makeCase(i int) *Case {
	cfg := f.cfg
	init := f.init(i)
	members := make([]ensemble.Member, f.membersOf(i))
	for m := range members {
		members[m] = ensemble.Member(m)
	}
	axes := ensemble.Axes{Variables: Variables, Levels: Levels, Leads: cfg.Leads}
	st := &Case{Forecast: ensemble.NewForecast(init, axes, members, f.grid)}
	var psi state
	for l, lead := range cfg.Leads {
		a := ensemble.NewAnalysis(init.Valid(lead), Variables, Levels, f.grid)
		f.natural.streamfunction(&psi, &f.nature[i][l])
		f.fields.fill(a.Field, &psi)
		st.Analyses = append(st.Analyses, a)
	}
	f.run(i, func(m, l int, psi *state) {
		f.fields.fill(func(v, lev int) []float32 { return st.Forecast.Field(l, m, v, lev) }, psi)
	})
	return st
}

// run computes the forecasts of all members of a case, one after the other, and passes the
// streamfunction at each lead time to a callback.
//
// psi is overwritten after the callback. Members share the random stream of the case in order, so
// member m is the same for each larger number of members.
func (f *forecaster) run(i int, visit func(member, lead int, psi *state)) {
	t := f.t0 + float64(f.offset(i))/4
	bred := f.breed(i, t)
	r := stream(f.cfg.Seed, forMembers, i)
	var analysis, psi state
	f.g.streamfunction(&analysis, &f.analysis[i])
	for m := range f.membersOf(i) {
		psi = analysis
		if m > 0 {
			p := f.perturbation(bred, r)
			addScaled(&psi, &p, 1)
		}
		f.integrate(f.g, &psi, t, func(l int, psi *state) { visit(m, l, psi) })
	}
}

// integrate computes one forecast from psi at time t, and passes the streamfunction at each lead time, which overwrites
// psi, to a callback.
func (f *forecaster) integrate(g *integrator, psi *state, t float64, visit func(lead int, psi *state)) {
	var q state
	g.vorticity(&q, psi)
	g.restart()
	var at ensemble.Lead
	for l, lead := range f.cfg.Leads {
		g.run(&q, t+at.Hours()/24, int(time.Duration(lead-at)/cycleLength)*stepsPerCycle)
		at = lead
		g.streamfunction(psi, &q)
		visit(l, psi)
	}
}

// breed computes bred vectors: it adds random perturbations to the analysis breedingDays before the
// initialisation time, integrates the forecast model and returns the differences from the
// unperturbed forecast at the initialisation time, each with unit norm.
//
// Growth over breedingDays turns the noise towards the directions in which errors of this day's flow
// grow.
//
// Source: Toth and Kalnay 1993, doi:10.1175/1520-0477(1993)074<2317:EFANTG>2.0.CO;2, with one cycle
// in place of a continuous one.
func (f *forecaster) breed(i int, t float64) []state {
	var base state
	f.g.streamfunction(&base, &f.breeding[i])
	centre := base
	f.g.approach(&centre, t)
	r := stream(f.cfg.Seed, forSeeds, i)
	bred := make([]state, bredVectors)
	for v := range bred {
		f.seed(&bred[v], r)
		scaleTo(&bred[v], initialNorm)
		addScaled(&bred[v], &base, 1)
		f.g.approach(&bred[v], t)
		addScaled(&bred[v], &centre, -1)
		f.mask(&bred[v])
		scaleTo(&bred[v], 1)
	}
	return bred
}

// approach integrates a streamfunction over breedingDays until time t.
func (g *integrator) approach(psi *state, t float64) {
	var q state
	g.vorticity(&q, psi)
	g.restart()
	g.run(&q, t-breedingDays, int(breedingDays*stepsPerDay))
	g.streamfunction(psi, &q)
}

// seed draws random noise that is larger where observations are few.
func (f *forecaster) seed(dst *state, r *rand.Rand) {
	noise(dst, r, seedPeak, 0.85)
	f.mask(dst)
}

// perturbation returns a random linear combination of the bred vectors plus random noise. With b the
// share of bred vectors the norm is that of √(b² + (1 − b²)) = 1 for uncorrelated parts, then
// initialNorm.
func (f *forecaster) perturbation(bred []state, r *rand.Rand) state {
	var p, n state
	for v := range bred {
		addScaled(&p, &bred[v], r.NormFloat64())
	}
	scaleTo(&p, bredShare)
	f.seed(&n, r)
	scaleTo(&n, math.Sqrt(1-bredShare*bredShare))
	addScaled(&p, &n, 1)
	scaleTo(&p, initialNorm)
	return p
}

// mask amplifies a perturbation in areas with few observations.
//
// It is a product on the grid, truncated to T21; the global mean is set to 0.
func (f *forecaster) mask(psi *state) {
	for l := range psi {
		f.fields.t.toGrid(f.points, &psi[l])
		for k := range f.points {
			f.points[k] *= f.spread[k]
		}
		f.fields.t.toSpectrum(&psi[l], f.points)
		psi[l][0] = 0
	}
}
