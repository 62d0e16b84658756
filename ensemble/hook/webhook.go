package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Limits of responses.
const (
	maxResponseHeader = 64 << 10
	maxResponseBody   = 64 << 10 // read and dropped
	maxSecretFile     = 64 << 10
)

// secretPrefix begins a secret of HMAC-SHA256 in the form of Standard Webhooks.
const secretPrefix = "whsec_"

// webhook is a receiver over HTTP.
//
// Source: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md 1.0.0.
type webhook struct {
	url, version, secretFile string
	timeout                  time.Duration
	client                   *http.Client
}

// newWebhook returns the webhook of a configuration.
//
// Errors: exit 64 for a file of secrets that cannot be used.
func newWebhook(call config.Hook, version string) (receiver, error) {
	w := &webhook{url: call.URL, version: version, secretFile: string(call.SecretFile), timeout: call.Timeout}
	if _, err := w.secrets(); err != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "the secret of the hook cannot be used", At: w.secretFile, Why: err.Error(),
			Fix: `write one with (umask 077; echo "whsec_$(head -c 32 /dev/urandom | base64)" >` + w.secretFile + ")", Err: err}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // with the proxy of the environment
	transport.DisableKeepAlives, transport.MaxResponseHeaderBytes = true, maxResponseHeader
	w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return w, nil
}

// secrets reads the file of secrets, one in each line. It is read before each attempt, so that secrets change without a
// reload.
func (w *webhook) secrets() (keys [][]byte, err error) {
	f, err := filesystem.Open(w.secretFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Fields(string(text)) {
		digits, ok := strings.CutPrefix(line, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(digits)
		if !ok || err != nil || len(key) < 24 || len(key) > 64 {
			return nil, fmt.Errorf("line %d is not %s and 24 to 64 bytes in base64", i+1, secretPrefix)
		}
		keys = append(keys, key)
	}
	if keys == nil {
		return nil, errors.New("it is empty")
	}
	return keys, nil
}

// sign returns the header webhook-signature: a signature by each key.
func sign(keys [][]byte, id, timestamp string, body []byte) string {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		h := hmac.New(sha256.New, key)
		fmt.Fprintf(h, "%s.%s.%s", id, timestamp, body) // writing to a hash never fails
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// send sends one request. Any status but 2xx is a failure; redirects are not followed.
//
// Errors: failure with the wish of Retry-After; a final one for 410.
func (w *webhook) send(ctx context.Context, e message) error {
	keys, err := w.secrets()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(e.body))
	if err != nil {
		return err
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "ensemble/"+w.version)
	r.Header.Set("webhook-id", e.ID)
	r.Header.Set("webhook-timestamp", now)
	r.Header.Set("webhook-signature", sign(keys, e.ID, now, e.body))
	a, err := w.client.Do(r)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the address, which may have a token in its path
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("no response within serve.on_issue.timeout, %s", w.timeout)
		}
		return fmt.Errorf("%s: %w", r.URL.Host, err)
	}
	defer a.Body.Close()
	_, _ = io.CopyN(io.Discard, a.Body, maxResponseBody) // the status counts, whatever follows
	if a.StatusCode/100 == 2 {
		return nil
	}
	f := failure{error: fmt.Errorf("%s answered %d %s", r.URL.Host, a.StatusCode, http.StatusText(a.StatusCode)), final: a.StatusCode == http.StatusGone}
	if a.StatusCode/100 == 3 {
		f.error = fmt.Errorf("%w: redirects are not followed, serve.on_issue.url must be the address itself", f.error)
	}
	if s, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && s > 0 {
		f.after = min(time.Duration(s), maxWish/time.Second) * time.Second
	}
	return f
}

// maxWish is the longest delay that a receiver may ask for.
const maxWish = 24 * time.Hour
