package predict

import (
	"context"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// fill makes the product of a forecast: calibrated, coupled, on the requested grid and stations.
func (in *openInput) fill(ctx context.Context, init ensemble.Init, fc *initForecast) (*product.Product, product.Publication, error) {
	ch := in.choice
	if fc.trust.useFallback {
		ch = ch.forFallback()
	}
	q, pub, err := in.publication(ctx, init, ch)
	if err != nil {
		return nil, pub, err
	}
	pub.Start, pub.Warnings = fc.started, append(pub.Warnings, fc.warnings...)
	in.recordTrust(q, &pub, fc.trust, fc.out.Departures)
	if n := fc.out.Clipped; n > 0 {
		pub.Warnings = append(pub.Warnings, fmt.Sprintf("initialisation %s: %d negative values of the full ensemble's spread were set to 0", init, n))
	}
	if _, ch.coupling.Fields, err = in.p.template(ctx, ch, init, q.Members); err != nil {
		return nil, pub, err
	}
	if err := ch.fill(q, fc.out, fc.raw); err != nil {
		return nil, pub, err
	}
	pub.Warnings = append(pub.Warnings, ch.certainEvents(q)...)
	return q, pub, addTemplates(q, ch.coupling.Renumbers(), in.input, in.templates)
}

// filler sets the values of the fields of one initialisation.
type filler struct {
	*productChoice
	out           *model.Forecast
	raw           []float32           // input members of the targets; nil without members among the products
	neighbourhood neighbourhoodFields // neighbourhood probabilities, shared by grid and stations
}

// locations is where the fields of a product are: grid points or stations.
type locations struct {
	interpolate      func(field []float32) []float32 // maps a field from the model's grid
	heightCorrection []float32                       // added to the location of 2 m temperatures, in K; nil for none
	members          map[int][][]float32             // calibrated members by target
}

// fill sets the values of all fields of a product, on the grid and at stations.
func (ch *productChoice) fill(p *product.Product, out *model.Forecast, raw []float32) error {
	fl := &filler{productChoice: ch, out: out, raw: raw, neighbourhood: neighbourhoodFields{map[string]neighbourhoodField{}, map[int][][]float32{}}}
	if err := fl.fillAt(p, locations{interpolate: ch.crop}); err != nil || p.AtStations == nil {
		return err
	}
	at := p.AtStations
	source := at.Source
	at.Metadata = p.Metadata // fillAt has completed it
	at.Source = source
	return fl.fillAt(at, locations{interpolate: ch.stations.Interpolate, heightCorrection: ch.stations.HeightCorrection})
}

// fillAt sets the values at some locations.
func (fl *filler) fillAt(p *product.Product, at locations) error {
	k, n := &fl.model.Task, fl.model.Grid.Size()
	at.members = map[int][][]float32{}
	for i := range p.Fields {
		f := &p.Fields[i]
		target := k.TargetIndex(task.Target{Variable: f.Variable, Lead: f.Lead}, f.Level)
		part := func(fields []float32) []float32 { return at.interpolate(fields[target*n : (target+1)*n]) }
		switch {
		case f.Kind == product.Mean:
			f.Values = at.correctHeight(f, part(fl.out.Mean))
		case f.Kind == product.Spread:
			f.Values = part(fl.out.Sigma)
		case f.Kind == product.EnsembleSpread:
			f.Values = part(fl.out.Spread)
		case fl.out.Members != nil:
			fl.fillMembers(p, f, target, at)
		default:
			if err := fl.fillDistribution(p, f, target, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// correctHeight corrects the location of a 2 m temperature field for the altitude of stations.
func (at *locations) correctHeight(f *product.Field, location []float32) []float32 {
	if f.Variable == "2t" {
		for i, d := range at.heightCorrection {
			location[i] += d
		}
	}
	return location
}

// fillDistribution sets the values of a field from the distribution of its target.
func (fl *filler) fillDistribution(p *product.Product, f *product.Field, target int, at locations) error {
	family, err := fl.model.CheckedFamily(f.Variable)
	if err != nil {
		return err
	}
	parameters := fl.out.ParametersAt(target, fl.model.Grid.Size(), at.interpolate)
	for i, role := range family.Roles {
		if role == dist.Location {
			parameters[i] = at.correctHeight(f, parameters[i])
		}
	}
	switch {
	case f.Radius > 0:
		return fl.fillNeighbourhood(p, f, target, at.interpolate)
	case f.Kind == product.Parameter:
		f.Values = parameters[slices.Index(family.Parameters, f.Parameter)]
		return nil
	case f.Kind != product.Member:
		f.Values = statistic(f, family, parameters)
		if f.Kind == product.Probability {
			fl.calibrate(f, f.Values, family, parameters)
		}
		return nil
	}
	if at.members[target] == nil {
		var template [][]float32
		for _, field := range fl.template(target, fl.raw, len(p.Members)) {
			template = append(template, at.interpolate(field))
		}
		if at.members[target], err = fl.coupling.Couple(members.Draws(p.Init, f, p.Grid), template, family, parameters); err != nil {
			return err
		}
	}
	f.Values = at.members[target][slices.Index(fl.coupling.Members(p.Members), f.Member)]
	return nil
}

// calibrate applies the model's calibration of event probabilities, which is defined for the network's
// distribution.
func (ch *productChoice) calibrate(f *product.Field, p []float32, family *dist.Family, par [][]float32) {
	if ch.fallback == "" {
		ch.model.Calibrate(p, task.Target{Variable: f.Variable, Lead: f.Lead}, f.Level, f.Event, family, par)
	}
}

// crop extracts the published area of a field.
func (ch *productChoice) crop(field []float32) []float32 {
	if ch.points == nil {
		return field
	}
	return ensemble.Take(field, ch.points)
}

// statistic computes a quantile, or the probability of an event, at every point.
//
// Missing: NaN parameters give NaN.
func statistic(f *product.Field, family *dist.Family, parameters model.ParameterFields) []float32 {
	var value func(par []float64) float64
	switch e := f.Event; {
	case f.Kind == product.Quantile:
		value = family.QuantileFunc(f.Below)
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
