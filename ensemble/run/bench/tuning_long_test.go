//go:build long

package bench

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// TestLongTuning: cold starts of the networks of races.json and of one that is not among them, with and without expected times: number of timed
// variants, time until all kernels are chosen, and regret: time of the chosen variants over that of the fastest ones when all are timed. Other
// processes disturb all of them, so the bound is wide.
func TestLongTuning(t *testing.T) {
	var timed, variants int
	var spent, full time.Duration
	for _, c := range append(RaceCases(), UnseenCase) {
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		tuned := func(all bool) (took time.Duration, table map[string]map[string]time.Duration, choices map[string]string) {
			timings := tune.Open(t.TempDir(), cpu.Machine(c.Threads), nil)
			if all {
				timings.TimeAll(tune.ShortRace.MinRounds)
			}
			var durations [2]time.Duration // with an empty table, and with a full one
			for i := range durations {
				start := time.Now()
				if err := c.tune(timings); err != nil {
					t.Fatal(err)
				}
				durations[i] = time.Since(start)
			}
			table, choices = map[string]map[string]time.Duration{}, map[string]string{}
			for key, e := range timings.All() {
				choices[key], table[key] = e.Choice, map[string]time.Duration{}
				for _, v := range e.Candidates {
					table[key][v.Name] = v.CPU
				}
			}
			return durations[0] - durations[1], table, choices
		}
		some, fewer, choices := tuned(false)
		whole, times, _ := tuned(true)
		var best, chosen time.Duration
		n, of := 0, 0
		for key, all := range times {
			n, of = n+len(fewer[key]), of+len(all)
			least := all[choices[key]]
			chosen += least
			for _, v := range all {
				least = min(least, v)
			}
			best += least
		}
		if of == 0 {
			continue
		}
		t.Logf("%s: %d of %d variants timed, in %v of %v, regret %.1f %%", c.network(), n, of, some.Round(time.Millisecond), whole.Round(time.Millisecond),
			100*(float64(chosen)/float64(best)-1))
		timed, variants, spent, full = timed+n, variants+of, spent+some, full+whole
	}
	t.Logf("%d of %d variants timed, in %v of %v", timed, variants, spent, full)
	if 2*timed > variants {
		t.Errorf("%d of %d variants timed, want at most half", timed, variants)
	}
}
