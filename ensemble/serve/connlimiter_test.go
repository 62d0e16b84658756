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
)

// patience is how long tests wait for what comes at once, but not on a machine that has much else to do.
const patience = 2 * time.Minute

// from opens a connection from an address of this machine, and may ask something by it.
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

// answer reads an answer with its body.
func (p *peer) answer() (*http.Response, string, error) {
	r, err := http.ReadResponse(p.r, nil)
	if err != nil {
		return nil, "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return r, string(body), err
}

// ok asks whether the service lives, and wants it to.
func (p *peer) ok() {
	p.Helper()
	p.send(healthy)
	p.wants()
}

func (p *peer) wants() {
	p.Helper()
	if r, body, err := p.answer(); err != nil || r.StatusCode != 200 || body != "ok\n" {
		p.Fatalf("%v %q, %v", r, body, err)
	}
}

const (
	healthy = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	begun   = "GET /healthz HTTP/1.1\r\nHost: x\r\n" // a header that does not end
)

// turnedAway is how many there were for a reason.
func turnedAway(s *state, why string) int {
	c := s.metrics.rejected
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.values[c.key([]string{why})])
}

// until waits for what becomes so.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %s: %s", patience, what)
		}
	}
}

// No more connections than there is room for are served; one that ends makes room.
func TestConnectionsAreBounded(t *testing.T) {
	url, s, _ := answering(t, site(t), func(o *Options) { o.Service.MaxConnections = 2 })
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
	c.wants()
}

// A connection between two requests makes room for another, the one that is idle for longest first.
func TestIdleMakesRoom(t *testing.T) {
	url, s, _ := answering(t, site(t), func(o *Options) { o.Service.MaxConnections = 2 })
	idle := func(n int) func() bool {
		return func() bool {
			s.limiter.mu.Lock()
			defer s.limiter.mu.Unlock()
			return len(s.limiter.idle) == n
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
		t.Errorf("the one that was idle for longest: %v", err)
	}
	b.ok()
	until(t, "two idle connections", idle(2))
	if got := turnedAway(s, rejectedIdle); got != 1 {
		t.Errorf("%d connections made room, want 1", got)
	}

	// Where none is idle, the first that becomes so does.
	url, s, _ = answering(t, site(t), func(o *Options) { o.Service.MaxConnections = 1 })
	a, b = from(t, "127.0.0.1", url), from(t, "127.0.0.1", url)
	a.send(begun)
	b.send(healthy)
	until(t, "one that waits", func() bool {
		s.limiter.mu.Lock()
		defer s.limiter.mu.Unlock()
		return s.limiter.waiting > 0
	})
	a.send("\r\n")
	a.wants()
	b.wants()
}

// Three hundred connections of one address that never end their requests take no more than its
// share: another address is answered at once. Without a bound of each address it is not.
func TestOneAddressStarvesNoOther(t *testing.T) {
	const each, many = 64, 300
	url, s, _ := answering(t, site(t), func(o *Options) { o.Service.MaxConnections, o.Service.MaxConnectionsPerAddress = 2*each, each })
	for range many {
		c := from(t, "127.0.0.1", url)
		if _, err := io.WriteString(c.Conn, begun); err != nil { // who is refused may find out so
			continue
		}
	}
	until(t, "all came", func() bool { return turnedAway(s, rejectedAddress) >= many-each })
	for range 20 {
		from(t, "127.0.0.2", url).ok()
	}
	c := from(t, "127.0.0.1", url)
	r, body, err := c.answer()
	if turnedAway(s, rejectedAddress) == many-each { // none of them was given up meanwhile
		t.Errorf("one more of the first: %v %q %v", r, body, err)
	}
	if err != nil || r.StatusCode != 429 || !strings.Contains(body, "one address") || r.Header.Get("Retry-After") == "" {
		t.Errorf("it is told %v %q %v", r, body, err)
	}

	url, s, _ = answering(t, site(t), func(o *Options) { o.Service.MaxConnections = 8 })
	for range 9 {
		from(t, "127.0.0.1", url).send(begun)
	}
	until(t, "no room", func() bool { return s.limiter.open() == 8 })
	starved := from(t, "127.0.0.2", url)
	starved.send(healthy)
	starved.within(100 * time.Millisecond)
	if r, _, err := starved.answer(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a bound another address is answered: %v %v", r, err)
	}
}

// Addresses of one network of IPv6 are one, those of IPv4 in IPv6 are those of IPv4.
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
