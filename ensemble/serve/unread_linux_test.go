package serve

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// A connection is not closed for another one, nor at the end of the service, while a request lies unread in its socket.
func TestUnreadRequestIsNoSilence(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var why []string
	r := newConnLimiter(1, 0, func(reason string) { why = append(why, reason) })
	r.grace = time.Nanosecond
	closed := make(chan bool, 1)
	c := &limitedConn{Conn: server, release: func() { closed <- true }}
	r.connState(c, http.StateNew)
	if _, err := client.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	closeSilent := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.closeSilent(anyConn)
	}
	r.silent[c] = silence{time.Now().Add(-time.Hour), false}
	r.closeIdle(time.Now().Add(-time.Hour))
	if closeSilent() || len(r.silent) == 0 || len(why) > 0 {
		t.Fatalf("closed with an unread request: %v", why)
	}
	if _, err := c.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if !closeSilent() || len(why) != 1 || why[0] != rejectedHeader { // the header is not complete
		t.Errorf("not closed without an unread request: %v", why)
	}
	<-closed
}
