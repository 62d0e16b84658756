package optimum

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// Reference is the system from which the way to the oracle is measured: EMOS by point, of the members that the network
// reads.
const Reference = "emos_grid"

// Share is the part of the way from the reference to the oracle with infinitely many members that a system comes:
//
//	(S_reference − S) / (S_reference − S_oracle)
//
// of scores S averaged over dates and points. It is 0 for the reference and 1 for the optimum; a system that is worse than the
// reference is below 0. S_oracle is the oracle's fair CRPS. The interval is paired: all three scores are of the same dates.
type Share struct {
	Variant       string       `json:"variant"`
	TrainingDates int          `json:"training_dates"` // initialisations to which the variant was trained
	System        string       `json:"system"`
	Score         string       `json:"score"`
	Variable      string       `json:"variable"`
	Level         string       `json:"level"`
	Lead          string       `json:"lead"`
	Region        string       `json:"region"` // score.Everywhere, or the name of a region
	Unit          string       `json:"unit"`
	N             int          `json:"n"` // dates
	CRPS          score.Number `json:"crps"`
	ReferenceCRPS score.Number `json:"reference_crps"`
	OracleCRPS    score.Number `json:"oracle_crps"` // fair
	Share         score.Number `json:"share"`
	CILow         score.Number `json:"ci_low"`
	CIHigh        score.Number `json:"ci_high"`
}

// place is a target in a region at an initialisation.
type place struct{ variable, level, lead, region, init string }

// placeOf is the place of a score.
func placeOf(d score.DateScore) place { return place{d.Variable, d.Level, d.Lead, d.Region, d.Init} }

// scoresOf returns the CRPS of a system by place.
func scoresOf(dates []score.DateScore, system, id string) map[place]float64 {
	out := map[place]float64{}
	for _, d := range dates {
		if d.System == system && (id == "" || d.Score == id) {
			out[placeOf(d)] = float64(d.CRPS)
		}
	}
	return out
}

// series is a score of a system on a target in a region.
type series struct{ system, score, variable, level, lead, region string }

// Shares computes the shares of all systems of a variant, and of the oracle's members with their plain CRPS. seeds are the
// scores by initialisation of its trainings, oracle those of [Score]. The scores of a system are means over the seeds, and its
// interval covers them (significance.Bootstrap.IntervalOverSeeds).
//
// Errors: exit 66 if the reference or the oracle was not scored at an initialisation.
func Shares(variant string, seeds [][]score.DateScore, oracle []score.DateScore, b significance.Bootstrap) ([]Share, error) {
	optimum := scoresOf(oracle, Oracle, score.CRPSFair.ID)
	members := slices.DeleteFunc(slices.Clone(oracle), func(d score.DateScore) bool { return d.Score != score.CRPSPlain.ID })
	rows := map[series][][][]float64{} // [seed][date]{weight, weighted scores of system, reference and optimum}
	var order []series
	for i, dates := range seeds {
		reference := scoresOf(dates, Reference, "")
		for _, d := range slices.Concat(dates, members) {
			if !(d.Weight > 0) {
				continue
			}
			at := placeOf(d)
			best, known := optimum[at]
			from, fitted := reference[at]
			switch {
			case !known:
				return nil, noShare(at, "the oracle")
			case !fitted:
				return nil, noShare(at, "the baseline "+Reference)
			}
			s := series{d.System, d.Score, d.Variable, d.Level, d.Lead, d.Region}
			if rows[s] == nil {
				order = append(order, s)
				rows[s] = make([][][]float64, len(seeds))
			}
			rows[s][i] = append(rows[s][i], []float64{d.Weight, d.Weight * float64(d.CRPS), d.Weight * from, d.Weight * best})
		}
	}
	var out []Share
	for _, s := range order {
		x := Share{Variant: variant, System: s.system, Score: s.score, Variable: s.variable, Level: s.level, Lead: s.lead, Region: s.region, N: len(rows[s][0])}
		value, low, high, err := b.IntervalOverSeeds(rows[s], wayTo)
		if err != nil {
			return nil, err
		}
		x.Share, x.CILow, x.CIHigh = score.Number(value), score.Number(low), score.Number(high)
		x.CRPS, x.ReferenceCRPS, x.OracleCRPS = means(rows[s])
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b Share) int {
		return cmp.Or(cmp.Compare(a.Variable, b.Variable), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Lead, b.Lead), cmp.Compare(a.Region, b.Region), cmp.Compare(b.CRPS, a.CRPS))
	})
	return out, nil
}

// noShare is the error for a score that is missing.
func noShare(at place, what string) error {
	return &exit.Error{Code: exit.NotYet, What: "no share of the way to the oracle", At: fmt.Sprintf("%s at %s, lead %s, initialisation %s, %s", at.variable, at.level, at.lead, at.init, at.region),
		Why: what + " was not scored", Fix: "give `baselines` with " + Reference + " and an oracle of all test dates, or leave out data.oracle"}
}

// wayTo is the share from weighted sums over dates; missing if the reference is not worse than the oracle.
func wayTo(sums []float64) float64 {
	if !(sums[2] > sums[3]) {
		return math.NaN()
	}
	return (sums[2] - sums[1]) / (sums[2] - sums[3])
}

// means returns the scores of a system, the reference and the oracle, averaged over seeds and dates.
func means(seeds [][][]float64) (own, reference, oracle score.Number) {
	var sums [4]float64
	for _, rows := range seeds {
		for _, r := range rows {
			for k, v := range r {
				sums[k] += v
			}
		}
	}
	return score.Number(sums[1] / sums[0]), score.Number(sums[2] / sums[0]), score.Number(sums[3] / sums[0])
}

// Result is the oracle and how far all systems come to it.
type Result struct {
	Oracle *score.Result `json:"-"` // in a file of its own
	Shares []Share       `json:"shares"`
	Costs  []Cost        `json:"costs"`
}

// AddUnits adds the units of the targets to the shares.
func (r *Result) AddUnits(targets []score.Target) {
	for i := range r.Shares {
		for _, t := range targets {
			if t.Variable == r.Shares[i].Variable {
				r.Shares[i].Unit = t.Unit
			}
		}
	}
}

// Sections are the tables of the oracle and of the shares.
func (r *Result) Sections() answer.Sections {
	return append(answer.Sections{r.proof(), r.way()}, append(r.regions(), r.cost())...)
}

const fourDigits = "%.4g"

// proof is the table by which the oracle proves itself: what is expected of members of which truth is one more.
func (r *Result) proof() answer.Section {
	s := answer.Section{Title: "The oracle", Columns: slices.Concat(answer.TextColumns("target"), answer.NumberColumns("", "dates", "members"), answer.NumberColumns(fourDigits, "fair CRPS", "plain"),
		answer.TextColumns("unit"), answer.NumberColumns(fourDigits, "(plain/fair − 1) × members", "spread/error"), answer.TextColumns("its interval", "ranks outside of the band", "coupling"))}
	for _, v := range r.Oracle.Scores {
		if v.ID != score.CRPSFair.ID || !score.IsOverall(v.Region, v.Season) {
			continue
		}
		of := func(id string) *score.Value { return r.Oracle.Find(id, Oracle, v.Variable, v.Level, v.Lead) }
		plain, spread := of(score.CRPSPlain.ID), of(score.SpreadSkill.ID)
		s.Rows = append(s.Rows, []any{targetName(v.Variable, v.Level, v.Lead), v.N, v.Members, v.Value, plain.Value, v.Unit, (plain.Value/v.Value - 1) * score.Number(v.Members), spread.Value,
			interval(spread.CILow, spread.CIHigh, 1), r.ranks(v), r.coupling(v)})
	}
	s.Notes = []string{"Of members of which truth is one more, the third number is 1 (plain CRPS is 1 + 1/members times the fair one, which is that of infinitely many), spread/error is 1, and at most about 5 % of the ranks are outside of their bands."}
	return s
}

// ranks counts the places of the rank histogram outside of their bands.
func (r *Result) ranks(v score.Value) string {
	for _, h := range r.Oracle.Ranks {
		if h.Variable != v.Variable || h.Level != v.Level || h.Lead != v.Lead || !score.IsOverall(h.Region, h.Season) {
			continue
		}
		outside, known := 0, 0
		for i, share := range h.Shares {
			if low, high := float64(h.Low[i]), float64(h.High[i]); low == low && high == high {
				known++
				if share < low || share > high {
					outside++
				}
			}
		}
		if known > 0 {
			return fmt.Sprintf("%d of %d", outside, known)
		}
	}
	return "-"
}

// coupling names the coupling tests that failed.
func (r *Result) coupling(v score.Value) string {
	decided := 0
	var failed []string
	for _, c := range r.Oracle.Coupling {
		if c.Variable == v.Variable && c.Level == v.Level && c.Lead == v.Lead && c.Decided {
			if decided++; !c.Passed {
				failed = append(failed, c.Test)
			}
		}
	}
	switch {
	case decided == 0:
		return "-"
	case failed == nil:
		return "none"
	}
	return strings.Join(failed, ", ")
}

// way is the table of shares.
func (r *Result) way() answer.Section {
	s := answer.Section{Title: "Share of the way from " + Reference + " to the oracle", Columns: slices.Concat(answer.TextColumns("target", "variant", "system", "score"),
		answer.NumberColumns(fourDigits, "CRPS"), answer.TextColumns("unit"), answer.NumberColumns("%.1f", "share, %"), answer.TextColumns("interval, %"))}
	for _, x := range r.Shares {
		if x.Region == score.Everywhere {
			s.Rows = append(s.Rows, []any{targetName(x.Variable, x.Level, x.Lead), cmp.Or(x.Variant, "-"), x.System, x.Score, x.CRPS, x.Unit, 100 * x.Share, interval(x.CILow, x.CIHigh, 100)})
		}
	}
	return s
}

// regions is the table of the network's shares by region; none if no regions were scored.
func (r *Result) regions() answer.Sections {
	s := answer.Section{Title: "The network's share by region", Columns: slices.Concat(answer.TextColumns("target", "region", "variant"),
		answer.NumberColumns(fourDigits, "CRPS", Reference, "optimum"), answer.TextColumns("unit"), answer.NumberColumns("%.1f", "share, %"), answer.TextColumns("interval, %"))}
	for _, x := range r.Shares {
		if x.Region != score.Everywhere && x.System == scoring.SystemNetwork {
			s.Rows = append(s.Rows, []any{targetName(x.Variable, x.Level, x.Lead), x.Region, cmp.Or(x.Variant, "-"), x.CRPS, x.ReferenceCRPS, x.OracleCRPS, x.Unit, 100 * x.Share, interval(x.CILow, x.CIHigh, 100)})
		}
	}
	if s.Rows == nil {
		return nil
	}
	return answer.Sections{s}
}

// targetName names a target.
func targetName(variable, level, lead string) string { return variable + " " + level + " +" + lead }

// interval formats an interval; "-" without one.
func interval(low, high score.Number, factor float64) string {
	if low != low || high != high {
		return "-"
	}
	return fmt.Sprintf("%.3g to %.3g", factor*float64(low), factor*float64(high))
}
