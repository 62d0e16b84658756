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

// driftFitter learns what input fields are like from the starts of a training.
type driftFitter struct {
	drift     *model.Drift
	ranks     *team.Team
	used      []int
	stride    int               // of the starts, one of so many is looked at
	valid     [][]time.Time     // [lead][start]
	summaries [][]drift.Summary // [field][start]
}

// maxDriftInits bounds the starts that are looked at, and so the memory: a kilobyte each for every field.
const maxDriftInits = 400

func newDriftFitter(k *task.Task, d *samples.Data) *driftFitter {
	w := &driftFitter{drift: &model.Drift{Boxes: drift.NewBoxes(d.Grid), Axes: k.Features.Axes}, ranks: d.Ranks,
		stride: (len(d.Train.Inits) + maxDriftInits - 1) / maxDriftInits}
	for i, m := range d.All {
		for _, u := range k.UsedMembers {
			if u == m {
				w.used = append(w.used, i)
			}
		}
	}
	w.valid, w.summaries = make([][]time.Time, len(w.drift.Axes.Leads)), make([][]drift.Summary, w.drift.Axes.Fields())
	return w
}

// add takes start i of the training.
func (w *driftFitter) add(i int, fc *ensemble.Forecast) error {
	if i%w.stride > 0 {
		return nil
	}
	all, err := samples.Summarise(w.drift.Boxes, w.drift.Axes, fc, w.used, w.ranks)
	for f, s := range all {
		w.summaries[f] = append(w.summaries[f], s)
	}
	for t, lead := range w.drift.Axes.Leads {
		w.valid[t] = append(w.valid[t], fc.Init.Valid(lead).Time)
	}
	w.drift.Inits++
	return err
}

// fit gives what was learned, on the leading rank; nil if there were too few starts.
func (w *driftFitter) fit() (*model.Drift, error) {
	if w.drift.Inits < drift.MinInits || !w.ranks.IsRoot() {
		return nil, nil
	}
	perLead := len(w.summaries) / len(w.valid)
	for i, s := range w.summaries {
		f, err := drift.Fit(w.drift.Boxes, s, w.valid[i/perLead])
		if err != nil {
			return nil, err
		}
		w.drift.Fields = append(w.drift.Fields, f)
		w.summaries[i] = nil
	}
	return w.drift, nil
}
