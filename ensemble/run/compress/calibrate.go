package compress

import (
	"context"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// calibrationOrder returns the indices of n evenly spaced training samples, or of all.
//
// Errors: exit 65 without samples.
func calibrationOrder(from samples.Examples, n int) ([]int, error) {
	order := evenIndices(n, len(from.Inits))
	if len(order) == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "no samples for the calibration", Why: "no input file of a training sample was found", Fix: "restore the training's input files"}
	}
	return order, nil
}

// evenIndices returns n evenly spaced indices from 0 to of−1.
func evenIndices(n, of int) []int {
	n = min(n, of)
	order := make([]int, n)
	for i := range order {
		order[i] = i * (of - 1) / max(n-1, 1)
	}
	return order
}

// predictEach predicts from samples in an order, and calls each after each of them.
//
// Errors: those of reading and of predicting.
func predictEach(ctx context.Context, m *model.Model, o engine.Options, from samples.Examples, order []int, each func(i int, fc *ensemble.Forecast)) error {
	next := from.Stream(ctx, order)
	defer next.Close()
	for i := range order {
		fc, _, err := next.NextForecast()
		if err != nil {
			return err
		}
		if _, err := m.Predict(ctx, o, fc, m.Task.UsedMembers); err != nil {
			return err
		}
		each(i, fc)
	}
	return nil
}
