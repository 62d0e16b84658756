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

// driftFitter fits the drift detector: statistics of the input fields over the training initialisations.
type driftFitter struct {
	drift     *model.Drift // the result
	ranks     *team.Team
	used      []int             // positions of the input members
	stride    int               // stride of the initialisations that are used
	valid     [][]time.Time     // [lead][initialisation]
	summaries [][]drift.Summary // [field][initialisation]
}

// maxDriftInits limits the initialisations that are used, and so the memory: one kilobyte each per field.
const maxDriftInits = 400

// newDriftFitter returns an empty fitter for a task's input fields.
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

// add adds training initialisation i. All ranks call it.
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

// fit returns the fitted detector on rank 0; nil with fewer than drift.MinInits initialisations, and on other
// ranks.
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
