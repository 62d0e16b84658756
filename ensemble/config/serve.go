package config

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Service says how `ensemble serve` issues products and shows them. Predictions do not read it.
type Service struct {
	Listen                   []string      `key:"listen"`
	AllowedHosts             []string      `key:"hosts"`
	MaxAge                   time.Duration `key:"max_age"`
	RetryDelay               time.Duration `key:"retry"`
	MaxAttempts              int           `key:"attempts"`
	ReadyMaxAge              time.Duration `key:"ready_within"`
	Scores                   Path          `key:"scores"`
	MaxConnections           int           `key:"connections"`
	MaxConnectionsPerAddress int           `key:"per_address"`
	RateLimit                Bytes         `key:"rate"`
}

// serviceKeys are the rows of Service.
var serviceKeys = []Key{
	{Path: "serve.listen", Default: `["127.0.0.1:8642"]`, Check: Check{Text: "an address and port such as 127.0.0.1:8642, or unix:PATH", ok: func(v any) bool { return isListenAddress(v.(string)) }},
		Example: `["127.0.0.1:8642", "unix:/run/ensemble/http.sock"]`,
		Help:    "Where HTTP is answered: addresses with ports, and sockets in the file system. Any other than a loopback address is open to the network."},
	{Path: "serve.hosts", Check: Check{Text: "a name such as forecast.example.org, without a port, or *", ok: func(v any) bool { return isHostOrAny(v.(string)) }},
		Example: `["forecast.example.org"]`,
		Help:    "Names that requests may be for, beside addresses, localhost and the name of the machine; with * any."},
	{Path: "serve.max_age", Check: Above(0), Example: "48h",
		Help: "Starts that are older are left alone; without it all of the input are issued."},
	{Path: "serve.retry", Default: "1m", Check: Above(0), Example: "1m",
		Help: "Pause before a start that failed is tried again; each further pause is twice as long, up to an hour."},
	{Path: "serve.attempts", Default: "6", Check: AtLeast(1), Example: "6",
		Help: "How often a start is tried on one state of its files. When they change it is tried anew."},
	{Path: "serve.ready_within", Check: Above(0), Example: "14h",
		Help: "/readyz says no when the newest start with products is older; without it no age is too much."},
	{Path: "serve.scores", Example: "verification",
		Help: "Folder of `ensemble verify --out` whose scores the page shows."},
	{Path: "serve.connections", Default: "256", Check: Between(1, 65536), Example: "256",
		Help: "Connections at one time; further ones wait until one of them ends or is idle."},
	{Path: "serve.per_address", Default: "64", Check: Between(0, 65536), Example: "64",
		Help: "Connections of one address at one time; further ones are refused. 0 has no bound: for a service behind a proxy."},
	{Path: "serve.rate", Default: "0", Example: "50MB",
		Help: "Bytes of products a second, over all connections; 0 has no bound."},
}

// isListenAddress tells an address with a port, or a path behind unix:.
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

// isHostOrAny tells a name of a host, or * for any.
func isHostOrAny(s string) bool {
	return s == "*" || len(s) < 254 && hostName.MatchString(s)
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

func isTimeOfDay(s string) bool {
	_, err := time.Parse(timeOfDay, s)
	return err == nil
}

// CheckService applies the rules of `ensemble serve` alone.
//
// Errors: exit 64.
func (c *PredictConfig) CheckService() error {
	if d := string(c.Members.Deadline); d != "" && !strings.HasPrefix(d, "+") && !isTimeOfDay(d) {
		return c.fault("members.deadline", "members.deadline is one moment", "a program that stays has one for every start",
			"write it as a time of day, 06:40Z, or count from the first file of a start: +40m")
	}
	return nil
}
