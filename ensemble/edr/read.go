package edr

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/published"
)

// selection is what a query asks for.
type selection struct {
	region
	blocks []*block
}

// block is parameters with the same leads and levels: one coverage.
type block struct {
	parameters []*parameter
	leads      []ensemble.Lead
	levels     []ensemble.Level
	values     [][]float32 // by parameter: [lead][level][row][column] of the region's grid; NaN: missing, or outside of the area
}

// field returns the values of a parameter at one lead and level.
func (b *block) field(parameter, lead, level int) []float32 {
	n := len(b.values[parameter]) / (len(b.leads) * len(b.levels))
	i := (lead*len(b.levels) + level) * n
	return b.values[parameter][i : i+n]
}

// choose returns the selection of a query, without values.
//
// Errors: unknown parameters; no field at the times and levels; a place outside of the grid; more values than most.
func (f *forecast) choose(c *collection, q *request, most int) (*selection, error) {
	all := f.ofCollection(c)
	if len(all) == 0 {
		return nil, notFound("initialisation " + f.Init.Name + " has no products of the collection " + c.id)
	}
	chosen, err := named(all, q.names, c)
	if err != nil {
		return nil, err
	}
	sel := &selection{}
	for _, p := range chosen {
		sel.add(p, f.Init, q)
	}
	if len(sel.blocks) == 0 {
		return nil, nothing(f.Init, chosen, q)
	}
	if sel.region, err = q.region(f.grid); err != nil {
		return nil, err
	}
	count := 0
	for _, b := range sel.blocks {
		count += len(b.parameters) * len(b.leads) * len(b.levels) * sel.grid.Size()
	}
	if count > most {
		return nil, &fault{http.StatusRequestEntityTooLarge, "TooManyValues", fmt.Sprintf("the answer would have %d values, more than %d (serve.queries.max_values): ask for a smaller area, or fewer parameters, times or levels", count, most)}
	}
	return sel, nil
}

// named returns the parameters with some names; all for no names.
//
// Errors: a name that the collection lacks.
func named(all []*parameter, names []string, c *collection) ([]*parameter, error) {
	if names == nil {
		return all, nil
	}
	var out []*parameter
	for _, name := range names {
		i := slices.IndexFunc(all, func(p *parameter) bool { return p.Name == name })
		if i < 0 {
			return nil, badRequest("collection " + c.id + " has no parameter " + clip(name) + "; it has " + list(all, func(p *parameter) string { return p.Name }))
		}
		if !slices.Contains(out, all[i]) {
			out = append(out, all[i])
		}
	}
	return out, nil
}

// add adds the fields of a parameter at the times and levels of a query, if it has any.
func (sel *selection) add(p *parameter, of *published.Init, q *request) {
	leads := slices.DeleteFunc(slices.Clone(p.leads), func(l ensemble.Lead) bool { return q.at != nil && !q.at(of.Time.Add(time.Duration(l))) })
	levels := slices.DeleteFunc(slices.Clone(p.levels), func(l ensemble.Level) bool {
		z, ok := levelValue(l)
		return q.levels != nil && !(ok && q.levels(z))
	})
	if len(leads) == 0 || len(levels) == 0 {
		return
	}
	for _, b := range sel.blocks {
		if slices.Equal(b.leads, leads) && slices.Equal(b.levels, levels) {
			b.parameters = append(b.parameters, p)
			return
		}
	}
	sel.blocks = append(sel.blocks, &block{parameters: []*parameter{p}, leads: leads, levels: levels})
}

// nothing is the fault of a query whose times or levels no parameter has.
func nothing(of *published.Init, chosen []*parameter, q *request) error {
	var times, levels []string
	for _, p := range chosen {
		for _, l := range p.leads {
			times = append(times, of.Time.Add(time.Duration(l)).UTC().Format(time.RFC3339))
		}
		for _, l := range p.levels {
			if z, ok := levelValue(l); ok {
				levels = append(levels, number(z))
			}
		}
	}
	text := "initialisation " + of.Name + " has no values at"
	if q.at != nil {
		text += " datetime " + clip(q.shown["datetime"])
	}
	if q.levels != nil {
		text += " z " + clip(q.shown["z"])
	}
	text += "; times are " + list(unique(times), func(s string) string { return s })
	if len(levels) > 0 {
		text += "; levels are " + list(unique(levels), func(s string) string { return s })
	}
	return badRequest(text)
}

// unique removes later equal texts.
func unique(texts []string) (out []string) {
	for _, t := range texts {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// number formats a number with the fewest digits.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// maxNamed bounds the names in a message.
const maxNamed = 30

// list joins names, the first maxNamed.
func list[T any](all []T, name func(T) string) string {
	var out []string
	for _, v := range all[:min(len(all), maxNamed)] {
		out = append(out, name(v))
	}
	text := strings.Join(out, ", ")
	if n := len(all) - len(out); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// read reads the values of a selection, in the order of the files.
//
// Memory: the values of the answer, and some fields of the window.
// Errors: those of published.Forecast.Read.
func (f *forecast) read(ctx context.Context, sel *selection) error {
	type target struct {
		entry ensemble.Entry
		to    []float32
	}
	var targets []target
	for _, b := range sel.blocks {
		for k, p := range b.parameters {
			values := make([]float32, len(b.leads)*len(b.levels)*sel.grid.Size())
			nan(values)
			b.values = append(b.values, values)
			for i, lead := range b.leads {
				for j, level := range b.levels {
					if e, ok := p.entries[position{lead, level}]; ok {
						targets = append(targets, target{e, b.field(k, i, j)})
					}
				}
			}
		}
	}
	slices.SortFunc(targets, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.entry.File, b.entry.File), cmp.Compare(a.entry.Message, b.entry.Message))
	})
	entries := make([]ensemble.Entry, len(targets))
	for i, t := range targets {
		entries[i] = t.entry
	}
	return f.Read(ctx, entries, sel.window, func(i int, field *ensemble.Field) error {
		sel.take(targets[i].to, field.Values)
		f.Recycle(field.Values)
		return nil
	})
}

// nan makes all values missing.
func nan(values []float32) {
	for i := range values {
		values[i] = float32(math.NaN())
	}
}

// take copies the points of the region from a field of the window.
func (r *region) take(to, window []float32) {
	for k := range to {
		from := k
		if r.places != nil {
			from = r.places[k]
		}
		if r.outside == nil || !r.outside[k] {
			to[k] = window[from]
		}
	}
}
