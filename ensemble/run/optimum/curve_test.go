package optimum

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// A learning curve has the variants by their number of training initialisations, with scores of the network only; variants of one
// number have none.
func TestLearningCurves(t *testing.T) {
	share := func(system string, dates int, crps, reference float64) Share {
		return Share{System: system, TrainingDates: dates, Variable: "t", Level: "850hPa", Lead: "48h", Region: score.Everywhere, Unit: "K", CRPS: score.Number(crps), ReferenceCRPS: score.Number(reference), OracleCRPS: 0.5}
	}
	r := Result{Shares: []Share{share("network", 1043, 0.6, 0.7), share(Reference, 1043, 0.7, 0.7), share("network", 52, 0.8, 0.9), share("network", 261, 0.65, 0.75)}}
	tropics := share("network", 400, 0.9, 0.9)
	tropics.Region = "tropics"
	r.Shares = append(r.Shares, tropics)
	all := r.LearningCurves()
	if len(all) != 1 || all[0].Title != "t 850hPa +48h" || all[0].Y != "CRPS in K" || len(all[0].Lines) != 3 {
		t.Fatalf("%+v", all)
	}
	for i, want := range [][]float64{{0.8, 0.65, 0.6}, {0.9, 0.75, 0.7}, {0.5, 0.5, 0.5}} {
		if l := all[0].Lines[i]; !slices.Equal(l.X, []float64{52, 261, 1043}) || !slices.Equal(l.Y, want) {
			t.Errorf("%s: %v at %v, want %v", l.Name, l.Y, l.X, want)
		}
	}
	r.Shares = r.Shares[:2]
	if all := r.LearningCurves(); all != nil {
		t.Errorf("of one number: %+v", all)
	}
}
