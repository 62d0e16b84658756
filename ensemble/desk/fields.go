package desk

import (
	"cmp"
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
)

// field is a field of the products or of the members that they are made from.
//
// Unit: SI. Shape: Values as the grid.
type field struct {
	target    string
	lead      ensemble.Lead
	statistic statistic
	grid      *ensemble.Grid
	values    []float32
}

// read reads the fields of a catalogue that wanted accepts, in the order of leads and statistics. part selects the window
// that is read of a grid; nil: all of it.
//
// Errors: as published.Reader.Open; exit 65 for a field that cannot be decoded; published.ErrNoProducts if the products were replaced.
func (c *catalogue) read(ctx context.Context, wanted func(fieldKey) bool, part func(*ensemble.Grid) ensemble.Window) ([]field, error) {
	var keys []fieldKey
	for k := range c.entries {
		if wanted(k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	slices.SortFunc(keys, func(a, b fieldKey) int {
		return cmp.Or(cmp.Compare(a.lead, b.lead), a.statistic.compare(b.statistic), cmp.Compare(a.target, b.target))
	})
	f, err := c.reader.Open(ctx, c.products.Init)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	// Those of the catalogue, unless the files were replaced.
	now := published.Index(f, fieldsOf)
	// Fields of one grid are read together, since a window is one of rows and columns.
	byGrid := map[*ensemble.Grid][]int{}
	var grids []*ensemble.Grid
	for i, k := range keys {
		e, ok := now[k]
		if !ok {
			return nil, published.ErrNoProducts
		}
		if byGrid[e.Grid] == nil {
			grids = append(grids, e.Grid)
		}
		byGrid[e.Grid] = append(byGrid[e.Grid], i)
	}
	out := make([]field, len(keys))
	for _, g := range grids {
		var w ensemble.Window
		if part != nil {
			w = part(g)
		}
		at := byGrid[g]
		entries := make([]ensemble.Entry, len(at))
		for i, k := range at {
			entries[i] = now[keys[k]]
		}
		err := f.Read(ctx, entries, w, func(i int, f *ensemble.Field) error {
			k := keys[at[i]]
			out[at[i]] = field{k.target, k.lead, k.statistic, f.Grid, f.Values}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rawFields returns the statistics of the input members that the service keeps of an initialisation, for a target; nil if it
// keeps none.
func rawFields(e *scoring.MapExample, c *catalogue, t *target) (out []field) {
	if e == nil || e.Init != c.init {
		return nil
	}
	for _, f := range e.Fields {
		kind := map[string]statisticKind{scoring.ShowRawMean: rawMean, scoring.ShowRawSpread: rawSpread}[f.Kind]
		if kind == "" || f.Coarse || f.Variable != t.variable.Name || f.Level != t.level || len(f.Values) != e.Grid.Size() {
			continue
		}
		out = append(out, field{t.id, cmp.Or(f.Lead, e.Lead), statistic{kind: kind}, e.Grid, f.Values})
	}
	return out
}
