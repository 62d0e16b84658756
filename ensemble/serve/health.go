package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Probe asks a service whether it works, as a health check of a container does: path is /healthz or /readyz, where one of
// serve.listen, a wildcard address of which stands for this machine.
//
// Errors: exit 1 with the reason if it does not work, or does not answer within the limit.
func Probe(ctx context.Context, where, path string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		network, address := "tcp", where
		if socket, ok := strings.CutPrefix(where, "unix:"); ok {
			network, address = "unix", socket
		}
		return (&net.Dialer{}).DialContext(ctx, network, address) // Linux connects a wildcard address to this machine
	}}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	bad := func(why string) error {
		return &exit.Error{Code: exit.No, What: "the service does not work", At: where, Why: why, Fix: "look at its log; `ensemble serve` must listen there"}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return err
	}
	a, err := client.Do(r)
	if ctx.Err() != nil {
		return bad(fmt.Sprintf("no response within %s", limit))
	} else if err != nil {
		return bad(err.Error())
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, 1<<10))
	if err != nil || a.StatusCode != http.StatusOK {
		return bad(fmt.Sprintf("%s answered %d: %s", path, a.StatusCode, strings.TrimSpace(string(text))))
	}
	return nil
}
