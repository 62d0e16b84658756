package predict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/neighbourhood"
)

// productChoice is what is published of a model's predictions, by statistic and by place.
type productChoice struct {
	model          *model.Model
	products       []string         // of config.ProductWords
	fields         []product.Field  // of one init, without values, but for members
	members        bool             // whether calibrated members are needed
	coupling       members.Coupling // how they are made
	discs          map[float64]*neighbourhood.Discs
	grid           *ensemble.Grid
	points         []int                      // of the grid's points in the model's fields; nil: all of them
	stations       *input.StationInterpolator // to which fields are interpolated too; nil for none
	fallback       string                     // what forecasts in place of the network; "": nothing does
	fallbackChoice *productChoice             // the same for a fallback; nil where there is none
}

// forFallback is the choice where the fallback forecasts.
func (ch *productChoice) forFallback() *productChoice {
	other := *ch
	other.fields, other.fallback = ch.fallbackChoice.fields, ch.fallbackChoice.fallback
	return &other
}

// ChooseProducts finds out what is to be published of a model, on the grid of the input, and how it is called where a fallback
// forecasts in place of the network; "" is none.
//
// Errors: exit 64 for what the model does not predict, a unit that is none of its
// variable, an area without points, and statistics of a variable whose bounds are not
// known.
func ChooseProducts(m *model.Model, c config.Publishing, grid *ensemble.Grid, fallback string) (*productChoice, error) {
	c.Output.Variables = slices.Clone(c.Output.Variables)
	for i, v := range c.Output.Variables {
		c.Output.Variables[i] = ensemble.ShortName(v)
	}
	ch := &productChoice{model: m, grid: grid, products: slices.Clone(c.Products), coupling: members.Coupling{Coupling: c.Coupling}}
	if ch.products == nil {
		ch.products = defaultProducts(m, c)
	}
	for _, w := range ch.products {
		if m.Spec.Head.Spread != nil && w != config.EnsembleSpreadProduct {
			return nil, &exit.Error{Code: exit.Usage, What: "the model has no " + w, At: "products", Why: "it predicts the spread of the full ensemble, and no distribution",
				Fix: "ask for " + config.EnsembleSpreadProduct + ", or train with model.head: distribution"}
		}
	}
	if err := checkMemberProducts(m, ch.products, c.Coupling); err != nil {
		return nil, err
	}
	ch.members = !m.Spec.PredictsMembers() && (slices.Contains(ch.products, config.MembersProduct) || slices.Contains(ch.products, config.NeighbourhoodAnyProduct))
	if c.Output.Area != (ensemble.Area{}) {
		var err error
		if ch.grid, ch.points, err = grid.Crop(c.Output.Area); err != nil {
			return nil, &exit.Error{Code: exit.Usage, What: "the area cannot be cut out", At: "output.area", Why: err.Error(), Fix: "give an area of the input's grid", Err: err}
		}
	}
	if err := ch.planFields(c); err != nil || fallback == "" {
		return ch, err
	}
	other := *ch
	other.fields, other.fallback = nil, fallback
	ch.fallbackChoice = &other
	return ch, other.planFields(c)
}

// defaultProducts are those of a model unless some are asked for.
func defaultProducts(m *model.Model, c config.Publishing) (words []string) {
	if m.Spec.Head.Spread == nil {
		words = append(words, config.MeanProduct, config.SpreadProduct)
	}
	if m.Spec.PredictsMembers() {
		words = append(words, config.MembersProduct)
	} else {
		words = append(words, config.EnsembleSpreadProduct)
	}
	if m.IsNonNormal() && !slices.Contains(c.Output.Formats, string(product.GRIB2)) { // verify judges by them
		words = append(words, config.ParametersProduct)
	}
	if c.Quantiles != nil {
		words = append(words, config.QuantilesProduct)
	}
	if c.Probabilities != nil {
		words = append(words, config.ProbabilitiesProduct)
	}
	if c.Neighbourhood.Radius != nil {
		words = append(words, config.NeighbourhoodProduct)
	}
	return words
}

// planFields lists the fields of one init.
func (ch *productChoice) planFields(c config.Publishing) error {
	k := &ch.model.Task
	d := len(k.Features.Axes.Levels)
	if err := ch.checkNames(c); err != nil {
		return err
	}
	asked := 0
	for at := range k.TargetWeights {
		t := k.Targets[at/d]
		f := product.Field{Variable: t.Variable, Level: k.Features.Axes.Levels[at%d].ForVariable(t.Variable), Lead: t.Lead}
		if k.TargetWeights[at] == 0 || !isSelected(c.Output.Variables, f.Variable) || !isSelected(c.Output.Levels, f.Level) || !isSelected(c.Output.Leads, f.Lead) {
			continue
		}
		asked++
		for _, w := range ch.products {
			fields, err := ch.productFields(c, w, t, f)
			if err != nil {
				return err
			}
			ch.fields = append(ch.fields, fields...)
		}
	}
	if asked == 0 {
		return &exit.Error{Code: exit.Usage, What: "nothing is left to publish", At: "output.variables and output.levels",
			Why: "no target of the model is among both", Fix: "the model predicts " + ch.model.DescribeTargets()}
	}
	return nil
}

// productFields are the fields of one product of one target, which f names.
func (ch *productChoice) productFields(c config.Publishing, word string, t task.Target, f product.Field) ([]product.Field, error) {
	switch word {
	case config.MeanProduct:
		f.Kind = product.Mean
		return []product.Field{f}, nil
	case config.SpreadProduct:
		f.Kind = product.Spread
		return []product.Field{f}, nil
	case config.EnsembleSpreadProduct:
		f.Kind = product.EnsembleSpread
		return []product.Field{f}, nil
	}
	name, how, err := ch.distribution(task.Target{Variable: f.Variable, Lead: f.Lead}, f.Level)
	if err != nil {
		return nil, err
	}
	switch word {
	case config.QuantilesProduct:
		return quantiles(c, f, name), nil
	case config.ProbabilitiesProduct:
		return probabilities(c, f, name+ch.calibrationNote(t, f.Level))
	case config.MembersProduct: // how many there are, the init says
		f.Kind, f.Member, f.Distribution = product.Member, ensemble.NoMember, name+"; "+how
		return []product.Field{f}, nil
	}
	family, err := ch.model.CheckedFamily(f.Variable)
	if err != nil {
		return nil, err
	}
	if word == config.ParametersProduct {
		return parameters(f, family), nil
	}
	return ch.neighbourhoods(c, word, f, family)
}

// quantiles are those of one target, of a distribution.
func quantiles(c config.Publishing, f product.Field, distribution string) (out []product.Field) {
	f.Kind, f.Distribution = product.Quantile, distribution
	for _, q := range c.Quantiles {
		f.Below = q
		out = append(out, f)
	}
	return out
}

// probabilities are those of the events of one target, of a distribution.
//
// Errors: those of model.EventOf.
func probabilities(c config.Publishing, f product.Field, distribution string) (out []product.Field, err error) {
	f.Kind, f.Distribution = product.Probability, distribution
	for _, q := range c.Probabilities {
		if q.Variable != f.Variable {
			continue
		}
		if f.Event, err = task.EventSI(q); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// parameters are those of the distribution of one target.
func parameters(f product.Field, family *dist.Family) (out []product.Field) {
	f.Kind, f.Distribution = product.Parameter, family.ID
	for i, name := range family.Parameters {
		f.Parameter = name
		f.Dimensionless = family.Roles[i] == dist.Invariant || family.Roles[i] == dist.LogLocation
		out = append(out, f)
	}
	return out
}

// checkNames refuses names that are no target of the model.
func (ch *productChoice) checkNames(c config.Publishing) error {
	k := &ch.model.Task
	none := func(key, what string) error {
		return &exit.Error{Code: exit.Usage, What: what + " is not predicted", At: key, Why: "the model predicts " + ch.model.DescribeTargets(),
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
		if !slices.Contains(k.TargetVariables(), q.Variable) || !isSelected(c.Output.Variables, q.Variable) {
			return none("probabilities", "variable "+q.Variable+" of "+q.String())
		}
	}
	return nil
}

// isSelected tells whether a list has an item, or is not given.
func isSelected[T comparable](list []T, x T) bool { return list == nil || slices.Contains(list, x) }

// product is what is published of an init on the used members, without values.
func (ch *productChoice) product(init ensemble.Init, used []ensemble.Member) *product.Product {
	m := ch.model
	p := &product.Product{Init: init, Grid: ch.grid, Metadata: product.Metadata{
		Title:        "Post-processed ensemble forecast: " + strings.ReplaceAll(strings.Join(ch.products, ", "), "_", " "),
		Source:       fmt.Sprintf("ensemble %s, network %s on %d members", m.Version, m.Spec.Kind, len(used)),
		References:   "Grönquist et al. 2021, doi:10.1098/rsta.2020.0092",
		ForecastType: "post-processed ensemble",
		Members:      used, DDOF: m.Task.Features.DDOF, Control: m.Control,
	}}
	if m.Task.HasFewerLeads() {
		p.LeadsRead = task.FormatLeads(m.Task.Features.Axes.Leads)
	}
	if ch.grid.Kind == ensemble.Points {
		p.Locations = ensemble.GridStations(ch.grid)
	}
	if ch.members {
		p.Coupling = ch.memberMethod()
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
		at.Grid, at.Locations, at.Fields = ensemble.StationGrid(ch.stations.Stations), ch.stations.Stations, slices.Clone(p.Fields)
		at.Source += "; " + ch.stations.Description
		p.AtStations = &at
	}
	return p
}

// calibrationNote describe the calibration of probabilities, and recalibrationNote of the distribution's.
func (ch *productChoice) calibrationNote(t task.Target, level ensemble.Level) string {
	if ch.fallback != "" {
		return ""
	}
	return ch.model.DescribeCalibration(t, level)
}

func (ch *productChoice) recalibrationNote(t task.Target, level ensemble.Level) string {
	if ch.fallback != "" {
		return ""
	}
	return ch.model.DescribeRecalibration(t, level)
}
