package score

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Target is what the systems of one Accumulator forecast.
type Target struct {
	Variable string
	Level    ensemble.Level
	Lead     ensemble.Lead
	Unit     string
}

// System is a forecaster as the results name it.
type System struct {
	Name string
	// MembersUsed is how many members it was made from, as the results print it;
	// 0 for none (climatology).
	MembersUsed int
	// Gives says what the samples of the system hold: Members, or Mean and
	// Spread, or one of these two.
	Gives Need
}

// Sample is one system's forecast of one date.
//
// Shape: Members [member][point]; Mean, Spread [point]. What System.Gives does
// not name is ignored. Missing: NaN.
type Sample struct {
	Members      [][]float32
	Mean, Spread []float32
}

// Grid is the area that scores are averaged over.
type Grid struct {
	Weights []float64 // [point], not negative, any scale
	Name    string    // how results name them: "cos(latitude)"
}

// Accumulator gathers, date by date, what the scores of all systems for one
// target need. The zero value is not usable; see New. It is not safe for
// concurrent use; Add itself uses all processors, with sums whose order does not
// depend on their number.
type Accumulator struct {
	target  Target
	grid    Grid
	full    bool
	systems []System
	plan    [][]*Score // [system] scores that it can have
	offset  [][]int    // [system][score] first part in a row of sums
	width   int

	dates   []Date
	members []int // [system] number of members scored, 0 for distributions
}

// Date is what one date adds to the scores of all systems: Σ w and Σ w·part over its
// points. An accumulator takes over what another one summed, with the bits that it
// would have summed itself.
type Date struct {
	Init            ensemble.Init
	Weight          float64
	Points, Missing int
	Sums            []float64
	Members         []int         // [system] scored, 0 for distributions
	Ranks           [][][]float64 // [system] counts and shares by rank; nil for distributions
}

// New starts an accumulator. full says that Add will be given the spread of the
// full ensemble.
//
// Errors: two systems of one name, a system that gives nothing, no or negative
// weights.
func New(target Target, grid Grid, systems []System, full bool) (*Accumulator, error) {
	if len(grid.Weights) == 0 || len(systems) == 0 {
		return nil, fmt.Errorf("score: %s: %d points and %d systems", target.Variable, len(grid.Weights), len(systems))
	}
	for p, w := range grid.Weights {
		if !(w >= 0) {
			return nil, fmt.Errorf("score: %s: weight %g at point %d", target.Variable, w, p)
		}
	}
	a := &Accumulator{target: target, grid: grid, systems: systems, full: full,
		members: make([]int, len(systems))}
	seen := map[string]bool{}
	for _, s := range systems {
		if seen[s.Name] {
			return nil, fmt.Errorf("score: two systems named %q", s.Name)
		}
		seen[s.Name] = true
		has := s.Gives
		if has&Members != 0 {
			has |= Mean | Spread
		}
		if has&(Mean|Spread) == 0 {
			return nil, fmt.Errorf("score: system %q gives neither members nor mean nor spread", s.Name)
		}
		if full {
			has |= FullSpread
		}
		var plan []*Score
		var offset []int
		for _, sc := range Table {
			if sc.Needs&^has == 0 {
				plan, offset = append(plan, sc), append(offset, a.width)
				a.width += sc.Parts
			}
		}
		a.plan, a.offset = append(a.plan, plan), append(a.offset, offset)
	}
	return a, nil
}

// Add takes one date. samples are those of the systems given to New, in their
// order; full is the spread of the full ensemble, nil if New was told so.
//
// Errors: those of Sum and Join.
func (a *Accumulator) Add(init ensemble.Init, obs, full []float32, samples []Sample) error {
	d, err := a.Sum(init, obs, full, samples)
	if err != nil {
		return err
	}
	return a.Join(d)
}

// Sum is what Add would add. It changes nothing.
//
// Errors: shapes that differ from the weights, fewer members than a score needs (one
// member has no spread).
func (a *Accumulator) Sum(init ensemble.Init, obs, full []float32, samples []Sample) (Date, error) {
	d := Date{Init: init, Sums: make([]float64, a.width), Members: make([]int, len(a.systems)), Ranks: make([][][]float64, len(a.systems))}
	if err := a.check(init, obs, full, samples); err != nil {
		return d, err
	}
	for i, s := range a.systems {
		if s.Gives&Members != 0 {
			d.Members[i] = len(samples[i].Members)
		}
	}
	d.Ranks = histograms(d.Members)
	const chunk = 4096 // fixed, so that sums do not depend on the number of processors
	n := len(a.grid.Weights)
	parts := make([]chunkSums, (n+chunk-1)/chunk)
	var next sync.Mutex
	at := 0
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		wg.Go(func() {
			w := a.newWorker(d.Members)
			for {
				next.Lock()
				k := at
				at++
				next.Unlock()
				if k >= len(parts) {
					return
				}
				parts[k] = w.run(k*chunk, min(n, (k+1)*chunk), obs, full, samples)
			}
		})
	}
	wg.Wait()
	for _, c := range parts {
		d.Weight += c.weight
		d.Points += c.points
		d.Missing += c.missing
		for i, v := range c.sums {
			d.Sums[i] += v
		}
		addRanks(d.Ranks, c.ranks)
	}
	return d, nil
}

// Join takes a date that was summed here or elsewhere, for the same target and systems.
//
// Errors: a date given twice, other numbers of members than earlier dates.
func (a *Accumulator) Join(d Date) error {
	if len(d.Sums) != a.width || len(d.Members) != len(a.systems) {
		return fmt.Errorf("score: %s %s: sums of other systems", a.target.Variable, d.Init)
	}
	for _, other := range a.dates {
		if other.Init.Equal(d.Init.Time) {
			return fmt.Errorf("score: %s: start %s was given twice", a.target.Variable, d.Init)
		}
	}
	for i, m := range d.Members {
		if a.members[i] != 0 && a.members[i] != m {
			return fmt.Errorf("score: %s %s: %s has %d members, earlier dates %d", a.target.Variable, d.Init, a.systems[i].Name, m, a.members[i])
		}
		a.members[i] = m
	}
	a.dates = append(a.dates, d)
	return nil
}

// histograms are empty counts and shares of systems with so many members.
func histograms(members []int) [][][]float64 {
	out := make([][][]float64, len(members))
	for s, m := range members {
		if m > 0 {
			out[s] = [][]float64{make([]float64, m+1), make([]float64, m+1)}
		}
	}
	return out
}

// addRanks adds histograms of the same systems.
func addRanks(sum, x [][][]float64) {
	for s := range x {
		for q := range x[s] {
			for i, v := range x[s][q] {
				sum[s][q][i] += v
			}
		}
	}
}

func (a *Accumulator) check(init ensemble.Init, obs, full []float32, samples []Sample) error {
	n := len(a.grid.Weights)
	bad := func(what string, got int) error {
		return fmt.Errorf("score: %s %s: %s has %d points, want %d", a.target.Variable, init, what, got, n)
	}
	if len(obs) != n {
		return bad("the observation", len(obs))
	}
	if a.full && len(full) != n {
		return bad("the full ensemble's spread", len(full))
	}
	if len(samples) != len(a.systems) {
		return fmt.Errorf("score: %s %s: %d samples for %d systems", a.target.Variable, init, len(samples), len(a.systems))
	}
	for i, s := range a.systems {
		x := samples[i]
		switch {
		case s.Gives&Members != 0:
			m := len(x.Members)
			for _, sc := range a.plan[i] {
				if m < sc.MinMembers {
					return fmt.Errorf("score: %s %s: %s of %s needs %d members, got %d", a.target.Variable, init, sc.ID, s.Name, sc.MinMembers, m)
				}
			}
			for _, f := range x.Members {
				if len(f) != n {
					return bad("a member of "+s.Name, len(f))
				}
			}
		default:
			if s.Gives&Mean != 0 && len(x.Mean) != n {
				return bad("the mean of "+s.Name, len(x.Mean))
			}
			if s.Gives&Spread != 0 && len(x.Spread) != n {
				return bad("the spread of "+s.Name, len(x.Spread))
			}
		}
	}
	return nil
}

// chunkSums is what one run of points adds.
type chunkSums struct {
	weight          float64
	points, missing int
	sums            []float64
	ranks           [][][]float64
}

// worker holds the scratch of one goroutine.
type worker struct {
	a       *Accumulator
	members []int // [system]
	cases   []Case
	parts   []float64
}

func (a *Accumulator) newWorker(members []int) *worker {
	w := &worker{a: a, members: members, cases: make([]Case, len(a.systems))}
	for i, m := range members {
		w.cases[i].Members = make([]float64, m)
	}
	most := 0
	for _, s := range Table {
		most = max(most, s.Parts)
	}
	w.parts = make([]float64, most)
	return w
}

// run scores the points lo ≤ p < hi.
func (w *worker) run(lo, hi int, obs, full []float32, samples []Sample) chunkSums {
	a := w.a
	out := chunkSums{sums: make([]float64, a.width), ranks: histograms(w.members)}
	for p := lo; p < hi; p++ {
		weight := a.grid.Weights[p]
		y := float64(obs[p])
		ok := !math.IsNaN(y)
		for s := range a.systems {
			c := &w.cases[s]
			c.Obs = y
			if a.full {
				c.FullSpread = float64(full[p])
				ok = ok && !math.IsNaN(c.FullSpread)
			}
			ok = ok && c.load(a.systems[s].Gives, samples[s], p)
		}
		if !ok {
			out.missing++
			continue
		}
		out.weight += weight
		out.points++
		for s := range a.systems {
			c := &w.cases[s]
			for k, sc := range a.plan[s] {
				parts := w.parts[:sc.Parts]
				sc.Point(parts, c)
				sums := out.sums[a.offset[s][k]:]
				for i, v := range parts {
					sums[i] += weight * v
				}
			}
			if len(c.Members) > 0 {
				addRank(out.ranks[s][0], out.ranks[s][1], c.Members, y, weight)
			}
		}
	}
	return out
}

// load fills the case from a sample at point p, false if anything is missing.
func (c *Case) load(gives Need, x Sample, p int) bool {
	if gives&Members != 0 {
		for i, f := range x.Members {
			c.Members[i] = float64(f[p])
		}
		c.Mean, c.Spread = ensemble.MeanSpread(c.Members, 1)
		return !math.IsNaN(c.Mean) // one member: spread NaN, but check has refused it
	}
	ok := true
	if gives&Mean != 0 {
		c.Mean = float64(x.Mean[p])
		ok = !math.IsNaN(c.Mean)
	}
	if gives&Spread != 0 {
		c.Spread = float64(x.Spread[p])
		ok = ok && !math.IsNaN(c.Spread)
	}
	return ok
}

// Dates are the starts added so far, ascending.
func (a *Accumulator) Dates() []ensemble.Init {
	out := make([]ensemble.Init, len(a.dates))
	for i, d := range a.dates {
		out[i] = d.Init
	}
	slices.SortFunc(out, func(x, y ensemble.Init) int { return x.Compare(y.Time) })
	return out
}
