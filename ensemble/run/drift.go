package run

import (
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/postproc/drift"
)

// summarise sums up the input fields of one start over some members, for the watch on drift: on the
// leading rank, where every rank has its slab; the others get nil. All of a team call it, at the same place.
// axes are those of the features of the whole, which the forecast may have more leads than.
//
// Shape: [lead][variable][level] of the axes.
func summarise(boxes *drift.Boxes, axes ensemble.Axes, fc *ensemble.Forecast, used []int, ranks *team.Team) (out []drift.Summary, err error) {
	n, levels, depth := fc.Grid.Size(), len(fc.Axes.Levels), len(axes.Levels)
	for t := range axes.Leads {
		for v := range fc.Axes.Variables {
			part := make([]float32, 2*levels*n)
			for l := range levels {
				fc.MeanStd(part[l*n:(l+1)*n], part[(levels+l)*n:(levels+l+1)*n], t, v, l, used, spreadDivisor(len(used)))
			}
			whole, err := team.Join(ranks, part, 2)
			if err != nil {
				return nil, err
			}
			if !ranks.Leads() {
				continue
			}
			points := len(whole) / 2 / depth
			for l := range depth {
				out = append(out, boxes.Summarise(whole[l*points:(l+1)*points], whole[(depth+l)*points:(depth+l+1)*points]))
			}
		}
	}
	return out, nil
}

// spreadDivisor is what is taken from the number of members in spreads that are compared between numbers of
// members: 1, and of a single member, which has none, 0.
func spreadDivisor(members int) int { return min(1, members-1) }

// inputWatch learns what input fields are like from the starts of a training.
type inputWatch struct {
	known  *model.Drift
	ranks  *team.Team
	used   []int
	every  int               // of the starts, one of so many is looked at
	valid  [][]time.Time     // [lead][start]
	starts [][]drift.Summary // [field][start]
}

// mostWatched bounds the starts that are looked at, and so the memory: a kilobyte each for every field.
const mostWatched = 400

func newInputWatch(k *model.Task, d *data) *inputWatch {
	w := &inputWatch{known: &model.Drift{Boxes: drift.NewBoxes(d.grid), Axes: k.Features.Axes}, ranks: d.ranks,
		every: (len(d.train.inits) + mostWatched - 1) / mostWatched}
	for i, m := range d.all {
		for _, u := range k.Used {
			if u == m {
				w.used = append(w.used, i)
			}
		}
	}
	w.valid, w.starts = make([][]time.Time, len(w.known.Axes.Leads)), make([][]drift.Summary, w.known.Axes.Fields())
	return w
}

// add takes start i of the training.
func (w *inputWatch) add(i int, fc *ensemble.Forecast) error {
	if i%w.every > 0 {
		return nil
	}
	all, err := summarise(w.known.Boxes, w.known.Axes, fc, w.used, w.ranks)
	for f, s := range all {
		w.starts[f] = append(w.starts[f], s)
	}
	for t, lead := range w.known.Axes.Leads {
		w.valid[t] = append(w.valid[t], fc.Init.Valid(lead).Time)
	}
	w.known.Starts++
	return err
}

// fit gives what was learned, on the leading rank; nil if there were too few starts.
func (w *inputWatch) fit() (*model.Drift, error) {
	if w.known.Starts < drift.Least || !w.ranks.Leads() {
		return nil, nil
	}
	perLead := len(w.starts) / len(w.valid)
	for i, s := range w.starts {
		f, err := drift.Fit(w.known.Boxes, s, w.valid[i/perLead])
		if err != nil {
			return nil, err
		}
		w.known.Fields = append(w.known.Fields, f)
		w.starts[i] = nil
	}
	return w.known, nil
}
