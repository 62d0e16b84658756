package predict

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/neighbourhood"
)

// neighbourhoods returns the neighbourhood probabilities of one target, one field per event and radius.
//
// Errors: those of task.EventSI.
func (ch *productChoice) neighbourhoods(c config.Publishing, word string, f product.Field, family *dist.Family) (out []product.Field, err error) {
	target := task.Target{Variable: f.Variable, Lead: f.Lead}
	f.Kind, f.Distribution = product.Neighbourhood, family.Name+ch.recalibrationNote(target, f.Level)+ch.calibrationNote(target, f.Level)
	if word == config.NeighbourhoodAnyProduct {
		f.Kind, f.Distribution = product.NeighbourhoodAny, family.Name+"; of members: "+ch.coupling.Description()
	}
	for _, q := range c.Probabilities {
		if !q.Matches(f.Variable, f.Level) {
			continue
		}
		if f.Event, err = task.EventSI(q); err != nil {
			return nil, err
		}
		for _, r := range c.Neighbourhood.Radius {
			f.Radius = float64(r)
			out = append(out, f)
		}
	}
	return out, nil
}

// neighbourhoodFields are the neighbourhood probabilities of one initialisation, which grid and stations share.
type neighbourhoodFields struct {
	fields  map[string]neighbourhoodField // by event and radius
	members map[int][][]float32           // calibrated members on the model's grid, by target
}

// neighbourhoodField is one neighbourhood probability.
type neighbourhoodField struct {
	values     []float32
	incomplete int // points with missing values in their neighbourhood
}

// fillNeighbourhood sets the values of a neighbourhood probability. It is computed on the whole grid of the model, so
// that points outside the published area count.
func (fl *filler) fillNeighbourhood(p *product.Product, f *product.Field, target int, take func([]float32) []float32) (err error) {
	key := f.Variable + f.Level.String() + f.Lead.String() + f.Statistic()
	got, there := fl.neighbourhood.fields[key]
	if !there {
		if got, err = fl.neighbourhoodProbability(p, f, target); err != nil {
			return err
		}
		fl.neighbourhood.fields[key] = got
	}
	f.Values, f.Incomplete = take(got.values), got.incomplete
	return nil
}

// neighbourhoodProbability computes the probability of an event in neighbourhoods, on the model's grid.
func (fl *filler) neighbourhoodProbability(p *product.Product, f *product.Field, target int) (got neighbourhoodField, err error) {
	family, err := fl.model.CheckedFamily(f.Variable)
	if err != nil {
		return got, err
	}
	discs, err := fl.discsForRadius(f.Radius)
	if err != nil {
		return got, err
	}
	parameters := fl.out.ParametersAt(target, fl.model.Grid.Size(), model.FullField)
	if f.Kind == product.Neighbourhood {
		points := statistic(f, family, parameters)
		fl.calibrate(f, points, family, parameters)
		means, incomplete := discs.Mean(points)
		for i, v := range means[0] {
			means[0][i] = min(max(v, 0), 1) // rounding of the sum
		}
		return neighbourhoodField{means[0], incomplete}, nil
	}
	if fl.neighbourhood.members[target] == nil {
		if fl.neighbourhood.members[target], err = fl.coupling.Couple(members.Draws(p.Init, f, fl.model.Grid), fl.template(target, fl.raw, len(p.Members)), family, parameters); err != nil {
			return got, err
		}
	}
	events := make([][]float32, len(fl.neighbourhood.members[target]))
	for m, x := range fl.neighbourhood.members[target] {
		events[m] = eventIndicator(f.Event, x)
	}
	got.values, got.incomplete = discs.MaximumProbability(events)
	return got, nil
}

// discsForRadius returns the discs of a radius on the model's grid, computed once.
func (ch *productChoice) discsForRadius(radius float64) (*neighbourhood.Discs, error) {
	if ch.discs[radius] != nil {
		return ch.discs[radius], nil
	}
	d, err := neighbourhood.New(ch.model.Grid, radius)
	if err == nil {
		if ch.discs == nil {
			ch.discs = map[float64]*neighbourhood.Discs{}
		}
		ch.discs[radius] = d
	}
	return d, err
}

// eventIndicator is 1 where the event occurs and 0 elsewhere.
//
// Missing: NaN stays NaN.
func eventIndicator(e ensemble.Event, x []float32) []float32 {
	out := make([]float32, len(x))
	for p, v := range x {
		switch {
		case v != v:
			out[p] = v
		case e.Occurs(float64(v)):
			out[p] = 1
		}
	}
	return out
}
