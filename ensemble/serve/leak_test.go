package serve

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/testfiles"
)

// TestServiceLeaksNothing: after requests of every kind, with clients that leave in the middle of theirs, a service has
// the goroutines and descriptors that it had before.
func TestServiceLeaksNothing(t *testing.T) { checkLeaks(t, 3000) }

// leaky are requests: whole ones, refused ones, ranges, and headers that end in the middle.
var leaky = []string{
	healthy, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /products/ HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n", "GET /products/2026010100/a.nc HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /products/2026010100/a.nc HTTP/1.1\r\nHost: x\r\nRange: bytes=1-2,4-5\r\n\r\n", "GET /products/2026010100/s.zarr/t/0.0 HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /products/2026010100/missing HTTP/1.1\r\nHost: x\r\n\r\n", "GET /products/2026010100/p.nc HTTP/1.1\r\nHost: x\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /stac/catalog.json HTTP/1.1\r\nHost: x\r\n\r\n", "GET /edr/collections HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: another\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "nonsense\r\n\r\n", begun, "G", "",
}

// checkLeaks sends n requests, of which a third is not read to its end.
func checkLeaks(t *testing.T, n int64) {
	url, s, _ := answering(t, site(t), func(o *Options) { o.Service.MaxConnections = 4096 }) // the server keeps one for half a second after its end
	from(t, "127.0.0.1", url).ok()                                                           // starts what starts once
	until(t, "no connection but the first", func() bool { return s.limiter.open() <= 1 })
	goroutines, descriptors := runtime.NumGoroutine(), testfiles.Open(t)
	const clients = 16
	var sent atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 40))
			for sent.Load() < n {
				c, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), patience)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				r := bufio.NewReader(c)
				for more := true; more && sent.Add(1) <= n; {
					text := leaky[random.IntN(len(leaky))]
					_, err := io.WriteString(c, text)
					if err != nil || !strings.HasSuffix(text, "\r\n\r\n") || random.IntN(3) == 0 {
						break // leaves in the middle
					}
					a, err := http.ReadResponse(r, nil)
					if err != nil {
						t.Errorf("%.40q: %v", text, err)
						break
					}
					_, err = io.Copy(io.Discard, a.Body)
					a.Body.Close()
					more = err == nil && !a.Close
				}
				c.Close()
			}
		})
	}
	all.Wait()
	begin := time.Now()
	for runtime.NumGoroutine() > goroutines || testfiles.Open(t) > descriptors {
		if time.Sleep(20 * time.Millisecond); time.Since(begin) > patience {
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			t.Fatalf("%d goroutines, before %d; %d descriptors, before %d\n%s", runtime.NumGoroutine(), goroutines, testfiles.Open(t), descriptors, &stacks)
		}
	}
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	if len(s.limiter.silent) > 1 || len(s.limiter.peers) > 1 || s.limiter.waiting != 0 {
		t.Errorf("the limiter keeps %d silent connections, %d addresses and %d waiting connections", len(s.limiter.silent), len(s.limiter.peers), s.limiter.waiting)
	}
}
