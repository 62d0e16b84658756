package serve

import (
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

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// TestMembersOfKilledService: temporary files that a killed service left in its state folder are removed at start-up.
func TestMembersOfKilledService(t *testing.T) {
	out := t.TempDir()
	left := []string{filepath.Join(out, stateDir, "report", ".example.safetensors.partial-abc"), filepath.Join(out, stateDir, ".inits.json.partial-abc")}
	for _, path := range left {
		put(t, path, "part")
	}
	u := &issuer{state: newState(Options{Predict: predict.Options{Out: out}}), o: Options{Predict: predict.Options{Out: out}}, log: slog.New(slog.DiscardHandler)}
	u.restoreMembers()
	for _, path := range left {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// pageOf returns the page of a state.
func pageOf(t *testing.T, s *state, query string) (code int, page string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/"+query, nil)
	r.Host = "localhost"
	h := newHandler(s, quiet)
	defer h.reader.Close()
	h.ServeHTTP(deadlined{w}, r)
	return w.Code, w.Body.String()
}

// TestPageWithoutMaps: a page without maps states what the service waits for; damaged products are a message in the page, below the
// state.
func TestPageWithoutMaps(t *testing.T) {
	testdecoder.Path(t)
	root := t.TempDir()
	s := newState(Options{Predict: predict.Options{Out: root}})
	s.change(func() { s.missingInput = "no input in the directory: fc" })
	if code, got := pageOf(t, s, ""); code != 200 || !strings.Contains(got, `<p class="state none">`) || !strings.Contains(got, "Input is missing: no input in the directory: fc") || !strings.Contains(got, "follow with the first products") || strings.Contains(got, "Coastlines") {
		t.Errorf("before the first products: %d %s", code, got)
	}
	publish(t, root, "2026010100", map[string]string{"a.nc": "a"})
	s.change(func() { s.missingInput = "" })
	if code, got := pageOf(t, s, ""); code != 200 || strings.Contains(got, "Input is missing") || !strings.Contains(got, `<p class="error">`) || !strings.Contains(got, "2026010100/a.nc") {
		t.Errorf("after the first products, whose file is none: %d %s", code, got)
	}
	put(t, filepath.Join(root, "2026010100/a.nc"), "longer")
	if code, got := pageOf(t, s, ""); code != 200 || !strings.Contains(got, "damaged or missing") || !strings.Contains(got, "6 bytes, want 1") {
		t.Errorf("of another size than in the manifest: %d %s", code, got)
	}
	if code, got := pageOf(t, s, "?init=2026010200"); code != 404 || !strings.Contains(got, "2026010100") {
		t.Errorf("an unknown initialisation: %d %s", code, got)
	}
}

// TestPageOrder: failed and late initialisations are directly below the state, above the newest products.
func TestPageOrder(t *testing.T) {
	root := t.TempDir()
	publish(t, root, "2026010100", map[string]string{"a.nc": "a"})
	s := newState(Options{Predict: predict.Options{Out: root}})
	now := time.Now()
	s.change(func() {
		s.inits = []InitStatus{{Name: "2026010106", State: failed, Why: "no space left"}, {Name: "2026010103", State: late, Why: "member 2", ExpectedBy: &now}, {Name: "2026010102", State: failed, Why: "known", Acknowledged: &now}}
	})
	_, got := pageOf(t, s, "")
	at := -1
	for _, want := range []string{`<p class="state failed">`, "no space left", "ensemble products retry 2026010106", "member 2", "<dt>newest products</dt>", "<h2>Initialisations</h2>"} {
		next := strings.Index(got, want)
		if next <= at {
			t.Errorf("%q is missing or not below what is before it:\n%s", want, got)
		}
		at = next
	}
}

// TestPageOfDegraded: the page of a degraded init with every member of the model does not report missing members.
func TestPageOfDegraded(t *testing.T) {
	for expected, want := range map[int]string{2: "The newest products are degraded.<", 5: "they have 2 of 5 members."} {
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
		s := newState(Options{Predict: predict.Options{Out: root, Clock: predict.Clock{Time: func() time.Time { return initOf("2026010108") }}}})
		if _, got := pageOf(t, s, ""); !strings.Contains(got, want) || !strings.Contains(got, `<p class="state degraded">`) {
			t.Errorf("%d expected: no %q in %s", expected, want, got)
		}
	}
}

// TestScoresPage: a page of scores of several parts is served under the names that its links have; without scores it states so.
func TestScoresPage(t *testing.T) {
	s := newState(Options{Predict: predict.Options{Out: t.TempDir()}})
	s.options.Service.Scores = config.Path(filepath.Join(t.TempDir(), "none"))
	if _, got := pageOf(t, s, ""); !strings.Contains(got, `<a href="/scores.html">`) {
		t.Errorf("no link to the scores: %s", got)
	}
	if code, got := pageOf(t, s, "scores.html"); code != 200 || !strings.Contains(got, "none yet") {
		t.Errorf("without scores: %d %s", code, got)
	}
	s.scores.parts, s.scores.at = []report.Part{{Name: "scores.html", Text: []byte("first")}, {Name: "scores-2.html", Text: []byte("second")}}, time.Now().Add(24*time.Hour)
	for path, want := range map[string]string{"scores.html": "first", "scores-2.html": "second", "scores-3.html": "", "scores": "", "scores-2.html/": ""} {
		if code, got := pageOf(t, s, path); (code == http.StatusOK) != (want != "") || want != "" && got != want {
			t.Errorf("%s: %d %q, want %q", path, code, got, want)
		}
	}
}
