package serve

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
)

// hostname is the host name of this machine.
var hostname = sync.OnceValue(func() string { n, _ := os.Hostname(); return n }) // empty if unknown

// isAllowedHost reports whether the Host of a request names this service: an IP address, localhost,
// the host name of the machine, or one of names (serve.allowed_hosts). The check prevents DNS
// rebinding, where a name of another site resolves to this machine and a page of that site reads
// products through a visitor's browser. Browsers send that name as Host. Requests over Unix sockets
// are always allowed.
func isAllowedHost(r *http.Request, names []string) bool {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && a.Network() == "unix" {
		return true
	}
	name := r.Host
	if name == "" { // HTTP/1.0, which browsers do not use
		return true
	}
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"), "."))
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	return slices.ContainsFunc(append([]string{hostname()}, names...), func(n string) bool { return n == "*" || n != "" && strings.EqualFold(n, name) })
}
