package hook

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/faultnet"
)

// TestBadNetwork: a message to a receiver behind a network that delays, cuts or is silent in one direction is delivered, or fails
// within its time limit so that it is sent again; then it is delivered. A message that ends by no time limit fails the test, with its name.
func TestBadNetwork(t *testing.T) {
	s := newServer(t, http.StatusOK)
	secrets := secretFile(t, testSecret)
	for _, c := range []struct {
		name      string
		up, down  faultnet.Faults
		delivered bool
	}{
		{"late", faultnet.Faults{Delay: 10 * time.Millisecond}, faultnet.Faults{Delay: 10 * time.Millisecond}, true},
		{"cut at the request", faultnet.Faults{Then: faultnet.Cut}, faultnet.Faults{}, false},
		{"cut within the request", faultnet.Faults{From: 60, Then: faultnet.Cut}, faultnet.Faults{}, false},
		{"cut at the response", faultnet.Faults{}, faultnet.Faults{Then: faultnet.Cut}, false},
		{"cut within the response", faultnet.Faults{}, faultnet.Faults{From: 10, Then: faultnet.Cut}, false},
		{"silent to the receiver", faultnet.Faults{From: 60, Then: faultnet.Drop}, faultnet.Faults{}, false},
		{"silent from the receiver", faultnet.Faults{}, faultnet.Faults{From: 10, Then: faultnet.Drop}, false},
	} {
		n := 0
		proxy, err := faultnet.New(strings.TrimPrefix(s.URL, "http://"), 40, func(i int) (toServer, toClient faultnet.Faults) {
			if n++; n > 1 { // sent again
				return toServer, toClient
			}
			return c.up, c.down
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		limit := patience
		if c.up.Then == faultnet.Drop || c.down.Then == faultnet.Drop {
			limit = 300 * time.Millisecond
		}
		url := "http://" + proxy.Address().String()
		begin := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- sendTo(t, url, secrets, limit) }()
		select {
		case err = <-ended:
		case <-time.After(limit + patience):
			t.Fatalf("%s: a message with a time limit of %v has not ended after %v", c.name, limit, time.Since(begin))
		}
		var f failure
		if errors.As(err, &f); (err == nil) != c.delivered || f.final || time.Since(begin) > patience {
			t.Errorf("%s: %v after %v, final %v", c.name, err, time.Since(begin), f.final)
		}
		before := len(s.requests())
		if err := sendTo(t, url, secrets, patience); err != nil || len(s.requests()) != before+1 {
			t.Errorf("%s, again: %v, %d requests more", c.name, err, len(s.requests())-before)
		}
	}
}
