package serve

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/edr"
	"github.com/ensemble-weather/ensemble/ensemble/stac"
)

// sharedPaths are the paths that pages of other origins may read.
var sharedPaths = []string{"/products", edr.Root, stac.Root}

// allowOrigin permits a page of an origin in serve.cors_origins to read the response. preflight reports whether the
// request only asks for that permission.
//
// Source: https://fetch.spec.whatwg.org/#http-cors-protocol. Requests have no credentials, so * is safe.
func (h *handler) allowOrigin(head http.Header, r *http.Request) (preflight bool) {
	origins := h.corsOrigins()
	if len(origins) == 0 || !slices.ContainsFunc(sharedPaths, func(p string) bool { return r.URL.Path == p || strings.HasPrefix(r.URL.Path, p+"/") }) {
		return false
	}
	allowed := "*"
	if !slices.Contains(origins, "*") {
		head.Add("Vary", "Origin")
		allowed = r.Header.Get("Origin")
		if !slices.ContainsFunc(origins, func(o string) bool { return strings.EqualFold(o, allowed) }) {
			return false
		}
	}
	head.Set("Access-Control-Allow-Origin", allowed)
	head.Set("Access-Control-Expose-Headers", "Accept-Ranges, Content-Location, Content-Range, ETag, Retry-After")
	head.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if r.Method != http.MethodOptions || r.Header.Get("Origin") == "" || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	head.Set("Access-Control-Allow-Methods", "GET, HEAD")
	head.Set("Access-Control-Allow-Headers", "If-Match, If-Modified-Since, If-None-Match, If-Range, Range")
	head.Set("Access-Control-Max-Age", "3600")
	return true
}
