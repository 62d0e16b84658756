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

// hostname is the name that this machine gives itself.
var hostname = sync.OnceValue(func() string { n, _ := os.Hostname(); return n }) // without a name none is served

// isAllowedHost tells whether a request is for this service, by the host that it names. The name of another site can
// be made to stand for an address of this machine (DNS rebinding), and a page of that site then read what is
// shown here by the browser of who looks at it; but the browser says the name. An address stands for
// nothing else, and sockets in the file system have no names. names are those that a configuration adds.
func isAllowedHost(r *http.Request, names []string) bool {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && a.Network() == "unix" {
		return true
	}
	name := r.Host
	if name == "" { // of HTTP/1.0, which no browser speaks
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
