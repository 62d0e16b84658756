package run

import (
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// readAxes are those of the fields that a training reads: of the features, and of later target leads.
func readAxes(c *config.TrainConfig) ensemble.Axes {
	a := axesOf(c)
	a.Leads = c.Data.ReadLeads()
	return a
}

// lastTarget is the latest target lead of a configuration.
func lastTarget(c *config.TrainConfig) ensemble.Lead { return slices.Max(c.Data.TargetLeads) }

// validsOf are the valid times of starts at some leads, each once, in the order of the starts.
func validsOf(inits []ensemble.Init, leads []ensemble.Lead) (out []ensemble.Valid) {
	seen := map[ensemble.Valid]bool{}
	for _, i := range inits {
		for _, l := range leads {
			if v := i.Valid(l); !seen[v] {
				seen[v] = true
				out = append(out, v)
			}
		}
	}
	return out
}
