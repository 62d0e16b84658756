package edr

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// maxOpened is the number of initialisations that stay open between queries.
const maxOpened = 8

// forecast is an initialisation whose files are indexed.
type forecast struct {
	of         *Init
	input      *fio.Input
	grid       *ensemble.Grid // of all parameters
	parameters []*parameter   // of all collections, in the order of the catalogue

	users  int  // queries that read it; guarded by Service.mu
	closed bool // to be closed by its last user
}

// parameter is one field over leads and levels.
type parameter struct {
	product.Description
	kind    product.Kind
	field   product.Field // without values, at the first lead and level
	leads   []ensemble.Lead
	levels  []ensemble.Level
	entries map[position]ensemble.Entry
}

// position is the place of a field among those of a parameter.
type position struct {
	lead  ensemble.Lead
	level ensemble.Level
}

// label describes the parameter in a line, with what distinguishes it from others of its collection.
func (p *parameter) label() string {
	text := p.LongName
	if s := p.field.Statistic(); s != string(p.kind) {
		text += ", " + s
	}
	return text
}

// ofCollection returns the parameters of a collection.
func (f *forecast) ofCollection(c *collection) (out []*parameter) {
	for _, p := range f.parameters {
		if p.kind == c.kind {
			out = append(out, p)
		}
	}
	return out
}

// gridFile reports whether an output is a NetCDF file of fields on a grid.
func gridFile(name string) bool {
	return strings.HasSuffix(name, ".nc") && !strings.HasSuffix(name, "_stations.nc") && !strings.Contains(name, "/")
}

// open returns an initialisation with its files indexed. The caller calls release.
//
// Errors: a fault if there is no NetCDF file; those of fio.Open and of Products.File.
func (s *Service) open(ctx context.Context, of *Init) (f *forecast, release func(), err error) {
	if f := s.take(of); f != nil {
		return f, func() { s.release(f) }, nil
	}
	pool, err := s.decoder()
	if err != nil {
		return nil, nil, err
	}
	var files []string
	for _, o := range of.Manifest.Outputs {
		if !gridFile(o.Path) {
			continue
		}
		path, err := s.products.File(of, o.Path)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, path)
	}
	if len(files) == 0 {
		return nil, nil, notFound("initialisation " + of.Name + " has no NetCDF files (output.formats), which queries need")
	}
	in, err := fio.Open(ctx, files, fio.Options{Pool: pool})
	if err != nil {
		return nil, nil, err
	}
	f = &forecast{of: of, input: in, users: 1}
	f.index()
	if f.grid == nil {
		in.Close()
		return nil, nil, notFound("initialisation " + of.Name + " has no fields that queries can read")
	}
	s.keep(f)
	return f, func() { s.release(f) }, nil
}

// index makes the parameters of the catalogue.
func (f *forecast) index() {
	byName := map[string]*parameter{}
	for _, e := range f.input.Catalogue().Entries {
		kind := product.KindOf(e)
		if kind == "" || !e.Grid.Rectangular() || f.grid != nil && e.Grid != f.grid {
			continue
		}
		field := product.Field{Variable: e.Variable, Unit: e.Unit, Level: e.Level, Lead: e.Lead, Kind: kind, Below: e.QuantileProbability, Event: e.Event, Member: e.Member,
			Period: time.Duration(e.Interval), Method: e.Statistic}
		d, ok := field.Describe()
		if !ok {
			continue
		}
		f.grid = e.Grid
		p := byName[d.Name]
		if p == nil {
			p = &parameter{Description: d, kind: kind, field: field, entries: map[position]ensemble.Entry{}}
			byName[d.Name] = p
			f.parameters = append(f.parameters, p)
		}
		if !slices.Contains(p.leads, e.Lead) {
			p.leads = append(p.leads, e.Lead)
		}
		if !slices.Contains(p.levels, e.Level) {
			p.levels = append(p.levels, e.Level)
		}
		p.entries[position{e.Lead, e.Level}] = e
	}
}

// decoder returns the pool of child processes.
//
// Errors: exit 69 if the program is not installed.
func (s *Service) decoder() (*decode.Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pool == nil {
		pool, err := decode.NewPool(decode.Options{Children: s.limits.Concurrent, Deadline: s.limits.Time})
		if err != nil {
			return nil, err
		}
		s.pool = pool
	}
	return s.pool, nil
}

// take returns an open initialisation, and counts a user; nil if it is not open in this revision.
func (s *Service) take(of *Init) *forecast {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.opened {
		if f.of.Name != of.Name {
			continue
		}
		s.opened = slices.Delete(s.opened, i, i+1)
		if f.of.Revision != of.Revision {
			s.discard(f)
			return nil
		}
		s.opened = slices.Insert(s.opened, 0, f)
		f.users++
		return f
	}
	return nil
}

// keep adds an open initialisation, in place of one of the same name or of the least recently used one.
func (s *Service) keep(f *forecast) {
	s.mu.Lock()
	defer s.mu.Unlock()
	drop := slices.IndexFunc(s.opened, func(o *forecast) bool { return o.of.Name == f.of.Name })
	if drop < 0 && len(s.opened) == maxOpened {
		drop = maxOpened - 1
	}
	if drop >= 0 {
		s.discard(s.opened[drop])
		s.opened = slices.Delete(s.opened, drop, drop+1)
	}
	s.opened = slices.Insert(s.opened, 0, f)
}

// discard closes a forecast that is no longer kept, now or by its last user. s.mu is held.
func (s *Service) discard(f *forecast) {
	if f.closed = true; f.users == 0 {
		f.input.Close()
	}
}

// release ends the use of a forecast.
func (s *Service) release(f *forecast) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.users--; f.closed && f.users == 0 {
		f.input.Close()
	}
}

// forget closes what is open of an initialisation, so that it is read again.
func (s *Service) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.opened, func(o *forecast) bool { return o.of.Name == name }); i >= 0 {
		s.discard(s.opened[i])
		s.opened = slices.Delete(s.opened, i, i+1)
	}
}

// current reports whether an initialisation still has the products that were opened.
func (s *Service) current(of *Init) (bool, error) {
	now, err := s.products.Find(of.Name)
	if errors.Is(err, ErrNoProducts) {
		return false, nil
	}
	return err == nil && now.Revision == of.Revision, err
}
