package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product/producttest"
)

// patience is the timeout for fast events; it allows for a busy machine.
const patience = 2 * time.Minute

// eventually waits until so is true.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout after %s: %s", patience, what)
		}
	}
}

// request is a request that a receiver got.
type request struct {
	id, signature, timestamp string
	body                     []byte
	event                    Event
}

// server is a receiver whose answers the test sets.
type server struct {
	*httptest.Server
	status atomic.Int32

	mu   sync.Mutex
	have []request
}

// newServer starts a receiver that answers with a status; 0: it hangs.
func newServer(t *testing.T, status int) *server {
	s := &server{}
	s.status.Store(int32(status))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q := request{id: r.Header.Get("webhook-id"), signature: r.Header.Get("webhook-signature"), timestamp: r.Header.Get("webhook-timestamp"), body: body}
		_ = json.Unmarshal(body, &q.event)
		s.mu.Lock()
		s.have = append(s.have, q)
		s.mu.Unlock()
		if s.status.Load() == 0 {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(int(s.status.Load()))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.have)
}

// testSecret is that of the reference implementation's tests.
const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// secretFile writes a file of secrets.
func secretFile(t *testing.T, text string) config.Path {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Path(path)
}

// hooked is a running hook.
type hooked struct {
	*Hook
	failures atomic.Int32
	log      bytes.Buffer // to be read after stop
	stop     func()
}

// start opens a hook on a product directory and runs it.
func start(t *testing.T, out string, call config.Hook) *hooked {
	t.Helper()
	h := &hooked{}
	if call.Timeout == 0 {
		call.Timeout = patience
	}
	if call.RetryFor == 0 {
		call.RetryFor = time.Hour
	}
	var err error
	h.Hook, err = Open(Options{Out: out, File: filepath.Join(out, ".serve", "hook.json"), Call: call, RetryDelay: time.Millisecond, Version: "1", Log: slog.New(slog.NewJSONHandler(&h.log, nil)),
		OnFailure: func() { h.failures.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); h.Run(ctx) }()
	h.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(h.stop)
	return h
}

// issue publishes products as a service does.
func (h *hooked) issue(t *testing.T, name, content string) {
	t.Helper()
	h.Issuing(name)
	producttest.Write(t, h.out, name, content)
	h.Issued(name)
}

// TestDeliveries: products are described to the receiver once it accepts, with one identifier in all attempts; others of the
// same initialisation have another identifier and name the ones that they replace. What the service did not publish is not
// delivered, and what it published just before it was killed is.
func TestDeliveries(t *testing.T) {
	out, s := t.TempDir(), newServer(t, http.StatusServiceUnavailable)
	producttest.Write(t, out, "2026010100", "old")
	call := config.Hook{URL: s.URL, SecretFile: secretFile(t, testSecret+"\n")}
	h := start(t, out, call)
	h.issue(t, "2026010112", "1")
	h.Issuing("2026010100") // exists: nothing new
	h.Issued("2026010100")
	producttest.Write(t, out, "2026010106", "of another process")
	eventually(t, "three attempts", func() bool { return len(s.requests()) >= 3 })
	if st := h.Status(); st.Calls != "webhook" || st.Pending != 1 || st.Abandoned != 0 || st.Open[0].Name != "2026010112" || st.Open[0].Attempts < 2 || !strings.Contains(st.Open[0].Why, "503 Service Unavailable") {
		t.Errorf("%+v", st)
	}
	h.stop()
	if n := int(h.failures.Load()); n < 2 || n > len(s.requests()) {
		t.Errorf("%d failures of %d requests", n, len(s.requests()))
	}

	// The open delivery survives the service, as do products that were published when it was killed.
	h.Issuing("202601020030")
	producttest.Write(t, out, "202601020030", "2")
	refused := len(s.requests())
	s.status.Store(http.StatusNoContent)
	h = start(t, out, call)
	eventually(t, "both are delivered", func() bool { st := h.Status(); return st.Pending == 0 && len(s.requests()) == refused+2 })
	all := s.requests()
	for _, r := range all[:refused] {
		if r.id != all[0].id || !bytes.Equal(r.body, all[0].body) {
			t.Errorf("%s %s, the first attempt had %s %s", r.id, r.body, all[0].id, all[0].body)
		}
	}
	if newest, second := all[refused], all[refused+1]; newest.event.Data.Name != "202601020030" || second.id != all[0].id || !bytes.Equal(second.body, all[0].body) {
		t.Errorf("after a restart: %s, then %s; want the newest, then %s", newest.id, second.id, all[0].id)
	}
	e := all[0].event
	dir, _ := filepath.Abs(filepath.Join(out, "2026010112"))
	if d := e.Data; e.Type != "ensemble.issued" || d.Schema != "ensemble.issued/1" || d.ID != all[0].id || d.Init != "2026-01-01T12:00:00Z" || d.Status != "degraded" || d.Directory != dir || d.Replaces != "" ||
		fmt.Sprint(d.Warnings, d.MembersMissing) != "[a warning] [2]" || len(d.Files) != 1 || d.FilesCount != 1 || d.Bytes != 1 || d.Files[0].SHA256 != "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b" {
		t.Errorf("%+v", e)
	}
	if sum, err := manifest.SumFile(filepath.Join(dir, manifest.Name)); err != nil || sum.SHA256 != e.Data.Manifest.SHA256 {
		t.Errorf("manifest %+v, %v", e.Data.Manifest, err)
	}

	// Remade products.
	h.issue(t, "2026010112", "remade")
	eventually(t, "the remade products", func() bool { return len(s.requests()) == refused+3 })
	if r := s.requests()[refused+2]; r.event.Data.Replaces != all[0].id || r.id == all[0].id || r.event.Data.Version != "remade" {
		t.Errorf("%+v", r.event)
	}
	h.issue(t, "2026010100", "old ones, remade")
	eventually(t, "products that were there before the hook, remade", func() bool { return len(s.requests()) == refused+4 })
	h.stop()
	h = start(t, out, call)
	eventually(t, "all are compared", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.unread == nil })
	h.stop()
	if n := len(s.requests()); n != refused+4 {
		t.Errorf("delivered products are delivered again: %d requests", n)
	}
}

// TestAbandoned: a delivery is given up after retry_for, or when the receiver wants no more. A reload begins again. Products
// that are gone are no open delivery.
func TestAbandoned(t *testing.T) {
	out, s := t.TempDir(), newServer(t, http.StatusGone)
	call := config.Hook{URL: s.URL, SecretFile: secretFile(t, testSecret), Timeout: patience, RetryFor: time.Hour}
	h := start(t, out, call)
	h.issue(t, "2026010100", "1")
	abandoned := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d are abandoned", n), func() bool { st := h.Status(); return st.Abandoned == n && st.Pending == 0 })
	}
	abandoned(1)
	if n := len(s.requests()); n != 1 {
		t.Errorf("410, and %d requests", n)
	}
	s.status.Store(http.StatusInternalServerError)
	call.RetryFor = time.Nanosecond
	if err := h.Configure(call, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a reload tries again", func() bool { return len(s.requests()) == 2 })
	abandoned(1)
	s.status.Store(http.StatusOK)
	if err := h.Configure(call, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	abandoned(0)

	s.status.Store(http.StatusGone)
	h.issue(t, "2026010112", "1")
	abandoned(1)
	if err := os.RemoveAll(filepath.Join(out, "2026010112")); err != nil {
		t.Fatal(err)
	}
	abandoned(0)
	s.status.Store(http.StatusOK)
	h.issue(t, "2026010112", "repeated")
	eventually(t, "products that were recomputed", func() bool {
		all := s.requests()
		return all[len(all)-1].event.Data.Version == "repeated" && h.Status().Pending == 0
	})
}

// TestWithoutHook: a hook that is removed from the configuration and added later does not deliver what was published
// between. One that cannot be used leaves the previous one.
func TestWithoutHook(t *testing.T) {
	out, s := t.TempDir(), newServer(t, http.StatusOK)
	call := config.Hook{URL: s.URL, SecretFile: secretFile(t, testSecret), Timeout: patience, RetryFor: time.Hour}
	h := start(t, out, call)
	if err := h.Configure(config.Hook{}, 0); err != nil {
		t.Fatal(err)
	}
	if st := h.Status(); st != nil {
		t.Errorf("without a hook: %+v", st)
	}
	h.issue(t, "2026010100", "1")
	if err := h.Configure(call, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	h.Issuing("2026010100") // as a service that looks at its input again
	h.Issued("2026010100")
	if err := h.Configure(config.Hook{Command: []string{"/no/such/program"}}, 0); exit.CodeOf(err) != exit.Usage {
		t.Errorf("a command that does not exist: %v", err)
	}
	h.issue(t, "2026010112", "1")
	eventually(t, "the next products", func() bool { return len(s.requests()) > 0 && h.Status().Pending == 0 })
	if all := s.requests(); len(all) != 1 || all[0].event.Data.Name != "2026010112" {
		t.Errorf("%d requests, the first for %s", len(all), all[0].event.Data.Name)
	}
}

// TestDamagedRecords: with damaged records the hook starts, with a message, and the next products are delivered.
func TestDamagedRecords(t *testing.T) {
	for _, text := range []string{"", "{}", `{"schema": "ensemble.hook/1", "products": {"2026010100": null}}`, `{"schema": "ensemble.hook/2", "products": {}}`} {
		out, s := t.TempDir(), newServer(t, http.StatusOK)
		producttest.Write(t, out, "2026010100", "1")
		if err := os.MkdirAll(filepath.Join(out, ".serve"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(out, ".serve", "hook.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h := start(t, out, config.Hook{URL: s.URL, SecretFile: secretFile(t, testSecret)})
		h.issue(t, "2026010112", "1")
		eventually(t, "the next products", func() bool { return len(s.requests()) == 1 && h.Status().Pending == 0 })
		h.stop()
		if !strings.Contains(h.log.String(), "the records of the hook cannot be read") {
			t.Errorf("%q: no message in %s", text, h.log.String())
		}
	}
}

// TestNeverWaits: publishing and /status do not wait for a receiver that hangs, and the end of the service ends its request.
func TestNeverWaits(t *testing.T) {
	out, s := t.TempDir(), newServer(t, 0)
	h := start(t, out, config.Hook{URL: s.URL, SecretFile: secretFile(t, testSecret)})
	for i := range 20 {
		name := fmt.Sprintf("20260101%02d", i)
		h.issue(t, name, "1")
	}
	eventually(t, "a request hangs", func() bool { return len(s.requests()) == 1 })
	if st := h.Status(); st.Pending != 20 { // the call returns while the request hangs
		t.Errorf("%d are pending", st.Pending)
	}
	h.stop()
	if n := h.failures.Load(); n != 0 {
		t.Errorf("an interrupted request counts as %d failures", n)
	}
}

// TestNewest: initialisations are ordered by time, with and without minutes.
func TestNewest(t *testing.T) {
	names := []string{"", "2025123118", "2026010100", "202601010030", "2026010101"}
	for i, a := range names {
		for j, b := range names {
			if isNewer(a, b) != (i > j) {
				t.Errorf("%q is newer than %q: %v", a, b, i <= j)
			}
		}
	}
}

// TestFault31: a delivery whose first attempt a clock that jumped dates back by a day is not given up.
func TestFault31(t *testing.T) {
	s := newServer(t, http.StatusInternalServerError)
	h := start(t, t.TempDir(), config.Hook{URL: s.URL, SecretFile: secretFile(t, testSecret)})
	h.issue(t, "2026010100", "1")
	attempts := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprint(n, " attempts"), func() bool { return len(s.requests()) >= n })
	}
	attempts(1)
	h.mu.Lock()
	r := h.records["2026010100"]
	r.Since = r.Since.AddDate(0, 0, -1)
	h.mu.Unlock()
	attempts(len(s.requests()) + 3)
	if st := h.Status(); st.Abandoned > 0 {
		t.Errorf("%+v", st)
	}
}
