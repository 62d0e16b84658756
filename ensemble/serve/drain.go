package serve

import (
	"context"
	"net"
	"net/http"
	"os"
	"time"
)

// Times of the end of a service. Each is within shutdownTimeout.
const (
	shutdownTimeout = 10 * time.Second       // for active requests
	acceptGrace     = 500 * time.Millisecond // for connections that clients have begun: a few times the longest round trip
	idleGrace       = time.Second            // for the next request of a kept-alive connection
)

// drain ends the server without losing a request: no connection begins, those that exist get whole
// answers with "Connection: close", and idle ones are closed after idleGrace. It returns the number
// of connections that were cut because they took longer than shutdownTimeout.
//
// http.Server.Shutdown alone resets connections that the kernel has established and the server has
// not accepted, and closes idle ones while a request header arrives.
func (s *state) drain(ctx context.Context, server *http.Server, listeners []*limitedListener) (cut int) {
	s.limiter.draining.Store(true)
	begun := time.Now()
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer end()
	for _, l := range listeners {
		l.stopAccepting()
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for left := true; left && ctx.Err() == nil; {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		s.limiter.closeIdle(begun.Add(idleGrace))
		left = s.limiter.open() > 0 || time.Since(begun) < acceptGrace
		for _, l := range listeners {
			left = left || !l.ended.Load()
		}
	}
	s.limiter.close()
	cut = s.limiter.open()
	server.Close()
	return cut
}

// stopAccepting makes the listener accept what clients have begun, and nothing else. Clients that
// connect later are refused, or reach the service that replaces this one.
func (l *limitedListener) stopAccepting() {
	l.stopping.Store(true)
	refuseNew(l.Listener)
	if setAcceptDeadline(l.Listener, time.Now().Add(acceptGrace)) != nil { // also of the Accept in progress
		l.Listener.Close()
	}
}

// setAcceptDeadline sets the deadline of Accept.
//
// Errors: os.ErrNoDeadline for other listeners than of TCP and Unix sockets.
func setAcceptDeadline(l net.Listener, at time.Time) error {
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		return d.SetDeadline(at)
	}
	return os.ErrNoDeadline
}

// closeIdle closes connections on which no request has begun, if the time idle has passed. A
// connection that became idle meanwhile gets idleGrace too.
func (r *connLimiter) closeIdle(idle time.Time) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, w := range r.silent {
		if now.After(idle) && now.Sub(w.since) > idleGrace && !c.begun.Load() && !c.hasUnread() {
			r.drop(c)
		}
	}
}
