package serve

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// connLimiter limits concurrent connections: in total over all listeners, and for each client
// address. When the total is reached, new connections wait and idle ones are closed.
type connLimiter struct {
	slots      chan struct{}
	perAddress int              // limit for each address; 0: none
	onReject   func(why string) // counts rejected connections
	done       chan struct{}
	once       sync.Once

	mu      sync.Mutex
	peers   map[netip.Prefix]int       // connections by address, including waiting ones
	idle    map[*limitedConn]time.Time // connections between two requests, and the time since when
	waiting int                        // accepted connections that wait for a slot
}

// Reasons for which a connection or request is rejected, the label of the metric.
const (
	rejectedAddress = "address" // too many connections from its address
	rejectedIdle    = "idle"    // closed while idle, for a waiting connection
	rejectedHost    = "host"    // wrong host name in the request
)

// newConnLimiter limits connections to n in total and each for one address (0: no limit). refused is
// called with the reason of each rejection.
func newConnLimiter(n, each int, refused func(why string)) *connLimiter {
	return &connLimiter{slots: make(chan struct{}, n), perAddress: each, onReject: refused, done: make(chan struct{}), peers: map[netip.Prefix]int{}, idle: map[*limitedConn]time.Time{}}
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

// acquireAddress counts a connection from p. It returns false if the limit of p is reached.
func (r *connLimiter) acquireAddress(p netip.Prefix) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.IsValid() && r.perAddress > 0 && r.peers[p] >= r.perAddress {
		return false
	}
	r.peers[p]++
	return true
}

// releaseAddress undoes acquireAddress.
func (r *connLimiter) releaseAddress(p netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers[p]--; r.peers[p] == 0 {
		delete(r.peers, p)
	}
}

// acquireSlot waits for a slot, and closes an idle connection to free one. It returns false after
// close.
func (r *connLimiter) acquireSlot() bool {
	select {
	case r.slots <- struct{}{}:
		return true
	default:
	}
	r.addWaiting(1)
	defer r.addWaiting(-1)
	select {
	case r.slots <- struct{}{}:
		return true
	case <-r.done:
		return false
	}
}

// addWaiting adds n to the number of waiting connections.
func (r *connLimiter) addWaiting(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting += n; n > 0 {
		r.closeLongestIdle()
	}
}

// closeLongestIdle closes the connection that has been idle longest. The caller holds r.mu.
func (r *connLimiter) closeLongestIdle() {
	var oldest *limitedConn
	for c, since := range r.idle {
		if oldest == nil || since.Before(r.idle[oldest]) {
			oldest = c
		}
	}
	if oldest != nil {
		delete(r.idle, oldest)
		r.onReject(rejectedIdle)
		go oldest.Close() // acquires r.mu
	}
}

// connState is the ConnState callback of the server. It records idle connections.
func (r *connLimiter) connState(c net.Conn, s http.ConnState) {
	var b *limitedConn
	switch c := c.(type) {
	case *limitedTCP:
		b = c.limitedConn
	case *limitedConn:
		b = c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s != http.StateIdle {
		delete(r.idle, b)
		return
	}
	r.idle[b] = time.Now()
	if r.waiting > 0 {
		r.closeLongestIdle()
	}
}

// limit returns a listener that applies the limits.
func (r *connLimiter) limit(l net.Listener) net.Listener { return &limitedListener{l, r} }

// limitedListener accepts connections within the limits.
type limitedListener struct {
	net.Listener
	*connLimiter
}

// tooManyConnections is the response to a client above its limit, sent before any request is read.
const tooManyConnections = "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 35\r\n\r\ntoo many connections of one address"

// Accept waits for a connection and then for a slot.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := peerOf(c.RemoteAddr())
		if !l.acquireAddress(peer) {
			l.onReject(rejectedAddress)
			_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // the send buffer of a new connection has space for it
			_, _ = io.WriteString(c, tooManyConnections)
			c.Close()
			continue
		}
		if !l.acquireSlot() {
			l.releaseAddress(peer)
			c.Close()
			return nil, net.ErrClosed
		}
		b := &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots; l.releaseAddress(peer) })}
		if t, ok := c.(*net.TCPConn); ok {
			return &limitedTCP{b, t}, nil
		}
		return b, nil
	}
}

// Close closes the listener. The limiter is closed by its creator.
func (l *limitedListener) Close() error { return l.Listener.Close() }

// limitedConn is a connection that releases its slot when closed.
type limitedConn struct {
	net.Conn
	release func()
}

// Close closes the connection and releases its slot, once.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// limitedTCP is a limitedConn over TCP. It forwards ReadFrom, so that files are sent by sendfile
// without copies in user space.
type limitedTCP struct {
	*limitedConn
	tcp *net.TCPConn
}

// ReadFrom implements io.ReaderFrom.
func (c *limitedTCP) ReadFrom(r io.Reader) (int64, error) { return c.tcp.ReadFrom(r) }
