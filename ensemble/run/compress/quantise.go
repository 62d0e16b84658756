package compress

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/quantise"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// QuantiseOptions are the inputs of [Quantise].
type QuantiseOptions struct {
	Config    *config.QuantiseConfig
	RunDir    string // output directory
	Overwrite bool
	Threads   int // 0: as in the training
	Version   string
	Progress  *progress.Reporter
	Warn      func(string)
}

// QuantiseResult compares int8 predictions with those in the training's precision.
type QuantiseResult struct {
	RunDir   string   `json:"run_dir"`
	Outputs  []string `json:"outputs"`
	Warnings []string `json:"warnings"`
	// CalibrationInits lists the training samples used for calibration.
	CalibrationInits []string `json:"calibration_inits"`
	Method           string   `json:"calibration_method"` // method of calibration, key of quantise.yaml
	// Layers run in int8; the other layers are listed with the reason.
	Layers       []string          `json:"layers"`
	NotQuantised map[string]string `json:"not_quantised"` // reason by layer
	// Table has two rows: original and int8.
	Table *EfficiencyTable `json:"table"`
	// MemoryBytes is the memory of one forecast, by row of the table.
	MemoryBytes [2]int64 `json:"memory_bytes"`
	// RetainedSkill are the skill scores that remain, mean over targets.
	RetainedSkill []RetainedSkill `json:"retained_skill"`
}

// RetainedSkill is the part of a skill score that int8 retains.
type RetainedSkill struct {
	Reference string       `json:"reference"` // baseline or raw members
	Original  score.Number `json:"original"`  // 1 − CRPS / CRPS of the reference
	Int8      score.Number `json:"int8"`      // skill score with int8
	Retained  score.Number `json:"retained"`  // Int8 / Original
}

// quantisedFile is the name of the result in a run directory.
const quantisedFile = "quantised.json"

// Quantise quantises the networks of a finished training to int8. The scales come from activations on
// training samples. It writes a run directory and compares both models on the validation samples.
//
// Reads: the run directory to quantise, and the data of its training.
// Writes: in RunDir model/ with the scales in model.json, quantised.json and manifest.json.
// Errors: exit 64 for a run that is not a training, is quantised already, has stages, or has no layer to
// quantise; 66 if it is not finished; those of reading its data; 73 and 74 for the output.
func Quantise(ctx context.Context, o QuantiseOptions) (*QuantiseResult, error) {
	from := string(o.Config.RunDir)
	run, err := beginDerived(derivation{from: from, to: o.RunDir, overwrite: o.Overwrite, threads: o.Threads, version: o.Version, config: o.Config.Hash()})
	if err != nil {
		return nil, err
	}
	defer run.dir.Close()
	no := func(what, why, fix string) error {
		return &exit.Error{Code: exit.Usage, What: what, At: from, Why: why, Fix: fix}
	}
	m, err := model.Load(filepath.Join(from, "model"), false)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if m.Spec.Staged() {
		return nil, no("a model of three stages cannot be quantised", "its networks have no separate scales", "train with model.method: joint")
	}
	if m.Sharing != nil {
		return nil, no("layers that share parameters cannot be quantised", "their filters are computed from shared parameters in every run", "train without model.share")
	}
	d, err := run.readData(ctx)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	options := network.Options(run.training.Train.Train.Threads, "")
	r := &QuantiseResult{RunDir: o.RunDir, Method: o.Config.Calibration.Method, Warnings: d.Warnings}
	if !cpu.HasFastInt8() {
		r.Warnings = append(r.Warnings, setup.SlowInt8Warning)
	}
	if m.Int8, err = r.calibrate(ctx, m, d.Train, o, options); err != nil {
		return nil, err
	}
	if err := run.copyFiles(m); err != nil {
		return nil, err
	}
	if err := r.compare(ctx, d, []string{from, o.RunDir}, options); err != nil {
		return nil, err
	}
	if err := jsonfile.Write(run.dir.File(quantisedFile), r); err != nil {
		return nil, err
	}
	r.Outputs, err = run.finish(quantisedFile)
	return r, err
}

// evenIndices returns n evenly spaced indices from 0 to of−1.
func evenIndices(n, of int) []int {
	n = min(n, of)
	order := make([]int, n)
	for i := range order {
		order[i] = i * (of - 1) / max(n-1, 1)
	}
	return order
}

// calibrate determines the scales on training samples.
func (r *QuantiseResult) calibrate(ctx context.Context, m *model.Model, train samples.Examples, o QuantiseOptions, options engine.Options) (map[string]*op.Int8Scales, error) {
	job := o.Config.Calibration
	order := evenIndices(job.Inits, len(train.Inits))
	if len(order) == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "int8 without calibration samples", Why: "no input file of a training sample was found", Fix: "restore the training's input files"}
	}
	c := quantise.New(quantise.Options{Method: quantise.Method(job.Method), ClipFraction: job.ClipFraction, IncludeInput: o.Config.InputLayers, Exclude: o.Config.Keep})
	if m.Int8 != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "the networks are quantised already", At: string(o.Config.RunDir), Fix: "quantise the original training"}
	}
	look := c.ObserveRanges
	options.Passes = c.Passes()
	options.Extension = engine.FinishFunc(func(err error) error {
		if err == nil {
			look(m.Network.Plan)
		}
		return err
	})
	defer m.Close()
	task := o.Progress.Start("calibrate", int64(2*len(order)))
	defer task.Done()
	for pass, f := range []func(*engine.Plan){c.ObserveRanges, c.ObservePoints} {
		look = f
		next := train.Stream(ctx, order)
		for i := range order {
			fc, _, err := next.NextForecast()
			if err == nil {
				_, err = m.Predict(ctx, options, fc, m.Task.UsedMembers)
			}
			if errors.Is(err, quantise.ErrLayer) {
				err = &exit.Error{Code: exit.Usage, What: "keep lists a layer that the network does not have", Why: err.Error(), Fix: "give names of layers from `ensemble engine explain`", Err: err}
			}
			if err != nil {
				next.Close()
				return nil, err
			}
			if pass == 0 {
				r.CalibrationInits = append(r.CalibrationInits, fc.Init.String())
			}
			task.Set(int64(pass*len(order)+i+1), "")
		}
		next.Close()
	}
	if r.Layers, r.NotQuantised = c.Filters(), c.Skipped; len(r.Layers) == 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "no layer can be quantised", At: string(o.Config.RunDir), Why: fmt.Sprint("convolutions cannot run in int8: ", c.Skipped),
			Fix: "quantise a network with 3×3 convolutions and ReLU behind its first layer"}
	}
	return c.Scales()
}

// compare scores and times both models on the validation samples.
func (r *QuantiseResult) compare(ctx context.Context, d *samples.Data, runs []string, o engine.Options) error {
	r.Table = &EfficiencyTable{Inits: len(d.Validation.Inits), Threads: o.Threads}
	var models []*model.Model
	for _, dir := range runs {
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			return err
		}
		defer m.Close()
		models = append(models, m)
		row, err := networkSize(m, dir)
		if err != nil {
			return err
		}
		if len(d.Validation.Inits) > 0 {
			s, _, err := scoring.Evaluate(ctx, m, d.Validation, o, nil, nil)
			if err != nil {
				return err
			}
			row.score(s)
		}
		r.Table.Rows = append(r.Table.Rows, row)
	}
	for i, g := range r.Table.Rows[0].SkillScores {
		now := r.Table.Rows[1].SkillScores[i].SkillScore
		r.RetainedSkill = append(r.RetainedSkill, RetainedSkill{g.Reference, g.SkillScore, now, now / g.SkillScore})
	}
	if err := r.Table.measure(ctx, d, models); err != nil {
		return err
	}
	for i, m := range models {
		r.MemoryBytes[i] = m.Network.Plan.MemoryBytes()
	}
	return nil
}

// Sections reports quantised layers, and both models.
func (r *QuantiseResult) Sections() answer.Sections {
	s := answer.Section{Text: []string{fmt.Sprintf("%d layers in int8, %d unchanged; %d calibration samples, %s", len(r.Layers), len(r.NotQuantised), len(r.CalibrationInits), r.Method)},
		Columns: append(answer.TextColumns("run"), answer.NumberColumn("MB of weights", "", "%.3f"), answer.NumberColumn("MiB of a forecast", "", "%.1f"), answer.NumberColumn("ms", "", "%.3g"),
			answer.NumberColumn("faster", "", "%.2f"), answer.NumberColumn("skill", "", "%.4f"))}
	for _, name := range slices.Sorted(maps.Keys(r.NotQuantised)) {
		s.Text = append(s.Text, fmt.Sprintf("  %s: %s", strings.TrimSuffix(name, ".weight"), r.NotQuantised[name]))
	}
	before, after := r.Table.Rows[0], r.Table.Rows[1]
	for i, row := range r.Table.Rows {
		s.Rows = append(s.Rows, []any{filepath.Base(row.Run), float64(row.Bytes) / 1e6, float64(r.MemoryBytes[i]) / (1 << 20), row.Milliseconds, before.Milliseconds / row.Milliseconds, row.Skill})
	}
	for i, c := range before.CRPS {
		s.Notes = append(s.Notes, fmt.Sprintf("CRPS of %s: %.5g, in int8 %.5g %s", c.Target, c.CRPS, after.CRPS[i].CRPS, c.Unit))
	}
	for _, g := range r.RetainedSkill {
		s.Notes = append(s.Notes, fmt.Sprintf("CRPSS against %s: %.4f, in int8 %.4f: %.2f %% retained", g.Reference, g.Original, g.Int8, 100*g.Retained))
	}
	s.Notes = append(s.Notes, fmt.Sprintf("%d validation samples; ms is the network's time for one forecast on %d threads, measured alternately", r.Table.Inits, r.Table.Threads))
	return answer.Sections{s}
}
