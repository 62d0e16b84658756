package serve

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestNotARequest: a malformed HTTP/1.1 request gets one status, and the connection is closed. The bytes after it
// are not read as a request.
func TestNotARequest(t *testing.T) {
	url, _, _ := answering(t, site(t), nil)
	const at, smuggled = "/products/2026010100/a.nc", "GET /products/2026010112/b.nc HTTP/1.1\r\nHost: x\r\n\r\n" // its content is "other"
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"length and chunks":       {"GET " + at + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"two lengths":             {"GET " + at + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
		"a list of lengths":       {"GET " + at + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\n", 400},
		"a length with a sign":    {"GET " + at + " HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n", 400},
		"a body":                  {"GET " + at + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", 400},
		"chunks":                  {"GET " + at + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		"other codings":           {"GET " + at + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
		"a blank before a colon":  {"GET " + at + " HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\n", 400},
		"no host":                 {"GET " + at + " HTTP/1.1\r\n\r\n", 400},
		"two hosts":               {"GET " + at + " HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
		"a body is announced":     {"GET " + at + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", 400},
		"a whole address":         {"GET http://x" + at + " HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"another's whole address": {"GET http://rebound.example.com" + at + " HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"TRACE":                   {"TRACE / HTTP/1.1\r\nHost: x\r\nCookie: secret\r\n\r\n", 405},
		"CONNECT":                 {"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", 405},
		"OPTIONS *":               {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 405},
		"HTTP/2 at once":          {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 405},
		"HTTP/2":                  {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
		"HTTP/3":                  {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505},
	} {
		p := from(t, "127.0.0.1", url)
		p.send(c.text + smuggled)
		r, body, err := p.answer()
		if err != nil || r.StatusCode != c.status || !r.Close || strings.Contains(body, "secret") {
			t.Errorf("%s: %v %q %v, want %d and an end", name, r, body, err, c.status)
			continue
		}
		if more, err := io.ReadAll(p.r); len(more) > 0 {
			t.Errorf("%s: another answer %q, %v", name, more, err)
		}
	}
}

// TestPipelined: pipelined requests are answered in order. A request of HTTP/1.0 is the last, and a request to
// upgrade the protocol is ignored.
func TestPipelined(t *testing.T) {
	url, _, _ := answering(t, site(t), nil)
	p := from(t, "127.0.0.1", url)
	const n = 50
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "GET /products/2026010100/a.nc HTTP/1.1\r\nHost: x\r\nRange: bytes=%d-%d\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n", i%10, i%10)
	}
	text.WriteString("GET /products/2026010112/b.nc HTTP/1.0\r\n\r\n" + healthy)
	p.send(text.String())
	for i := range n {
		if r, body, err := p.answer(); err != nil || r.StatusCode != http.StatusPartialContent || body != fmt.Sprint(i%10) {
			t.Fatalf("answer %d: %v %q %v", i, r, body, err)
		}
	}
	if r, body, err := p.answer(); err != nil || r.StatusCode != 200 || body != "other" || !r.Close {
		t.Errorf("HTTP/1.0: %v %q %v", r, body, err)
	}
	if more, err := io.ReadAll(p.r); len(more) > 0 {
		t.Errorf("after HTTP/1.0: %q, %v", more, err)
	}
}

// TestManyRanges: many ranges cost no more than the whole file: overlapping ones that are longer in total than the
// file are rejected.
func TestManyRanges(t *testing.T) {
	url, _, _ := answering(t, site(t), nil)
	at := url + "/products/2026010100/a.nc"
	for _, c := range []struct {
		ranges string
		status int
		body   string
	}{
		{"bytes=" + strings.Repeat("0-,", maxRanges-1) + "0-", 200, "0123456789"},
		{"bytes=" + strings.Repeat("0-,", maxRanges) + "0-", 416, "*"},
		{"bytes=0-18446744073709551615", 416, "*"},
		{"bytes=9223372036854775807-", 416, "*"},
		{"bytes=0-9223372036854775807", 206, "0123456789"},
		{"bytes=-9223372036854775807", 206, "0123456789"},
		{"bytes=--1", 416, "*"},
		{"bytes=0--1", 416, "*"},
		{"bytes=" + strings.Repeat(" ", 4000) + "1-2", 206, "12"},
	} {
		resp, body := ask(t, "GET", at, "Range", c.ranges)
		if resp.StatusCode != c.status || c.body != "*" && body != c.body {
			t.Errorf("%.60s: %s %q, want %d %q", c.ranges, resp.Status, body, c.status, c.body)
		}
	}
}
