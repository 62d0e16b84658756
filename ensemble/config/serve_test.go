package config

import (
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Names of hosts are names: with a port, a scheme or a path none would ever be asked for.
func TestHostNames(t *testing.T) {
	for name, want := range map[string]bool{"*": true, "fc1": true, "forecast.example.org": true, "a-b.c_d.x1": true,
		"": false, "forecast.example.org:80": false, "http://x": false, "x/": false, "*.example.org": false, "a b": false, ".a": false, "a.": false, "-a": false, "a..b": false,
		strings.Repeat("a.", 126) + "a": true, strings.Repeat("a.", 127) + "a": false} {
		if isHostOrAny(name) != want {
			t.Errorf("%q is a name of a host: %v", name, !want)
		}
	}
}

// The bounds of a service have defaults, and 0 is none.
func TestServiceBounds(t *testing.T) {
	c, err := LoadPredict(Sources{})
	if err != nil || c.Serve.MaxConnectionsPerAddress != 64 || c.Serve.MaxConnections != 256 || c.Serve.AllowedHosts != nil {
		t.Errorf("%v: %+v", err, c.Serve)
	}
	c, err = LoadPredict(Sources{Set: []string{"serve.max_connections_per_address=0", "serve.allowed_hosts=[a.example.org, fc1]"}})
	if err != nil || c.Serve.MaxConnectionsPerAddress != 0 || len(c.Serve.AllowedHosts) != 2 || c.Serve.AllowedHosts[1] != "fc1" {
		t.Errorf("%v: %+v", err, c.Serve)
	}
	if _, err := LoadPredict(Sources{Set: []string{"serve.allowed_hosts=[a.example.org:80]"}}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "without a port") {
		t.Errorf("a name with a port: %v", err)
	}
}

// Origins are those that browsers send: a scheme, a name and perhaps a port, without a path.
func TestCORSOrigins(t *testing.T) {
	for name, want := range map[string]bool{"*": true, "https://maps.example.org": true, "http://localhost:3000": true, "http://[::1]:80": true,
		"": false, "maps.example.org": false, "https://maps.example.org/": false, "https://*.example.org": false, "null": false, "file://x": false, "https://a b": false} {
		if isOriginOrAny(name) != want {
			t.Errorf("%q is an origin: %v", name, !want)
		}
	}
	c, err := LoadPredict(Sources{})
	if err != nil || c.Serve.CORSOrigins != nil || c.Serve.Queries != (Queries{1_000_000, 30 * time.Second, 2}) {
		t.Errorf("%v: %+v", err, c.Serve)
	}
	c, err = LoadPredict(Sources{Set: []string{"serve.cors_origins=[\"https://maps.example.org\"]", "serve.queries.max_values=5000", "serve.queries.timeout=10s", "serve.queries.concurrent=4"}})
	if err != nil || len(c.Serve.CORSOrigins) != 1 || c.Serve.Queries != (Queries{5000, 10 * time.Second, 4}) {
		t.Errorf("%v: %+v", err, c.Serve)
	}
	if _, err := LoadPredict(Sources{Set: []string{"serve.cors_origins=[maps.example.org]"}}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "https://maps.example.org, or *") {
		t.Errorf("an origin without a scheme: %v", err)
	}
}
