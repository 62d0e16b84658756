// Package interrupt turns signals into a flag that a job polls between steps, so
// that it can save and stop (exit 75) instead of dying.
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

// Flag says whether a signal asked this process to save and stop.
type Flag struct {
	signal atomic.Pointer[os.Signal]
	ch     chan os.Signal
	pipe   chan os.Signal // nobody looks: without it a write to a pipe that was closed ends the process
	quit   chan struct{}
	first  chan struct{}                 // closed at the first signal
	hangup atomic.Pointer[chan struct{}] // told of SIGHUP; nil if that stops too
	done   sync.WaitGroup
}

// Watch begins to take SIGTERM, SIGINT, SIGUSR1 and, unless nohup shields from it,
// SIGHUP. The first raises the flag; later ones are ignored, since schedulers send
// several, but for a second SIGINT where a person sits at the terminal: then abort
// is called, which ends the process without saving. Close gives the signals back.
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
					default: // it was told and has not looked yet
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

// NotifyHangup is for a program that stays: SIGHUP tells the channel from now on, in place of raising the flag, and
// messages that nobody reads any more (SIGPIPE) are lost, and end nothing.
func (f *Flag) NotifyHangup() <-chan struct{} {
	signal.Notify(f.pipe, syscall.SIGPIPE)
	to := make(chan struct{}, 1)
	f.hangup.Store(&to)
	return to
}

// Raised says whether to save and stop now.
func (f *Flag) Raised() bool { return f.signal.Load() != nil }

// Err is nil until the flag is raised, and then the error of exit 75.
func (f *Flag) Err() error {
	s := f.signal.Load()
	if s == nil {
		return nil
	}
	return &exit.Error{Code: exit.SaveAndStop, What: fmt.Sprintf("interrupted by signal %s", *s),
		Fix: "the same command with --resume auto continues"}
}

// Context is cancelled when the flag is raised: for jobs that have nothing to save.
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

// Close stops watching and gives the signals their usual meaning again.
func (f *Flag) Close() {
	signal.Stop(f.ch)
	signal.Stop(f.pipe)
	close(f.quit)
	f.done.Wait()
}
