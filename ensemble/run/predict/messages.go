package predict

import (
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// templateKey identifies the fields of a product that one GRIB message serves as template.
type templateKey struct {
	init     ensemble.Init
	variable string
	level    ensemble.Level
	lead     ensemble.Lead
	member   ensemble.Member // NoMember: statistics over members
}

// templates finds, for every initialisation, variable, level and lead, the GRIB message of each used member,
// and for statistics that of the first of them. Centre, tables and times of the output are then those of the
// input. Messages on another grid are not used.
func templates(entries []ensemble.Entry, used []ensemble.Member, grid *ensemble.Grid) map[templateKey]ensemble.Entry {
	out := map[templateKey]ensemble.Entry{}
	for _, e := range entries {
		if e.Length == 0 || e.Product != ensemble.MemberField || !slices.Contains(used, e.Member) || !e.Grid.SameAs(grid, input.GridTolerance) {
			continue
		}
		k := templateKey{e.Init, e.Variable, e.Level, e.Lead, e.Member}
		out[k] = e
		k.member = ensemble.NoMember
		if have, ok := out[k]; !ok || e.Member < have.Member {
			out[k] = e
		}
	}
	return out
}

// addTemplates reads the template messages of a product. Members with other numbers than the used ones take that of the
// last, which is not the control.
func addTemplates(p *product.Product, renumbered bool, in *fio.Input, found map[templateKey]ensemble.Entry) error {
	read := map[ensemble.Entry][]byte{}
	for i := range p.Fields {
		f := &p.Fields[i]
		k := templateKey{p.Init, f.Variable, f.Level, f.Lead, ensemble.NoMember}
		switch {
		case f.Kind == product.Member && renumbered:
			k.member = p.Members[len(p.Members)-1]
		case f.Kind == product.Member:
			k.member = f.Member
		}
		e, ok := found[k]
		if !ok {
			continue // from NetCDF, or on another grid
		}
		if read[e] == nil {
			var err error
			if read[e], err = in.Message(e); err != nil {
				return err
			}
		}
		f.Template, f.TemplateUnit = read[e], e.NativeUnit
	}
	return nil
}
