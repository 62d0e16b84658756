//go:build long

package jobs

import (
	"strings"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Ranks that are killed or stopped while others request samples from them are reported as lost, and the
// resumed training ends with the bits of one without sample exchange.
func TestLongPeersAreLost(t *testing.T) {
	training, want := peerTraining(t, "train.stall_timeout=15s")
	onLaunchers(t, func(t *testing.T, launcher string) {
		t.Parallel() // mostly waiting
		r := training(t)
		for _, c := range []struct {
			signal  syscall.Signal
			message string
		}{{syscall.SIGSTOP, "error[E071]: rank 1 was lost"}, {syscall.SIGKILL, "illed"}} {
			l := start(t, launcher, 2, r)
			l.atStep(t, r.RunDir, 2)
			if err := syscall.Kill(l.pid(t, 1), c.signal); err != nil {
				t.Fatal(err)
			}
			if code, out := l.end(t); code == exit.OK || !strings.Contains(out, c.message) {
				t.Errorf("%v: want %q\n%s", c.signal, c.message, out)
			}
		}
		r.Pause = 0
		if code, out := start(t, launcher, 2, r).end(t); code != exit.OK {
			t.Fatal(out)
		}
		if runtest.Digest(t, r.RunDir) != want {
			t.Error("other bits than without peers")
		}
	})
}
