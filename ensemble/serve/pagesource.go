package serve

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/desk"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/io/product"
)

// pageSource gives the page the products on disk, and the statistics of the members that the service keeps of one
// initialisation. It implements desk.Source.
type pageSource struct{ *state }

// verifiedInits is the number of the newest initialisations whose manifests are read for the form of the page.
const verifiedInits = 100

// Inits lists the initialisations that are not in the future. Those after the first verifiedInits may be unfinished.
func (s pageSource) Inits() []string {
	names, err := s.tree.names()
	if err != nil {
		return nil
	}
	names = slices.DeleteFunc(names, s.isFuture)
	seen := 0
	return slices.DeleteFunc(names, func(name string) bool {
		seen++
		return seen <= verifiedInits && !s.isPublished(name)
	})
}

// Products returns the products of an initialisation.
//
// Errors: published.ErrNoProducts.
func (s pageSource) Products(name string) (*desk.Products, error) {
	c, err := s.tree.find(name)
	if err != nil {
		return nil, published.ErrNoProducts
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &desk.Products{Init: c.init(), Saved: fmt.Sprint(s.membersSaved)}, nil
}

// Members returns the statistics of the members of an initialisation, if the service has kept them.
func (s pageSource) Members(name string) (*scoring.MapExample, error) {
	s.mu.Lock()
	kept := product.InitName(s.membersOf) == name
	s.mu.Unlock()
	if !kept {
		return nil, nil
	}
	e, err := scoring.LoadExample(filepath.Join(s.tree.dir, stateDir))
	if err != nil || e == nil || product.InitName(e.Init) != name {
		return nil, err
	}
	return e, nil
}
