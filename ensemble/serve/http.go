package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/desk"
	"github.com/ensemble-weather/ensemble/ensemble/edr"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/ensemble/stac"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// handler serves all requests. It is read-only.
type handler struct {
	*state
	log     *slog.Logger
	reader  *published.Reader // of the page and of queries
	desk    *desk.Desk
	queries *edr.Service
}

func newHandler(s *state, log *slog.Logger) *handler {
	q := s.options.Service.Queries
	r := published.NewReader(s.fieldOutput, decode.Options{Children: q.Concurrent + desk.MaxDrawing, Deadline: q.Timeout})
	limits := edr.Limits{Values: q.MaxValues, Time: q.Timeout, Concurrent: q.Concurrent}
	return &handler{s, log, r, desk.New(pageSource{s}, r), edr.New(querySource{state: s}, r, limits, log)}
}

// server returns the HTTP server of the handler, with time and size limits for requests.
func (h *handler) server() *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: 2 * headerTimeout, WriteTimeout: chunkTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ConnState: h.limiter.connState, ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug), DisableGeneralOptionsHandler: true}
}

// contentSecurityPolicy allows pages of this service only their own images, forms and inline styles.
const contentSecurityPolicy = "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// ServeHTTP serves one request, counts it and logs one line.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	a := &response{ResponseWriter: w, control: http.NewResponseController(w), request: r}
	head := w.Header()
	head.Set("Content-Security-Policy", contentSecurityPolicy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-cache")
	if h.limiter.isLastAnswer() {
		head.Set("Connection", "close")
	}
	defer func() {
		p := recover()
		if p != nil && a.status == 0 {
			http.Error(a, "internal error", http.StatusInternalServerError)
		}
		h.metrics.requests.add(1, fmt.Sprint(a.status))
		h.metrics.responseBytes.add(float64(a.bytes))
		h.metrics.requestTime.observe(time.Since(begun).Seconds())
		h.logRequest(r, a, begun)
		if p != nil {
			h.log.Error("internal error in a request", "panic", fmt.Sprint(p))
			panic(http.ErrAbortHandler)
		}
	}()
	preflight := h.allowOrigin(head, r)
	status, why := rejection(r, preflight)
	if status == 0 && !isAllowedHost(r, h.allowedHosts()) {
		h.metrics.rejected.add(1, rejectedHost)
		status, why = http.StatusMisdirectedRequest, "unknown host name; allowed names are in serve.allowed_hosts"
	}
	if status != 0 {
		if status == http.StatusMethodNotAllowed {
			head.Set("Allow", "GET, HEAD")
		}
		head.Set("Connection", "close")
		http.Error(a, why, status)
		return
	}
	if preflight {
		a.WriteHeader(http.StatusNoContent)
		return
	}
	h.route(a, r)
}

// rejection validates a request. It returns status 0 for a valid one, else the status and the
// reason.
func rejection(r *http.Request, preflight bool) (status int, why string) {
	escaped := strings.ToLower(r.URL.EscapedPath())
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead && !preflight:
		return http.StatusMethodNotAllowed, "method not allowed: use GET or HEAD"
	case len(r.RequestURI) > maxURL:
		return http.StatusRequestURITooLong, "URL too long"
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		return http.StatusBadRequest, "request body not allowed"
	case r.URL.Host != "" || !strings.HasPrefix(r.URL.Path, "/"):
		return http.StatusBadRequest, "invalid URL"
	case strings.ContainsFunc(r.URL.Path, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' || c == 0xfffd }),
		strings.Contains(escaped, "%2f"), strings.Contains(r.URL.Path, "//"):
		return http.StatusBadRequest, "invalid URL"
	case path.Clean(r.URL.Path) != strings.TrimSuffix(r.URL.Path, "/") && r.URL.Path != "/":
		return http.StatusBadRequest, "invalid URL"
	case strings.Count(r.Header.Get("Range"), ",") >= maxRanges:
		return http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("too many ranges, at most %d", maxRanges)
	}
	return 0, ""
}

// route dispatches a valid request by its path.
func (h *handler) route(w *response, r *http.Request) {
	switch at := r.URL.Path; {
	case at == "/":
		h.servePage(w, r)
	case strings.HasPrefix(at, "/scores"):
		h.serveScores(w, r, strings.TrimPrefix(at, "/"))
	case at == "/healthz":
		h.writeHealth(w, map[bool]string{false: "publishing is stalled"}[h.isAlive()])
	case at == "/readyz":
		h.writeHealth(w, h.notReadyReason())
	case at == "/metrics":
		h.updateGauges()
		plain(w, r, "text/plain; version=0.0.4; charset=utf-8", h.metrics.text(h.limiter.open()))
	case at == "/status":
		h.status(w, r)
	case at == "/products":
		w.Header().Set("Location", "/products/")
		w.WriteHeader(http.StatusPermanentRedirect)
	case at == "/products/":
		h.listInits(w, r)
	case strings.HasPrefix(at, "/products/"):
		name, file, below := strings.Cut(strings.TrimPrefix(at, "/products/"), "/")
		switch {
		case !below && (name == latestName || initNamePattern.MatchString(name)):
			w.Header().Set("Location", "/products/"+name+"/")
			w.WriteHeader(http.StatusPermanentRedirect)
		case name == latestName:
			h.latest(w, r, file)
		case file == "":
			h.listProducts(w, r, name)
		default:
			h.file(w, r, name, file)
		}
	case at == edr.Root || strings.HasPrefix(at, edr.Root+"/"):
		h.query(w, r)
	case strings.HasPrefix(at, stac.Root+"/"):
		h.catalogue(w, r)
	default:
		http.Error(w, "not found", http.StatusNotFound)
	}
}

// writeHealth responds with "ok", or with status 503 and the reason.
func (h *handler) writeHealth(w *response, wrong string) {
	if wrong != "" {
		http.Error(w, wrong, http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

// file responds with a file of finished products, or the requested ranges of it.
func (h *handler) file(w *response, r *http.Request, name, file string) {
	f, want, st, err := h.tree.open(name, file)
	if err != nil {
		h.notFound(w, err)
		return
	}
	defer f.Close()
	w.rate = h.rate
	w.Header().Set("Content-Type", product.MediaType(file))
	w.Header().Set("ETag", `"`+want.SHA256+`"`)
	http.ServeContent(w, r, "", modified(st), f)
}

// modified is the Last-Modified time of a file, in whole seconds.
func modified(st fs.FileInfo) time.Time { return st.ModTime().UTC().Truncate(time.Second) }

// notFound responds with status 404. Errors other than errNotFound are logged, not shown to the
// client.
func (h *handler) notFound(w *response, err error) {
	if !errors.Is(err, errNotFound) {
		h.log.Error("products cannot be read", "error", exit.OneLine(err))
	}
	http.Error(w, errNotFound.Error(), http.StatusNotFound)
}

// asJSON responds with v as JSON.
func asJSON(w *response, r *http.Request, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // types of this package always marshal
	}
	plain(w, r, "application/json", append(text, '\n'))
}

// logRequest logs one request, without query and headers, which may contain secrets. Probes are
// logged at debug level.
func (h *handler) logRequest(r *http.Request, a *response, begun time.Time) {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = "socket"
	}
	at := r.URL.Path
	if len(at) > 200 {
		at = at[:200] + "…"
	}
	level := slog.LevelInfo
	if strings.HasSuffix(at, "z") || at == "/metrics" { // probes are frequent
		level = slog.LevelDebug
	}
	h.log.Log(r.Context(), level, "request", "from", from, "method", clip(r.Method), "path", at, "status", a.status, "bytes", a.bytes, "seconds", seconds(begun))
}

// clip shortens a method, which clients choose freely.
func clip(s string) string { return s[:min(len(s), 16)] }
