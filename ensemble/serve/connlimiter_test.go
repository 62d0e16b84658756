package serve

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// patience is the timeout for fast events; it allows for a busy machine.
const patience = 2 * time.Minute

// from opens a connection from a local address.
func from(t testing.TB, ip, url string) *peer {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	p := &peer{t, c, bufio.NewReader(c)}
	p.within(patience)
	return p
}

type peer struct {
	testing.TB
	net.Conn
	r *bufio.Reader
}

func (p *peer) within(d time.Duration) {
	p.Helper()
	if err := p.SetDeadline(time.Now().Add(d)); err != nil {
		p.Fatal(err)
	}
}

func (p *peer) send(text string) {
	p.Helper()
	if _, err := io.WriteString(p.Conn, text); err != nil {
		p.Fatal(err)
	}
}

// answer reads a response with its body.
func (p *peer) answer() (*http.Response, string, error) {
	r, err := http.ReadResponse(p.r, nil)
	if err != nil {
		return nil, "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return r, string(body), err
}

// ok requests /healthz and expects success.
func (p *peer) ok() {
	p.Helper()
	p.send(healthy)
	p.expectOK()
}

func (p *peer) expectOK() {
	p.Helper()
	if r, body, err := p.answer(); err != nil || r.StatusCode != 200 || body != "ok\n" {
		p.Fatalf("%v %q, %v", r, body, err)
	}
}

const (
	healthy = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	begun   = "GET /healthz HTTP/1.1\r\nHost: x\r\n" // a header that does not end
)

// rejections returns the number of connections rejected for a reason.
func rejections(s *state, why string) int {
	c := s.metrics.rejected
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.values[c.key([]string{why})])
}

// allowSilence sets the time for the next request header while others need its connection.
func allowSilence(s *state, d time.Duration) {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.limiter.grace = d
}

// until waits until a condition holds.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout after %s: %s", patience, what)
		}
	}
}

// TestConnectionsAreBounded: the number of connections is limited; one that ends makes room for the next.
func TestConnectionsAreBounded(t *testing.T) {
	url, s, _ := answering(t, site(t), func(o *Options) { o.Service.MaxConnections = 2 })
	allowSilence(s, time.Hour)
	a, b, c := from(t, "127.0.0.1", url), from(t, "127.0.0.1", url), from(t, "127.0.0.1", url)
	a.send(begun)
	b.send(begun)
	until(t, "two connections", func() bool { return s.limiter.open() == 2 })
	c.send(healthy)
	c.within(100 * time.Millisecond)
	if r, _, err := c.answer(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a third connection is answered: %v %v", r, err)
	}
	a.Close()
	c.within(patience)
	c.expectOK()
}

// TestIdleMakesRoom: an idle connection between two requests is closed to make room for another, the longest idle
// one first.
func TestIdleMakesRoom(t *testing.T) {
	url, s, _ := answering(t, site(t), func(o *Options) { o.Service.MaxConnections = 2 })
	idle := func(n int) func() bool {
		return func() bool {
			s.limiter.mu.Lock()
			defer s.limiter.mu.Unlock()
			idle := 0
			for c, w := range s.limiter.silent {
				if w.idle(c) {
					idle++
				}
			}
			return idle == n
		}
	}
	a, b := from(t, "127.0.0.1", url), from(t, "127.0.0.1", url)
	a.ok()
	until(t, "one idle connection", idle(1))
	b.ok()
	until(t, "two idle connections", idle(2))
	c := from(t, "127.0.0.1", url)
	c.ok()
	if _, err := a.r.ReadByte(); err != io.EOF {
		t.Errorf("the connection that was idle longest: %v", err)
	}
	b.ok()
	until(t, "two idle connections", idle(2))
	if got := rejections(s, rejectedIdle); got != 1 {
		t.Errorf("%d connections made room, want 1", got)
	}

	// If no connection is idle, the first that becomes idle is closed.
	url, s, _ = answering(t, site(t), func(o *Options) { o.Service.MaxConnections = 1 })
	allowSilence(s, time.Hour)
	a, b = from(t, "127.0.0.1", url), from(t, "127.0.0.1", url)
	a.send(begun)
	b.send(healthy)
	until(t, "a waiting connection", func() bool {
		s.limiter.mu.Lock()
		defer s.limiter.mu.Unlock()
		return s.limiter.waiting > 0
	})
	a.send("\r\n")
	a.expectOK()
	b.expectOK()
}

// TestOneAddressStarvesNoOther: three hundred connections of one address that never finish their requests use only
// the share of this address, and other addresses are served at once. Without a limit per address they are not.
func TestOneAddressStarvesNoOther(t *testing.T) {
	const each, many = 64, 300
	url, s, _ := answering(t, site(t), func(o *Options) { o.Service.MaxConnections, o.Service.MaxConnectionsPerAddress = 2*each, each })
	allowSilence(s, time.Hour)
	for range many {
		c := from(t, "127.0.0.1", url)
		if _, err := io.WriteString(c.Conn, begun); err != nil { // a rejected connection may fail here
			continue
		}
	}
	until(t, "all connections", func() bool { return rejections(s, rejectedAddress) >= many-each })
	for range 20 {
		from(t, "127.0.0.2", url).ok()
	}
	c := from(t, "127.0.0.1", url)
	r, body, err := c.answer()
	if rejections(s, rejectedAddress) == many-each { // no connection has timed out meanwhile
		t.Errorf("one more connection of the first address: %v %q %v", r, body, err)
	}
	if err != nil || r.StatusCode != 429 || !strings.Contains(body, "one address") || r.Header.Get("Retry-After") == "" {
		t.Errorf("response %v %q %v", r, body, err)
	}

	url, s, _ = answering(t, site(t), func(o *Options) { o.Service.MaxConnections = 8 })
	allowSilence(s, time.Hour)
	for range 9 {
		from(t, "127.0.0.1", url).send(begun)
	}
	until(t, "all connections in use", func() bool { return s.limiter.open() == 8 })
	starved := from(t, "127.0.0.2", url)
	starved.send(healthy)
	starved.within(100 * time.Millisecond)
	if r, _, err := starved.answer(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a limit per address another address is answered: %v %v", r, err)
	}
}

// TestHalfOpenLetOthersIn: connections whose header never ends make room for others of the same address, and for those
// of all addresses when the total is reached, before their headers time out. A request that is being answered does not.
func TestHalfOpenLetOthersIn(t *testing.T) {
	for name, limits := range map[string]config.Service{"of one address": {MaxConnections: 256, MaxConnectionsPerAddress: 64}, "in total": {MaxConnections: 64}} {
		t.Run(name, func(t *testing.T) {
			url, s, _ := answering(t, site(t), func(o *Options) {
				o.Service.MaxConnections, o.Service.MaxConnectionsPerAddress = limits.MaxConnections, limits.MaxConnectionsPerAddress
			})
			allowSilence(s, 50*time.Millisecond)
			for range 80 {
				_, _ = io.WriteString(from(t, "127.0.0.1", url).Conn, begun) // a rejected connection may fail here
			}
			honest := 0
			for end := time.Now().Add(patience); honest < 20 && time.Now().Before(end); {
				c := from(t, "127.0.0.1", url)
				c.send(healthy)
				r, body, err := c.answer()
				switch {
				case err != nil || r.StatusCode != 200 && r.StatusCode != 429:
					t.Fatalf("%v %q, %v", r, body, err)
				case r.StatusCode == 200:
					honest++
				}
			}
			if honest < 20 || rejections(s, rejectedHeader) == 0 {
				t.Errorf("%d requests got through, %d headers were given up", honest, rejections(s, rejectedHeader))
			}
		})
	}
}

// TestRejectedReadWhy: a client above its limit that has sent a request reads the status, not a reset connection.
func TestRejectedReadWhy(t *testing.T) {
	url, s, _ := answering(t, site(t), func(o *Options) { o.Service.MaxConnectionsPerAddress = 1 })
	allowSilence(s, time.Hour)
	from(t, "127.0.0.1", url).send(begun)
	until(t, "one connection", func() bool { return s.limiter.open() == 1 })
	for range 200 {
		c := from(t, "127.0.0.1", url)
		_, _ = io.WriteString(c.Conn, healthy)
		if r, body, err := c.answer(); err != nil || r.StatusCode != 429 {
			t.Fatalf("%v %q, %v", r, body, err)
		}
		c.Close()
	}
}

// TestPeer: all addresses of an IPv6 network count as one; IPv4 addresses mapped to IPv6 count as IPv4.
func TestPeer(t *testing.T) {
	for text, want := range map[string]string{"127.0.0.1": "127.0.0.1/32", "::ffff:10.1.2.3": "10.1.2.3/32", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64", "::1": "::/64"} {
		a := netip.MustParseAddr(text)
		if got := peerOf(net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 1))); got.String() != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	if got := peerOf(&net.UnixAddr{Name: "@", Net: "unix"}); got.IsValid() {
		t.Errorf("a socket is %s", got)
	}
}
