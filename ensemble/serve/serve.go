package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/hook"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// Options configures the service.
type Options struct {
	Predict predict.Options // Init and Deadline are ignored
	Service config.Service
}

// Signals controls a running service.
type Signals struct {
	Reload <-chan struct{}         // requests a reload of the options; nil: never
	Load   func() (Options, error) // loads the options
}

// Serve publishes and serves products until ctx ends. Products are published atomically, so that a
// killed service leaves only complete ones. log gets one line for each request and initialisation.
//
// Errors: exit 73 for an address that is in use or not allowed, or an unwritable product directory;
// those of hook.Open and predict.OpenService; the cause of ctx.
func Serve(ctx context.Context, o Options, on Signals, log *slog.Logger) error {
	if err := probeOut(o.Predict.Out); err != nil {
		return exit.CreateError(o.Predict.Out, err)
	}
	var listeners []*limitedListener
	s := newState(o)
	if err := s.openHook(log); err != nil {
		return err
	}
	for _, where := range o.Service.Listen {
		l, err := listen(where)
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return err
		}
		if !isLocal(l.Addr()) {
			log.Warn("reachable from the network", "listen", where)
		}
		listeners = append(listeners, s.limiter.limit(l))
	}
	h := newHandler(s, log)
	defer h.reader.Close()
	server := h.server()
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		log.Info("listening", "address", l.Addr().Network()+":"+l.Addr().String())
		go func() {
			err := server.Serve(l)
			l.ended.Store(true)
			failed <- err
		}()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for range listeners {
			if err := <-failed; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				cancel(&exit.Error{Code: exit.IO, What: "the HTTP server stopped", Why: err.Error(), Fix: "restart the service", Err: err})
			}
		}
	}()
	stop := watchdog(ctx, s)
	err := (&issuer{state: s, log: log, signals: on, o: o}).run(ctx)
	stop()
	notify("STOPPING=1")
	if cut := s.drain(ctx, server, listeners); cut > 0 {
		log.Warn("requests were cut at the end of the service", "requests", cut, "limit", shutdownTimeout)
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}

// openHook opens the hook of serve.on_issue.
//
// Errors: those of hook.Open.
func (s *state) openHook(log *slog.Logger) (err error) {
	o := s.options
	s.hook, err = hook.Open(hook.Options{Out: o.Predict.Out, File: filepath.Join(o.Predict.Out, stateDir, "hook.json"), Call: o.Service.OnIssue, RetryDelay: o.Service.RetryDelay,
		Version: version.String(), Log: log, Pauses: o.Predict.Clock.Pauses, OnFailure: func() { s.metrics.hook.failures.add(1) }})
	return err
}

// probeOut creates the product directory if it is missing, and writes a file in a new folder of it, as
// publishing does. The file is removed again.
//
// Errors: those of the file system.
func probeOut(dir string) error {
	if err := filesystem.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	probe, err := atomicfile.TempDir(dir, ".probe.partial-")
	if err != nil {
		return err
	}
	defer filesystem.RemoveAll(probe)
	return atomicfile.WriteFile(filepath.Join(probe, "probe"), make([]byte, 4096)) // synced: a full disk shows
}

// watchdog notifies the watchdog of systemd three times in its interval while publishing is not
// stalled. stop ends it.
func watchdog(ctx context.Context, s *state) (stop func()) {
	every := watchdogInterval()
	if every == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if s.isAlive() {
					notify("WATCHDOG=1")
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}
