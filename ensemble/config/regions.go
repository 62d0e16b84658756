package config

import (
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// checkRegions checks the syntax and the names of `regions`.
func (c *TrainConfig) checkRegions() []*exit.Error {
	if _, err := score.ParseBoxes(c.Train.Regions); err != nil {
		return []*exit.Error{c.Fault("regions", strings.TrimPrefix(err.Error(), "score: "), "", "give names of regions, or NAME=SOUTH:NORTH:WEST:EAST in degrees, each with a name of its own")}
	}
	return nil
}
