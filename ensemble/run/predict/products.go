package predict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/neighbourhood"
)

// choice is what is published of a model's predictions, by statistic and by place.
type choice struct {
	model     *model.Model
	words     []string         // of config.ProductWords
	fields    []product.Field  // of one start, without values, but for members
	members   bool             // whether calibrated members are needed
	coupling  members.Coupling // how they are made
	near      nearby           // the neighbourhoods of the present start
	discs     map[float64]*neighbourhood.Discs
	grid      *ensemble.Grid
	places    []int        // of the grid's points in the model's fields; nil: all of them
	stations  *input.Sites // to which fields are interpolated beside; nil for none
	lacksMean bool         // the model predicts the full ensemble's spread only
	instead   string       // what stands in for the network; "": nothing does
	stand     *choice      // the same where something does; nil where nothing may
}

// standingIn is the choice where something stands in for the network.
func (ch *choice) standingIn() *choice {
	other := *ch
	other.fields, other.instead = ch.stand.fields, ch.stand.instead
	return &other
}

// ChooseProducts finds out what is to be published of a model, on the grid of the input, and how it is called where a rung stands in
// for the network; "" is none.
//
// Errors: exit 64 for what the model does not predict, a unit that is none of its
// variable, an area without points, and statistics of a variable whose bounds are not
// known.
func ChooseProducts(m *model.Model, c config.Publishing, grid *ensemble.Grid, rung string) (*choice, error) {
	c.Output.Variables = slices.Clone(c.Output.Variables)
	for i, v := range c.Output.Variables {
		c.Output.Variables[i] = ensemble.ShortName(v)
	}
	ch := &choice{model: m, grid: grid, words: c.Products, coupling: members.Coupling{Coupling: c.Coupling}, lacksMean: m.Spec.Head == model.SpreadHead}
	ch.words = slices.Clone(ch.words)
	if ch.words == nil {
		if !ch.lacksMean {
			ch.words = append(ch.words, config.MeanProduct, config.SpreadProduct)
		}
		if m.Spec.GivesMembers() {
			ch.words = append(ch.words, config.MembersProduct)
		} else {
			ch.words = append(ch.words, config.EnsembleSpreadProduct)
		}
		if m.NotNormal() && !slices.Contains(c.Output.Formats, string(product.GRIB2)) { // verify judges by them
			ch.words = append(ch.words, config.ParametersProduct)
		}
		if c.Quantiles != nil {
			ch.words = append(ch.words, config.QuantilesProduct)
		}
		if c.Probabilities != nil {
			ch.words = append(ch.words, config.ProbabilitiesProduct)
		}
		if c.Neighbourhood.Radius != nil {
			ch.words = append(ch.words, config.NeighbourhoodProduct)
		}
	}
	for _, w := range ch.words {
		if ch.lacksMean && w != config.EnsembleSpreadProduct {
			return nil, &exit.Error{Code: exit.Usage, What: "the model has no " + w, At: "products", Why: "it predicts the spread of the full ensemble, and no distribution",
				Fix: "ask for " + config.EnsembleSpreadProduct + ", or train with model.head: distribution"}
		}
	}
	if err := checkMembersProducts(m, ch.words, c.Coupling); err != nil {
		return nil, err
	}
	ch.members = !m.Spec.GivesMembers() && (slices.Contains(ch.words, config.MembersProduct) || slices.Contains(ch.words, config.NeighbourhoodAnyProduct))
	if c.Output.Area != (ensemble.Area{}) {
		var err error
		if ch.grid, ch.places, err = grid.Crop(c.Output.Area); err != nil {
			return nil, &exit.Error{Code: exit.Usage, What: "the area cannot be cut out", At: "output.area", Why: err.Error(), Fix: "give an area of the input's grid", Err: err}
		}
	}
	if err := ch.plan(c); err != nil || rung == "" {
		return ch, err
	}
	stand := *ch
	stand.fields, stand.instead = nil, rung
	ch.stand = &stand
	return ch, stand.plan(c)
}

// plan lists the fields of one start.
func (ch *choice) plan(c config.Publishing) error {
	k := &ch.model.Task
	d := len(k.Features.Axes.Levels)
	if err := ch.known(c); err != nil {
		return err
	}
	asked := 0
	for at := range k.Score {
		t := k.Targets[at/d]
		f := product.Field{Variable: t.Variable, Level: k.Features.Axes.Levels[at%d].Of(t.Variable), Lead: t.Lead}
		if k.Score[at] == 0 || !wanted(c.Output.Variables, f.Variable) || !wanted(c.Output.Levels, f.Level) || !wanted(c.Output.Leads, f.Lead) {
			continue
		}
		asked++
		for _, w := range ch.words {
			add := func(kind product.Kind) *product.Field {
				f.Kind = kind
				ch.fields = append(ch.fields, f)
				return &ch.fields[len(ch.fields)-1]
			}
			switch w {
			case config.MeanProduct:
				add(product.Mean)
				continue
			case config.SpreadProduct:
				add(product.Spread)
				continue
			case config.EnsembleSpreadProduct:
				add(product.EnsembleSpread)
				continue
			}
			name, how, err := ch.distribution(model.Target{Variable: f.Variable, Lead: f.Lead}, f.Level)
			if err != nil {
				return err
			}
			switch w {
			case config.QuantilesProduct:
				for _, q := range c.Quantiles {
					s := add(product.Quantile)
					s.Below, s.Distribution = q, name
				}
			case config.ProbabilitiesProduct:
				for _, q := range c.Probabilities {
					if q.Variable != f.Variable {
						continue
					}
					e, err := model.EventOf(q)
					if err != nil {
						return err
					}
					s := add(product.Probability)
					s.Event, s.Distribution = e, name+ch.calibrationWords(t, f.Level)
				}
			case config.ParametersProduct:
				family, err := ch.model.FamilyOf(f.Variable)
				if err != nil {
					return err
				}
				for i, name := range family.Parameters {
					s := add(product.Parameter)
					s.Parameter, s.Distribution = name, family.ID
					s.Pure = family.Roles[i] == dist.Pure || family.Roles[i] == dist.Log
				}
			case config.NeighbourhoodProduct, config.NeighbourhoodAnyProduct:
				family, err := ch.model.FamilyOf(f.Variable)
				if err != nil {
					return err
				}
				more, err := ch.neighbourhoods(c, w, f, family)
				if err != nil {
					return err
				}
				ch.fields = append(ch.fields, more...)
			case config.MembersProduct: // how many there are, the start says
				s := add(product.Member)
				s.Member, s.Distribution = ensemble.NoMember, name+"; "+how
			}
		}
	}
	if asked == 0 {
		return &exit.Error{Code: exit.Usage, What: "nothing is left to publish", At: "output.variables and output.levels",
			Why: "no target of the model is among both", Fix: "the model predicts " + ch.model.Targets()}
	}
	return nil
}

// known refuses names that are no target of the model.
func (ch *choice) known(c config.Publishing) error {
	k := &ch.model.Task
	none := func(key, what string) error {
		return &exit.Error{Code: exit.Usage, What: what + " is not predicted", At: key, Why: "the model predicts " + ch.model.Targets(),
			Fix: "correct " + key + ", or train for it"}
	}
	for _, v := range c.Output.Variables {
		if !slices.Contains(k.TargetVariables(), v) {
			return none("output.variables", "variable "+v)
		}
	}
	for _, l := range c.Output.Levels {
		if !slices.ContainsFunc(k.TargetVariables(), func(v string) bool { return ensemble.FindLevel(k.Features.Axes.Levels, v, l) >= 0 }) {
			return none("output.levels", "level "+l.String())
		}
	}
	for _, l := range c.Output.Leads {
		if !slices.Contains(k.TargetLeads(), l) {
			return none("output.leads", "lead "+l.String())
		}
	}
	for _, q := range c.Probabilities {
		if !slices.Contains(k.TargetVariables(), q.Variable) || !wanted(c.Output.Variables, q.Variable) {
			return none("probabilities", "variable "+q.Variable+" of "+q.String())
		}
	}
	return nil
}

// wanted tells whether a list has an item, or is not given.
func wanted[T comparable](list []T, x T) bool { return list == nil || slices.Contains(list, x) }

// product is what is published of a start on the used members, without values.
func (ch *choice) product(init ensemble.Init, used []ensemble.Member) *product.Product {
	m := ch.model
	p := &product.Product{Init: init, Grid: ch.grid, Metadata: product.Metadata{
		Title:        "Post-processed ensemble forecast: " + strings.ReplaceAll(strings.Join(ch.words, ", "), "_", " "),
		Source:       fmt.Sprintf("ensemble %s, network %s on %d members", m.Version, m.Spec.Kind, len(used)),
		References:   "Grönquist et al. 2021, doi:10.1098/rsta.2020.0092",
		ForecastType: "post-processed ensemble",
		Members:      used, DDOF: m.Task.Features.DDOF, Control: m.Control,
	}}
	if m.Task.ReadsFewer() {
		p.LeadsRead = model.LeadWords(m.Task.Features.Axes.Leads)
	}
	if ch.grid.Kind == ensemble.Points {
		p.Places = ensemble.StationsOf(ch.grid)
	}
	if ch.members {
		p.Coupling = ch.madeOf()
	}
	for _, f := range ch.fields {
		if f.Kind != product.Member {
			p.Fields = append(p.Fields, f)
			continue
		}
		for _, id := range ch.coupling.Members(used) {
			f.Member = id
			p.Fields = append(p.Fields, f)
		}
	}
	if ch.stations != nil {
		at := *p
		at.Grid, at.Places, at.Fields = ensemble.PointsOf(ch.stations.Stations), ch.stations.Stations, slices.Clone(p.Fields)
		at.Source += "; " + ch.stations.Words
		p.Stations = &at
	}
	return p
}

// fill gives the fields of a product their values. raw are the used members of the targets,
// as RawMembers gives them; nil without members among the products.
func (ch *choice) fill(p *product.Product, out *model.Forecast, raw []float32) error {
	ch.near = nearby{}
	if err := ch.fillOn(p, out, raw, ch.part, nil); err != nil || p.Stations == nil {
		return err
	}
	at := p.Stations
	source := at.Source
	at.Metadata = p.Metadata // as it is by now
	at.Source = source
	return ch.fillOn(at, out, raw, ch.stations.Take, ch.stations.Warmer)
}

// fillOn is fill for fields of which take makes those of the product; warmer is added to
// the location of 2 metre temperatures.
func (ch *choice) fillOn(p *product.Product, out *model.Forecast, raw []float32, take func(field []float32) []float32, warmer []float32) error {
	k := &ch.model.Task
	n := ch.model.Grid.Size()
	coupled := map[int][][]float32{} // members by target
	for i := range p.Fields {
		f := &p.Fields[i]
		at := k.At(model.Target{Variable: f.Variable, Lead: f.Lead}, f.Level)
		part := func(fields []float32, at int) []float32 { return take(fields[at*n : (at+1)*n]) }
		warm := func(location []float32) []float32 {
			if f.Variable == "2t" {
				for i, d := range warmer {
					location[i] += d
				}
			}
			return location
		}
		switch f.Kind {
		case product.Mean:
			f.Values = warm(part(out.Mean, at))
			continue
		case product.Spread:
			f.Values = part(out.Sigma, at)
			continue
		case product.EnsembleSpread:
			f.Values = part(out.Spread, at)
			continue
		}
		if out.Members != nil {
			ch.fillMembers(p, f, out, at, take, warmer)
			continue
		}
		family, err := ch.model.FamilyOf(f.Variable)
		if err != nil {
			return err
		}
		parameters := out.ParametersAt(at, n, take)
		for i, role := range family.Roles {
			if role == dist.Location {
				parameters[i] = warm(parameters[i])
			}
		}
		if f.Radius > 0 {
			if err := ch.around(p, f, out, raw, take); err != nil {
				return err
			}
			continue
		}
		if f.Kind == product.Parameter {
			f.Values = parameters[slices.Index(family.Parameters, f.Parameter)]
			continue
		}
		if f.Kind != product.Member {
			f.Values = statistic(f, family, parameters)
			if f.Kind == product.Probability {
				ch.calibrate(f.Values, model.Target{Variable: f.Variable, Lead: f.Lead}, f.Level, f.Event, family, parameters)
			}
			continue
		}
		if coupled[at] == nil {
			var template [][]float32
			for _, field := range ch.template(at, raw, len(p.Members)) {
				template = append(template, take(field))
			}
			if coupled[at], err = ch.coupling.Couple(p.Init, f, p.Grid, template, family, parameters); err != nil {
				return err
			}
		}
		f.Values = coupled[at][slices.Index(ch.coupling.Members(p.Members), f.Member)]
	}
	return nil
}

// calibrate brings probabilities to what the model's calibrations say, which are those of the network.
func (ch *choice) calibrate(p []float32, t model.Target, level ensemble.Level, e ensemble.Event, family *dist.Family, par [][]float32) {
	if ch.instead == "" {
		ch.model.Calibrate(p, t, level, e, family, par)
	}
}

// calibrationWords tell of it, and recalibrationWords of the distribution's.
func (ch *choice) calibrationWords(t model.Target, level ensemble.Level) string {
	if ch.instead != "" {
		return ""
	}
	return ch.model.CalibrationWords(t, level)
}

func (ch *choice) recalibrationWords(t model.Target, level ensemble.Level) string {
	if ch.instead != "" {
		return ""
	}
	return ch.model.RecalibrationWords(t, level)
}

// part is a field on the grid of the choice.
func (ch *choice) part(field []float32) []float32 {
	if ch.places == nil {
		return field
	}
	return ensemble.Pick(field, ch.places)
}

// statistic computes a quantile or the probability of an event at every point.
func statistic(f *product.Field, family *dist.Family, parameters model.ParameterFields) []float32 {
	var value func(par []float64) float64
	switch e := f.Event; {
	case f.Kind == product.Quantile:
		value = family.QuantileAt(f.Below)
	case e.Relation == ensemble.Above:
		value = func(par []float64) float64 { return family.Above(par, e.Lower) }
	case e.Relation == ensemble.Below:
		value = func(par []float64) float64 { return family.Below(par, e.Upper) }
	default:
		value = func(par []float64) float64 { return max(0, family.Below(par, e.Upper)-family.Below(par, e.Lower)) }
	}
	out, par := make([]float32, len(parameters[0])), make([]float64, len(parameters))
	for p := range out {
		out[p] = float32(value(parameters.At(par, p)))
	}
	return out
}
