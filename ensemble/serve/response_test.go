package serve

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// dial opens a connection to a service.
func dial(t testing.TB, url string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestHeadersAreBounded: headers that are too long or never end.
func TestHeadersAreBounded(t *testing.T) {
	url, _, _ := answering(t, site(t), nil)
	c := dial(t, url)
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nA: %s\r\n\r\n", strings.Repeat("a", 4*maxHeader)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); !bytes.HasPrefix(got, []byte("HTTP/1.1 431 ")) {
		t.Errorf("%v: %.60q", err, got)
	}
}

// TestRate: the rate limit holds for all readers together and does not change the bytes.
func TestRate(t *testing.T) {
	root := t.TempDir()
	const size, perSecond = 1 << 20, 1 << 20
	text := strings.Repeat("0123456789abcdef", size/16)
	publish(t, root, "2026010100", map[string]string{"a.nc": text})
	url, _, _ := answering(t, root, func(o *Options) { o.Service.RateLimit = config.Bytes(perSecond) })
	begun := time.Now()
	done := make(chan string)
	for range 2 {
		go func() {
			_, body := ask(t, "GET", url+"/products/2026010100/a.nc")
			done <- body
		}()
	}
	for range 2 {
		if body := <-done; body != text {
			t.Errorf("%d bytes were received, or their content differs", len(body))
		}
	}
	if d := time.Since(begun); d < 900*time.Millisecond { // the first second's bytes are sent at once
		t.Errorf("%d bytes in %s, at %d a second", 2*size, d, perSecond)
	}
}

// FuzzRequest sends arbitrary text as a request: every response is valid, and none contains the secret.
func FuzzRequest(f *testing.F) {
	for _, path := range []string{"/", "/?init=2026010112&variable=t-850hPa&lead=48h&show=mean&lat=1&lon=2&map0-640.x=3", "/scores-2.html", "/products/", "/products/2026010100/a.nc", "/products/2026010100/l.nc", "/products/../../outside", "/products/2026010300/..%2f..%2foutside", "/metrics?x=%zz", "*", "http://h/products/", "//h/", "/status",
		"/products/latest/b.nc", "/edr/collections/mean/position?coords=POINT(0%200)", "/edr/collections/mean/instances", "/stac/products/2026010100.json"} {
		f.Add("GET " + path + " HTTP/1.1\r\nHost: h\r\nRange: bytes=0-3, -2\r\nIf-None-Match: *\r\n\r\n")
	}
	f.Add("GET / HTTP/1.1\r\nHost: rebound.example.com:8642\r\n\r\n")
	f.Add("HEAD /products/2026010600/outside HTTP/1.0\r\n\r\n")
	f.Add("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	root := site(f)
	s := newState(Options{Predict: predict.Options{Out: root}, Service: config.Service{AllowedHosts: []string{"h"}}})
	h := newHandler(s, quiet)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			t.Skip()
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(deadlined{w}, r.WithContext(context.Background()))
		if name := strings.TrimSuffix(strings.ToLower(r.Host), ":8642"); strings.HasSuffix(name, "example.com") && w.Code < 400 {
			t.Errorf("%q is for another host: %d", text, w.Code)
		}
		if w.Code < 200 || w.Code == 500 || strings.Contains(w.Body.String(), secret) {
			t.Errorf("%q: %d %q", text, w.Code, w.Body)
		}
		if r.Method != "GET" && r.Method != "HEAD" && w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%q: %d", text, w.Code)
		}
	})
}

// deadlined is a recorder that supports deadlines.
type deadlined struct{ *httptest.ResponseRecorder }

func (deadlined) SetWriteDeadline(time.Time) error { return nil }

// TestListen: the socket of a killed service is replaced; a socket in use and a regular file are not.
func TestListen(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen("unix:" + path); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "in use by another program") {
		t.Errorf("a socket that answers: %v", err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	again, err := listen("unix:" + path)
	if err != nil || !isLocal(again.Addr()) {
		t.Fatalf("the socket of a killed service: %v", err)
	}
	again.Close()
	put(t, path, "a file")
	if _, err := listen("unix:" + path); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("a file: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "a file" {
		t.Errorf("the file is %q, %v", text, err)
	}
	tcp, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	if _, err := listen(tcp.Addr().String()); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("an address that is taken: %v", err)
	}
	for addr, want := range map[string]bool{"127.0.0.1": true, "::1": true, "0.0.0.0": false, "10.0.0.1": false, "::": false} {
		if got := isLocal(&net.TCPAddr{IP: net.ParseIP(addr)}); got != want {
			t.Errorf("%s accepts local connections only: %v", addr, got)
		}
	}
}

// TestNotify checks the messages to systemd and the watchdog interval that it requests.
func TestNotify(t *testing.T) {
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{filepath.Join(dir, "n"), "@ensemble-test-" + filepath.Base(dir)} {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", name)
		notify("READY=1\nSTATUS=x")
		b := make([]byte, 100)
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(b)
		if err != nil || string(b[:n]) != "READY=1\nSTATUS=x" {
			t.Errorf("%s: %q, %v", name, b[:n], err)
		}
		c.Close()
	}
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{{"30000000", "", 30 * time.Second}, {"30000000", fmt.Sprint(os.Getpid()), 30 * time.Second}, {"30000000", "1", 0}, {"", "", 0}, {"x", "", 0}, {"-1", "", 0}} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		if got := watchdogInterval(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	t.Setenv("WATCHDOG_USEC", "30000")
	t.Setenv("WATCHDOG_PID", "")
	name := filepath.Join(dir, "w")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	s := newState(Options{})
	stop := watchdog(t.Context(), s)
	b := make([]byte, 100)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "WATCHDOG=1" {
		t.Errorf("%q, %v", b[:n], err)
	}
	stop()
	s.lastProgress.Store(new(time.Now().Add(-2 * maxStall))) // a service that is stuck sends no watchdog message
	stop = watchdog(t.Context(), s)
	notify("all messages before")
	for n := 0; !strings.HasPrefix(string(b[:n]), "all"); {
		if n, err = c.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(b); err == nil {
		t.Errorf("a stuck service sent %q", b[:n])
	}
	stop()
}

// TestReady: ready requires a model and, if configured, a recent init.
func TestReady(t *testing.T) {
	root := t.TempDir()
	url, s, _ := answering(t, root, func(o *Options) { o.Service.ReadyMaxAge = 24 * time.Hour })
	want := func(status int, words string) {
		t.Helper()
		if resp, body := ask(t, "GET", url+"/readyz"); resp.StatusCode != status || !strings.Contains(body, words) {
			t.Errorf("%s %q, want %d %q", resp.Status, body, status, words)
		}
	}
	want(503, "the model is not ready")
	s.change(func() { s.model = &predict.ModelDescription{} })
	want(503, "there are no products")
	publish(t, root, "2026010100", map[string]string{"a.nc": "a"})
	want(503, "old, more than 24h")
	publish(t, root, time.Now().UTC().Format("2006010215"), map[string]string{"a.nc": "a"})
	want(200, "ok")
	if resp, body := ask(t, "GET", url+"/healthz"); resp.StatusCode != 200 || body != "ok\n" {
		t.Errorf("%s %q", resp.Status, body)
	}
	s.lastProgress.Store(new(time.Now().Add(-2 * maxStall)))
	if resp, _ := ask(t, "GET", url+"/healthz"); resp.StatusCode != 503 {
		t.Errorf("stuck: %s", resp.Status)
	}
}
