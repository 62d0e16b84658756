package edr

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/io/product"
)

// forecast is an initialisation whose files are open and indexed.
type forecast struct {
	*published.Forecast
	*index
}

// index is what the product files of an initialisation have for queries.
type index struct {
	grid       *ensemble.Grid // of all parameters; nil: no field
	parameters []*parameter   // of all collections, in the order of the catalogue
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
func (x *index) ofCollection(c *collection) (out []*parameter) {
	for _, p := range x.parameters {
		if p.kind == c.kind {
			out = append(out, p)
		}
	}
	return out
}

// open returns an initialisation with its files indexed. The caller calls Release.
//
// Errors: a fault if there is no field that queries can read; those of published.Reader.Open.
func (s *Service) open(ctx context.Context, of *published.Init) (*forecast, error) {
	f, err := s.reader.Open(ctx, of)
	if errors.Is(err, published.ErrNoFields) {
		return nil, notFound("initialisation " + of.Name + ": " + err.Error())
	} else if err != nil {
		return nil, err
	}
	x := published.Index(f, indexOf)
	if x.grid == nil {
		f.Release()
		return nil, notFound("initialisation " + of.Name + " has no fields that queries can read")
	}
	return &forecast{f, x}, nil
}

// indexOf makes the parameters of a catalogue.
func indexOf(entries []ensemble.Entry) *index {
	x := &index{}
	byName := map[string]*parameter{}
	for _, e := range entries {
		kind := product.KindOf(e)
		if kind == "" || !e.Grid.Rectangular() || x.grid != nil && e.Grid != x.grid {
			continue
		}
		field := product.Field{Variable: e.Variable, Unit: e.Unit, Level: e.Level, Lead: e.Lead, Kind: kind, Below: e.QuantileProbability, Event: e.Event, Member: e.Member,
			Period: time.Duration(e.Interval), Method: e.Statistic}
		d, ok := field.Describe()
		if !ok {
			continue
		}
		x.grid = e.Grid
		p := byName[d.Name]
		if p == nil {
			p = &parameter{Description: d, kind: kind, field: field, entries: map[position]ensemble.Entry{}}
			byName[d.Name] = p
			x.parameters = append(x.parameters, p)
		}
		if !slices.Contains(p.leads, e.Lead) {
			p.leads = append(p.leads, e.Lead)
		}
		if !slices.Contains(p.levels, e.Level) {
			p.levels = append(p.levels, e.Level)
		}
		p.entries[position{e.Lead, e.Level}] = e
	}
	return x
}

// current reports whether an initialisation still has the products that were opened.
func (s *Service) current(of *published.Init) (bool, error) {
	now, err := s.products.Find(of.Name)
	if errors.Is(err, published.ErrNoProducts) {
		return false, nil
	}
	return err == nil && now.Revision == of.Revision, err
}
