package predict

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/neighbourhood"
)

// neighbourhoods are the fields of a product of neighbourhoods of one target, one for each
// event and radius.
//
// Errors: those of eventOf.
func (ch *choice) neighbourhoods(c config.Publishing, word string, f product.Field, family *dist.Family) (out []product.Field, err error) {
	target := model.Target{Variable: f.Variable, Lead: f.Lead}
	f.Kind, f.Distribution = product.Neighbourhood, family.Name+ch.recalibrationWords(target, f.Level)+ch.calibrationWords(target, f.Level)
	if word == config.NeighbourhoodAnyProduct {
		f.Kind, f.Distribution = product.NeighbourhoodAny, family.Name+"; of members: "+ch.coupling.Words()
	}
	for _, q := range c.Probabilities {
		if q.Variable != f.Variable {
			continue
		}
		if f.Event, err = model.EventOf(q); err != nil {
			return nil, err
		}
		for _, r := range c.Neighbourhood.Radius {
			f.Radius = float64(r)
			out = append(out, f)
		}
	}
	return out, nil
}

// nearby are the fields of neighbourhoods of one start, of which grid and stations both take.
type nearby struct {
	fields  map[string]nearbyField // by what tells them apart
	members map[int][][]float32    // calibrated ones on the model's grid, by target
}

// nearbyField is one of them.
type nearbyField struct {
	values     []float32
	incomplete int // points with missing ones around
}

// around gives a field of a neighbourhood its values, from the whole of the model's grid:
// points beyond the edge of an area count too.
func (ch *choice) around(p *product.Product, f *product.Field, out *model.Forecast, raw []float32, take func([]float32) []float32) error {
	k, n := &ch.model.Task, ch.model.Grid.Size()
	key := f.Variable + f.Level.String() + f.Lead.String() + f.Statistic()
	if ch.near.fields == nil {
		ch.near = nearby{map[string]nearbyField{}, map[int][][]float32{}}
	}
	got, there := ch.near.fields[key]
	if !there {
		at := k.At(model.Target{Variable: f.Variable, Lead: f.Lead}, f.Level)
		family, err := ch.model.FamilyOf(f.Variable)
		if err != nil {
			return err
		}
		discs, err := ch.discsOf(f.Radius)
		if err != nil {
			return err
		}
		parameters := out.ParametersAt(at, n, model.WholeField)
		if f.Kind == product.Neighbourhood {
			points := statistic(f, family, parameters)
			ch.calibrate(points, model.Target{Variable: f.Variable, Lead: f.Lead}, f.Level, f.Event, family, parameters)
			means, incomplete := discs.Mean(points)
			for i, v := range means[0] {
				means[0][i] = min(max(v, 0), 1) // sums of probabilities round
			}
			got = nearbyField{means[0], incomplete}
		} else {
			if ch.near.members[at] == nil {
				if ch.near.members[at], err = ch.coupling.Couple(p.Init, f, ch.model.Grid, ch.template(at, raw, len(p.Members)), family, parameters); err != nil {
					return err
				}
			}
			events := make([][]float32, len(ch.near.members[at]))
			for m, x := range ch.near.members[at] {
				events[m] = happens(f.Event, x)
			}
			got.values, got.incomplete = discs.Anywhere(events)
		}
		ch.near.fields[key] = got
	}
	f.Values, f.Incomplete = take(got.values), got.incomplete
	return nil
}

// discsOf are the discs of a radius on the model's grid, found once.
func (ch *choice) discsOf(radius float64) (*neighbourhood.Discs, error) {
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

// happens is 1 where an event does and 0 where it does not. Missing: NaN stays.
func happens(e ensemble.Event, x []float32) []float32 {
	out := make([]float32, len(x))
	for p, v := range x {
		v := float64(v)
		switch {
		case v != v:
			out[p] = x[p]
		case e.Relation == ensemble.Above && v > e.Lower, e.Relation == ensemble.Below && v < e.Upper,
			e.Relation == ensemble.Between && v >= e.Lower && v < e.Upper:
			out[p] = 1
		}
	}
	return out
}
