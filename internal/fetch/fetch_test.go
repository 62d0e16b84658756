package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// server sends content after a number of truncated responses, and counts the bytes
// that it sends.
type server struct {
	content []byte
	breaks  int // requests that end early
	ranges  bool
	sent    int
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/gone" {
		http.NotFound(w, r)
		return
	}
	if r.URL.Path == "/plain" {
		http.Redirect(w, r, "http://"+r.Host+"/x", http.StatusFound)
		return
	}
	if s.breaks > 0 {
		s.breaks--
		w.Header().Set("Content-Length", "10000")
		n, _ := w.Write(s.content[:len(s.content)/2])
		s.sent += n
		panic(http.ErrAbortHandler)
	}
	if !s.ranges {
		r.Header.Del("Range")
	}
	c := &counted{w, s}
	http.ServeContent(c, r, "x", time.Unix(0, 0), bytes.NewReader(s.content))
}

type counted struct {
	http.ResponseWriter
	s *server
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.s.sent += n
	return n, err
}

func TestFile(t *testing.T) {
	content := bytes.Repeat([]byte("weather "), 1250)
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	for _, c := range []struct {
		name   string
		of     server
		path   string
		before []byte // what lies there under the name of the part
		digest string
		tries  int
		code   exit.Code
		sent   int // bytes, in all
	}{
		{name: "whole", of: server{ranges: true}, digest: digest, tries: 1, sent: len(content)},
		{name: "goes on", of: server{ranges: true, breaks: 1}, digest: digest, tries: 2, sent: len(content)},
		{name: "without ranges", of: server{breaks: 1}, digest: digest, tries: 2, sent: len(content) * 3 / 2},
		{name: "all but the name", of: server{ranges: true}, before: content, digest: digest, tries: 1, sent: 0},
		{name: "longer than the file", of: server{ranges: true}, before: append(bytes.Clone(content), "more"...), digest: digest, tries: 1, sent: len(content) + len("invalid range: failed to overlap\n")},
		{name: "another file", of: server{ranges: true}, digest: digest[2:] + "00", tries: 1, code: exit.BadData, sent: len(content)},
		{name: "another beginning", of: server{ranges: true}, before: []byte("x"), digest: digest, tries: 2, sent: 2*len(content) - 1},
		{name: "no such file", path: "/gone", digest: digest, tries: 1, code: exit.NotYet},
		{name: "leaves https", path: "/plain", digest: digest, tries: 1, code: exit.NotYet},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.of.content = content
			s := httptest.NewTLSServer(&c.of)
			s.Config.ErrorLog = nil
			defer s.Close()
			client := s.Client()
			client.CheckRedirect = OnlyHTTPS
			path := filepath.Join(t.TempDir(), "x")
			if c.before != nil {
				if err := os.WriteFile(path+PartialSuffix, c.before, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			for i := range c.tries {
				if err = File(context.Background(), client, s.URL+c.path, path, c.digest); err == nil && i < c.tries-1 {
					t.Errorf("try %d did it", i+1)
				}
			}
			s.Close() // waits until all bytes are counted
			got, missing := os.ReadFile(path)
			if exit.CodeOf(err) != c.code || c.of.sent != c.sent {
				t.Errorf("%v, %d bytes were sent; want code %d and %d bytes", err, c.of.sent, c.code, c.sent)
			}
			if c.code == exit.OK && !bytes.Equal(got, content) || c.code != exit.OK && !errors.Is(missing, fs.ErrNotExist) {
				t.Errorf("the file has %d bytes, %v", len(got), missing)
			}
			if _, err := os.Stat(path + PartialSuffix); c.code == exit.BadData && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("another file was kept: %v", err)
			}
		})
	}
	if err := File(context.Background(), http.DefaultClient, "http://localhost/x", filepath.Join(t.TempDir(), "x"), digest); exit.CodeOf(err) != exit.Usage {
		t.Errorf("http: %v", err)
	}
}
