package verify

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// newVerdict compares the window of a rolling verification with the sums of another one. For each target it
// computes
//
//	CRPSS = 1 − (C/W) / (C'/W')
//
// where C is the sum of weighted CRPS and W the sum of weights over common initialisations, and C', W' are
// those of the other model. The CRPSS of all targets is that of the geometric mean of their ratios. Intervals
// are those of the logarithm of the ratio (significance.Bootstrap.SkillOverSeeds), so that exchanging the models exchanges
// the verdict. The verdict is "better" if the bootstrap interval of all targets is above 0 and no target's is below;
// "worse" in the opposite case; "undecided" otherwise.
//
// Errors: exit 66 if the other verification has no common initialisation; 64 if both are of one model.
func newVerdict(o RollingOptions, own *RollingResult) (*promote.Verdict, error) {
	used, err := promote.ReadAlarms(filepath.Join(o.Against, AlarmsFile))
	if err != nil {
		return nil, err
	}
	none := &exit.Error{Code: exit.NotYet, What: "no initialisation to compare", At: o.Against, Why: "the two verifications have no common initialisation yet", Fix: "verify products of both models for the same days, and wait for their analyses"}
	if _, err := filesystem.Stat(o.Against); errors.Is(err, fs.ErrNotExist) {
		return nil, &exit.Error{Code: exit.NotYet, What: "no such folder", At: o.Against, Why: "named by --compare-with", Fix: "correct the path, or verify the products of the other model first: ensemble verify --rolling " + o.Against, Err: err}
	}
	if used == nil || own.Scores == nil {
		return nil, none
	}
	if used.Model == own.Model {
		return nil, &exit.Error{Code: exit.Usage, What: "both verifications are of the same model", At: o.Against, Why: "its checksum is " + used.Model, Fix: "give the folder of the rolling verification of the other model"}
	}
	files, _, err := newestSums(sumsDir(o.Against, used.Model), 10*o.Window) // only common initialisations count
	if err != nil || len(files) == 0 {
		return nil, none
	}
	other, _, _, err := scoring.JoinFiles(files, o.Bootstrap)
	if err != nil {
		return nil, err
	}
	v := &promote.Verdict{Schema: promote.VerdictSchema, Model: own.Model, Against: used.Model, Verdict: promote.VerdictUndecided}
	pairs := map[score.Target]map[ensemble.Init][]float64{} // weight, and weighted CRPS of both models
	var targets []score.Target
	var inits []ensemble.Init
	for _, s := range own.window {
		at := slices.IndexFunc(other, func(x *scoring.Scoring) bool { return x.Target == s.Target })
		if at < 0 {
			continue
		}
		theirs := other[at].CRPSByInit(score.Everywhere)
		for init, x := range s.CRPSByInit(score.Everywhere) {
			y, both := theirs[init]
			if !both || x.Weight == 0 || y.Weight == 0 {
				continue
			}
			if pairs[s.Target] == nil {
				pairs[s.Target] = map[ensemble.Init][]float64{}
				targets = append(targets, s.Target)
			}
			pairs[s.Target][init] = []float64{x.Weight, x.Sum, y.Weight, y.Sum}
			inits = append(inits, init)
		}
	}
	slices.SortFunc(inits, func(a, b ensemble.Init) int { return a.Compare(b.Time) })
	inits = slices.Compact(inits)
	if v.Inits = len(inits); v.Inits == 0 {
		return nil, none
	}
	ratio := func(s []float64) float64 { return s[1] / s[0] / (s[3] / s[2]) }
	var all [][]float64
	for _, init := range inits {
		var row []float64
		for _, k := range targets {
			if p := pairs[k][init]; p != nil {
				row = append(row, p...)
			} else {
				row = append(row, 0, 0, 0, 0)
			}
		}
		all = append(all, row)
	}
	skill := func(of func(s []float64) float64) (value, low, high score.Number, err error) {
		v, lo, hi, err := o.Bootstrap.SkillOverSeeds([][][]float64{all}, of)
		return score.Number(v), score.Number(lo), score.Number(hi), err
	}
	worse := false
	for i, k := range targets {
		t := promote.VerdictTarget{Variable: k.Variable, Level: k.Level.String(), Lead: k.Lead.String()}
		if t.CRPSS, t.CILow, t.CIHigh, err = skill(func(s []float64) float64 { return ratio(s[4*i : 4*i+4]) }); err != nil {
			return nil, err
		}
		worse = worse || t.CIHigh < 0
		v.Targets = append(v.Targets, t)
	}
	v.CRPSS, v.CILow, v.CIHigh, err = skill(func(s []float64) float64 {
		sum := 0.0
		for i := range targets {
			sum += math.Log(ratio(s[4*i:4*i+4])) / float64(len(targets))
		}
		return math.Exp(sum)
	})
	switch {
	case worse || v.CIHigh < 0:
		v.Verdict = promote.VerdictWorse
	case v.CILow > 0:
		v.Verdict = promote.VerdictBetter
	}
	return v, err
}
