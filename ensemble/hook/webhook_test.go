package hook

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestSignature: signatures are those of the reference implementation.
//
// Source: github.com/standard-webhooks/standard-webhooks, libraries/go/webhook_test.go, TestWebhookSign.
func TestSignature(t *testing.T) {
	w := &webhook{secretFile: string(secretFile(t, testSecret+"\n"+"whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 64))+"\n"))}
	keys, err := w.secrets()
	if err != nil || len(keys) != 2 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	got := sign(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if first, second, ok := strings.Cut(got, " "); !ok || first != want || second == want || !strings.HasPrefix(second, "v1,") {
		t.Errorf("%q, want %s and another", got, want)
	}
}

// TestSecrets: files without a usable secret are refused; secrets are read anew for each request.
func TestSecrets(t *testing.T) {
	for _, text := range []string{"", "\n", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_" + strings.Repeat("A", 88), testSecret + "\nwhsec_!", "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"} {
		_, err := newWebhook(config.Hook{URL: "http://localhost", SecretFile: secretFile(t, text)}, "1")
		if exit.CodeOf(err) != exit.Usage || strings.Contains(err.Error(), "MfKQ9r8GKYqr") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := newWebhook(config.Hook{URL: "http://localhost", SecretFile: "/no/such/file"}, "1"); exit.CodeOf(err) != exit.Usage {
		t.Errorf("no file: %v", err)
	}
	s := newServer(t, http.StatusOK)
	path := secretFile(t, testSecret)
	post := func() (request, error) {
		err := sendTo(t, s.URL, path, patience)
		all := s.requests()
		return all[len(all)-1], err
	}
	first, err := post()
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.ParseInt(first.timestamp, 10, 64)
	if age := time.Since(time.Unix(at, 0)); err != nil || age < -time.Second || age > patience {
		t.Errorf("the timestamp is %s old (%v)", age, err)
	}
	if keys, _ := (&webhook{secretFile: string(path)}).secrets(); first.signature != sign(keys, "1", first.timestamp, first.body) {
		t.Errorf("signature %q", first.signature)
	}
	if err := os.WriteFile(string(path), []byte(testSecret+"\n"+testSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if second, err := post(); err != nil || len(strings.Fields(second.signature)) != 2 {
		t.Errorf("two secrets: %q, %v", second.signature, err)
	}
}

// sendTo sends a message to an address with a time limit.
func sendTo(t *testing.T, url string, secrets config.Path, limit time.Duration) error {
	t.Helper()
	r, err := newWebhook(config.Hook{URL: url, SecretFile: secrets, Timeout: limit}, "1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return r.send(ctx, message{Issued: Issued{ID: "1"}, body: []byte("{}")})
}

// TestResponses: only 2xx is a success. Redirects are not followed, endless responses are cut, and messages have no path,
// which may be a secret.
func TestResponses(t *testing.T) {
	var followed atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not noticed
		switch r.URL.Path {
		case "/token/redirect":
			http.Redirect(w, r, "/token/followed", http.StatusTemporaryRedirect)
		case "/token/followed":
			followed.Store(true)
		case "/token/gone":
			w.WriteHeader(http.StatusGone)
		case "/token/busy":
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/token/greedy":
			w.Header().Set("Retry-After", "99999999999")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/token/endless":
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		case "/token/header":
			w.Header().Set("X", strings.Repeat("x", 2*maxResponseHeader))
		case "/token/ok":
			if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("User-Agent") != "ensemble/1" {
				w.WriteHeader(http.StatusBadRequest)
			}
		case "/token/hang":
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	secrets := secretFile(t, testSecret)
	for _, c := range []struct {
		path, want string
		limit      time.Duration
		after      time.Duration
		final      bool
	}{
		{"ok", "", patience, 0, false},
		{"endless", "", patience, 0, false},
		{"redirect", "307 Temporary Redirect: redirects are not followed", patience, 0, false},
		{"gone", "410 Gone", patience, 0, true},
		{"busy", "429 Too Many Requests", patience, 2 * time.Minute, false},
		{"greedy", "503", patience, maxWish, false},
		{"header", "exceeded", patience, 0, false},
		{"hang", "no response within serve.on_issue.timeout, 200ms", 200 * time.Millisecond, 0, false},
	} {
		err := sendTo(t, s.URL+"/token/"+c.path, secrets, c.limit)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.path, err)
			}
			continue
		}
		var f failure
		errors.As(err, &f)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "token") || f.after != c.after || f.final != c.final {
			t.Errorf("%s: %v, after %s, final %v", c.path, err, f.after, f.final)
		}
	}
	if followed.Load() {
		t.Error("a redirect was followed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := sendTo(t, "http://"+l.Addr().String()+"/token", secrets, patience); err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "token") {
		t.Errorf("nobody listens: %v", err)
	}
}
