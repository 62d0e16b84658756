package serve

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
)

// fakeClock is a clock that a test sets.
type fakeClock struct{ unix atomic.Int64 }

func (c *fakeClock) now() time.Time { return time.Unix(c.unix.Load(), 0).UTC() }

func (c *fakeClock) set(t testing.TB, text string) {
	t.Helper()
	at, err := time.Parse("2006-01-02T15:04Z", text)
	if err != nil {
		t.Fatal(err)
	}
	c.unix.Store(at.Unix())
}

// TestNewestOnDisk: page, /readyz, /status and metrics follow the products on disk, by the clock: also after
// deletion and restart, with products of an initialisation in the future, and without any.
func TestNewestOnDisk(t *testing.T) {
	root := filepath.Join(t.TempDir(), "products")
	var clock fakeClock
	start := func() string {
		url, s, _ := answering(t, root, func(o *Options) {
			o.Predict.Clock.Time, o.Service.ReadyMaxAge = clock.now, 14*time.Hour
		})
		s.change(func() { s.model = &predict.ModelDescription{} })
		return url
	}
	url := ""
	look := func(when, newest, future, lastInit, age string, ready bool) {
		t.Helper()
		var status Status
		if _, body := ask(t, "GET", url+"/status"); json.Unmarshal([]byte(body), &status) != nil || status.Ready != ready || (status.Newest == nil) != (newest == "") || newest != "" && status.Newest.Name != newest || strings.Join(status.Future, " ") != future {
			t.Errorf("%s: /status: %s", when, body)
		}
		code := map[bool]int{true: 200, false: 503}[ready]
		if r, body := ask(t, "GET", url+"/readyz"); r.StatusCode != code {
			t.Errorf("%s: /readyz: %s %s", when, r.Status, body)
		}
		_, metrics := ask(t, "GET", url+"/metrics")
		lines := []string{"ensemble_last_init_timestamp_seconds " + lastInit, "ensemble_ready " + map[bool]string{true: "1", false: "0"}[ready],
			"ensemble_future_inits " + map[bool]string{true: "0", false: "1"}[future == ""]}
		for _, want := range lines {
			if !strings.Contains(metrics, want+"\n") {
				t.Errorf("%s: no %q in the metrics:\n%s", when, want, metrics)
			}
		}
		_, page := ask(t, "GET", url+"/")
		page = strings.NewReplacer(`<span class="whole">`, "", "</span>", "").Replace(page) // which keep dates on one line
		if !strings.Contains(page, age) || future != "" && !strings.Contains(page, "in the future, which do not count as the newest: "+future) {
			t.Errorf("%s: the page has no %q or does not name %q:\n%s", when, age, future, page)
		}
	}
	clock.set(t, "2026-01-01T08:00Z")
	url = start()
	look("before the first products, without the folder", "", "", "0", "none yet", false)
	publish(t, root, "2026010100", map[string]string{"a.nc": "a"})
	publish(t, root, "2099010100", map[string]string{"a.nc": "a"})
	url = start()
	look("after a restart", "2026010100", "2099010100", "1.7672256e+09", "2026-01-01 00:00Z, 8", true)
	clock.set(t, "2026-01-01T20:00Z")
	url = start()
	look("twelve hours later", "2026010100", "2099010100", "1.7672256e+09", "2026-01-01 00:00Z, 20", false)
	publish(t, root, "2026010112", map[string]string{"a.nc": "a"})
	url = start()
	look("the next", "2026010112", "2099010100", "1.7672688e+09", "2026-01-01 12:00Z, 8", true)
	if err := os.RemoveAll(filepath.Join(root, "2026010112")); err != nil {
		t.Fatal(err)
	}
	if _, metrics := ask(t, "GET", url+"/metrics"); !strings.Contains(metrics, "ensemble_last_init_timestamp_seconds 1.7672256e+09\n") {
		t.Errorf("after deletion, without a restart:\n%s", metrics)
	}
	for _, name := range []string{"2026010100", "2099010100"} {
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	url = start()
	look("all deleted", "", "", "0", "none yet", false)
}
