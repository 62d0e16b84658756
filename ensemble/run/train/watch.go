package train

import (
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/postproc/drift"
)

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

func newInputWatch(k *task.Task, d *samples.Data) *inputWatch {
	w := &inputWatch{known: &model.Drift{Boxes: drift.NewBoxes(d.Grid), Axes: k.Features.Axes}, ranks: d.Ranks,
		every: (len(d.Train.Inits) + mostWatched - 1) / mostWatched}
	for i, m := range d.All {
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
	all, err := samples.Summarise(w.known.Boxes, w.known.Axes, fc, w.used, w.ranks)
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
