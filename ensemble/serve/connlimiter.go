package serve

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// connLimiter limits concurrent connections: in total over all listeners, and for each client
// address. When the total is reached, new connections wait, and each open one gets one more answer.
// Connections on which no request is complete for grace are closed for new ones, idle ones first.
type connLimiter struct {
	slots      chan struct{}
	perAddress int              // limit for each address; 0: none
	grace      time.Duration    // for the next request header while others need the connection
	onReject   func(why string) // counts rejected connections
	done       chan struct{}
	once       sync.Once
	lingering  chan struct{} // slots of rejected clients
	draining   atomic.Bool   // the service ends

	mu      sync.Mutex
	peers   map[netip.Prefix]int     // connections by address, including waiting ones
	silent  map[*limitedConn]silence // connections without a complete request
	waiting int                      // accepted connections that wait for a slot
}

// silence is the wait of a connection for a complete request header.
type silence struct {
	since time.Time
	first bool // of the first request; else the connection is between two requests
}

// idle reports whether the client has sent nothing of a request, after an earlier one.
func (w silence) idle(c *limitedConn) bool { return !w.first && !c.begun.Load() }

// defaultGrace is grace of a service.
const defaultGrace = 500 * time.Millisecond

// Reasons for which a connection or request is rejected, the label of the metric.
const (
	rejectedAddress = "address" // too many connections from its address
	rejectedIdle    = "idle"    // closed while idle, for a waiting connection
	rejectedHeader  = "header"  // closed before its header was complete, for another connection
	rejectedHost    = "host"    // wrong host name in the request
)

// newConnLimiter limits connections to n in total and each for one address (0: no limit). refused is
// called with the reason of each rejection.
func newConnLimiter(n, each int, refused func(why string)) *connLimiter {
	return &connLimiter{slots: make(chan struct{}, n), perAddress: each, grace: defaultGrace, onReject: refused, done: make(chan struct{}),
		lingering: make(chan struct{}, maxLingering), peers: map[netip.Prefix]int{}, silent: map[*limitedConn]silence{}}
}

// open is the number of open connections.
func (r *connLimiter) open() int { return len(r.slots) }

// close makes waiting connections fail.
func (r *connLimiter) close() { r.once.Do(func() { close(r.done) }) }

// peerOf is the client address of a connection: an IPv4 address, or an IPv6 /64 network, which
// belongs to one client. It is invalid (zero) for Unix sockets.
func peerOf(a net.Addr) netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := t.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // bits is valid for the address family
	return p
}

// acquireAddress counts a connection from p. At the limit of p it closes a connection of p that waits
// for a request, and returns false if there is none to close.
func (r *connLimiter) acquireAddress(p netip.Prefix) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.IsValid() && r.perAddress > 0 && r.peers[p] >= r.perAddress && !r.closeSilent(func(c *limitedConn) bool { return c.peer == p }) {
		return false
	}
	r.peers[p]++
	return true
}

// releaseAddress undoes acquireAddress. The caller holds r.mu.
func (r *connLimiter) releaseAddress(p netip.Prefix) {
	if r.peers[p]--; r.peers[p] == 0 {
		delete(r.peers, p)
	}
}

// acquireSlot waits for a slot, and closes a connection that waits for a request to free one. It
// returns false after close.
func (r *connLimiter) acquireSlot() bool {
	select {
	case r.slots <- struct{}{}:
		return true
	default:
	}
	r.addWaiting(1)
	defer r.addWaiting(-1)
	again := time.NewTicker(50 * time.Millisecond) // headers become late meanwhile
	defer again.Stop()
	for {
		select {
		case r.slots <- struct{}{}:
			return true
		case <-r.done:
			return false
		case <-again.C:
			r.mu.Lock()
			r.closeSilent(anyConn)
			r.mu.Unlock()
		}
	}
}

// isLastAnswer reports whether connections end after their next answer: the service ends, or a
// connection waits for a slot.
func (r *connLimiter) isLastAnswer() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting > 0 || r.draining.Load()
}

// addWaiting adds n to the number of waiting connections.
func (r *connLimiter) addWaiting(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting += n; n > 0 {
		r.closeSilent(anyConn)
	}
}

// anyConn selects all connections.
func anyConn(*limitedConn) bool { return true }

// closeSilent closes one of the selected connections that wait for a request: the one that has been
// idle longest, else the one whose header has been awaited longest. Those with bytes that the server has not read do not wait for the
// client. Its address is released at once.
// It returns false if there is none. The caller holds r.mu.
func (r *connLimiter) closeSilent(selected func(*limitedConn) bool) bool {
	var idle, late *limitedConn
	for c, w := range r.silent {
		switch {
		case !selected(c) || time.Since(w.since) < r.grace || c.hasUnread():
		case w.idle(c):
			if idle == nil || w.since.Before(r.silent[idle].since) {
				idle = c
			}
		case late == nil || w.since.Before(r.silent[late].since):
			late = c
		}
	}
	if idle != nil {
		r.onReject(rejectedIdle)
		r.drop(idle)
	} else if late != nil {
		r.onReject(rejectedHeader)
		r.drop(late)
	}
	return idle != nil || late != nil
}

// drop closes a connection that waits for a request. The caller holds r.mu.
func (r *connLimiter) drop(c *limitedConn) {
	delete(r.silent, c)
	c.forget.Do(func() { r.releaseAddress(c.peer) })
	go c.Close() // acquires r.mu
}

// connState is the ConnState callback of the server. It records connections that wait for a request.
func (r *connLimiter) connState(conn net.Conn, s http.ConnState) {
	var c *limitedConn
	switch conn := conn.(type) {
	case *limitedTCP:
		c = conn.limitedConn
	case *limitedConn:
		c = conn
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s {
	case http.StateNew, http.StateIdle:
		c.begun.Store(false)
		r.silent[c] = silence{time.Now(), s == http.StateNew}
	default:
		delete(r.silent, c)
	}
}
