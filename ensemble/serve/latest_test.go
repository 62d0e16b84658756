package serve

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// TestLatest: /products/latest/ is the newest initialisation with products that is not in the future, by whole files.
func TestLatest(t *testing.T) {
	root := filepath.Join(t.TempDir(), "products")
	var clock fakeClock
	clock.set(t, "2026-01-02T06:00Z")
	url, _, _ := answering(t, root, func(o *Options) { o.Predict.Clock.Time = clock.now })
	if resp, body := ask(t, "GET", url+"/products/latest/"); resp.StatusCode != 404 || resp.Header.Get("Content-Location") != "" {
		t.Errorf("without products: %s %s", resp.Status, body)
	}
	for _, day := range []string{"01", "02", "03"} {
		name := "202601" + day + "00"
		publish(t, root, name, map[string]string{name + "_048h.nc": "values of " + name})
	}
	if resp, _ := ask(t, "GET", url+"/products/latest"); resp.StatusCode != 308 || resp.Header.Get("Location") != "/products/latest/" {
		t.Errorf("without a slash: %s to %s", resp.Status, resp.Header.Get("Location"))
	}
	whole := "values of 2026010200"
	for _, c := range []struct {
		file, method string
		header       []string
		status       int
		body, at     string
	}{
		{"048h.nc", "GET", nil, 200, whole, "2026010200_048h.nc"},
		{"2026010200_048h.nc", "GET", nil, 200, whole, "2026010200_048h.nc"},
		{"048h.nc", "HEAD", nil, 200, "", "2026010200_048h.nc"},
		{"048h.nc", "GET", []string{"Range", "bytes=0-5"}, 200, whole, "2026010200_048h.nc"},
		{"048h.nc", "GET", []string{"If-None-Match", `"` + sumOf(whole) + `"`}, 304, "", "2026010200_048h.nc"},
		{"048h.nc", "GET", []string{"If-None-Match", `"` + sumOf("values of 2026010100") + `"`}, 200, whole, "2026010200_048h.nc"},
		{"2026010300_048h.nc", "GET", nil, 404, "product not found\n", ""}, // in the future
		{"024h.nc", "GET", nil, 404, "product not found\n", ""},
		{"../2026010100/2026010100_048h.nc", "GET", nil, 400, "invalid URL\n", ""},
	} {
		resp, body := ask(t, c.method, url+"/products/latest/"+c.file, c.header...)
		at := ""
		if c.at != "" {
			at = "/products/2026010200/" + c.at
		}
		if resp.StatusCode != c.status || body != c.body || resp.Header.Get("Content-Location") != at {
			t.Errorf("%s %s %q: %s %q, Content-Location %q; want %d %q, %q", c.method, c.file, c.header, resp.Status, body, resp.Header.Get("Content-Location"), c.status, c.body, at)
		}
		if c.status == 200 && (resp.Header.Get("Accept-Ranges") != "none" || resp.Header.Get("Cache-Control") != "max-age=30" || resp.Header.Get("ETag") != `"`+sumOf(whole)+`"`) {
			t.Errorf("%s %s: headers %v", c.method, c.file, resp.Header)
		}
	}
	resp, body := ask(t, "GET", url+"/products/latest/")
	if resp.StatusCode != 200 || !strings.Contains(body, `"name": "2026010200"`) || resp.Header.Get("Content-Location") != "/products/2026010200/" || resp.Header.Get("Cache-Control") != "max-age=30" || resp.Header.Get("ETag") == "" {
		t.Errorf("the list: %s %v %s", resp.Status, resp.Header, body)
	}
	if again, _ := ask(t, "GET", url+"/products/latest/", "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("the list again: %s", again.Status)
	}
	clock.set(t, "2026-01-03T06:00Z")
	if resp, body := ask(t, "GET", url+"/products/latest/048h.nc", "If-None-Match", `"`+sumOf(whole)+`"`); resp.StatusCode != 200 || body != "values of 2026010300" {
		t.Errorf("a day later: %s %q", resp.Status, body)
	}
}

// crowd publishes n initialisations with one file each, twice a day.
func crowd(t *testing.T, root string, n int) {
	t.Helper()
	first := time.Date(2012, 1, 1, 0, 0, 0, 0, time.UTC)
	publish(t, root, "2012010100", map[string]string{"2012010100_048h.nc": "values"})
	text, err := os.ReadFile(filepath.Join(root, "2012010100", manifest.Name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < n; i++ {
		at := first.Add(time.Duration(i) * 12 * time.Hour)
		name := at.Format("2006010215")
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		own := bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("2012010100"), []byte(name)), []byte("2012-01-01T00:00:00Z"), []byte(at.Format(time.RFC3339)))
		if _, err := manifest.Seal(own); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, manifest.Name), own, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompressed: texts are compressed for clients that accept it, so that the list of 10,000 initialisations is short;
// files of products never are.
func TestCompressed(t *testing.T) {
	root := filepath.Join(t.TempDir(), "products")
	crowd(t, root, 10_000)
	big := strings.Repeat("0123456789", 1000)
	publish(t, root, "2000010100", map[string]string{"a.nc": big})
	url, _, _ := answering(t, root, nil)
	for _, path := range []string{"/products/?format=html", "/products/?format=json", "/stac/products/collection.json"} {
		plain, text := ask(t, "GET", url+path, "Accept-Encoding", "identity")
		resp, body := ask(t, "GET", url+path, "Accept-Encoding", "br, gzip;q=0.5")
		if resp.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(strings.Join(resp.Header.Values("Vary"), ","), "Accept-Encoding") || plain.Header.Get("ETag") == resp.Header.Get("ETag") {
			t.Errorf("%s: headers %v", path, resp.Header)
			continue
		}
		if len(body) > 50_000 || resp.ContentLength != int64(len(body)) {
			t.Errorf("%s: %d bytes compressed, length %d", path, len(body), resp.ContentLength)
		}
		z, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || string(got) != text || plain.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: the compressed text differs: %v", path, err)
		}
		if again, _ := ask(t, "GET", url+path, "Accept-Encoding", "gzip", "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != 304 {
			t.Errorf("%s again: %s", path, again.Status)
		}
	}
	for _, path := range []string{"/products/2000010100/a.nc"} {
		for _, header := range []string{"", "bytes=10-19"} {
			resp, body := ask(t, "GET", url+path, "Accept-Encoding", "gzip", "Range", header)
			if want := map[string]string{"": big, "bytes=10-19": "0123456789"}[header]; resp.Header.Get("Content-Encoding") != "" || body != want {
				t.Errorf("%s %q: %d bytes, headers %v", path, header, len(body), resp.Header)
			}
		}
	}
}

// TestAcceptsGzip: weights and the order of codings, as RFC 9110 defines them.
func TestAcceptsGzip(t *testing.T) {
	for value, want := range map[string]bool{"gzip": true, "GZIP": true, "deflate, gzip;q=1.0, *;q=0.5": true, "*": true, "x-gzip": true, "gzip;q=0.001": true,
		"": false, "identity": false, "br": false, "gzip;q=0": false, "gzip; q=0.0": false, "*;q=0": false, "gzip;q=0, *": false, "*, gzip;q=0": false, "gzip;q=x": false} {
		if acceptsGzip([]string{value}) != want {
			t.Errorf("%q accepts gzip: %v", value, !want)
		}
	}
}

// TestCORS: pages of the origins in serve.cors_origins may read products, by GET and HEAD; others may not.
func TestCORS(t *testing.T) {
	root := site(t)
	const own, other = "https://maps.example.org", "https://evil.example.com"
	for _, c := range []struct {
		origins []string
		origin  string
		allowed string // Access-Control-Allow-Origin
	}{
		{nil, own, ""},
		{[]string{own}, own, own},
		{[]string{own}, "HTTPS://maps.example.org", "HTTPS://maps.example.org"},
		{[]string{own}, other, ""},
		{[]string{own}, own + ":8080", ""},
		{[]string{own}, "null", ""},
		{[]string{own, other}, other, other},
		{[]string{"*"}, other, "*"},
	} {
		url, _, _ := answering(t, root, func(o *Options) { o.Service.CORSOrigins = c.origins })
		for _, path := range []string{"/products/2026010100/a.nc", "/products/", "/edr", "/stac/catalog.json"} {
			resp, _ := ask(t, "GET", url+path, "Origin", c.origin)
			if h := resp.Header; resp.StatusCode != 200 || h.Get("Access-Control-Allow-Origin") != c.allowed || (h.Get("Cross-Origin-Resource-Policy") == "cross-origin") != (c.allowed != "") || h.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%v: GET %s from %s: %s %v", c.origins, path, c.origin, resp.Status, h)
			}
			resp, body := ask(t, "OPTIONS", url+path, "Origin", c.origin, "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "range")
			want := map[bool]int{true: 204, false: 405}[c.allowed != ""]
			if resp.StatusCode != want || resp.Header.Get("Access-Control-Allow-Origin") != c.allowed || c.allowed != "" && (resp.Header.Get("Access-Control-Allow-Methods") != "GET, HEAD" || !strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Range") || body != "") {
				t.Errorf("%v: preflight of %s from %s: %s %v", c.origins, path, c.origin, resp.Status, resp.Header)
			}
			if len(c.origins) == 1 && c.origins[0] == own && !strings.Contains(strings.Join(resp.Header.Values("Vary"), ","), "Origin") {
				t.Errorf("%s may be cached for another origin: %v", path, resp.Header)
			}
		}
	}
	url, _, _ := answering(t, root, func(o *Options) { o.Service.CORSOrigins = []string{"*"} })
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
	}{
		{"OPTIONS", "/products/", nil, 405}, // no preflight
		{"OPTIONS", "/products/", []string{"Origin", own}, 405},
		{"OPTIONS", "/metrics", []string{"Origin", own, "Access-Control-Request-Method", "GET"}, 405},
		{"OPTIONS", "/products/..%2f", []string{"Origin", own, "Access-Control-Request-Method", "GET"}, 400},
		{"POST", "/products/", []string{"Origin", own}, 405},
		{"DELETE", "/products/2026010100/a.nc", []string{"Origin", own}, 405},
	} {
		if resp, _ := ask(t, c.method, url+c.path, c.header...); resp.StatusCode != c.status {
			t.Errorf("%s %s %q: %s, want %d", c.method, c.path, c.header, resp.Status, c.status)
		}
	}
	for _, path := range []string{"/", "/metrics", "/status", "/productsx"} {
		if resp, _ := ask(t, "GET", url+path, "Origin", own); resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s may be read from other origins: %v", path, resp.Header)
		}
	}
	if r, err := http.NewRequest("OPTIONS", url+"/products/", nil); err != nil {
		t.Fatal(err)
	} else {
		r.Host = "rebound.example.com"
		r.Header.Set("Origin", own)
		r.Header.Set("Access-Control-Request-Method", "GET")
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusMisdirectedRequest {
			t.Error(fmt.Sprint("a preflight for another host: ", resp, err))
		}
	}
}
