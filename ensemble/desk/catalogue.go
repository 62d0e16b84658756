package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// Products are the finished products of an initialisation.
type Products struct {
	*published.Init
	Saved string // another one after the statistics of the members were saved again
}

// version is another one after anything that the page shows of the products was replaced.
func (p *Products) version() string { return p.Revision + " " + p.Saved }

// target is a variable at a level.
type target struct {
	variable ensemble.Variable
	level    ensemble.Level
	id       string // in addresses: "t-850hPa"
}

// name is the target for display: "Temperature at 850 hPa".
func (t *target) name() string { return report.QuantityName(t.variable.Name, t.level.String()) }

// display is the unit in which the target is shown.
func (t *target) display() report.Display { return report.DisplayOf(t.variable) }

// statistic is what a field states about the distribution of its target.
type statistic struct {
	kind statisticKind
	// of a quantile, 0 to 1
	quantile float64
	// of a probability
	event ensemble.Event
}

// statisticKind is the kind of a statistic, as in addresses.
type statisticKind string

// The kinds, in the order of display. Raw statistics are those of the input members.
const (
	mean           statisticKind = "mean"
	spread         statisticKind = "spread"
	ensembleSpread statisticKind = "ensemble_spread"
	quantile       statisticKind = "quantile"
	probability    statisticKind = "probability"
	rawMean        statisticKind = "raw_mean"
	rawSpread      statisticKind = "raw_spread"
)

// statisticKinds lists the kinds in the order of display.
var statisticKinds = []statisticKind{mean, spread, ensembleSpread, quantile, probability, rawMean, rawSpread}

// id is the statistic in addresses: "mean", "quantile-0.1", "probability-above-273.15".
func (s statistic) id() string {
	switch s.kind {
	case quantile:
		return fmt.Sprintf("%s-%s", s.kind, plain(s.quantile))
	case probability:
		return string(s.kind) + "-" + strings.ReplaceAll(s.event.String(), " ", "-")
	}
	return string(s.kind)
}

// compare orders statistics as they are listed.
func (s statistic) compare(o statistic) int {
	return cmp.Or(cmp.Compare(slices.Index(statisticKinds, s.kind), slices.Index(statisticKinds, o.kind)), cmp.Compare(s.quantile, o.quantile), s.event.Compare(o.event))
}

// isChange reports whether values are differences, without an offset of their unit.
func (s statistic) isChange() bool {
	return s.kind == spread || s.kind == ensembleSpread || s.kind == rawSpread
}

// text is the statistic for display; limits of an event are in the unit of the display.
func (s statistic) text(d report.Display) string {
	switch s.kind {
	case mean:
		return "mean"
	case spread:
		return "spread"
	case ensembleSpread:
		return "estimated spread of the full ensemble"
	case rawMean:
		return "mean of the members"
	case rawSpread:
		return "spread of the members"
	case quantile:
		return plain(100*s.quantile) + " % quantile"
	}
	limit := func(v float64) string { return plain(d.Factor*v + d.Offset) }
	u := unitText(d.Unit)
	if s.event.Relation == ensemble.Between {
		return strings.TrimSpace(fmt.Sprintf("probability of %s to %s %s", limit(s.event.Lower), limit(s.event.Upper), u))
	}
	return strings.TrimSpace(fmt.Sprintf("probability %s %s %s", s.event.Relation, limit(s.event.Threshold()), u))
}

// unitText formats a unit for display.
func unitText(u string) string { return report.Unit(u) }

// plain formats a number with at most six significant digits.
func plain(v float64) string {
	return strings.Replace(strconv.FormatFloat(v, 'g', 6, 64), "-", "−", 1)
}

// fieldKey identifies a field of an initialisation.
type fieldKey struct {
	target    string
	lead      ensemble.Lead
	statistic statistic
}

// catalogue is what the product files of an initialisation have.
type catalogue struct {
	reader   *published.Reader
	products *Products
	init     ensemble.Init
	targets  []target
	leads    []ensemble.Lead
	all      []statistic
	entries  fields
}

// statistics lists the statistics of a target at a lead; those of any lead if lead is nil.
func (c *catalogue) statistics(t *target, lead *ensemble.Lead) (out []statistic) {
	for _, s := range c.all {
		if slices.ContainsFunc(c.leads, func(l ensemble.Lead) bool { return (lead == nil || l == *lead) && c.has(t, l, s) }) {
			out = append(out, s)
		}
	}
	return out
}

// has reports whether a field exists.
func (c *catalogue) has(t *target, lead ensemble.Lead, s statistic) bool {
	_, ok := c.entries[fieldKey{t.id, lead, s}]
	return ok
}

// fields are the fields of product files that the page can show. Of those with one key it is the first.
type fields map[fieldKey]ensemble.Entry

// fieldsOf selects the fields of product files.
func fieldsOf(entries []ensemble.Entry) fields {
	out := fields{}
	for _, e := range entries {
		s, ok := statisticOf(e)
		if !ok || !e.Grid.Rectangular() {
			continue
		}
		if k := (fieldKey{targetOf(e).id, e.Lead, s}); out[k].Kind == nil {
			out[k] = e
		}
	}
	return out
}

// readCatalogue lists the fields of an initialisation's product files.
//
// Errors: as published.Reader.Open; exit 65 without a field that can be shown.
func readCatalogue(ctx context.Context, r *published.Reader, p *Products) (*catalogue, error) {
	f, err := r.Open(ctx, p.Init)
	if errors.Is(err, published.ErrNoFields) {
		return nil, &exit.Error{Code: exit.BadData, What: "no maps", At: p.Name, Why: err.Error()}
	} else if err != nil {
		return nil, err
	}
	defer f.Release()
	c := &catalogue{reader: r, products: p, entries: published.Index(f, fieldsOf)}
	if len(c.entries) == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "no maps", At: p.Name, Why: "its files have no mean, spread, quantile or probability on a grid of rows and columns"}
	}
	seen := map[string]bool{}
	for k, e := range c.entries {
		c.init = e.Init
		if !seen[k.target] {
			seen[k.target], c.targets = true, append(c.targets, targetOf(e))
		}
		if !slices.Contains(c.leads, k.lead) {
			c.leads = append(c.leads, k.lead)
		}
		if !slices.Contains(c.all, k.statistic) {
			c.all = append(c.all, k.statistic)
		}
	}
	slices.Sort(c.leads)
	slices.SortFunc(c.all, statistic.compare)
	slices.SortFunc(c.targets, func(a, b target) int { return cmp.Or(cmp.Compare(a.name(), b.name()), cmp.Compare(a.id, b.id)) })
	return c, nil
}

// bytes estimates the memory of a catalogue: of the grids, and of what its entries do not share.
func (c *catalogue) bytes() int {
	n := 500 * (1 + len(c.entries))
	grids := map[*ensemble.Grid]bool{}
	for _, e := range c.entries {
		if !grids[e.Grid] {
			n += 8 * (len(e.Grid.Lat) + len(e.Grid.Lon) + len(e.Grid.X) + len(e.Grid.Y))
		}
		grids[e.Grid] = true
	}
	return n
}

// targetOf is the target of a field.
func targetOf(e ensemble.Entry) target {
	v, ok := ensemble.VariableNamed(e.Variable)
	if !ok {
		v = ensemble.Variable{Name: e.Variable, LongName: e.Variable, Unit: e.Unit}
	}
	return target{v, e.Level, e.Variable + "-" + e.LevelText()}
}

// statisticOf is the statistic of a field; false for members and for what has no map.
func statisticOf(e ensemble.Entry) (statistic, bool) {
	switch e.Product {
	case ensemble.EnsembleMean:
		if e.Basis == ensemble.RawMembers {
			return statistic{kind: rawMean}, true
		}
		return statistic{kind: mean}, true
	case ensemble.Spread:
		switch e.Basis {
		case ensemble.RawMembers:
			return statistic{kind: rawSpread}, true
		case ensemble.FullEnsemble:
			return statistic{kind: ensembleSpread}, true
		}
		return statistic{kind: spread}, true
	case ensemble.Quantile:
		return statistic{kind: quantile, quantile: e.QuantileProbability}, true
	case ensemble.Probability:
		return statistic{kind: probability, event: e.Event}, true
	}
	return statistic{}, false
}
