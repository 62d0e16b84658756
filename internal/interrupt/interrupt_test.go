package interrupt

import (
	"context"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestWatch sends each signal to this process and checks the flag, the context and
// the exit code. A second signal changes nothing.
func TestWatch(t *testing.T) {
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGHUP}
	if signal.Ignored(syscall.SIGHUP) {
		signals = signals[:3] // the tests run under nohup, which ignores SIGHUP
	}
	for _, s := range signals {
		f := Watch(func() { t.Errorf("%s: aborted", s) })
		ctx, cancel := f.Context(context.Background())
		if f.Raised() || f.Err() != nil || ctx.Err() != nil {
			t.Fatalf("%s: raised before any signal", s)
		}
		for range 2 {
			if err := syscall.Kill(syscall.Getpid(), s); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatalf("%s: the context was not cancelled", s)
		}
		if !f.Raised() || exit.CodeOf(f.Err()) != exit.SaveAndStop || exit.CodeOf(context.Cause(ctx)) != exit.SaveAndStop {
			t.Errorf("%s: raised %v, error %v, cause %v", s, f.Raised(), f.Err(), context.Cause(ctx))
		}
		cancel()
		f.Close()
	}
}
