package compress

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Rung is a precision in which a network predicts, with its time and skill beside those of float32.
type Rung struct {
	Name        string          `json:"name"`           // f32, bf16_products, int8 or sparse_int8
	Speedup     float64         `json:"speedup"`        // time of a forecast in f32, divided by that of this rung
	MemoryBytes int64           `json:"memory_bytes"`   // of one forecast
	Retained    []RetainedSkill `json:"retained_skill"` // mean over targets
}

// RetainedSkill is the part of a skill score that a rung retains.
type RetainedSkill struct {
	Reference  string       `json:"reference"`   // baseline or raw members
	SkillScore score.Number `json:"skill_score"` // 1 − CRPS / CRPS of the reference
	Retained   score.Number `json:"retained"`    // SkillScore by that in f32
}

// predictor is a model with the options in which it predicts on a rung.
type predictor struct {
	name, dir string
	options   engine.Options
	model     *model.Model
}

// ladder lists the rungs: the training in from in float32 and with bfloat16 products, and the quantised model
// in to with all blocks of its filters and, if filters have blocks of zeros, without these.
func ladder(from, to string, base engine.Options) ([]*predictor, error) {
	dense := base
	dense.Without = append(slices.Clone(base.Without), "find-zero-blocks")
	single, half := dense, dense
	single.Precision, half.Precision = "f32", "bf16_products"
	rungs := []*predictor{{"f32", from, single, nil}, {"bf16_products", from, half, nil}, {"int8", to, dense, nil}, {"sparse_int8", to, base, nil}}
	for _, p := range rungs {
		var err error
		if p.model, err = model.Load(filepath.Join(p.dir, "model"), false); err != nil {
			return nil, err
		}
	}
	quantised := rungs[len(rungs)-1].model
	kept, err := quantised.KeptBlocks()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(kept, func(name string, _ op.BlockMask) bool { return quantised.Int8[name] == nil })
	if len(kept) == 0 {
		rungs = rungs[:len(rungs)-1]
	}
	return rungs, nil
}

// compare scores and times the rungs of the ladder on the validation samples.
func (r *QuantiseResult) compare(ctx context.Context, d *samples.Data, from string, base engine.Options) error {
	rungs, err := ladder(from, r.RunDir, base)
	if err != nil {
		return err
	}
	r.Table = &EfficiencyTable{Inits: len(d.Validation.Inits), Threads: base.Threads}
	var served []*predictor
	for _, p := range rungs {
		defer p.model.Close()
		err := p.model.Open(p.options)
		if p.name == "bf16_products" && exit.CodeOf(err) == exit.NoDevice {
			r.Warnings = append(r.Warnings, "the ladder has no rung bf16_products: this processor does not multiply bfloat16")
			continue
		}
		if err != nil {
			return err
		}
		row, err := networkSize(p.model, p.dir)
		if err != nil {
			return err
		}
		if len(d.Validation.Inits) > 0 {
			s, _, err := scoring.Evaluate(ctx, p.model, d.Validation, p.options, scoring.Evaluation{})
			if err != nil {
				return err
			}
			row.score(s)
		}
		r.Table.Rows, served = append(r.Table.Rows, row), append(served, p)
	}
	if err := r.Table.measure(ctx, d, served); err != nil {
		return err
	}
	for i, p := range served {
		r.Ladder = append(r.Ladder, r.rung(i, p))
	}
	return nil
}

// rung compares row i of the table with the first.
func (r *QuantiseResult) rung(i int, p *predictor) Rung {
	first, row := r.Table.Rows[0], r.Table.Rows[i]
	g := Rung{Name: p.name, Speedup: first.Milliseconds / row.Milliseconds, MemoryBytes: p.model.Network.Plan.MemoryBytes()}
	for k, s := range row.SkillScores {
		g.Retained = append(g.Retained, RetainedSkill{s.Reference, s.SkillScore, s.SkillScore / first.SkillScores[k].SkillScore})
	}
	return g
}

// Sections reports quantised layers, and the ladder.
func (r *QuantiseResult) Sections() answer.Sections {
	s := answer.Section{Text: []string{fmt.Sprintf("%d layers in int8, %d unchanged; %d calibration samples, %s", len(r.Layers), len(r.NotQuantised), len(r.CalibrationInits), r.Method)},
		Columns: append(answer.TextColumns("precision"), answer.NumberColumn("MB of weights", "", "%.3f"), answer.NumberColumn("MiB of a forecast", "", "%.1f"), answer.NumberColumn("ms", "", "%.3g"),
			answer.NumberColumn("faster", "", "%.2f"), answer.NumberColumn("skill", "", "%.4f"))}
	for _, name := range slices.Sorted(maps.Keys(r.NotQuantised)) {
		s.Text = append(s.Text, fmt.Sprintf("  %s: %s", strings.TrimSuffix(name, ".weight"), r.NotQuantised[name]))
	}
	first := r.Table.Rows[0]
	for i, row := range r.Table.Rows {
		g := r.Ladder[i]
		s.Rows = append(s.Rows, []any{g.Name, float64(row.Bytes) / 1e6, float64(g.MemoryBytes) / (1 << 20), row.Milliseconds, g.Speedup, row.Skill})
	}
	for i, c := range first.CRPS {
		line := "CRPS of " + c.Target + ":"
		for k, row := range r.Table.Rows {
			line += fmt.Sprintf(" %s %.5g", r.Ladder[k].Name, row.CRPS[i].CRPS)
		}
		s.Notes = append(s.Notes, line+" "+c.Unit)
	}
	for i, g := range r.Ladder[0].Retained {
		line := fmt.Sprintf("CRPSS against %s: f32 %.4f", g.Reference, g.SkillScore)
		for _, other := range r.Ladder[1:] {
			line += fmt.Sprintf(", %s %.4f (%.2f %% retained)", other.Name, other.Retained[i].SkillScore, 100*other.Retained[i].Retained)
		}
		s.Notes = append(s.Notes, line)
	}
	s.Notes = append(s.Notes, fmt.Sprintf("%d validation samples; ms is the network's time for one forecast on %d threads, measured alternately", r.Table.Inits, r.Table.Threads))
	return answer.Sections{s}
}
