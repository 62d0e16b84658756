package edr

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Products are the finished products that queries read.
type Products interface {
	// Newest returns the newest initialisation that is not in the future.
	//
	// Errors: published.ErrNoProducts.
	Newest() (*published.Init, error)
	// Names lists the initialisations with products, the newest first.
	Names() ([]string, error)
	// Find returns an initialisation.
	//
	// Errors: published.ErrNoProducts.
	Find(name string) (*published.Init, error)
}

// Limits bound a query. A zero value means the default.
type Limits struct {
	Values     int           // values in an answer; 0 means 1,000,000
	Time       time.Duration // time of an answer, with the wait for other queries; 0 means 30 s
	Concurrent int           // queries that are computed at a time; 0 means 2
}

// Service answers queries. Its methods may be called from several goroutines.
type Service struct {
	products Products
	reader   *published.Reader
	limits   Limits
	log      *slog.Logger
	slots    chan struct{} // one element for each query that is computed
}

// New makes a service for products that a reader opens.
func New(p Products, r *published.Reader, l Limits, log *slog.Logger) *Service {
	l.Values, l.Time, l.Concurrent = cmp.Or(l.Values, 1_000_000), cmp.Or(l.Time, 30*time.Second), cmp.Or(l.Concurrent, 2)
	return &Service{products: p, reader: r, limits: l, log: log, slots: make(chan struct{}, l.Concurrent)}
}

// Answer is the response to a request.
type Answer struct {
	Status   int
	Type     string // media type of Body
	Body     []byte
	Location string // path of the same answer for this initialisation only; "" if there is none
}

// Root is the path below which requests are answered.
const Root = "/edr"

// Media types.
const (
	typeJSON     = "application/json"
	typeCoverage = "application/prs.coverage+json" // OGC 19-086r6, requirement class covjson
	typeNetCDF   = "application/x-netcdf"
	typeOpenAPI  = "application/vnd.oai.openapi+json;version=3.0"
)

// fault is a request that cannot be answered.
type fault struct {
	status      int
	code        string // in the answer; "" is that of the status
	description string // what, where, why, what is available
}

// Error implements error.
func (f *fault) Error() string { return f.description }

// badRequest is the fault of a query.
func badRequest(description string) error {
	return &fault{http.StatusBadRequest, "InvalidParameterValue", description}
}

// notFound is the fault of a path.
func notFound(description string) error { return &fault{http.StatusNotFound, "NotFound", description} }

// Get answers a request for a path at or below Root. rawQuery is the query of its URL.
//
// Faults are answers too, as JSON with code and description: 400 for a query that the products cannot answer, 404 for an
// unknown path, collection or instance, 413 for more values than Limits.Values, 503 after Limits.Time.
func (s *Service) Get(ctx context.Context, path, rawQuery string) Answer {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Time)
	defer cancel()
	a, err := s.answer(ctx, strings.Trim(strings.TrimPrefix(path, Root), "/"), rawQuery)
	if err == nil {
		return a
	}
	var f *fault
	var known *exit.Error
	switch {
	case errors.As(err, &f):
	case errors.Is(err, published.ErrNoProducts):
		f = &fault{http.StatusNotFound, "NotFound", "there are no products yet"}
	case ctx.Err() != nil:
		f = &fault{http.StatusServiceUnavailable, "Timeout", "the answer took longer than " + s.limits.Time.String() + ": ask for fewer values, or later"}
	case errors.As(err, &known) && known.Code == exit.NoDevice:
		s.log.Error("queries cannot be answered", "error", exit.OneLine(err))
		f = &fault{http.StatusServiceUnavailable, "Unavailable", "the service cannot read products now"}
	default:
		s.log.Error("a query cannot be answered", "path", path, "error", exit.OneLine(err))
		f = &fault{http.StatusInternalServerError, "InternalError", "the products cannot be read"}
	}
	return asJSON(f.status, map[string]string{"code": f.code, "description": f.description})
}

// asJSON is the answer of a JSON document.
func asJSON(status int, v any) Answer {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // documents of this package always marshal
	}
	return Answer{Status: status, Type: typeJSON, Body: append(text, '\n')}
}

// answer answers a request for a path below Root.
func (s *Service) answer(ctx context.Context, path, rawQuery string) (Answer, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return Answer{}, badRequest("the query of the URL is malformed: " + err.Error())
	}
	parts := strings.Split(path, "/")
	switch {
	case path == "":
		return asJSON(http.StatusOK, landingPage()), nil
	case path == "api":
		return Answer{Status: http.StatusOK, Type: typeOpenAPI, Body: apiDefinition}, nil
	case path == "conformance":
		return asJSON(http.StatusOK, conformance()), nil
	case parts[0] != "collections" || len(parts) > 5:
		return Answer{}, notFound("unknown path; the paths are " + Root + ", " + Root + "/conformance and " + Root + "/collections")
	case len(parts) == 1:
		return s.collections(ctx)
	}
	c, err := s.collection(parts[1])
	if err != nil {
		return Answer{}, err
	}
	parts = parts[2:]
	instance := ""
	if len(parts) > 0 && parts[0] == "instances" {
		if len(parts) == 1 {
			return s.instances(ctx, c, values)
		}
		instance, parts = parts[1], parts[2:]
	}
	if len(parts) > 1 {
		return Answer{}, notFound("unknown path; a collection has " + queryNames())
	}
	of, err := s.find(c, instance)
	if err != nil {
		return Answer{}, err
	}
	if len(parts) == 0 {
		return s.describe(ctx, c, of, instance != "")
	}
	a, err := s.query(ctx, c, of, parts[0], values)
	if err == nil && instance == "" {
		a.Location = c.path(of.Name) + "/" + parts[0] + "?" + rawQuery
	}
	return a, err
}

// find returns the initialisation of an instance of a collection; "" is the newest one.
//
// Errors: a fault for an initialisation without products, or without those of the collection.
func (s *Service) find(c *collection, instance string) (*published.Init, error) {
	if instance == "" {
		of, err := s.products.Newest()
		if err == nil && !c.has(of) {
			err = notFound("the newest initialisation, " + of.Name + ", has no products of the collection " + c.id + "; it has " + ids(available(of)))
		}
		return of, err
	}
	of, err := s.products.Find(instance)
	if errors.Is(err, published.ErrNoProducts) || err == nil && !c.has(of) {
		err = notFound("collection " + c.id + " has no instance " + clip(instance) + "; " + c.path("") + "/instances lists them")
	}
	return of, err
}

// clip shortens a text of a client for messages.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:60], "") + "…"
	}
	return `"` + text + `"`
}
