package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble/edr"
	"github.com/ensemble-weather/ensemble/ensemble/stac"
)

// published gives queries and the catalogue access to finished products.
type published struct {
	*state
	queries *edr.Service
}

// newQueries makes the service of queries for values of products.
func newQueries(s *state, log *slog.Logger) *edr.Service {
	q := s.options.Service.Queries
	return edr.New(published{state: s}, edr.Limits{Values: q.MaxValues, Time: q.Timeout, Concurrent: q.Concurrent}, log)
}

// Newest implements edr.Products.
func (p published) Newest() (*edr.Init, error) {
	c := p.newest()
	if c == nil {
		return nil, edr.ErrNoProducts
	}
	return c.init(), nil
}

// Names implements edr.Products.
func (p published) Names() ([]string, error) { return p.tree.names() }

// Find implements edr.Products.
func (p published) Find(name string) (*edr.Init, error) {
	c, err := p.tree.find(name)
	if errors.Is(err, errNotFound) {
		return nil, fmt.Errorf("%w: %w", edr.ErrNoProducts, err)
	}
	if err != nil {
		return nil, err
	}
	return c.init(), nil
}

// File implements edr.Products: files that the manifest lists, with their size, and no links.
func (p published) File(of *edr.Init, file string) (string, error) {
	f, _, _, err := p.tree.open(of.Name, file)
	if err != nil {
		return "", err
	}
	return filepath.Join(p.tree.dir, of.Name, file), f.Close()
}

// Place implements stac.Source.
func (p published) Place(ctx context.Context, of *edr.Init) (edr.Place, error) {
	return p.queries.Place(ctx, of)
}

// init describes the products for queries.
func (c *initProducts) init() *edr.Init {
	return &edr.Init{Name: c.name, Time: initOf(c.name), Manifest: c.manifest, Revision: fmt.Sprint(c.version)}
}

// query responds to a query for values of products.
func (h *handler) query(w *response, r *http.Request) {
	a := h.queries.Get(r.Context(), r.URL.Path, r.URL.RawQuery)
	w.rate = h.rate
	if a.Location != "" {
		w.Header().Set("Cache-Control", latestAge)
		w.Header().Set("Content-Location", a.Location)
	}
	if a.Status == http.StatusOK {
		plain(w, r, a.Type, a.Body)
		return
	}
	w.Header().Set("Content-Type", a.Type)
	if a.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(a.Status)
	if _, err := w.Write(a.Body); err != nil {
		h.log.Debug("the client left", "error", err.Error())
	}
}

// catalogue responds with a document of the STAC catalogue.
func (h *handler) catalogue(w *response, r *http.Request) {
	text, kind, err := stac.Document(r.Context(), published{h.state, h.queries}, r.URL.Path)
	switch {
	case errors.Is(err, stac.ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		h.notFound(w, err)
	default:
		plain(w, r, kind, text)
	}
}
