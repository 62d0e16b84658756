package serve

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHosts: a page of another site whose name resolves to this machine cannot read anything here.
func TestHosts(t *testing.T) {
	url, s, _ := answering(t, site(t), func(o *Options) { o.Service.AllowedHosts = []string{"Forecast.example.org"} })
	for _, c := range []struct {
		host   string
		status int
	}{
		{"127.0.0.1", 200}, {"127.0.0.1:8642", 200}, {"[::1]:8642", 200}, {"::1", 200}, {"10.0.0.7:80", 200}, // IP addresses are always allowed
		{"localhost", 200}, {"LocalHost:1", 200}, {"localhost.", 200}, {"a.localhost:8642", 200},
		{hostname(), 200}, {hostname() + ":8642", 200},
		{"forecast.example.org", 200}, {"FORECAST.example.org.:443", 200},
		{"rebound.example.com", 421}, {"rebound.example.com:8642", 421}, {"127.0.0.1.nip.io", 421}, {"x.forecast.example.org", 421}, {"forecast.example.org.x", 421},
		{"notlocalhost", 421}, {"localhost.example.com", 421}, {"127.1", 421}, {"0x7f000001", 421}, {"[", 421}, {":8642", 421}, {"*", 421}, {"127.0.0.1@x.org", 400},
	} {
		for _, path := range []string{"/healthz", "/", "/products/2026010100/a.nc"} {
			p := from(t, "127.0.0.1", url)
			p.send(fmt.Sprintf("HEAD %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, c.host))
			if r, err := http.ReadResponse(p.r, &http.Request{Method: "HEAD"}); err != nil || r.StatusCode != c.status {
				t.Errorf("%q %s: %v %v, want %d", c.host, path, r, err, c.status)
			}
		}
	}
	p := from(t, "127.0.0.1", url)
	p.send("GET /healthz HTTP/1.1\r\nHost: rebound.example.com\r\n\r\n")
	if r, body, err := p.answer(); err != nil || r.StatusCode != 421 || !strings.Contains(body, "serve.allowed_hosts") || !r.Close {
		t.Errorf("%v %q %v", r, body, err)
	}
	if _, body := ask(t, "GET", url+"/metrics"); !strings.Contains(body, `ensemble_http_rejected_total{reason="host"} 37`+"\n") { // the 12 above on three paths, and this one
		t.Errorf("%s", body)
	}
	p = from(t, "127.0.0.1", url)
	p.send("GET /healthz HTTP/1.0\r\n\r\n")
	if r, body, err := p.answer(); err != nil || r.StatusCode != 200 || body != "ok\n" || !r.Close {
		t.Errorf("HTTP/1.0 without a host: %v %q %v", r, body, err)
	}

	// A reloaded configuration applies at once; * allows any name.
	s.change(func() { s.options.Service.AllowedHosts = []string{"*"} })
	p = from(t, "127.0.0.1", url)
	p.send("GET /healthz HTTP/1.1\r\nHost: rebound.example.com\r\n\r\n")
	p.expectOK()
}

// TestHostsOfSocket: host names are not checked on a Unix socket, which browsers cannot use.
func TestHostsOfSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := listen("unix:" + filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := newState(Options{})
	s.limiter = newConnLimiter(8, 1, func(string) { t.Error("a connection to a socket was rejected") })
	server := newHandler(s, quiet).server()
	ended := make(chan error)
	go func() { ended <- server.Serve(s.limiter.limit(l)) }()
	t.Cleanup(func() { s.limiter.close(); server.Close(); <-ended })
	for range 3 {
		c, err := net.Dial("unix", filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: any.example.com\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		if n, err := c.Read(b); err != nil || !strings.HasPrefix(string(b[:n]), "HTTP/1.1 200 ") {
			t.Errorf("%q %v", b[:n], err)
		}
	}
}
