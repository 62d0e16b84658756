package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/periods"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// StudyOptions configures a study.
type StudyOptions struct {
	Config   config.Sources // base configuration
	Dir      string         // output directory
	Variants []Variant
	Title    string // of its record
	// Seeds is the number of trainings of each variant, with seeds train.seed, train.seed+1, …; 0: 1.
	Seeds int
	// Reference is the name of the variant with which others are compared.
	Reference string
	Version   string
	Stop      func() error
	Timings   setup.Timings
	Progress  *progress.Reporter
	Warn      func(string)
}

// Study is the result of a study, experiment.json.
type Study struct {
	Schema    string     `json:"schema"`
	Version   string     `json:"version"`
	Reference string     `json:"reference"`
	Seeds     int        `json:"seeds"`
	Variants  []Variant  `json:"variants"`
	Rows      []StudyRow `json:"rows"`

	Dir    string  `json:"-"`
	record *Result // nil: none
}

// StudyRow is the result of one variant on one target, over the test data. With several seeds, Value
// is the mean and SD the standard deviation (divisor seeds − 1) of the scores; confidence intervals
// cover dates and seeds, and are missing with two seeds or few dates. Skill scores are
// 1 − score/reference, paired by initialisation. References are the raw ensemble of all members
// (plain CRPS) and the reference variant, on common initialisations.
type StudyRow struct {
	Variant  string       `json:"variant"`
	Members  int          `json:"members"` // input members
	Variable string       `json:"variable"`
	Level    string       `json:"level"`
	Lead     string       `json:"lead"`
	Score    string       `json:"score"` // crps_gauss or crps_family, and spread_rmse
	Unit     string       `json:"unit"`
	Value    score.Number `json:"value"`
	CILow    score.Number `json:"ci_low"`
	CIHigh   score.Number `json:"ci_high"`
	SD       score.Number `json:"sd"` // over seeds; missing for one seed
	// Unweighted is Value without area weights, as in the published table of ENS-10.
	Unweighted   score.Number `json:"value_unweighted"`
	UnweightedSD score.Number `json:"sd_unweighted"`
	N            int          `json:"n"`
	RawUsed      score.Number `json:"raw_used"`  // plain CRPS of the input members; missing for spread scores
	RawFull      score.Number `json:"raw_full"`  // plain CRPS of all members
	EMOSGrid     score.Number `json:"emos_grid"` // CRPS of EMOS by grid point, from the input members

	SkillScoreRaw           score.Number `json:"skill_score_raw_full"`
	SkillScoreRawLow        score.Number `json:"skill_score_raw_full_low"`
	SkillScoreRawHigh       score.Number `json:"skill_score_raw_full_high"`
	SkillScoreExtreme       score.Number `json:"skill_score_extreme"` // relative to all raw members, where the extreme forecast index is largest
	SkillScoreExtremeLow    score.Number `json:"skill_score_extreme_low"`
	SkillScoreExtremeHigh   score.Number `json:"skill_score_extreme_high"`
	SkillScoreReference     score.Number `json:"skill_score_reference"`
	SkillScoreReferenceLow  score.Number `json:"skill_score_reference_low"`
	SkillScoreReferenceHigh score.Number `json:"skill_score_reference_high"`
	// P is the p-value of equal scores, and BeyondChance is true for those that StudyFalseDiscoveries selects among all
	// rows of all variants but the reference.
	P            score.Number `json:"p_value"`
	BeyondChance bool         `json:"beyond_chance"`
}

// StudyFalseDiscoveries is the false discovery rate of a study: of the rows that are called beyond chance at most this
// part is expected to be chance.
//
// Source: Benjamini and Hochberg 1995, doi:10.1111/j.2517-6161.1995.tb02031.x.
const StudyFalseDiscoveries = 0.05

// Files of a study, next to the run directories of its variants.
const (
	experimentFile   = "experiment.json"
	experimentTable  = "experiment.csv"
	experimentSchema = "ensemble.experiment/1"
)

// studyFiles are the files of a study in its directory.
var studyFiles = []string{experimentTable, filepath.Join("report", reports.PageFile), experimentFile}

// gridEMOS is the baseline in the table, if the configuration lists it.
const gridEMOS = "emos_grid"

// RunStudy trains every variant with every seed in its own run directory, compares the scores on the test data, and
// records the study as an experiment of which these are the results. Interrupted runs are resumed, finished ones
// skipped. Trainings that read other files than forecasts, analyses, static fields and sample stores leave no record, with a warning.
//
// Errors: those of train.Run for the first failing variant; exit 64 for duplicate names, and for variants that change
// what all have in common.
func RunStudy(ctx context.Context, o StudyOptions) (*Study, error) {
	o.Seeds = max(o.Seeds, 1)
	trainer, err := o.trainer()
	if err != nil {
		return nil, err
	}
	x, err := trainer.train(ctx)
	if err != nil {
		return nil, err
	}
	e := &Study{Schema: experimentSchema, Version: o.Version, Reference: o.Reference, Seeds: o.Seeds, Variants: o.Variants, Dir: o.Dir}
	if err := e.addRows(ctx, trainer.all); err != nil {
		return nil, err
	}
	if err := e.save(); err != nil || x == nil {
		return e, err
	}
	e.record, err = x.recordStudy(ctx)
	return e, err
}

// addRows reads the scores of finished trainings.
func (e *Study) addRows(ctx context.Context, all []training) error {
	dates := map[string][][]score.DateScore{} // by variant, [seed]
	for _, v := range e.Variants {
		var rows [][]StudyRow // [seed]
		var scored [][]score.DateScore
		for _, t := range all {
			if t.variant.Name != v.Name {
				continue
			}
			own, byDate, err := readRows(ctx, filepath.Join(e.Dir, t.dir()), v.Name)
			if err != nil {
				return err
			}
			rows, scored = append(rows, own), append(scored, byDate)
		}
		dates[v.Name] = scored
		for k := range rows[0] {
			row, err := meanRow(rows, k, scored)
			if err != nil {
				return err
			}
			if err := row.compareExtremes(scored); err != nil {
				return err
			}
			e.Rows = append(e.Rows, row)
		}
	}
	for i := range e.Rows {
		if err := e.Rows[i].compare(dates[e.Rows[i].Variant], dates[e.Reference]); err != nil {
			return err
		}
	}
	e.decide()
	return nil
}

// readRows reads the scores of one training, and those of each initialisation.
func readRows(ctx context.Context, dir, variant string) ([]StudyRow, []score.DateScore, error) {
	c, err := config.LoadTrain(config.Sources{Files: []string{filepath.Join(dir, trained.EffectiveConfigFile)}, IgnoreEnvironment: true})
	if err != nil {
		return nil, nil, err
	}
	r, err := trained.ReadScores(dir)
	if err != nil {
		return nil, nil, err
	}
	dates, _, err := trained.ReadDates(ctx, dir)
	return rowsOf(variant, c.Data.Members.Use.N(), fullMembers(c, r), r), dates, err
}

// unweighted is the CRPS of a training without area weights; NaN without a CRPS.
func (r *StudyRow) unweighted(dates []score.DateScore) float64 {
	var sum, points float64
	for _, d := range dates {
		if score.IsDistributionCRPS(r.Score) && r.isScoreOf(d) {
			sum += float64(d.Points) * float64(d.UnweightedCRPS)
			points += float64(d.Points)
		}
	}
	return sum / points
}

// isScoreOf reports whether a score by initialisation is that of the network for the row's target.
func (r *StudyRow) isScoreOf(d score.DateScore) bool {
	return d.System == scoring.SystemNetwork && d.Variable == r.Variable && d.Level == r.Level && d.Lead == r.Lead
}

// contribution is the weight and value that an initialisation contributes to the row's score: its
// mean CRPS, or the mean squared difference from the spread of all members. The weight is 0 for
// other targets.
func (r *StudyRow) contribution(d score.DateScore) (weight, value float64) {
	switch {
	case !r.isScoreOf(d):
		return 0, 0
	case score.IsDistributionCRPS(r.Score):
		return d.Weight, float64(d.CRPS)
	}
	return d.SpreadWeight, float64(d.SpreadMSE)
}

// scoreOf computes the row's score from the sums of weights and of weighted contributions.
func (r *StudyRow) scoreOf(weight, sum float64) float64 {
	if score.IsDistributionCRPS(r.Score) {
		return sum / weight
	}
	return math.Sqrt(sum / weight)
}

// meanSD returns mean and standard deviation over seeds; the latter is missing for one seed.
func meanSD(x []float64) (mean, sd score.Number) {
	n := float64(len(x))
	var sum, sq float64
	for _, v := range x {
		sum += v
	}
	for _, v := range x {
		sq += (v - sum/n) * (v - sum/n)
	}
	return score.Number(sum / n), score.Number(math.Sqrt(sq / (n - 1)))
}

// meanRow averages row k over the trainings of one variant. scored are the scores by initialisation
// of each training.
func meanRow(rows [][]StudyRow, k int, scored [][]score.DateScore) (StudyRow, error) {
	r := rows[0][k]
	var values, unweighted []float64
	for i, own := range rows {
		values, unweighted = append(values, float64(own[k].Value)), append(unweighted, r.unweighted(scored[i]))
	}
	r.Value, r.SD = meanSD(values)
	r.Unweighted, r.UnweightedSD = meanSD(unweighted)
	if len(rows) == 1 {
		return r, nil
	}
	r.CILow, r.CIHigh = score.Missing(), score.Missing()
	sums := sumsBySeed(scored, func(d score.DateScore) []float64 {
		if w, x := r.contribution(d); w > 0 {
			return []float64{w, w * x, w * float64(d.ReferenceCRPS)}
		}
		return nil
	})
	if len(sums[0]) == 0 {
		return r, nil
	}
	_, low, high, err := significance.Bootstrap{}.IntervalOverSeeds(sums, func(s []float64) float64 { return r.scoreOf(s[0], s[1]) })
	if err != nil {
		return r, err
	}
	r.CILow, r.CIHigh = score.Number(low), score.Number(high)
	if !score.IsDistributionCRPS(r.Score) {
		return r, nil
	}
	gain, low, high, err := significance.Bootstrap{}.SkillOverSeeds(sums, func(s []float64) float64 { return s[1] / s[2] })
	r.SkillScoreRaw, r.SkillScoreRawLow, r.SkillScoreRawHigh = score.Number(gain), score.Number(low), score.Number(high)
	return r, err
}

// sumsBySeed lists what each initialisation contributes to sums, by seed; nil for none.
func sumsBySeed(seeds [][]score.DateScore, of func(score.DateScore) []float64) [][][]float64 {
	all := make([][][]float64, len(seeds))
	for s, dates := range seeds {
		for _, d := range dates {
			if row := of(d); row != nil {
				all[s] = append(all[s], row)
			}
		}
	}
	return all
}

// fullMembers is the number of members of the full ensemble: that of the configuration, or that of the largest raw
// ensemble among the scores.
func fullMembers(c *config.TrainConfig, r *score.Result) int {
	full := c.Data.Members.Full
	for _, v := range r.Scores {
		if n, ok := scoring.RawMembers(v.System); ok && c.Data.Members.Full == 0 {
			full = max(full, n)
		}
	}
	return full
}

// rowsOf returns the rows of one training, without the comparison.
func rowsOf(variant string, used, full int, r *score.Result) (out []StudyRow) {
	for _, v := range r.Scores {
		if v.System != scoring.SystemNetwork || !score.IsOverall(v.Region, v.Season) || !score.IsDistributionCRPS(v.ID) && v.ID != score.SpreadRMSE.ID {
			continue
		}
		nan := score.Missing()
		row := StudyRow{Variant: variant, Members: used, Variable: v.Variable, Level: v.Level, Lead: v.Lead, Score: v.ID, Unit: v.Unit,
			Value: v.Value, CILow: v.CILow, CIHigh: v.CIHigh, N: v.N, SkillScoreRaw: nan, SkillScoreRawLow: nan, SkillScoreRawHigh: nan}
		of := func(id, system string) score.Number {
			if x := r.Find(id, system, v.Variable, v.Level, v.Lead); x != nil {
				return x.Value
			}
			return nan
		}
		row.RawUsed, row.RawFull, row.EMOSGrid = nan, nan, nan
		if score.IsDistributionCRPS(v.ID) {
			row.RawUsed, row.RawFull, row.EMOSGrid = of(score.CRPSPlain.ID, scoring.SystemRaw(used)), of(score.CRPSPlain.ID, scoring.SystemRaw(full)), of(score.CRPSGauss.ID, gridEMOS)
		}
		for _, c := range r.Comparisons {
			if c.ID == v.ID && c.ReferenceID == score.CRPSPlain.ID && c.Reference == scoring.SystemRaw(full) && c.Variable == v.Variable && c.Level == v.Level && c.Lead == v.Lead && score.IsOverall(c.Region, c.Season) {
				row.SkillScoreRaw, row.SkillScoreRawLow, row.SkillScoreRawHigh = c.SkillScore, c.CILow, c.CIHigh
			}
		}
		out = append(out, row)
	}
	return out
}

// compareExtremes computes the skill score where the extreme forecast index is largest; missing
// without a climate.
func (r *StudyRow) compareExtremes(seeds [][]score.DateScore) error {
	r.SkillScoreExtreme, r.SkillScoreExtremeLow, r.SkillScoreExtremeHigh = score.Missing(), score.Missing(), score.Missing()
	sums := sumsBySeed(seeds, func(d score.DateScore) []float64 {
		if r.isScoreOf(d) && d.ExtremeWeight > 0 {
			return []float64{d.ExtremeWeight * float64(d.ExtremeCRPS), d.ExtremeWeight * float64(d.ExtremeReferenceCRPS)}
		}
		return nil
	})
	if !score.IsDistributionCRPS(r.Score) || len(sums[0]) == 0 {
		return nil
	}
	value, low, high, err := significance.Bootstrap{}.SkillOverSeeds(sums, func(s []float64) float64 { return s[0] / s[1] })
	r.SkillScoreExtreme, r.SkillScoreExtremeLow, r.SkillScoreExtremeHigh = score.Number(value), score.Number(low), score.Number(high)
	return err
}

// compare computes the skill score relative to another variant on common initialisations. Trainings of the same seed
// are paired; for the variance over seeds any pairs would do.
func (r *StudyRow) compare(own, other [][]score.DateScore) error {
	r.SkillScoreReference, r.SkillScoreReferenceLow, r.SkillScoreReferenceHigh, r.P = score.Missing(), score.Missing(), score.Missing(), score.Missing()
	rows := make([][][]float64, len(own))
	for s := range own {
		for _, d := range own[s] {
			at := slices.IndexFunc(other[s], func(x score.DateScore) bool { return r.isScoreOf(x) && x.Init == d.Init })
			if at < 0 {
				continue
			}
			v, x := r.contribution(d)
			w, y := r.contribution(other[s][at])
			if v > 0 && w > 0 {
				rows[s] = append(rows[s], []float64{v, v * x, w, w * y})
			}
		}
	}
	if len(rows) == 0 || len(rows[0]) == 0 {
		return nil
	}
	ratio := func(s []float64) float64 { return r.scoreOf(s[0], s[1]) / r.scoreOf(s[2], s[3]) }
	value, low, high, err := significance.Bootstrap{}.SkillOverSeeds(rows, ratio)
	if err != nil {
		return err
	}
	p, err := significance.Bootstrap{}.PValueOfSkill(rows, ratio)
	r.SkillScoreReference, r.SkillScoreReferenceLow, r.SkillScoreReferenceHigh, r.P = score.Number(value), score.Number(low), score.Number(high), score.Number(p)
	return err
}

// decide selects the rows that are beyond chance. Those of the reference are no tests.
func (e *Study) decide() {
	p := make([]float64, len(e.Rows))
	for i := range e.Rows {
		if e.Rows[i].Variant == e.Reference {
			e.Rows[i].P = score.Missing()
		}
		p[i] = float64(e.Rows[i].P)
	}
	decided, _ := significance.FalseDiscovery(p, StudyFalseDiscoveries)
	for i, d := range decided {
		e.Rows[i].BeyondChance = d
	}
}

// save writes the table and the page, then experiment.json.
func (e *Study) save() error {
	return reports.SaveFindings(e.Dir, experimentTable, e.Rows, e.page(), experimentFile, e)
}

// Outputs lists the files of the study, without run directories.
func (e *Study) Outputs() (files []string) {
	for _, name := range studyFiles {
		files = append(files, filepath.Join(e.Dir, name))
	}
	if e.record != nil {
		files = append(files, e.record.Path)
	}
	return files
}

// Sections is the rows as a table, and the files.
func (e *Study) Sections() answer.Sections {
	return answer.Sections{e.table(), {Text: e.Outputs()}}
}

// table is the table of rows.
func (e *Study) table() answer.Section {
	percent := func(name string) []answer.Column {
		return append([]answer.Column{answer.NumberColumn(name, "", "%.2f %%")}, answer.TextColumns("interval")...)
	}
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("variant"), answer.NumberColumns("", "members"), answer.TextColumns("target", "score"), answer.NumberColumns(fiveDigits, "value"), answer.TextColumns("unit"),
		answer.NumberColumns(fiveDigits, "sd over seeds", "unweighted", "sd", "raw, used", "raw, all", "EMOS by point"),
		percent("reduction vs raw, all"), percent("where EFI is largest"), percent("reduction vs "+e.Reference), answer.NumberColumns("%.2g", "p"), answer.TextColumns("beyond chance"))}
	tests := 0
	for _, r := range e.Rows {
		if r.P == r.P {
			tests++
		}
	}
	s.Notes = append(seedNotes(e.Seeds), fmt.Sprintf("Beyond chance: of the %s with %s those that remain at a false discovery rate of %g %% (Benjamini and Hochberg).", humanise.Count(tests, "comparison"), e.Reference, 100*StudyFalseDiscoveries))
	for _, r := range e.Rows {
		s.Rows = append(s.Rows, []any{r.Variant, r.Members, periods.TargetName(r.Variable, r.Level, r.Lead), r.Score, r.Value, r.Unit, r.SD, r.Unweighted, r.UnweightedSD, r.RawUsed, r.RawFull, r.EMOSGrid,
			100 * r.SkillScoreRaw, periods.Interval(r.SkillScoreRawLow, r.SkillScoreRawHigh), 100 * r.SkillScoreExtreme, periods.Interval(r.SkillScoreExtremeLow, r.SkillScoreExtremeHigh), 100 * r.SkillScoreReference, periods.Interval(r.SkillScoreReferenceLow, r.SkillScoreReferenceHigh), r.P, r.verdict()})
	}
	return s
}

// verdict is the text of BeyondChance; "-" for a row that is no test.
func (r *StudyRow) verdict() string {
	switch {
	case r.P != r.P:
		return "-"
	case r.BeyondChance:
		return "yes"
	}
	return "no"
}

// seedNotes explains the intervals of results of several seeds.
func seedNotes(seeds int) []string {
	switch {
	case seeds == 1:
		return []string{"Intervals cover the sampling of dates, not of seeds: there is one seed."}
	case seeds < significance.MinSeeds:
		return []string{fmt.Sprintf("No intervals: the variance over %d seeds is not known well enough. Train with %d or more.", seeds, significance.MinSeeds)}
	}
	return []string{fmt.Sprintf("Intervals cover the sampling of dates and of seeds. Fewer than %d dates have none.", significance.MinDatesOverSeeds)}
}

// page is the HTML page with the rows, and curves by number of members if variants differ in it.
func (e *Study) page() *report.Page {
	p := &report.Page{Title: "Experiment " + filepath.Base(e.Dir), ChartsTitle: "Members", Tables: []report.Table{report.TableOf("Variants", e.table())},
		Status: []report.Fact{{Name: "variants", Text: strconv.Itoa(len(e.Variants))}, {Name: "seeds", Text: strconv.Itoa(e.Seeds)}, {Name: "compared with", Text: e.Reference}, {Name: "program", Text: e.Version}}}
	type target struct{ variable, level, lead, score string }
	byTarget := map[target][]StudyRow{}
	var order []target
	for _, r := range e.Rows {
		k := target{r.Variable, r.Level, r.Lead, r.Score}
		if byTarget[k] == nil {
			order = append(order, k)
		}
		byTarget[k] = append(byTarget[k], r)
	}
	for _, k := range order {
		rows := byTarget[k]
		slices.SortStableFunc(rows, func(a, b StudyRow) int { return cmp.Compare(a.Members, b.Members) })
		if rows[0].Members == rows[len(rows)-1].Members || !score.IsDistributionCRPS(rows[0].Score) {
			continue
		}
		c := report.Chart{Title: fmt.Sprintf("%s at %s, lead %s", k.variable, k.level, k.lead), X: "members used", Y: "mean CRPS in " + rows[0].Unit}
		for _, l := range []struct {
			name string
			of   func(StudyRow) score.Number
		}{
			{"network", func(r StudyRow) score.Number { return r.Value }},
			{"EMOS by point", func(r StudyRow) score.Number { return r.EMOSGrid }},
			{"raw members used", func(r StudyRow) score.Number { return r.RawUsed }},
			{"all raw members", func(r StudyRow) score.Number { return r.RawFull }},
		} {
			line := report.Line{Name: l.name}
			for _, r := range rows {
				line.X, line.Y = append(line.X, float64(r.Members)), append(line.Y, float64(l.of(r)))
			}
			c.Lines = append(c.Lines, line)
		}
		p.Charts = append(p.Charts, c)
	}
	return p
}
