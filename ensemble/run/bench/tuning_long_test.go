//go:build long

package bench

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// tuned is what a cold start measures.
type tuned struct {
	took    time.Duration                       // processor time until all kernels are chosen
	times   map[string]map[string]time.Duration // by kernel and variant
	choices map[string]string                   // by kernel
}

// variants is the number of variants that were timed.
func (s tuned) variants() (n int) {
	for _, all := range s.times {
		n += len(all)
	}
	return n
}

// regret is the time of the variants that another start chose over that of the fastest ones, less 1.
func (s tuned) regret(other tuned) float64 {
	var best, chosen time.Duration
	for key, all := range s.times {
		took := all[other.choices[key]]
		chosen += took
		for _, v := range all {
			took = min(took, v)
		}
		best += took
	}
	return float64(chosen)/float64(best) - 1
}

// coldStart times the kernels of a case that no table knows: all variants, or those that are not expected to be slow.
func (k Case) coldStart(t *testing.T, all bool) tuned {
	t.Helper()
	table := tune.Open(t.TempDir(), cpu.Machine(k.Threads), nil)
	if all {
		table.TimeAll(tune.ShortRace.MinRounds)
	}
	var took [2]time.Duration // with an empty table, and with a full one
	for i := range took {
		start := tune.ProcessTime()
		if err := k.tune(table); err != nil {
			t.Fatal(err)
		}
		took[i] = tune.ProcessTime() - start
	}
	s := tuned{took[0] - took[1], map[string]map[string]time.Duration{}, map[string]string{}}
	for key, e := range table.All() {
		s.choices[key], s.times[key] = e.Choice, map[string]time.Duration{}
		for _, v := range e.Candidates {
			s.times[key][v.Name] = v.CPU
		}
	}
	return s
}

// TestLongTuning: cold starts of the networks of races.json and of one that is not among them, with and without expected times: number of timed
// variants, processor time until all kernels are chosen, and regret. Other processes disturb it: the regret of the choices of another start that
// times all variants shows by how much.
func TestLongTuning(t *testing.T) {
	timed, variants := 0, 0
	var spent, full time.Duration
	for _, c := range append([]Case{UnseenCase}, RaceCases()...) {
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		all, some, again := c.coldStart(t, true), c.coldStart(t, false), c.coldStart(t, true)
		n, of := some.variants(), all.variants()
		if of == 0 {
			continue
		}
		t.Logf("%s: %d of %d variants timed, in %v of %v, regret %.1f %%; of another start with all %.1f %%", c.network(), n, of,
			some.took.Round(time.Millisecond), all.took.Round(time.Millisecond), 100*all.regret(some), 100*all.regret(again))
		timed, variants, spent, full = timed+n, variants+of, spent+some.took, full+all.took
	}
	t.Logf("%d of %d variants timed, in %v of %v", timed, variants, spent.Round(time.Millisecond), full.Round(time.Millisecond))
	if 2*timed > variants {
		t.Errorf("%d of %d variants timed, want at most half", timed, variants)
	}
}
