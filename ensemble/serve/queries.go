package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/edr"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/ensemble/stac"
)

// querySource gives queries and the catalogue access to finished products.
type querySource struct {
	*state
	queries *edr.Service
}

// Newest implements edr.Products.
func (p querySource) Newest() (*published.Init, error) {
	c := p.newest()
	if c == nil {
		return nil, published.ErrNoProducts
	}
	return c.init(), nil
}

// Names implements edr.Products.
func (p querySource) Names() ([]string, error) { return p.tree.names() }

// Find implements edr.Products.
func (p querySource) Find(name string) (*published.Init, error) {
	c, err := p.tree.find(name)
	if errors.Is(err, errNotFound) {
		return nil, fmt.Errorf("%w: %w", published.ErrNoProducts, err)
	}
	if err != nil {
		return nil, err
	}
	return c.init(), nil
}

// fieldOutput is the published.Files of the products on disk: each file of an output exists with the size that the manifest
// states, and no part of its path is a link.
func (s *state) fieldOutput(of *published.Init, output string) (string, error) {
	for _, o := range of.Manifest.Outputs {
		if o.Path != output && !strings.HasPrefix(o.Path, output+"/") {
			continue
		}
		f, _, _, err := s.tree.open(of.Name, o.Path)
		if err != nil {
			return "", err
		}
		f.Close()
	}
	return filepath.Join(s.tree.dir, of.Name, output), nil
}

// Place implements stac.Source.
func (p querySource) Place(ctx context.Context, of *published.Init) (edr.Place, error) {
	return p.queries.Place(ctx, of)
}

// init describes the products for readers.
func (c *initProducts) init() *published.Init {
	return &published.Init{Name: c.name, Time: initOf(c.name), Manifest: c.manifest, Revision: fmt.Sprint(c.version)}
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
	text, kind, err := stac.Document(r.Context(), querySource{h.state, h.queries}, r.URL.Path)
	switch {
	case errors.Is(err, stac.ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		h.notFound(w, err)
	default:
		plain(w, r, kind, text)
	}
}
