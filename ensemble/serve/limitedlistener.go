package serve

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// limit returns a listener that applies the limits.
func (r *connLimiter) limit(l net.Listener) *limitedListener {
	return &limitedListener{Listener: l, connLimiter: r}
}

// limitedListener accepts connections within the limits.
type limitedListener struct {
	net.Listener
	*connLimiter
	stopping atomic.Bool // set by stopAccepting
	ended    atomic.Bool // the server accepts no more
}

// tooManyConnections is the response to a client above its limit, sent before any request is read.
const tooManyConnections = "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 35\r\n\r\ntoo many connections of one address"

// A rejected client reads its response only if the connection is not reset meanwhile.
const (
	lingerTimeout = time.Second // in which the request of a rejected client is read
	maxLingering  = 64          // rejected clients at a time; others are reset
)

// Accept waits for a connection and then for a slot.
//
// Errors: net.ErrClosed after close, and after stopAccepting once no connection arrives for acceptGrace.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		if l.stopping.Load() {
			_ = setAcceptDeadline(l.Listener, time.Now().Add(acceptGrace))
		}
		c, err := l.Listener.Accept()
		if err != nil {
			if l.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
				l.Listener.Close()
				err = net.ErrClosed // the server accepts again after a timeout
			}
			return nil, err
		}
		peer := peerOf(c.RemoteAddr())
		if !l.acquireAddress(peer) {
			l.onReject(rejectedAddress)
			l.reject(c)
			continue
		}
		b := &limitedConn{Conn: c, peer: peer}
		if !l.acquireSlot() {
			l.mu.Lock()
			l.releaseAddress(peer)
			l.mu.Unlock()
			c.Close()
			return nil, net.ErrClosed
		}
		b.release = sync.OnceFunc(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.silent, b)
			b.forget.Do(func() { l.releaseAddress(peer) })
			<-l.slots
		})
		if t, ok := c.(*net.TCPConn); ok {
			return &limitedTCP{b, t}, nil
		}
		return b, nil
	}
}

// reject sends tooManyConnections and closes the connection, after the client's request was read:
// closing with unread data resets the connection, and the client may lose the response.
func (l *limitedListener) reject(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(lingerTimeout)) // the send buffer of a new connection has space for the response
	_, _ = io.WriteString(c, tooManyConnections)
	select {
	case l.lingering <- struct{}{}:
	default:
		c.Close()
		return
	}
	go func() {
		defer func() { c.Close(); <-l.lingering }()
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 2*maxHeader))
	}()
}

// Close closes the listener. The limiter is closed by its creator.
func (l *limitedListener) Close() error { return l.Listener.Close() }

// limitedConn is a connection that releases its slot when closed.
type limitedConn struct {
	net.Conn
	peer    netip.Prefix
	begun   atomic.Bool // the client has sent bytes of a request that is not complete
	forget  sync.Once   // releases the address
	release func()
}

// Read implements net.Conn and records that a request begins.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.begun.Store(true)
	}
	return n, err
}

// Close closes the connection and releases its slot, once.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// limitedTCP is a limitedConn over TCP. It forwards ReadFrom, so that files are sent by sendfile
// without copies in user space, and CloseWrite, by which the server ends a connection without a reset.
type limitedTCP struct {
	*limitedConn
	tcp *net.TCPConn
}

// ReadFrom implements io.ReaderFrom.
func (c *limitedTCP) ReadFrom(r io.Reader) (int64, error) { return c.tcp.ReadFrom(r) }

// CloseWrite ends the data that the client receives.
func (c *limitedTCP) CloseWrite() error { return c.tcp.CloseWrite() }
