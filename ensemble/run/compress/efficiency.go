package compress

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// EfficiencyTable compares networks by cost and skill.
type EfficiencyTable struct {
	Inits   int             `json:"inits"` // validation samples on which all were scored
	Threads int             `json:"threads"`
	Rows    []EfficiencyRow `json:"rows"`
}

// EfficiencyRow is one network.
type EfficiencyRow struct {
	Run        string `json:"run"`
	Parameters int    `json:"parameters"` // all, including zeros
	Nonzeros   int    `json:"nonzeros"`   // parameters that are not 0
	Bytes      int64  `json:"bytes"`      // size of the weight files
	Operations int64  `json:"operations"` // floating-point operations of one forecast, including zeros
	// Milliseconds is the median time of the network for one forecast; the networks are timed alternately.
	Milliseconds float64 `json:"milliseconds"`
	// Skill is the CRPSS against the largest raw ensemble, missing without analyses or samples. SkillScores are
	// the CRPSS against each reference, mean over targets. CRPS lists the CRPS of each target.
	Skill       score.Number     `json:"skill"`
	SkillScores []ReferenceSkill `json:"skill_scores,omitempty"`
	CRPS        []TargetCRPS     `json:"crps"`
	// Efficiency and RatioEfficiency are skill, and 1/(1 − skill) = CRPS ratio, per million nonzero parameters.
	Efficiency      score.Number `json:"efficiency"`
	RatioEfficiency score.Number `json:"ratio_efficiency"`
}

// TargetCRPS is the CRPS of one target.
type TargetCRPS struct {
	Target string       `json:"target"`
	Unit   string       `json:"unit"`
	CRPS   score.Number `json:"crps"`
}

// ReferenceSkill is the CRPSS against another system.
type ReferenceSkill struct {
	Reference  string       `json:"reference"`
	SkillScore score.Number `json:"skill_score"`
}

// efficiencyFile is the name of the table in a run directory.
const efficiencyFile = "efficiency.json"

// Duration of the timings: minimum number of rounds over all networks, and maximum time.
const (
	efficiencyRounds = 15
	efficiencyTime   = 20 * time.Second
)

// CompareEfficiency scores and times the networks of finished trainings on the validation samples of the
// first one, with the given number of threads (0: as in its configuration). Kernels are chosen by timings, as in predictions; without them
// none skips blocks of zeros.
//
// Errors: those of trained.FinishedTraining; exit 65 for networks of other inputs.
func CompareEfficiency(ctx context.Context, runs []string, threads int, timings setup.Timings) (*EfficiencyTable, error) {
	for _, dir := range runs {
		if _, _, err := trained.FinishedTraining(dir); err != nil {
			return nil, err
		}
	}
	c, err := config.LoadTrain(config.Sources{Files: []string{filepath.Join(runs[0], trained.EffectiveConfigFile)}})
	if err != nil {
		return nil, err
	}
	if threads > 0 {
		c.Train.Train.Threads = threads
	}
	return compareEfficiency(ctx, c, runs, timings)
}

// readSamples opens the samples of a configuration; the caller must close them.
func readSamples(ctx context.Context, c *config.TrainConfig) (*samples.Data, error) {
	forecastFiles, analysisFiles, err := samples.TrainingFiles(c)
	if err != nil {
		return nil, err
	}
	return samples.ReadData(ctx, c, forecastFiles, analysisFiles, nil)
}

// compareEfficiency scores and times networks on the validation samples of a configuration.
func compareEfficiency(ctx context.Context, c *config.TrainConfig, runs []string, timings setup.Timings) (*EfficiencyTable, error) {
	d, err := readSamples(ctx, c)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	o := network.Options(c.Train.Train.Threads, c.Train.Train.Device)
	table := &EfficiencyTable{Inits: len(d.Validation.Inits), Threads: o.Threads}
	serving := setup.Inference{Threads: table.Threads, Timings: timings}.Options()
	var models []*predictor
	for _, dir := range runs {
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		models = append(models, &predictor{dir: dir, options: serving, model: m})
		row, err := networkSize(m, dir)
		if err != nil {
			return nil, err
		}
		if len(d.Validation.Inits) > 0 {
			r, _, err := scoring.Evaluate(ctx, m, d.Validation, o, scoring.Evaluation{})
			if err != nil {
				return nil, err
			}
			row.score(r)
		}
		table.Rows = append(table.Rows, row)
	}
	err = table.measure(ctx, d, models)
	timings.Save(serving.Timings)
	return table, err
}

// Validation is the skill of a network on its validation samples.
type Validation struct {
	Inits int
	Skill score.Number // CRPSS against the largest raw ensemble, mean over targets
	CRPS  []TargetCRPS
}

// ValidationSkill scores the network of a finished training on its validation samples, with the given number
// of threads (0: as in its configuration). It reads no test samples.
//
// Errors: those of trained.FinishedTraining; exit 66 without validation samples.
func ValidationSkill(ctx context.Context, dir string, threads int) (*Validation, error) {
	if _, _, err := trained.FinishedTraining(dir); err != nil {
		return nil, err
	}
	c, err := config.LoadTrain(config.Sources{Files: []string{filepath.Join(dir, trained.EffectiveConfigFile)}, IgnoreEnvironment: true})
	if err != nil {
		return nil, err
	}
	d, err := readSamples(ctx, c)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if len(d.Validation.Inits) == 0 {
		return nil, &exit.Error{Code: exit.NotYet, What: "no initialisation lies in the validation period", At: dir, Why: "there is nothing to choose by", Fix: "correct data.split.validation"}
	}
	m, err := model.Load(filepath.Join(dir, "model"), false)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if threads == 0 {
		threads = c.Train.Train.Threads
	}
	r, _, err := scoring.Evaluate(ctx, m, d.Validation, network.Options(threads, c.Train.Train.Device), scoring.Evaluation{})
	if err != nil {
		return nil, err
	}
	row := EfficiencyRow{Skill: score.Missing()}
	row.score(r)
	return &Validation{len(d.Validation.Inits), row.Skill, row.CRPS}, nil
}

// networkSize counts parameters, bytes and operations of a network.
func networkSize(m *model.Model, dir string) (row EfficiencyRow, err error) {
	row = EfficiencyRow{Run: dir, Skill: score.Missing(), Efficiency: score.Missing(), RatioEfficiency: score.Missing()}
	c, err := m.Spec.Channels(&m.Task, m.Grid)
	if err != nil {
		return row, err
	}
	row.Operations = c.OriginalSize().FLOPs * int64(len(m.Networks))
	for i, w := range m.Networks {
		file, err := filesystem.Stat(filepath.Join(dir, "model", fmt.Sprintf(model.WeightsFormat, i)))
		if err != nil {
			return row, exit.ReadError(dir, err)
		}
		row.Bytes += file.Size()
		for _, t := range w {
			if strings.Contains(t.Name, ".running_") {
				continue
			}
			v, err := t.Float32()
			if err != nil {
				return row, err
			}
			row.Parameters += len(v)
			for _, x := range v {
				if x != 0 {
					row.Nonzeros++
				}
			}
		}
	}
	if p := m.Sharing; p != nil { // the loaded tensors are the expanded filters
		fewer := (p.Filters - p.Unshared - p.Stored - p.Coefficients) * len(m.Networks)
		row.Parameters, row.Nonzeros = row.Parameters-fewer, row.Nonzeros-fewer
	}
	return row, nil
}

// score sets CRPS and skill scores from results. Skill of a distribution against raw members is relative to
// their plain CRPS.
func (row *EfficiencyRow) score(r *score.Result) {
	own := func(id, system, region, season string) bool {
		return (system == scoring.SystemNetwork || system == scoring.SystemMembers) && (score.IsDistributionCRPS(id) || id == score.CRPSFair.ID) && score.IsOverall(region, season)
	}
	scored := map[string]string{} // the first score of a target counts
	for _, v := range r.Scores {
		target := v.Variable + " " + v.Level + " +" + v.Lead
		if own(v.ID, v.System, v.Region, v.Season) && scored[target] == "" {
			scored[target] = v.ID
			row.CRPS = append(row.CRPS, TargetCRPS{target, v.Unit, v.Value})
		}
	}
	full := 0
	for _, g := range r.Comparisons {
		var members int
		_, err := fmt.Sscanf(g.Reference, "raw%d", &members)
		of := g.ID
		if err == nil && score.IsDistributionCRPS(g.ID) {
			of = score.CRPSPlain.ID
		}
		if !own(g.ID, g.System, g.Region, g.Season) || scored[g.Variable+" "+g.Level+" +"+g.Lead] != g.ID || g.ReferenceID != of {
			continue
		}
		i := row.referenceIndex(g.Reference)
		if i < 0 {
			i = len(row.SkillScores)
			row.SkillScores = append(row.SkillScores, ReferenceSkill{Reference: g.Reference})
		}
		row.SkillScores[i].SkillScore += g.SkillScore / score.Number(len(row.CRPS))
		full = max(full, members)
	}
	if i := row.referenceIndex(scoring.SystemRaw(full)); i >= 0 {
		skill := float64(row.SkillScores[i].SkillScore)
		row.Skill, row.Efficiency, row.RatioEfficiency = row.SkillScores[i].SkillScore, score.Number(prune.Efficiency(skill, row.Nonzeros)), score.Number(prune.HardEfficiency(skill, row.Nonzeros))
	}
}

// measure times the networks on one forecast, alternately.
func (t *EfficiencyTable) measure(ctx context.Context, d *samples.Data, models []*predictor) error {
	of := d.Validation
	if len(of.Inits) == 0 {
		of = d.Train
	}
	next := of.Stream(ctx, nil)
	defer next.Close()
	fc, _, err := next.NextForecast()
	if err != nil {
		return err
	}
	stats := make([][]task.Statistics, len(models))
	for i, p := range models {
		m := p.model
		if err := m.Open(p.options); err != nil {
			return err
		}
		if stats[i], err = m.Prepare(fc, m.Task.UsedMembers); err != nil {
			return err
		}
	}
	times := make([][]float64, len(models))
	began := time.Now()
	for range efficiencyRounds {
		for i, p := range models {
			m := p.model
			if stats[i], err = m.Prepare(fc, m.Task.UsedMembers); err != nil { // a run may overwrite its inputs
				return err
			}
			start := time.Now()
			if _, err := m.Infer(ctx, fc.Init, stats[i]); err != nil {
				return err
			}
			times[i] = append(times[i], time.Since(start).Seconds()*1e3)
		}
		if time.Since(began) > efficiencyTime {
			break
		}
	}
	for i := range models {
		slices.Sort(times[i])
		t.Rows[i].Milliseconds = times[i][len(times[i])/2]
	}
	return nil
}

// references lists the references of all rows.
func (t *EfficiencyTable) references() (names []string) {
	for _, r := range t.Rows {
		for _, g := range r.SkillScores {
			if !slices.Contains(names, g.Reference) {
				names = append(names, g.Reference)
			}
		}
	}
	return names
}

// referenceIndex returns the index of a reference among the skill scores; −1 for none.
func (row EfficiencyRow) referenceIndex(reference string) int {
	return slices.IndexFunc(row.SkillScores, func(g ReferenceSkill) bool { return g.Reference == reference })
}

// save writes the table into a run directory.
func (t *EfficiencyTable) save(dir string) error {
	return jsonfile.Write(filepath.Join(dir, efficiencyFile), t)
}

// Sections returns the table as text; other rows are compared with the first.
func (t *EfficiencyTable) Sections() answer.Sections {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("run"), answer.NumberColumns("", "parameters", "nonzeros"), answer.NumberColumns("%.3f", "sparsity"), answer.NumberColumns("", "bytes"),
		answer.NumberColumns("%.4g", "operations"), answer.NumberColumns("%.2f", "fewer"), answer.NumberColumns("%.3g", "ms"), answer.NumberColumns("%.2f", "faster"), answer.NumberColumns("%.4f", "skill"),
		answer.NumberColumns("%.3f", "e", "e_h"))}
	first := t.Rows[0]
	for _, r := range t.Rows {
		s.Rows = append(s.Rows, []any{filepath.Base(r.Run), r.Parameters, r.Nonzeros, 1 - float64(r.Nonzeros)/float64(first.Parameters), r.Bytes, float64(r.Operations),
			float64(first.Operations) / float64(r.Operations), r.Milliseconds, first.Milliseconds / r.Milliseconds, r.Skill, r.Efficiency, r.RatioEfficiency})
	}
	for i, c := range first.CRPS {
		line := "CRPS of " + c.Target + ":"
		for _, r := range t.Rows {
			if i < len(r.CRPS) {
				line += fmt.Sprintf(" %.5g", r.CRPS[i].CRPS)
			}
		}
		s.Notes = append(s.Notes, line+" "+c.Unit)
	}
	for _, reference := range t.references() {
		line := "CRPSS against " + reference + ":"
		for _, r := range t.Rows {
			skill := "-"
			if i := r.referenceIndex(reference); i >= 0 {
				skill = fmt.Sprintf("%.4f", r.SkillScores[i].SkillScore)
			}
			line += " " + skill
		}
		s.Notes = append(s.Notes, line)
	}
	s.Notes = append(s.Notes, fmt.Sprintf("%d validation samples; skill is the CRPSS against the largest raw ensemble, e is skill and e_h 1/(1-skill) per million nonzeros; sparsity, fewer and faster relative to the first row; "+
		"ms is the network's time for one forecast on %d threads, measured alternately", t.Inits, t.Threads))
	return answer.Sections{s}
}
