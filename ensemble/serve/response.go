package serve

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Limits of requests and responses.
const (
	maxHeader     = 8 << 10
	maxURL        = 4 << 10 // areas of queries
	maxRanges     = 16
	headerTimeout = 5 * time.Second  // to receive the request header
	idleTimeout   = time.Minute      // between two requests of a connection
	chunkTimeout  = 30 * time.Second // to send one chunk of a response
	chunkSize     = 256 << 10
)

// listen listens on an address with port, or on a Unix socket after the prefix unix:. The socket of
// a service that no longer runs is replaced.
//
// Errors: exit 73.
func listen(where string) (net.Listener, error) {
	path, isSocket := strings.CutPrefix(where, "unix:")
	if !isSocket {
		var single net.ListenConfig
		single.SetMultipathTCP(false) // its sockets have no filters (refuseNew)
		l, err := single.Listen(context.Background(), "tcp", where)
		return l, cannotListen(where, err)
	}
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		// A killed service leaves its socket file; connections to it are refused.
		if st, serr := filesystem.Lstat(path); serr == nil && st.Mode().Type() == fs.ModeSocket {
			if c, derr := net.DialTimeout("unix", path, time.Second); derr == nil {
				c.Close()
			} else if errors.Is(derr, syscall.ECONNREFUSED) && filesystem.Remove(path) == nil {
				l, err = net.Listen("unix", path)
			}
		}
	}
	return l, cannotListen(where, err)
}

// cannotListen is the error of listen, nil for nil.
func cannotListen(where string, err error) error {
	if err == nil {
		return nil
	}
	e := &exit.Error{Code: exit.CannotWrite, What: "cannot listen", At: where, Why: err.Error(), Fix: "choose another address with --listen", Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		e.Why, e.Fix = "the address is in use by another program", "stop it, or choose another address with --listen"
	}
	return e
}

// isLocal reports whether an address is reachable only from this machine.
func isLocal(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return !ok || t.IP.IsLoopback()
}

// response is an http.ResponseWriter that counts bytes, applies a rate limit, and aborts slow
// clients: each chunk must be sent within chunkTimeout.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	rate    *rate.Limiter // nil: no limit
	request *http.Request
	whole   bool // ranges are not served
	status  int
	bytes   int64
}

// WriteHeader implements http.ResponseWriter and records the status.
func (a *response) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	if a.whole { // http.ServeContent states that ranges are served
		a.Header().Set("Accept-Ranges", "none")
	}
	a.ResponseWriter.WriteHeader(status)
}

// waitForRate waits until the rate limit allows n bytes, and sets their write deadline.
func (a *response) waitForRate(n int) error {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if a.rate != nil {
		if err := a.rate.WaitN(a.request.Context(), n); err != nil {
			return err
		}
	}
	return a.control.SetWriteDeadline(time.Now().Add(chunkTimeout))
}

// Write implements http.ResponseWriter, in chunks.
func (a *response) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), chunkSize)]
		if err := a.waitForRate(len(part)); err != nil {
			return n, err
		}
		m, err := a.ResponseWriter.Write(part)
		n, a.bytes, p = n+m, a.bytes+int64(m), p[m:]
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// ReadFrom implements io.ReaderFrom, in chunks. The connection sends files by sendfile.
func (a *response) ReadFrom(r io.Reader) (n int64, err error) {
	left := int64(-1)
	if l, ok := r.(*io.LimitedReader); ok { // the connection unwraps one LimitedReader only
		r, left = l.R, l.N
		defer func() { l.N = left }()
	}
	to, ok := a.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{a}, r)
	}
	for left != 0 {
		size := int64(chunkSize)
		if left > 0 {
			size = min(size, left)
		}
		if err := a.waitForRate(int(size)); err != nil {
			return n, err
		}
		m, err := to.ReadFrom(&io.LimitedReader{R: r, N: size})
		n, a.bytes = n+m, a.bytes+m
		if left > 0 {
			left -= m
		}
		if err != nil || m < size {
			return n, err
		}
	}
	return n, nil
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (a *response) Unwrap() http.ResponseWriter { return a.ResponseWriter }
