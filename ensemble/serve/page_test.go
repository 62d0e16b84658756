package serve

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// TestMapsOfDamaged: maps that cannot be drawn do not stop the service, whatever the kept data contain.
func TestMapsOfDamaged(t *testing.T) {
	values := make([]float32, 6)
	e := &scoring.MapExample{Init: ensemble.InitAt(initOf("2026010100")), Grid: &ensemble.Grid{NX: 3, NY: 2}, // without latitudes
		Fields: []scoring.MapField{{Variable: "t", Kind: scoring.ShowMean, Values: values}, {Variable: "t", Kind: scoring.ShowSpread, Values: values}}}
	if m, err := drawMaps(context.Background(), e); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestMapsOfKilledService: temporary files that a killed service left in its state folder are removed at start-up.
func TestMapsOfKilledService(t *testing.T) {
	out := t.TempDir()
	left := []string{filepath.Join(out, stateDir, "report", ".example.safetensors.partial-abc"), filepath.Join(out, stateDir, ".inits.json.partial-abc")}
	for _, path := range left {
		put(t, path, "part")
	}
	u := &issuer{o: Options{Predict: predict.Options{Out: out}}, log: slog.New(slog.DiscardHandler)}
	u.restoreLastMaps()
	for _, path := range left {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// TestPageAfterABug: if drawing the page panics, the next request draws it again and does not wait without limit.
func TestPageAfterABug(t *testing.T) {
	s := newState(Options{})
	tree := s.tree
	s.tree = nil
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nothing was injected")
			}
		}()
		_, _ = s.pageText()
	}()
	s.tree = tree
	if text, err := s.pageText(); err != nil || !strings.Contains(string(text[0].Text), "Ensemble forecasts") {
		t.Errorf("%.100q, %v", text[0].Text, err)
	}
}

// TestPageWithoutMaps: a page without maps states what the service waits for, and when maps are drawn.
func TestPageWithoutMaps(t *testing.T) {
	root := t.TempDir()
	s := newState(Options{Predict: predict.Options{Out: root}})
	s.options.Service.Scores = config.Path(filepath.Join(root, "none"))
	s.change(func() { s.missingInput = "no input in the directory: fc" })
	page := func() string {
		text, err := s.pageText()
		if err != nil {
			t.Fatal(err)
		}
		return string(text[0].Text)
	}
	if got := page(); !strings.Contains(got, "Input is missing: no input in the directory: fc") || !strings.Contains(got, "<dt>scores</dt><dd>none yet") || strings.Contains(got, "they are drawn when") || strings.Contains(got, "Coastlines") {
		t.Errorf("before the first products: %s", got)
	}
	publish(t, root, "2026010100", map[string]string{"a.nc": "a"})
	s.change(func() { s.missingInput = "" })
	if got := page(); strings.Contains(got, "Input is missing") || !strings.Contains(got, "none yet: they are drawn when the next products are published") {
		t.Errorf("after the first products: %s", got)
	}
}

// TestPageOfDegraded: the page of a degraded init with every member of the model does not report missing members.
func TestPageOfDegraded(t *testing.T) {
	for expected, want := range map[int]string{2: "The latest initialisation is degraded.<", 5: "it has 2 of 5 members."} {
		root := t.TempDir()
		publish(t, root, "2026010100", map[string]string{"a.nc": "a"})
		m, err := product.ReadManifest(filepath.Join(root, "2026010100"))
		if err != nil {
			t.Fatal(err)
		}
		m.Status, m.MembersExpected = manifest.Degraded, expected
		if err := manifest.Write(filepath.Join(root, "2026010100"), m); err != nil {
			t.Fatal(err)
		}
		text, err := newState(Options{Predict: predict.Options{Out: root}}).pageText()
		if err != nil || !strings.Contains(string(text[0].Text), want) {
			t.Errorf("%d expected: %v, no %q in %s", expected, err, want, text[0].Text)
		}
	}
}

// TestPageParts: a page of several parts is served under the names that its links have.
func TestPageParts(t *testing.T) {
	s := newState(Options{Predict: predict.Options{Out: t.TempDir()}})
	s.page.text, s.page.at = []report.Part{{Name: "index.html", Text: []byte("first")}, {Name: "index-2.html", Text: []byte("second")}}, time.Now().Add(24*time.Hour)
	h := newHandler(s, quiet)
	for path, want := range map[string]string{"/": "first", "/index.html": "first", "/index-2.html": "second", "/index-3.html": "", "/index": "", "/index-2.html/": ""} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "localhost"
		h.ServeHTTP(deadlined{w}, r)
		if (w.Code == http.StatusOK) != (want != "") || want != "" && w.Body.String() != want {
			t.Errorf("%s: %d %q, want %q", path, w.Code, w.Body, want)
		}
	}
}
