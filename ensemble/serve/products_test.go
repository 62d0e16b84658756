package serve

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// secret is the content of files that must not be served.
const secret = "not for anybody"

// publish writes files and their manifest into a product folder in the layout of product.Publish.
func publish(t testing.TB, root, name string, files map[string]string) {
	t.Helper()
	dir := filepath.Join(root, name)
	var names []string
	for f, text := range files {
		put(t, filepath.Join(dir, f), text)
		names = append(names, f)
	}
	m := (&product.Publication{}).Manifest(&product.Product{Init: ensemble.InitAt(initOf(name)), Grid: &ensemble.Grid{}, Metadata: product.Metadata{Members: []ensemble.Member{0, 1}, Control: "include"}})
	var err error
	if m.Outputs, err = manifest.SumBelow(dir, names); err != nil {
		t.Fatal(err)
	}
	if err := manifest.Write(dir, m); err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// site is a product folder with files that must not be served in it and beside it.
func site(t testing.TB) string {
	t.Helper()
	top := t.TempDir()
	root := filepath.Join(top, "products")
	publish(t, root, "2026010100", map[string]string{"a.nc": "0123456789", "s.zarr/t/0.0": "chunk", "s.zarr/.zattrs": "{}", "l.nc": strings.Repeat("x", len(secret)), "p.nc": "", "d.nc": "", "short.nc": "whole"})
	publish(t, root, "2026010112", map[string]string{"b.nc": "other"})
	c := filepath.Join(root, "2026010100")
	put(t, filepath.Join(c, "unlisted.nc"), secret)
	put(t, filepath.Join(c, "s.zarr/unlisted"), secret)
	put(t, filepath.Join(c, "short.nc"), "cut")
	put(t, filepath.Join(top, "outside"), secret)
	put(t, filepath.Join(root, ".serve/state"), secret)
	put(t, filepath.Join(root, "reference/model.json"), secret)
	put(t, filepath.Join(root, "2026010200/c.nc"), secret) // without a manifest
	put(t, filepath.Join(root, "2026010300/manifest.json"), `{"schema":"ensemble.product/1","outputs":[{"path":"../../outside"}]}`)
	put(t, filepath.Join(root, ".2026010400.partial-1/manifest.json"), secret)
	for name, to := range map[string]string{"2026010100/l.nc": "../../outside", "2026010500": "2026010100", "2026010600": "../.."} {
		path := filepath.Join(root, name)
		os.Remove(path)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	for name, make := range map[string]func(string) error{"p.nc": func(p string) error { return syscall.Mkfifo(p, 0o644) }, "d.nc": func(p string) error { return os.Mkdir(p, 0o755) }} {
		os.Remove(filepath.Join(c, name))
		if err := make(filepath.Join(c, name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// answering is a service of a product folder that issues nothing.
func answering(t testing.TB, root string, change func(o *Options)) (url string, s *state, log *lockedBuffer) {
	t.Helper()
	o := Options{Predict: predict.Options{Out: root}, Service: config.Service{MaxConnections: 64, AllowedHosts: []string{"x"}}}
	if change != nil {
		change(&o)
	}
	s = newState(o)
	log = &lockedBuffer{}
	server := newHandler(s, slog.New(slog.NewJSONHandler(log, nil))).server()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.limiter.limit(l)) }()
	t.Cleanup(func() {
		s.limiter.close()
		server.Close()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Errorf("timeout after %s: the service has not ended", patience)
		}
	})
	return "http://" + l.Addr().String(), s, log
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// ask sends one request.
func ask(t testing.TB, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestOnlyProducts: only files listed in a finished manifest are served, even if links or pipes replace them.
func TestOnlyProducts(t *testing.T) {
	url, _, _ := answering(t, site(t), nil)
	for _, c := range []struct {
		path   string
		status int
	}{
		{"/products/2026010100/a.nc", 200},
		{"/products/2026010100/s.zarr/t/0.0", 200},
		{"/products/2026010100/s.zarr/.zattrs", 200},
		{"/products/2026010100/manifest.json", 200},
		{"/products/2026010100/SHA256SUMS", 200},
		{"/products/2026010100/unlisted.nc", 404},
		{"/products/2026010100/s.zarr/unlisted", 404},
		{"/products/2026010100/s.zarr/t", 404},
		{"/products/2026010100/s.zarr", 404},
		{"/products/2026010100/a.nc/", 404},
		{"/products/2026010100/a.nc/b", 404},
		{"/products/2026010100/l.nc", 404},     // a link to a file outside, with the size in the manifest
		{"/products/2026010100/p.nc", 404},     // a pipe: it must not block
		{"/products/2026010100/d.nc", 404},     // a folder
		{"/products/2026010100/short.nc", 404}, // size differs from the manifest
		{"/products/2026010200/c.nc", 404},
		{"/products/2026010200/", 404},
		{"/products/2026010300/", 404},
		{"/products/2026010300/../../outside", 400},
		{"/products/.2026010400.partial-1/manifest.json", 404},
		{"/products/2026010500/a.nc", 404}, // a link to another init
		{"/products/2026010600/outside", 404},
		{"/products/.serve/state", 404},
		{"/products/reference/model.json", 404},
		{"/products/%2e%2e/outside", 400},
		{"/products/2026010100%2fa.nc", 400},
		{"/products/2026010100/..%2f..%2foutside", 400},
		{"/products/2026010100/%5c..%5coutside", 400},
		{"/products/2026010100/a.nc%00.txt", 400},
		{"/products//2026010100/a.nc", 400},
		{"//etc/passwd", 400},
		{"/./metrics", 400},
		{"/nothing", 404},
		{"/products/" + strings.Repeat("1", maxURL), 414},
		{"/products", 308},
		{"/products/2026010100", 308},
	} {
		status, body := rawGet(t, url, c.path)
		if status != c.status || strings.Contains(body, secret) {
			t.Errorf("%s: %d %q, want %d", c.path, status, body, c.status)
		}
	}
	var list InitList
	if _, body := ask(t, "GET", url+"/products/"); json.Unmarshal([]byte(body), &list) != nil || len(list.Inits) != 2 || list.Inits[0].Name != "2026010112" || list.Inits[1].Used != 2 {
		t.Errorf("the list is %s", body)
	}
	if _, body := ask(t, "GET", url+"/products/?before=2026010112"); json.Unmarshal([]byte(body), &list) != nil || len(list.Inits) != 1 || list.Inits[0].Name != "2026010100" {
		t.Errorf("the list before the last is %s", body)
	}
}

// rawGet sends a path without escaping it.
func rawGet(t testing.TB, url, path string) (status int, body string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(c)
	if _, serr := fmt.Sscanf(string(all), "HTTP/1.1 %d", &status); serr != nil {
		t.Fatalf("%s: %v, %v: %q", path, err, serr, all)
	}
	_, body, _ = strings.Cut(string(all), "\r\n\r\n")
	return status, body
}

// TestRequests: ranges, conditions, HEAD and rejected requests conform to RFC 9110.
func TestRequests(t *testing.T) {
	url, _, _ := answering(t, site(t), nil)
	at := url + "/products/2026010100/a.nc"
	tag := `"` + sumOf("0123456789") + `"`
	for _, c := range []struct {
		method string
		header []string
		status int
		body   string
	}{
		{"GET", nil, 200, "0123456789"},
		{"HEAD", nil, 200, ""},
		{"GET", []string{"Range", "bytes=2-4"}, 206, "234"},
		{"GET", []string{"Range", "bytes=-3"}, 206, "789"},
		{"GET", []string{"Range", "bytes=8-"}, 206, "89"},
		{"GET", []string{"Range", "bytes=8-100"}, 206, "89"},
		{"GET", []string{"Range", "bytes=10-"}, 416, "*"},
		{"GET", []string{"Range", "bytes=4-2"}, 416, "*"},
		{"GET", []string{"Range", "lines=1-2"}, 416, "*"},
		{"GET", []string{"Range", "bytes=0-0" + strings.Repeat(",0-0", maxRanges)}, 416, "*"},
		{"GET", []string{"If-None-Match", tag}, 304, ""},
		{"GET", []string{"If-None-Match", `"x", ` + tag}, 304, ""},
		{"GET", []string{"If-None-Match", `"x"`}, 200, "0123456789"},
		{"GET", []string{"If-Match", `"x"`}, 412, "*"},
		{"GET", []string{"If-Range", tag, "Range", "bytes=0-1"}, 206, "01"},
		{"GET", []string{"If-Range", `"x"`, "Range", "bytes=0-1"}, 200, "0123456789"},
		{"GET", []string{"If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"}, 304, ""},
		{"POST", nil, 405, "*"},
		{"PUT", nil, 405, "*"},
		{"DELETE", nil, 405, "*"},
		{"OPTIONS", nil, 405, "*"},
		{"PROPFIND", nil, 405, "*"},
	} {
		resp, body := ask(t, c.method, at, c.header...)
		if resp.StatusCode != c.status || c.body != "*" && body != c.body {
			t.Errorf("%s %q: %s %q, want %d %q", c.method, c.header, resp.Status, body, c.status, c.body)
		}
		if c.status < 400 && resp.Header.Get("ETag") != tag {
			t.Errorf("%s %q: ETag %s", c.method, c.header, resp.Header.Get("ETag"))
		}
		if resp.Header.Get("Content-Security-Policy") != contentSecurityPolicy || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %q: headers %v", c.method, c.header, resp.Header)
		}
		if c.status == 405 && resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow is %q", c.method, resp.Header.Get("Allow"))
		}
		if c.status == 200 && (resp.ContentLength != 10 || resp.Header.Get("Last-Modified") == "") {
			t.Errorf("%s: length %d, Last-Modified %q", c.method, resp.ContentLength, resp.Header.Get("Last-Modified"))
		}
	}
	resp, body := ask(t, "GET", at, "Range", "bytes=0-1,4-5")
	if parts := partsOf(t, resp, body); resp.StatusCode != 206 || !slices.Equal(parts, []string{"01", "45"}) {
		t.Errorf("two ranges: %s %v %q", resp.Status, resp.Header, parts)
	}
	r, err := http.NewRequest("GET", at, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err = http.DefaultTransport.RoundTrip(r); err != nil || resp.StatusCode != 400 {
		t.Errorf("a body: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

// partsOf returns the ranges of a multipart response.
func partsOf(t *testing.T, resp *http.Response, body string) (parts []string) {
	t.Helper()
	kind, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/byteranges" {
		t.Fatalf("several ranges come as %q: %v", kind, err)
	}
	r := multipart.NewReader(strings.NewReader(body), params["boundary"])
	for {
		p, err := r.NextPart()
		if err == io.EOF {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, string(b))
	}
}

// TestReplacedWhileRead: while a file is replaced a reader gets one version of it or none, never bytes of one with
// the checksum of another.
func TestReplacedWhileRead(t *testing.T) {
	root := t.TempDir()
	version := func(n int) string { return strings.Repeat(fmt.Sprintf("%07d\n", n), 1000+n%7) }
	publish(t, root, "2026010100", map[string]string{"a.nc": version(0)})
	url, _, _ := answering(t, root, nil)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { // like product.putInPlace
		for n := 1; ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			next := t.TempDir()
			publish(t, next, "2026010100", map[string]string{"a.nc": version(n)})
			dir := filepath.Join(root, "2026010100")
			err := os.Remove(filepath.Join(dir, manifest.Name))
			for _, f := range []string{"a.nc", manifest.SumsName, manifest.Name} {
				err = errors.Join(err, os.Rename(filepath.Join(next, "2026010100", f), filepath.Join(dir, f)))
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	seen := map[string]bool{}
	for begun := time.Now(); time.Since(begun) < time.Second || len(seen) < 5 && time.Since(begun) < patience; {
		resp, body := ask(t, "GET", url+"/products/2026010100/a.nc")
		switch {
		case resp.StatusCode == 404:
		case resp.StatusCode != 200 || resp.Header.Get("ETag") != `"`+sumOf(body)+`"`:
			t.Fatalf("%s, ETag %s, sum of the body %s", resp.Status, resp.Header.Get("ETag"), sumOf(body))
		default:
			seen[body] = true
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(seen) < 5 {
		t.Errorf("saw %d versions: the test has no effect", len(seen))
	}
}

// Queries and headers may hold secrets.
func TestAccessLog(t *testing.T) {
	url, _, log := answering(t, site(t), nil)
	ask(t, "GET", url+"/products/2026010100/a.nc?token=pa55w0rd", "Authorization", "Bearer pa55w0rd", "Cookie", "s=pa55w0rd", "User-Agent", "pa55w0rd", "Referer", "http://h/?pa55w0rd")
	var line struct {
		Msg, Path, Method string
		Status, Bytes     int
	}
	for until := time.Now().Add(patience); log.String() == "" && time.Now().Before(until); time.Sleep(time.Millisecond) {
	}
	if err := json.Unmarshal([]byte(log.String()), &line); err != nil || line.Msg != "request" || line.Path != "/products/2026010100/a.nc" || line.Status != 200 || line.Bytes != 10 || line.Method != "GET" {
		t.Errorf("%v: %s", err, log)
	}
	if strings.Contains(log.String(), "pa55w0rd") {
		t.Errorf("the log has a secret: %s", log)
	}
}

var quiet = slog.New(slog.DiscardHandler)
