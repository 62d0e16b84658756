package predict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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

// productChoice is what is published of a model's predictions: which statistics, at which points.
type productChoice struct {
	model          *model.Model
	products       []string                         // names, as config.ProductNames
	fields         []product.Field                  // fields of one initialisation, without values and without members
	members        bool                             // whether calibrated members are needed
	coupling       members.Coupling                 // method for calibrated members
	discs          map[float64]*neighbourhood.Discs // discs for neighbourhood probabilities, by radius in km
	grid           *ensemble.Grid
	points         []int                      // indices of the published points in the model's grid; nil: all
	stations       *input.StationInterpolator // interpolation to stations; nil for none
	fallback       string                     // name of the fallback forecast; "" for none
	fallbackChoice *productChoice             // products of the fallback forecast; nil without one
	unitless       []ensemble.VariableEvent   // published events whose limits have no unit
}

// unitWarnings states the unit of limits that were given without one.
func (ch *productChoice) unitWarnings() (out []string) {
	for _, q := range ch.unitless {
		v, _ := ensemble.VariableNamed(q.Variable)
		out = append(out, fmt.Sprintf("%s has no unit: its limits are taken in %s", q, cmp.Or(v.Unit, "the unit of the input")))
	}
	return out
}

// certainEvents names published events with limits without a unit whose probability is 0 or 1 at all points.
func (ch *productChoice) certainEvents(p *product.Product) (out []string) {
	for _, f := range p.Fields {
		at := slices.IndexFunc(ch.unitless, func(q ensemble.VariableEvent) bool { return q.Matches(f.Variable, f.Level) && q.Event == f.Event })
		if f.Kind != product.Probability || at < 0 {
			continue
		}
		for _, same := range []float32{0, 1} {
			if !slices.ContainsFunc(f.Values, func(v float32) bool { return v == v && v != same }) && slices.Contains(f.Values, same) {
				v, _ := ensemble.VariableNamed(f.Variable)
				out = append(out, fmt.Sprintf("the probability of %s at %s, %s is %g at all points: its limits are taken in %s", ch.unitless[at], f.Level, f.Lead, same, cmp.Or(v.Unit, "the unit of the input")))
			}
		}
	}
	return out
}

// forFallback returns the products of the fallback forecast.
func (ch *productChoice) forFallback() *productChoice {
	other := *ch
	other.fields, other.fallback, other.coupling.Count = ch.fallbackChoice.fields, ch.fallbackChoice.fallback, ch.fallbackChoice.coupling.Count
	return &other
}

// ChooseProducts selects what is published of a model on the grid of the input. fallback is the name of the
// fallback forecast; "" for none.
//
// Errors: exit 64 for products that the model does not provide, an invalid unit, an area without points, and
// probabilities of variables whose bounds are unknown.
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
				Fix: "request " + config.EnsembleSpreadProduct + ", or train with model.head: distribution"}
		}
	}
	if err := checkMemberProducts(m, ch.products, c.Coupling); err != nil {
		return nil, err
	}
	if slices.Contains(ch.products, config.EnsembleSpreadProduct) && !m.Spec.TrainsSpread() {
		return nil, &exit.Error{Code: exit.Usage, What: "the model has no " + config.EnsembleSpreadProduct, At: "products", Why: "no loss trained it: it was trained with train.loss.spread: 0",
			Fix: "remove it from products, or train with train.loss.spread above 0"}
	}
	ch.members = !m.Spec.PredictsMembers() && (slices.Contains(ch.products, config.MembersProduct) || slices.Contains(ch.products, config.NeighbourhoodAnyProduct))
	if c.Output.Area != (ensemble.Area{}) {
		var err error
		if ch.grid, ch.points, err = grid.Crop(c.Output.Area); err != nil {
			return nil, &exit.Error{Code: exit.Usage, What: "invalid output.area", At: "output.area", Why: err.Error(), Fix: "give an area on the grid of the input", Err: err}
		}
	}
	if slices.Contains(ch.products, config.ProbabilitiesProduct) {
		ch.unitless = slices.DeleteFunc(slices.Clone(c.Probabilities), func(q ensemble.VariableEvent) bool { return q.Unit != "" })
	}
	if err := ch.planFields(c); err != nil || fallback == "" {
		return ch, err
	}
	other := *ch
	other.fields, other.fallback = nil, fallback
	if m.Spec.PredictsMembers() { // one for each raw member
		other.coupling.Count = 0
	}
	ch.fallbackChoice = &other
	return ch, other.planFields(c)
}

// defaultProducts returns the products of a model if none are requested.
func defaultProducts(m *model.Model, c config.Publishing) (words []string) {
	if m.Spec.Head.Spread == nil {
		words = append(words, config.MeanProduct, config.SpreadProduct)
	}
	if m.Spec.PredictsMembers() {
		words = append(words, config.MembersProduct)
	} else if m.Spec.TrainsSpread() {
		words = append(words, config.EnsembleSpreadProduct)
	}
	if m.IsNonNormal() && !slices.Contains(c.Output.Formats, string(product.GRIB2)) { // verification uses them
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

// planFields lists the fields of one initialisation.
func (ch *productChoice) planFields(c config.Publishing) error {
	k := &ch.model.Task
	d := len(k.Features.Axes.Levels)
	if err := ch.checkNames(c); err != nil {
		return err
	}
	asked := 0
	for at := range k.TargetWeights {
		t := k.Targets[at/d]
		over := k.Features.Axes.StatisticOf(t.Variable, t.Lead)
		f := product.Field{Variable: t.Variable, Level: k.Features.Axes.Levels[at%d].ForVariable(t.Variable), Lead: t.Lead, Period: time.Duration(over.Interval), Method: over.Statistic}
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
	if err := ch.checkPeriods(c); err != nil {
		return err
	}
	if asked == 0 {
		return &exit.Error{Code: exit.Usage, What: "no product is selected", At: "output.variables and output.levels",
			Why: "no target of the model matches both", Fix: "the model predicts " + ch.model.DescribeTargets()}
	}
	return nil
}

// checkPeriods checks that the fields of each lead have one interval: NetCDF and Zarr have one time with one pair of
// bounds in a file. GRIB2 needs the interval of all fields that are not instantaneous.
//
// Errors: exit 64.
func (ch *productChoice) checkPeriods(c config.Publishing) error {
	for _, f := range ch.fields {
		known, _ := ensemble.VariableNamed(f.Variable)
		over := ensemble.TimeStatistic{Statistic: f.Method, Interval: ensemble.Lead(f.Period)}
		if slices.Contains(c.Output.Formats, string(product.GRIB2)) && over.IsOpen(known.Period) {
			level, axis := f.Level, ch.model.Task.Features.Axes.Levels
			if i := ensemble.FindLevel(axis, f.Variable, level); i >= 0 {
				level = axis[i] // as data.levels has it
			}
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s cannot be written in GRIB2 without its interval", f.Variable), At: "output.formats",
				Why: "the files of the training did not state it", Fix: fmt.Sprintf("train with it in data.targets, for example {variable: %s, levels: [%s], interval: 24h}, or publish NetCDF only", f.Variable, level)}
		}
	}
	if !slices.ContainsFunc(c.Output.Formats, func(f string) bool { return f != string(product.GRIB2) }) {
		return nil
	}
	first := map[ensemble.Lead]product.Field{}
	for _, f := range ch.fields {
		if f.Period == 0 {
			continue
		}
		o, seen := first[f.Lead]
		if seen && o.Period != f.Period {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("products of %s and %s have different intervals", o.Variable, f.Variable), At: "output.variables",
				Why: fmt.Sprintf("%s over %s and %s over %s at lead %s, and a file has one", o.Method, ensemble.Lead(o.Period), f.Method, ensemble.Lead(f.Period), f.Lead),
				Fix: fmt.Sprintf("publish them one after the other, into two folders: --variables %s and --variables %s; or write GRIB2 only", o.Variable, f.Variable)}
		}
		first[f.Lead] = f
	}
	return nil
}

// productFields returns the fields of one product for one target; f has its name, level and lead.
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
	case config.MembersProduct: // their number depends on the initialisation
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

// quantiles returns the quantile fields of one target; distribution describes what they are quantiles of.
func quantiles(c config.Publishing, f product.Field, distribution string) (out []product.Field) {
	f.Kind, f.Distribution = product.Quantile, distribution
	for _, q := range c.Quantiles {
		f.Below = q
		out = append(out, f)
	}
	return out
}

// probabilities returns the probability fields of the events of one target.
//
// Errors: those of task.EventSI.
func probabilities(c config.Publishing, f product.Field, distribution string) (out []product.Field, err error) {
	f.Kind, f.Distribution = product.Probability, distribution
	for _, q := range c.Probabilities {
		if !q.Matches(f.Variable, f.Level) {
			continue
		}
		if f.Event, err = task.EventSI(q); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// parameters returns the fields of the distribution parameters of one target.
func parameters(f product.Field, family *dist.Family) (out []product.Field) {
	f.Kind, f.Distribution = product.Parameter, family.ID
	for i, name := range family.Parameters {
		f.Parameter = name
		f.Dimensionless = family.Roles[i] == dist.Invariant || family.Roles[i] == dist.LogLocation
		out = append(out, f)
	}
	return out
}

// checkNames checks that requested variables, levels and leads are targets of the model.
//
// Errors: exit 64.
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
		if !ch.predicts(c, q.VariableAt) {
			return none("probabilities", q.VariableAt.String()+" of "+q.String())
		}
	}
	return nil
}

// predicts reports whether a name means a target of the model that is selected.
func (ch *productChoice) predicts(c config.Publishing, v ensemble.VariableAt) bool {
	k := &ch.model.Task
	levels := k.Features.Axes.Levels
	for at, weight := range k.TargetWeights {
		variable := k.Targets[at/len(levels)].Variable
		level := levels[at%len(levels)].ForVariable(variable)
		if weight != 0 && v.Matches(variable, level) && isSelected(c.Output.Variables, variable) && isSelected(c.Output.Levels, level) {
			return true
		}
	}
	return false
}

// isSelected reports whether a list contains an item or is empty.
func isSelected[T comparable](list []T, x T) bool { return list == nil || slices.Contains(list, x) }

// product returns the product of an initialisation made from the used members, without values.
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
	if ch.members || m.Spec.PredictsMembers() && ch.coupling.Count > 0 {
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

// calibrationNote describes the calibration of a target's probabilities, for the file's attributes.
func (ch *productChoice) calibrationNote(t task.Target, level ensemble.Level) string {
	if ch.fallback != "" {
		return ""
	}
	return ch.model.DescribeCalibration(t, level)
}

// recalibrationNote describes the recalibration of a target's distribution, for the file's attributes.
func (ch *productChoice) recalibrationNote(t task.Target, level ensemble.Level) string {
	if ch.fallback != "" {
		return ""
	}
	return ch.model.DescribeRecalibration(t, level)
}
