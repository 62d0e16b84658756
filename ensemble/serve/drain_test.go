package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is the requests of many clients during the end of a service.
type load struct {
	answered, refused atomic.Int64
	mu                sync.Mutex
	lost              []string
}

func (l *load) lose(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = append(l.lost, fmt.Sprintf(format, args...))
}

// client sends requests, up to perConnection on a connection, until the service refuses connections. Every request is
// answered whole; only one that follows "Connection: close" on the same connection would not be, and none is sent.
func (l *load) client(network, address, path string, perConnection int, size int64) {
	for {
		c, err := net.DialTimeout(network, address, patience)
		if err != nil {
			l.refused.Add(1)
			return
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		r := bufio.NewReader(c)
		for range perConnection {
			if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
				l.lose("request: %v", err)
				break
			}
			a, err := http.ReadResponse(r, nil)
			if err != nil {
				l.lose("no answer: %v", err)
				break
			}
			n, err := io.Copy(io.Discard, a.Body)
			if a.Body.Close(); err != nil || a.StatusCode != 200 || n != size {
				l.lose("%s, %d bytes, %v", a.Status, n, err)
				break
			}
			l.answered.Add(1)
			if a.Close {
				break
			}
		}
		c.Close()
	}
}

// endUnderLoad ends a service after n requests of clients that keep their connections and of some that do not.
func endUnderLoad(t *testing.T, network string, n int64) *load {
	t.Helper()
	root := site(t)
	o := Options{}
	o.Predict.Out, o.Service.MaxConnections, o.Service.AllowedHosts = root, 20, []string{"x"} // fewer than clients: some wait
	s := newState(o)
	server := newHandler(s, quiet).server()
	where := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "s") // paths of sockets must be short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		where = "unix:" + filepath.Join(dir, "s")
	}
	listener, err := listen(where)
	if err != nil {
		t.Fatal(err)
	}
	l := s.limiter.limit(listener)
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = server.Serve(l)
		l.ended.Store(true)
	})
	file := filepath.Join(root, "2026010100", "a.nc")
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	var all load
	var clients sync.WaitGroup
	for i := range 24 {
		clients.Go(func() {
			if i%2 == 0 {
				all.client(network, l.Addr().String(), "/healthz", []int{1, 3, 1000}[i/2%3], 3)
			} else {
				all.client(network, l.Addr().String(), "/products/2026010100/a.nc", []int{1, 5, 1000}[i/2%3], st.Size())
			}
		})
	}
	until(t, "requests", func() bool { return all.answered.Load() >= n })
	if cut := s.drain(t.Context(), server, []*limitedListener{l}); cut > 0 {
		t.Errorf("%d connections were cut", cut)
	}
	clients.Wait()
	ended.Wait()
	return &all
}

// TestEndLosesNoRequest: a service that ends under load answers every request of a connection that it let in, over TCP
// and Unix sockets; later connections are refused.
func TestEndLosesNoRequest(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			all := endUnderLoad(t, network, 500)
			if len(all.lost) > 0 {
				t.Errorf("%d of %d requests were lost: %.5q", len(all.lost), all.answered.Load(), all.lost)
			}
		})
	}
}
