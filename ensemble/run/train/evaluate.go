package train

import (
	"context"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// evaluation is the result on the test samples; the zero value means that there are none.
type evaluation struct {
	scores  *score.Result
	example *scoring.MapExample // nil on ranks other than 0
	// departures are the largest distances of the test forecasts from their ensembles.
	departures []model.Departure
}

// evaluate scores the trained model on the test samples. All ranks predict.
func (t *trainer) evaluate(ctx context.Context, o Options) (j evaluation, err error) {
	if len(t.data.Test.Inits) == 0 {
		return evaluation{}, nil
	}
	t.model.Ranks, t.model.Local = t.ranks, t.local
	beyond, first := 0, ""
	j.scores, j.example, err = scoring.Evaluate(ctx, t.model, t.data.Test, t.inferenceOptions(), scoring.Evaluation{Regions: o.Config.Train.Regions, Progress: o.Progress, Observe: func(init ensemble.Init, all []model.Departure) {
		j.departures = model.LargestOfKinds(append(j.departures, all...))
		if far := model.Beyond(all, model.DefaultReach); len(far) > 0 {
			if beyond++; first == "" {
				first = fmt.Sprintf("%s: %s", init, t.model.Describe(far[0]))
			}
		}
	}})
	if beyond > 0 {
		far := fmt.Sprintf("test forecasts that are too far from their ensemble, so that predict refuses them (bound.limit): %d of %d; %s", beyond, len(t.data.Test.Inits), first)
		t.data.Warnings = append(t.data.Warnings, far)
		o.warn(t.ranks, []string{far})
	}
	return j, err
}

// eachValidation predicts all validation samples with the trained model; see scoring.EachPrediction.
func (t *trainer) eachValidation(ctx context.Context, name string, show *progress.Reporter, visit func(out *model.Forecast, cases []*scoring.Case)) error {
	m := t.model
	m.Ranks, m.Local = t.ranks, t.local
	defer m.Close()
	return scoring.EachPrediction(ctx, m, name, t.data.Validation, t.inferenceOptions(), show, func(_ int, _ *ensemble.Forecast, out *model.Forecast, cases []*scoring.Case) error {
		visit(out, cases)
		return nil
	})
}
