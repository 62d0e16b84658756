package serve

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// room is the connections that there may be at one time, over all listeners and of one address.
type room struct {
	slots   chan struct{}
	each    int              // of one address; 0 for no bound
	refused func(why string) // counts who is turned away
	done    chan struct{}
	once    sync.Once

	mu      sync.Mutex
	peers   map[netip.Prefix]int     // connections by address, that of who waits among them
	idle    map[*boundConn]time.Time // those between two requests, and since when
	waiting int                      // connections that there is no room for
}

// Why a connection or request is turned away.
const (
	ofAddress = "address" // there are enough connections of its address
	ofIdle    = "idle"    // it was between two requests, and another one had no room
	ofHost    = "host"    // it is for a host that this is not
)

func newRoom(n, each int, refused func(why string)) *room {
	return &room{slots: make(chan struct{}, n), each: each, refused: refused, done: make(chan struct{}), peers: map[netip.Prefix]int{}, idle: map[*boundConn]time.Time{}}
}

// open is how many connections there are.
func (r *room) open() int { return len(r.slots) }

// close ends waiting for room.
func (r *room) close() { r.once.Do(func() { close(r.done) }) }

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

// come counts a connection, unless there are enough of its address.
func (r *room) come(p netip.Prefix) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.IsValid() && r.each > 0 && r.peers[p] >= r.each {
		return false
	}
	r.peers[p]++
	return true
}

// gone is the end of what come counted.
func (r *room) gone(p netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers[p]--; r.peers[p] == 0 {
		delete(r.peers, p)
	}
}

// enter waits for room. Who is between two requests makes it.
func (r *room) enter() bool {
	select {
	case r.slots <- struct{}{}:
		return true
	default:
	}
	r.wait(1)
	defer r.wait(-1)
	select {
	case r.slots <- struct{}{}:
		return true
	case <-r.done:
		return false
	}
}

func (r *room) wait(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting += n; n > 0 {
		r.makeRoom()
	}
}

// makeRoom closes the connection that has been idle for longest. The lock is held.
func (r *room) makeRoom() {
	var oldest *boundConn
	for c, since := range r.idle {
		if oldest == nil || since.Before(r.idle[oldest]) {
			oldest = c
		}
	}
	if oldest != nil {
		delete(r.idle, oldest)
		r.refused(ofIdle)
		go oldest.Close() // which takes the lock
	}
}

// changed hears from the server what becomes of a connection.
func (r *room) changed(c net.Conn, s http.ConnState) {
	var b *boundConn
	switch c := c.(type) {
	case *boundTCP:
		b = c.boundConn
	case *boundConn:
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
		r.makeRoom()
	}
}

// bound accepts connections for which there is room.
func (r *room) bound(l net.Listener) net.Listener { return &boundListener{l, r} }

type boundListener struct {
	net.Listener
	*room
}

// tooMany is what who has enough connections is told, who may have sent nothing yet.
const tooMany = "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 35\r\n\r\ntoo many connections of one address"

// Accept waits for a connection and then for room.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := peerOf(c.RemoteAddr())
		if !l.come(peer) {
			l.refused(ofAddress)
			_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // who has sent nothing has room for a line
			_, _ = io.WriteString(c, tooMany)
			c.Close()
			continue
		}
		if !l.enter() {
			l.gone(peer)
			c.Close()
			return nil, net.ErrClosed
		}
		b := &boundConn{Conn: c, leave: sync.OnceFunc(func() { <-l.slots; l.gone(peer) })}
		if t, ok := c.(*net.TCPConn); ok {
			return &boundTCP{b, t}, nil
		}
		return b, nil
	}
}

// Close closes the listener itself; room is closed by who made it.
func (l *boundListener) Close() error { return l.Listener.Close() }

type boundConn struct {
	net.Conn
	leave func()
}

// Close closes the connection and leaves its room to another.
func (c *boundConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// boundTCP lets files go out without passing through this process's memory.
type boundTCP struct {
	*boundConn
	tcp *net.TCPConn
}

// ReadFrom is that of the connection.
func (c *boundTCP) ReadFrom(r io.Reader) (int64, error) { return c.tcp.ReadFrom(r) }
