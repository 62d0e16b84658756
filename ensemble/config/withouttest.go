package config

import "github.com/ensemble-weather/ensemble/internal/exit"

// LoadTrainWithoutTest loads a training without its test dates, for a choice that must not see them.
//
// Errors: those of LoadTrain; exit 64 for a split by fractions, whose remainder is the test.
func LoadTrainWithoutTest(src Sources) (*TrainConfig, error) {
	src.unset = append(src.unset, "data.split.test.from", "data.split.test.to")
	c, err := LoadTrain(src)
	if err == nil && !c.Data.Split.IsByDate() {
		return nil, &exit.Error{Code: exit.Usage, What: "the test dates are not known before the data are read", At: "data.split.fractions", Why: "the split is by fractions, and the test is what remains",
			Fix: "set data.split.train and data.split.validation, each with from and to"}
	}
	return c, err
}
