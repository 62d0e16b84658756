package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Verdict compares a model that runs as a shadow with the one in use, on the starts that both forecast.
type Verdict struct {
	Schema  string          `json:"schema"`
	Model   string          `json:"model_checksum"`
	Against string          `json:"against"`
	Verdict string          `json:"verdict"` // "better", "worse" or "undecided"
	Starts  int             `json:"starts"`
	Gain    score.Number    `json:"gain"` // relative gain of CRPS, mean over targets
	CILow   score.Number    `json:"ci_low"`
	CIHigh  score.Number    `json:"ci_high"`
	Targets []VerdictTarget `json:"targets"`
}

// VerdictTarget is the gain of one target.
type VerdictTarget struct {
	Variable string       `json:"variable"`
	Level    string       `json:"level"`
	Lead     string       `json:"lead"`
	Gain     score.Number `json:"gain"`
	CILow    score.Number `json:"ci_low"`
	CIHigh   score.Number `json:"ci_high"`
}

const verdictSchema = "ensemble.verdict/1"

// The verdicts.
const (
	VerdictBetter    = "better"
	VerdictWorse     = "worse"
	VerdictUndecided = "undecided"
)

// String says it in a line.
func (v *Verdict) String() string {
	return fmt.Sprintf("verdict on %d starts: %s; gain of CRPS %+.1f %% [%+.1f, %+.1f]", v.Starts, v.Verdict, 100*float64(v.Gain), 100*float64(v.CILow), 100*float64(v.CIHigh))
}

// verdictOn compares the window of a rolling verification with the sums of another one. Better is a model whose mean gain
// is certain, and that is certainly worse in no target; worse is one for which either is the other way round.
//
// Errors: exit 66 if the other one has judged nothing, or no start that this one has.
func verdictOn(o RollingOptions, own *RollingResult) (*Verdict, error) {
	used, err := readAlarms(filepath.Join(o.Against, alarmsFile))
	if err != nil {
		return nil, err
	}
	none := &exit.Error{Code: exit.NotYet, What: "there is no start to compare", At: o.Against, Why: "the two verifications have no start in common yet", Fix: "verify the products of both models on the same days, and wait for their analyses"}
	if _, err := os.Stat(o.Against); errors.Is(err, fs.ErrNotExist) {
		return nil, &exit.Error{Code: exit.NotYet, What: "no such folder", At: o.Against, Why: "named by --against", Fix: "correct the path, or judge the products of the other model first: ensemble verify --rolling " + o.Against, Err: err}
	}
	if used == nil || own.Scores == nil {
		return nil, none
	}
	if used.Model == own.Model {
		return nil, &exit.Error{Code: exit.Usage, What: "both verifications are of one model", At: o.Against, Why: "its checksum is " + used.Model, Fix: "give the folder of the rolling verification of the other model"}
	}
	files, _, err := newestSums(sumsDir(o.Against, used.Model), 10*o.Window) // of which those that both have count
	if err != nil || len(files) == 0 {
		return nil, none
	}
	other, _, _, err := joinFiles(files, o.Bootstrap)
	if err != nil {
		return nil, err
	}
	v := &Verdict{Schema: verdictSchema, Model: own.Model, Against: used.Model, Verdict: VerdictUndecided}
	pairs := map[score.Target]map[ensemble.Init][]float64{} // weights and weighted CRPS of both
	var targets []score.Target
	var starts []ensemble.Init
	for _, s := range own.window {
		at := slices.IndexFunc(other, func(x *scoring) bool { return x.target == s.target })
		if at < 0 {
			continue
		}
		theirs := other[at].crpsByStart()
		for init, x := range s.crpsByStart() {
			y, both := theirs[init]
			if !both || x.Weight == 0 || y.Weight == 0 {
				continue
			}
			if pairs[s.target] == nil {
				pairs[s.target] = map[ensemble.Init][]float64{}
				targets = append(targets, s.target)
			}
			pairs[s.target][init] = []float64{x.Weight, x.Sum, y.Weight, y.Sum}
			starts = append(starts, init)
		}
	}
	slices.SortFunc(starts, func(a, b ensemble.Init) int { return a.Compare(b.Time) })
	starts = slices.Compact(starts)
	if v.Starts = len(starts); v.Starts == 0 {
		return nil, none
	}
	gain := func(s []float64) float64 { return 1 - s[1]/s[0]/(s[3]/s[2]) }
	var all [][]float64
	for _, init := range starts {
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
	interval := func(of func(s []float64) float64) (g, lo, hi score.Number, err error) {
		a, b, c, err := o.Bootstrap.Interval(all, of)
		return score.Number(a), score.Number(b), score.Number(c), err
	}
	worse := false
	for i, k := range targets {
		t := VerdictTarget{Variable: k.Variable, Level: k.Level.String(), Lead: k.Lead.String()}
		if t.Gain, t.CILow, t.CIHigh, err = interval(func(s []float64) float64 { return gain(s[4*i : 4*i+4]) }); err != nil {
			return nil, err
		}
		worse = worse || t.CIHigh < 0
		v.Targets = append(v.Targets, t)
	}
	v.Gain, v.CILow, v.CIHigh, err = interval(func(s []float64) float64 {
		sum := 0.0
		for i := range targets {
			sum += gain(s[4*i:4*i+4]) / float64(len(targets))
		}
		return sum
	})
	switch {
	case worse || v.CIHigh < 0:
		v.Verdict = VerdictWorse
	case v.CILow > 0:
		v.Verdict = VerdictBetter
	}
	return v, err
}

// crpsByStart is what each start adds to the CRPS of the network's distribution, or of the members that it gives, which is the fair one.
func (s *scoring) crpsByStart() map[ensemble.Init]score.Dated {
	out := map[ensemble.Init]score.Dated{}
	if s.distributions == nil {
		return out
	}
	for _, of := range [][2]string{{SystemNetwork, score.CRPSFamily.ID}, {SystemNetwork, score.CRPSGauss.ID}, {systemMembers, score.CRPSFair.ID}} {
		if s.distributions.Has(of[0], of[1]) {
			for _, d := range s.distributions.Dated(of[0], of[1]) {
				out[d.Init] = d
			}
			break
		}
	}
	return out
}
