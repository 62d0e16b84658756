package train

import (
	"context"

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
}

// evaluate scores the trained model on the test samples. All ranks predict.
func (t *trainer) evaluate(ctx context.Context, show *progress.Reporter) (j evaluation, err error) {
	if len(t.data.Test.Inits) == 0 {
		return evaluation{}, nil
	}
	o := t.inferenceOptions()
	t.model.Ranks, t.model.Local = t.ranks, t.local
	j.scores, j.example, err = scoring.Evaluate(ctx, t.model, t.data.Test, o, show)
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
