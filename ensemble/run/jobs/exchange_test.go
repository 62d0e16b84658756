package jobs

import (
	"maps"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mpitest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// Late steps of which every one waits for all groups: a rank that is killed, stopped or interrupted ends the job as in
// synchronous training, and the training that resumes has the bits of an undisturbed one.
func TestExchangeRankFailures(t *testing.T) { checkExchangeFailures(t, onALauncher) }

// checkExchangeFailures checks these failures on ranks of launchers.
func checkExchangeFailures(t *testing.T, on launchers) {
	checkRankFailures(t, on, []rankFailure{
		{syscall.SIGKILL, 1, 0, "illed"},
		{syscall.SIGSTOP, 1, exit.RankLost, "error[E071]: rank 1 was lost"},
		{syscall.SIGTERM, 0, exit.SaveAndStop, "error[E075]: "},
	}, "train.mesh=data:2", "train.exchange.system=eager", "train.exchange.period=1")
}

// lateTraining is a training of four ranks of which one, drawn at random, is slower in each step.
func lateTraining(t *testing.T, slow time.Duration, set ...string) rankTraining {
	r := failing(t, filepath.Join(t.TempDir(), "run"), append([]string{"train.mesh=data:4", "train.learning_rate=0.01"}, set...)...)
	r.Pause, r.Slow = 0, slow
	return r
}

// Real ranks that are late train with every system. A signal ends the job with a checkpoint, a rank that does not answer
// with the code of a lost one, and the training that resumes converges.
// The seed selects two systems; TestLongLateRanksOfALauncher has all.
func TestLateRanksOfALauncher(t *testing.T) {
	checkLateRanks(t, testseed.Some(t, slices.Sorted(maps.Keys(lateSystems)), 2))
}

// lateSystems are settings of trainings in which ranks may be late.
var lateSystems = map[string][]string{
	"solo":  {"train.exchange.system=eager", "train.exchange.initiator=solo"},
	"skips": {"train.exchange.system=eager", "train.exchange.initiator=solo", "train.exchange.skip=true"},
	"wagma": {"train.exchange.system=wagma", "train.mesh=data:2 lat:2", "train.exchange.skip=true"},
	"local": {"train.exchange.system=local", "train.exchange.rate=1", "train.exchange.momentum=0"},
}

// checkLateRanks checks late ranks of some systems.
func checkLateRanks(t *testing.T, systems []string) {
	for _, name := range systems {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // mostly waiting
			r := lateTraining(t, 50*time.Millisecond, append(slices.Clone(lateSystems[name]), "train.exchange.period=4")...)
			for _, c := range []rankFailure{{syscall.SIGTERM, 2, exit.SaveAndStop, ""}, {syscall.SIGSTOP, 3, exit.RankLost, ""}} {
				l := start(t, mpitest.Path(t, mpitest.Launchers[0]), 4, r)
				l.atStep(t, r.RunDir, 2)
				if err := syscall.Kill(l.pid(t, c.rank), c.signal); err != nil {
					t.Fatal(err)
				}
				if code, out := l.end(t); code != c.code {
					t.Errorf("%v to rank %d: want exit %d\n%s", c.signal, c.rank, c.code, out)
				}
			}
			if code, out := start(t, mpitest.Path(t, mpitest.Launchers[0]), 4, r).end(t); code != exit.OK {
				t.Fatal(out)
			}
			if _, err := rundir.ReadManifest(r.RunDir); err != nil {
				t.Error(err)
			}
			epochs := runtest.Epochs(t, r.RunDir)
			first, last := epochs[0], epochs[len(epochs)-1]
			before, _ := first.Number("validation_loss")
			if after, ok := last.Number("validation_loss"); !ok || !(after < 1.1*before) { // as many are late as the load makes
				t.Errorf("validation loss %g, after the first epoch %g", after, before)
			}
			late := 0.0
			for _, e := range epochs {
				x, _ := e.Number("late")
				late += x
			}
			if (late > 0) != (name != "local") {
				t.Errorf("%g contributions were late", late)
			}
		})
	}
}
