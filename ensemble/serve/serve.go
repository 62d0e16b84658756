package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Options says what to issue and where to show it.
type Options struct {
	Predict predict.Options // Deadline and Cycle are not used: each start has its own
	Service config.Service
}

// Signals are what a running service is told.
type Signals struct {
	Reload <-chan struct{}         // reads the options anew; nil for never
	Load   func() (Options, error) // what they are then
}

// shutdownTimeout is how long requests under way may take when the service ends.
const shutdownTimeout = 10 * time.Second

// Serve issues and shows products until ctx ends. What was issued stays, also of a service that is
// killed: products are there whole, or not at all. log gets one line for each request and start.
//
// Errors: exit 73 for an address that is taken or not allowed, or products that cannot be written; those of
// predict.OpenResident; the cause of ctx.
func Serve(ctx context.Context, o Options, on Signals, log *slog.Logger) error {
	if err := os.MkdirAll(o.Predict.Out, 0o777); err != nil {
		return exit.CreateError(o.Predict.Out, err)
	}
	var listeners []net.Listener
	s := newState(o)
	for _, where := range o.Service.Listen {
		l, err := listen(where)
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return err
		}
		if !isLocal(l.Addr()) {
			log.Warn("open to the network", "listen", where)
		}
		listeners = append(listeners, s.limiter.limit(l))
	}
	h := newHandler(s, log)
	server := h.server()
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		log.Info("listening", "address", l.Addr().Network()+":"+l.Addr().String())
		go func() { failed <- server.Serve(l) }()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for range listeners {
			if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
				cancel(&exit.Error{Code: exit.IO, What: "requests are no longer accepted", Why: err.Error(), Fix: "start it again", Err: err})
			}
		}
	}()
	stop := watchdog(ctx, s)
	err := (&issuer{state: s, log: log, signals: on, o: o}).run(ctx)
	stop()
	notify("STOPPING=1")
	s.limiter.close()
	late, end := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer end()
	if server.Shutdown(late) != nil {
		server.Close()
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}

// watchdog tells systemd that the service is alive, as often as it wants to be told.
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
