package config

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// Service is the section serve: HTTP server and retry policy of `ensemble serve`. `ensemble predict`
// ignores it.
type Service struct {
	Listen                   []string      `key:"listen"`
	AllowedHosts             []string      `key:"allowed_hosts"`
	MaxAge                   time.Duration `key:"max_age"`
	MaxFuture                time.Duration `key:"max_future"`
	Schedule                 Schedule      `key:"schedule"`
	RetryDelay               time.Duration `key:"retry_delay"`
	ReadyMaxAge              time.Duration `key:"ready_max_age"`
	Scores                   Path          `key:"scores"`
	OnIssue                  Hook          `key:"on_issue"`
	MaxConnections           int           `key:"max_connections"`
	MaxConnectionsPerAddress int           `key:"max_connections_per_address"`
	RateLimit                Bytes         `key:"rate_limit"`
	CORSOrigins              []string      `key:"cors_origins"`
	Queries                  Queries       `key:"queries"`
}

// Queries is the section serve.queries: limits of queries for values of products.
type Queries struct {
	MaxValues  int           `key:"max_values"`
	Timeout    time.Duration `key:"timeout"`
	Concurrent int           `key:"concurrent"`
}

// serviceKeys are the rows of Service.
var serviceKeys = []schema.Key{
	{Path: "serve.listen", Default: `["127.0.0.1:8642"]`, Check: schema.Check{Text: "an address and port such as 127.0.0.1:8642, or unix:PATH", Allows: func(v any) bool { return isListenAddress(v.(string)) }},
		Example: `["127.0.0.1:8642", "unix:/run/ensemble/http.sock"]`,
		Help:    "Listen addresses of the HTTP server: addresses with ports, and Unix sockets. Addresses other than loopback are reachable from the network."},
	{Path: "serve.allowed_hosts", Check: schema.Check{Text: "a name such as forecast.example.org, without a port, or *", Allows: func(v any) bool { return isHostOrAny(v.(string)) }},
		Example: `["forecast.example.org"]`,
		Help:    "Host names accepted in requests, besides IP addresses, localhost and the host name of the machine; *: any."},
	{Path: "serve.max_age", Check: Above(0), Example: "48h",
		Help: "Older initialisations are ignored. Default: all are processed."},
	{Path: "serve.max_future", Default: "1h", Check: Above(0), Example: "1h",
		Help: "Longest time that an initialisation may lie in the future, by the clock of this machine. Later ones are not issued and never count as the newest."},
	{Path: "serve.schedule.cycles", Example: "[00, 12]",
		Help: "Hours of the initialisations that are due every day, in UTC. A missing initialisation is then reported as late. Default: no schedule."},
	{Path: "serve.schedule.expected", Example: "init+6h40m",
		Help: "When the products of a scheduled initialisation are expected: time after the initialisation, or the first time of day after it such as 06:40Z."},
	{Path: "serve.retry_delay", Default: "1m", Check: Above(0), Example: "1m",
		Help: "Delay before a failed initialisation is retried; doubled after each retry, up to an hour. Faults of its files and of the configuration are not retried before these change."},
	{Path: "serve.ready_max_age", Check: Above(0), Example: "14h",
		Help: "Largest age of the newest initialisation with products for which /readyz reports ready. Default: any age."},
	{Path: "serve.scores", Example: "verification",
		Help: "Output directory of `ensemble verify --out`, whose scores are shown at /scores.html."},
	{Path: "serve.max_connections", Default: "256", Check: Between(1, 65536), Example: "256",
		Help: "Largest number of concurrent connections; further ones wait until one ends or is idle."},
	{Path: "serve.max_connections_per_address", Default: "64", Check: Between(0, 65536), Example: "64",
		Help: "Largest number of concurrent connections from one address; further ones are rejected. 0: no limit, for a service behind a proxy."},
	{Path: "serve.rate_limit", Default: "0", Example: "50MB",
		Help: "Largest rate of product downloads in bytes per second, over all connections; 0: no limit."},
	{Path: "serve.cors_origins", Check: schema.Check{Text: "an origin such as https://maps.example.org, or *", Allows: func(v any) bool { return isOriginOrAny(v.(string)) }},
		Example: `["https://maps.example.org"]`,
		Help:    "Origins whose pages may read products, queries and catalogue in a browser; *: any. Default: none but this service."},
	{Path: "serve.queries.max_values", Default: "1000000", Check: Between(1, 1e8), Example: "1000000",
		Help: "Largest number of values in the answer to a query for values of products."},
	{Path: "serve.queries.timeout", Default: "30s", Check: Above(0), Example: "30s",
		Help: "Longest time of a query for values of products, with its wait for others."},
	{Path: "serve.queries.concurrent", Default: "2", Check: Between(1, 64), Example: "2",
		Help: "Largest number of queries for values of products that are computed at a time; further ones wait."},
}

// isListenAddress reports whether s is an IP address or localhost with a port, or unix: and an absolute
// path.
func isListenAddress(s string) bool {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return filepath.IsAbs(path) && len(path) < 108 // sun_path of Linux
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host != "localhost" && net.ParseIP(host) == nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && fmt.Sprint(n) == port
}

// isHostOrAny reports whether s is a host name, or *.
func isHostOrAny(s string) bool {
	return s == "*" || len(s) < 254 && hostName.MatchString(s)
}

// isOriginOrAny reports whether s is an origin, as browsers send it, or *.
func isOriginOrAny(s string) bool { return s == "*" || len(s) < 254 && origin.MatchString(s) }

var origin = regexp.MustCompile(`^https?://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`)

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

// CheckService checks the rules that apply to `ensemble serve` only.
//
// Errors: exit 64 for a deadline that is one point in time, for half a schedule, and for half a hook.
func (c *PredictConfig) CheckService() error {
	if d := c.Members.Deadline; d != "" && !strings.HasPrefix(string(d), "+") && !d.NeedsInit() {
		return c.Fault("members.deadline", "members.deadline is a single point in time", "a service needs a deadline for every initialisation",
			"write the time after the initialisation such as init+6h40m, a time of day such as 06:40Z, or the time after the first file such as +40m")
	}
	if err := c.checkSchedule(); err != nil {
		return err
	}
	return c.checkHook()
}
