package experiment

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/record"
)

// training identifies one training of an experiment.
type training struct {
	variant experimentfile.Variant
	origin  string // begin of the test period; "": the split of the configuration
	seed    int
}

// trainings lists the trainings of an experiment by variant, origin and seed.
func trainings(e *experimentfile.Config) (all []training) {
	origins := e.Origins.Names()
	if len(origins) == 0 {
		origins = []string{""}
	}
	for _, v := range e.Variants {
		for _, origin := range origins {
			for _, seed := range e.Seeds {
				all = append(all, training{v, origin, seed})
			}
		}
	}
	return all
}

// dir is the run directory below the output directory: VARIANT/seed-N, or VARIANT/ORIGIN/seed-N.
func (t training) dir() string {
	r := record.Run{Variant: t.variant.Name, Origin: t.origin, Seed: t.seed}
	return filepath.FromSlash(r.Dir())
}

// label names the training for people.
func (t training) label() string { return trainingLabel(t.variant.Name, t.origin, t.seed) }

// trainingLabel names a training for people.
func trainingLabel(variant, origin string, seed int) string {
	if origin != "" {
		variant += ", origin " + origin
	}
	return fmt.Sprintf("%s with seed %d", variant, seed)
}

// splitKeys are the overrides of a configuration for the parts of an origin.
func splitKeys(p ensemble.Parts) (set []string) {
	for _, part := range []struct {
		name string
		in   ensemble.Period
	}{{"train", p.Train}, {"validation", p.Validation}, {"test", p.Test}} {
		set = append(set, "data.split."+part.name+".from="+part.in.From.Format(time.RFC3339), "data.split."+part.name+".to="+part.in.To.Format(time.RFC3339))
	}
	return set
}
