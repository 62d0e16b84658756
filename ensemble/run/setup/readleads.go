package setup

import (
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// ReadAxes returns the axes of the fields that a training reads: those of the features, and later target
// leads.
func ReadAxes(c *config.TrainConfig) ensemble.Axes {
	a := AxesOf(c)
	a.Leads = c.Data.ReadLeads()
	return a
}

// LastTarget is the latest target lead of a configuration.
func LastTarget(c *config.TrainConfig) ensemble.Lead { return slices.Max(c.Data.TargetLeads) }

// ValidTimes lists the valid times of initialisations at some leads, each once, in order of initialisation.
func ValidTimes(inits []ensemble.Init, leads []ensemble.Lead) (out []ensemble.Valid) {
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
