package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// selection is what a reader has chosen: the field of a map, and the place of a meteogram.
type selection struct {
	*catalogue
	target    *target
	lead      ensemble.Lead
	statistic statistic
	at        *report.Place // nil: no meteogram
	note      string        // what differs from the wish, and why; "": nothing
}

// unknownError is a value of a query that the products do not have.
type unknownError struct {
	what, value string
	available   []string
}

func (e *unknownError) Error() string {
	text := fmt.Sprintf("There is no %s %.40q.", e.what, e.value)
	if len(e.available) > 0 {
		text += " Available: " + humanise.List(e.available) + "."
	}
	return text
}

// badPlaceError is a place that is no latitude and longitude.
type badPlaceError struct{ why string }

func (e *badPlaceError) Error() string { return e.why }

// choose reads a query: init, variable, lead, show, and lat with lon. Each is optional; without it the newest initialisation
// with products, its first variable and lead, and the mean are chosen. A statistic or a lead that only other variables have
// is replaced, with a note.
//
// Errors: *unknownError; *badPlaceError; those of readCatalogue.
func (d *Desk) choose(ctx context.Context, q url.Values) (*selection, error) {
	c, err := d.catalogueOf(ctx, q.Get("init"))
	if err != nil {
		return nil, err
	}
	s := &selection{catalogue: c, target: &c.targets[0]}
	if id := q.Get("variable"); id != "" {
		i := slices.IndexFunc(c.targets, func(t target) bool { return t.id == id })
		if i < 0 {
			return nil, &unknownError{"variable", id, c.targetIDs()}
		}
		s.target = &c.targets[i]
	}
	if err := s.chooseLead(q.Get("lead")); err != nil {
		return nil, err
	}
	if err := s.chooseStatistic(q.Get("show")); err != nil {
		return nil, err
	}
	s.at, err = placeOf(q)
	return s, err
}

// targetIDs lists the targets as in addresses.
func (c *catalogue) targetIDs() (out []string) {
	for _, t := range c.targets {
		out = append(out, t.id)
	}
	return out
}

// leadsOf lists the leads of a target.
func (c *catalogue) leadsOf(t *target) (out []ensemble.Lead) {
	for _, l := range c.leads {
		if c.statistics(t, &l) != nil {
			out = append(out, l)
		}
	}
	return out
}

// chooseLead selects a lead; "" is the first.
func (s *selection) chooseLead(id string) error {
	own := s.leadsOf(s.target)
	s.lead = own[0]
	if id == "" {
		return nil
	}
	i := slices.IndexFunc(s.leads, func(l ensemble.Lead) bool { return l.String() == id })
	switch {
	case i < 0:
		return &unknownError{"lead", id, humanise.Strings(s.leads)}
	case slices.Contains(own, s.leads[i]):
		s.lead = s.leads[i]
	default:
		s.note = fmt.Sprintf("%s has no lead %s; %s is shown. ", s.target.name(), id, s.lead)
	}
	return nil
}

// chooseStatistic selects a statistic; "" is the first.
func (s *selection) chooseStatistic(id string) error {
	own := s.statistics(s.target, &s.lead)
	s.statistic = own[0]
	if id == "" {
		return nil
	}
	i := slices.IndexFunc(s.all, func(x statistic) bool { return x.id() == id })
	switch {
	case i < 0:
		var ids []string
		for _, x := range own {
			ids = append(ids, x.id())
		}
		return &unknownError{"statistic", id, ids}
	case slices.Contains(own, s.all[i]):
		s.statistic = s.all[i]
	default:
		s.note += fmt.Sprintf("%s at lead %s has no %s; its %s is shown.", s.target.name(), s.lead, s.all[i].text(s.target.display()), s.statistic.text(s.target.display()))
	}
	return nil
}

// placeOf reads lat and lon; nil without them.
//
// Errors: *badPlaceError.
func placeOf(q url.Values) (*report.Place, error) {
	if q.Get("lat") == "" && q.Get("lon") == "" {
		return nil, nil
	}
	lat, errLat := strconv.ParseFloat(q.Get("lat"), 64)
	lon, errLon := strconv.ParseFloat(q.Get("lon"), 64)
	switch {
	case errLat != nil || !(math.Abs(lat) <= 90):
		return nil, &badPlaceError{fmt.Sprintf("%.40q is not a latitude: give degrees north from -90 to 90.", q.Get("lat"))}
	case errLon != nil || !(math.Abs(lon) <= 360):
		return nil, &badPlaceError{fmt.Sprintf("%.40q is not a longitude: give degrees east from -180 to 360.", q.Get("lon"))}
	}
	return &report.Place{Lon: lon, Lat: lat}, nil
}

// query is the selection as an address, with the place if it has one.
func (s *selection) query() url.Values {
	q := url.Values{"init": {s.products.Name}, "variable": {s.target.id}, "lead": {s.lead.String()}, "show": {s.statistic.id()}}
	if s.at != nil {
		q.Set("lat", degrees(s.at.Lat))
		q.Set("lon", degrees(s.at.Lon))
	}
	return q
}

// degrees formats an angle with at most two decimals: about a kilometre.
func degrees(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

// catalogueOf returns the catalogue of an initialisation; "" is the newest with products.
//
// Errors: *unknownError for one without products; those of readCatalogue.
func (d *Desk) catalogueOf(ctx context.Context, name string) (*catalogue, error) {
	names := d.source.Inits()
	if name == "" && len(names) == 0 {
		return nil, published.ErrNoProducts
	}
	p, err := d.source.Products(cmp.Or(name, first(names)))
	if errors.Is(err, published.ErrNoProducts) {
		return nil, &unknownError{"initialisation with products", cmp.Or(name, first(names)), names}
	} else if err != nil {
		return nil, err
	}
	v, err := d.renderer.get(ctx, "catalogue "+p.Name+" "+p.version(), func(ctx context.Context) (any, int, error) {
		c, err := readCatalogue(ctx, d.reader, p)
		if err != nil {
			return nil, 0, err
		}
		return c, c.bytes(), nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*catalogue), nil
}

// first is the first of some words; "" without any.
func first(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
