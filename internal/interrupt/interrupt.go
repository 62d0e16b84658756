// Package interrupt converts signals to a flag that a job polls between steps, so
// that it can save and stop (exit 75).
package interrupt

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Flag records whether a signal requested that this process save and stop.
type Flag struct {
	signal atomic.Pointer[os.Signal]
	ch     chan os.Signal
	// receives SIGPIPE, which would otherwise end the process on a write to a
	// closed pipe; it is not read
	pipe   chan os.Signal
	quit   chan struct{}
	first  chan struct{}                 // closed at the first signal
	hangup atomic.Pointer[chan struct{}] // receives SIGHUP; nil if SIGHUP raises the flag
	done   sync.WaitGroup
}

// Watch starts to catch SIGTERM, SIGINT, SIGUSR1 and, except under nohup, SIGHUP.
// The first signal raises the flag. Later ones are ignored, since schedulers send
// several. On a second SIGINT from a terminal, abort is called, which ends the
// process without saving. Close restores the default handling.
func Watch(abort func()) *Flag {
	f := &Flag{ch: make(chan os.Signal, 8), pipe: make(chan os.Signal, 1), quit: make(chan struct{}), first: make(chan struct{})}
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	signal.Notify(f.ch, signals...)
	person := term.IsTerminal(int(os.Stdin.Fd()))
	f.done.Go(func() {
		interrupts := 0
		for {
			select {
			case <-f.quit:
				return
			case s := <-f.ch:
				if to := f.hangup.Load(); to != nil && s == syscall.SIGHUP {
					select {
					case *to <- struct{}{}:
					default: // a notification is pending already
					}
					continue
				}
				if f.signal.CompareAndSwap(nil, &s) {
					close(f.first)
				}
				if s == syscall.SIGINT {
					interrupts++
				}
				if interrupts == 2 && person {
					abort()
				}
			}
		}
	})
	return f
}

// NotifyHangup configures the flag for a service. SIGHUP then sends to the returned
// channel instead of raising the flag. SIGPIPE is ignored, so that a closed output
// pipe does not end the service.
func (f *Flag) NotifyHangup() <-chan struct{} {
	signal.Notify(f.pipe, syscall.SIGPIPE)
	to := make(chan struct{}, 1)
	f.hangup.Store(&to)
	return to
}

// Raised reports whether to save and stop now.
func (f *Flag) Raised() bool { return f.signal.Load() != nil }

// Err returns nil until the flag is raised, and then the error with exit code 75.
func (f *Flag) Err() error {
	s := f.signal.Load()
	if s == nil {
		return nil
	}
	return &exit.Error{Code: exit.SaveAndStop, What: fmt.Sprintf("interrupted by signal %s", *s),
		Fix: "the same command with --resume auto continues"}
}

// Context returns a context that is cancelled when the flag is raised, for jobs
// without state to save.
func (f *Flag) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	f.done.Go(func() {
		select {
		case <-f.first:
			cancel(f.Err())
		case <-f.quit:
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(nil) }
}

// Close stops watching and restores the default handling of the signals.
func (f *Flag) Close() {
	signal.Stop(f.ch)
	signal.Stop(f.pipe)
	close(f.quit)
	f.done.Wait()
}
