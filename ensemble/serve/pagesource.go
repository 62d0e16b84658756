package serve

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/desk"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
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

// Products returns the product files of an initialisation. Each exists with the size that the manifest states, and no part of
// its path is a link.
//
// Errors: desk.ErrNoProducts; exit 65 for a file of another size.
func (s pageSource) Products(name string) (*desk.Products, error) {
	c, err := s.tree.find(name)
	if err != nil {
		return nil, desk.ErrNoProducts
	}
	s.mu.Lock()
	p := &desk.Products{Name: name, Version: fmt.Sprint(c.version, s.membersSaved), Members: len(c.manifest.MembersUsed)}
	s.mu.Unlock()
	for _, top := range fieldOutputs(c.manifest) {
		for file := range c.files {
			if file != top && !strings.HasPrefix(file, top+"/") {
				continue
			}
			f, _, _, err := s.tree.open(name, file)
			if err != nil {
				return nil, &exit.Error{Code: exit.BadData, What: "a product file is damaged or missing", At: path.Join(name, file), Why: err.Error(), Fix: "make the products again: `ensemble predict --overwrite always`", Err: err}
			}
			f.Close()
		}
		p.Files = append(p.Files, filepath.Join(s.tree.dir, name, top))
	}
	return p, nil
}

// fieldOutputs lists the files and stores with the fields of a product, each field once: NetCDF, without it Zarr,
// without both GRIB.
func fieldOutputs(m *product.Manifest) []string {
	for _, suffix := range []string{".nc", ".zarr", ".grib2"} {
		var out []string
		for _, top := range m.TopLevelOutputs() {
			if strings.HasSuffix(top, suffix) && !strings.HasSuffix(top, "_stations.nc") {
				out = append(out, top)
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
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
