package serve

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// connLimiter is the connections that there may be at one time, over all listeners and of one address.
type connLimiter struct {
	slots      chan struct{}
	perAddress int              // of one address; 0 for no bound
	onReject   func(why string) // counts who is turned away
	done       chan struct{}
	once       sync.Once

	mu      sync.Mutex
	peers   map[netip.Prefix]int       // connections by address, that of who waits among them
	idle    map[*limitedConn]time.Time // those between two requests, and since when
	waiting int                        // connections that there is no room for
}

// Why a connection or request is turned away.
const (
	rejectedAddress = "address" // there are enough connections of its address
	rejectedIdle    = "idle"    // it was between two requests, and another one had no room
	rejectedHost    = "host"    // it is for a host that this is not
)

func newConnLimiter(n, each int, refused func(why string)) *connLimiter {
	return &connLimiter{slots: make(chan struct{}, n), perAddress: each, onReject: refused, done: make(chan struct{}), peers: map[netip.Prefix]int{}, idle: map[*limitedConn]time.Time{}}
}

// open is how many connections there are.
func (r *connLimiter) open() int { return len(r.slots) }

// close ends waiting for room.
func (r *connLimiter) close() { r.once.Do(func() { close(r.done) }) }

// peerOf is the address of who connects; a network of IPv6, of which one has all addresses, is one. It is not
// valid for sockets in the file system.
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
	p, _ := ip.Prefix(bits) // of a length that it has
	return p
}

// acquireAddress counts a connection, unless there are enough of its address.
func (r *connLimiter) acquireAddress(p netip.Prefix) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.IsValid() && r.perAddress > 0 && r.peers[p] >= r.perAddress {
		return false
	}
	r.peers[p]++
	return true
}

// releaseAddress is the end of what come counted.
func (r *connLimiter) releaseAddress(p netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers[p]--; r.peers[p] == 0 {
		delete(r.peers, p)
	}
}

// acquireSlot waits for room. Who is between two requests makes it.
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

func (r *connLimiter) addWaiting(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting += n; n > 0 {
		r.closeLongestIdle()
	}
}

// closeLongestIdle closes the connection that has been idle for longest. The lock is held.
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
		go oldest.Close() // which takes the lock
	}
}

// connState hears from the server what becomes of a connection.
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

// limit accepts connections for which there is room.
func (r *connLimiter) limit(l net.Listener) net.Listener { return &limitedListener{l, r} }

type limitedListener struct {
	net.Listener
	*connLimiter
}

// tooManyConnections is what who has enough connections is told, who may have sent nothing yet.
const tooManyConnections = "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 35\r\n\r\ntoo many connections of one address"

// Accept waits for a connection and then for room.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := peerOf(c.RemoteAddr())
		if !l.acquireAddress(peer) {
			l.onReject(rejectedAddress)
			_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // who has sent nothing has room for a line
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

// Close closes the listener itself; room is closed by who made it.
func (l *limitedListener) Close() error { return l.Listener.Close() }

type limitedConn struct {
	net.Conn
	release func()
}

// Close closes the connection and leaves its room to another.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// limitedTCP lets files go out without passing through this process's memory.
type limitedTCP struct {
	*limitedConn
	tcp *net.TCPConn
}

// ReadFrom is that of the connection.
func (c *limitedTCP) ReadFrom(r io.Reader) (int64, error) { return c.tcp.ReadFrom(r) }
