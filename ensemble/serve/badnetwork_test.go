package serve

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/faultnet"
)

// TestBadNetwork: a client behind a network that delays, cuts or is silent in one direction gets a product whole or an error, never
// a part of it as a whole. Clients beside it are answered, and the service keeps nothing of its connections when they have ended. The first
// request that fails ends the test, as the next ones would wait for their time limits.
func TestBadNetwork(t *testing.T) {
	root := site(t)
	want, err := os.ReadFile(filepath.Join(root, "2026010100", "a.nc"))
	if err != nil {
		t.Fatal(err)
	}
	url, s, _ := answering(t, root, func(o *Options) { o.Service.AllowedHosts = []string{"127.0.0.1"} })
	get := func(address string, limit time.Duration) ([]byte, error) {
		c := http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := c.Get(address + "/products/2026010100/a.nc")
		if err != nil {
			return nil, err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err == nil && r.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", r.Status)
		}
		return text, err
	}
	for _, direction := range []string{"requests", "answers"} {
		for _, from := range []int64{0, 20, 200} {
			for name, kind := range map[string]faultnet.Fault{"late": faultnet.None, "cut": faultnet.Cut, "silent": faultnet.Drop} {
				f := faultnet.Faults{From: from, Then: kind}
				if kind == faultnet.None {
					f.Delay = 10 * time.Millisecond
				}
				proxy, err := faultnet.New(strings.TrimPrefix(url, "http://"), 40, func(int) (toServer, toClient faultnet.Faults) {
					if direction == "requests" {
						return f, toClient
					}
					return toServer, f
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(proxy.Close)
				limit := patience
				if kind == faultnet.Drop {
					limit = 300 * time.Millisecond
				}
				text, err := get("http://"+proxy.Address().String(), limit)
				whole := kind == faultnet.None || direction == "requests" && from == 200 // of a request that is shorter
				if (err == nil) != whole || err == nil && !bytes.Equal(text, want) {
					t.Fatalf("%s %s after %d bytes: %d of %d bytes, %v", direction, name, from, len(text), len(want), err)
				}
				if text, err := get(url, patience); err != nil || !bytes.Equal(text, want) {
					t.Fatalf("beside %s %s after %d bytes: %d of %d bytes, %v", direction, name, from, len(text), len(want), err)
				}
				proxy.Close()
			}
		}
	}
	until(t, "no connection", func() bool { return s.limiter.open() == 0 })
}
