package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/gain"
)

// Baselines are the forecasts of one target that stand beside the network's,
// fitted on the same training dates from the same members.
type Baselines struct {
	Climatology *baseline.Climatology `json:"-"`
	EMOS        *baseline.EMOS        `json:"emos"`
	Grid        *baseline.GridEMOS    `json:"-"`
	Affine      baseline.AffineSpread `json:"affine_spread"`
	// Gain is what splits the gain over all members; it forecasts nothing by itself.
	Gain *gain.Steps `json:"-"`
}

// baselinesFile is their file in a model folder.
const baselinesFile = "baselines.safetensors"

// fitBaselines fits all baselines of a task's targets [variable][level].
//
// Targets for which the dates do not suffice lack the baseline concerned; what
// is lacking is named in the warnings. Of several ranks the leading one fits, from the
// statistics of one variable at a time; the others get nil.
//
// Memory: on the leading rank seven numbers of 4 bytes a date and point of all levels, and
// seven of one level.
// Cost: reads the starts once for each target variable.
func fitBaselines(ctx context.Context, k *Task, train examples, grid *ensemble.Grid, ranks *team) (all []Baselines, warnings []string, err error) {
	w, n := grid.Weights(), grid.Size()
	for v := range k.Targets {
		dates := make([][]float32, len(train.inits)) // [date][statistic][level][point]
		err := train.each(ctx, ranks, func(i int, fc *ensemble.Forecast, a *ensemble.Analysis) error {
			used, err := positions(fc, k.Used)
			if err != nil {
				return err
			}
			part, err := k.baselineFields(fc, a, used, v)
			if err != nil {
				return err
			}
			dates[i], err = joinSlabs(ranks, part, baselineStatistics)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		if !ranks.leads() {
			continue
		}
		for l := range k.Features.Axes.Levels {
			set := &baseline.Set{Weights: w}
			whole := &baseline.Set{}
			var few, full []float32
			for i, init := range train.inits {
				of := func(statistic int) []float32 {
					return dates[i][(statistic*len(k.Features.Axes.Levels)+l)*n:][:n]
				}
				set.Mean, set.Std = append(set.Mean, of(0)...), append(set.Std, of(1)...)
				few, full = append(few, of(2)...), append(full, of(3)...)
				set.Valid = append(set.Valid, init.Valid(k.TargetLead).Time)
				whole.Mean, whole.Std = append(whole.Mean, of(4)...), append(whole.Std, of(5)...)
				if train.analysed {
					set.Obs = append(set.Obs, of(6)...)
				}
			}
			whole.Valid, whole.Obs = set.Valid, set.Obs
			var b Baselines
			name := fmt.Sprintf("%s at %s", k.Targets[v], k.Features.Axes.Levels[l])
			lacking := func(what string, err error) {
				if err != nil {
					warnings = append(warnings, fmt.Sprintf("%s has no %s: %v", name, what, err))
				}
			}
			b.Affine, err = baseline.FitAffineSpread(few, full, w)
			lacking("affine spread", err)
			if train.analysed {
				b.Climatology, err = baseline.FitClimatology(set)
				lacking("climatology", err)
				b.EMOS, err = baseline.FitEMOS(set, baseline.EMOSOptions{})
				lacking("global EMOS", err)
				b.Grid, err = baseline.FitGridEMOS(set, baseline.GridEMOSOptions{})
				lacking("EMOS by grid point", err)
				b.Gain, err = gain.Fit(whole, k.Full)
				lacking("split of its gain", err)
			}
			all = append(all, b)
		}
	}
	return all, warnings, nil
}

// baselineStatistics is the number of fields that baselineFields gives of each level.
const baselineStatistics = 7

// baselineFields are what baselines are fitted to on one date, for target variable v:
// mean and spread of the used members with divisor M−1, the spread of the used and of
// all members with the divisor of the features, mean and spread of all members with
// divisor M−1, and the analysis.
//
// Shape: [statistic][level][point] of the forecast.
func (k *Task) baselineFields(fc *ensemble.Forecast, analysis *ensemble.Analysis, used []int, v int) ([]float32, error) {
	n, depth := fc.Grid.Size(), len(fc.Axes.Levels)
	t, x := k.targetAt(v)
	out, unused := make([]float32, baselineStatistics*depth*n), make([]float32, n)
	for l, level := range fc.Axes.Levels {
		of := func(statistic int) []float32 { return out[(statistic*depth+l)*n:][:n] }
		fc.MeanStd(of(0), of(1), t, x, l, used, 1)
		fc.MeanStd(unused, of(2), t, x, l, used, k.Features.DDOF)
		fc.MeanStd(unused, of(3), t, x, l, everyMember(fc), k.Features.DDOF)
		fc.MeanStd(of(4), of(5), t, x, l, everyMember(fc), 1)
		if analysis != nil {
			obs, err := target(analysis, k.Targets[v], level)
			if err != nil {
				return nil, err
			}
			copy(of(6), obs)
		}
	}
	return out, nil
}

// gridJSON is what of a GridEMOS is no array.
type gridJSON struct {
	Global   []float64 `json:"global"`
	Scale    float64   `json:"scale"`
	Strength float64   `json:"strength"`
}

// saveBaselines writes coefficients as metadata and maps as tensors.
func saveBaselines(path string, all []Baselines) error {
	var tensors []ckpt.Tensor
	meta := map[string]string{}
	put := func(name string, i int, x []float64) {
		tensors = append(tensors, ckpt.Tensor{Name: fmt.Sprintf("%s.%03d", name, i), Shape: []int{len(x)}, Data: x})
	}
	for i, b := range all {
		text, err := json.Marshal(b)
		if err != nil {
			return fmt.Errorf("baselines: %w", err)
		}
		meta[fmt.Sprintf("target.%03d", i)] = string(text)
		if b.Climatology != nil {
			put("climatology_cycle", i, b.Climatology.Cycle)
			put("climatology_sigma", i, b.Climatology.Sigma)
		}
		if b.Grid != nil {
			put("emos_theta", i, b.Grid.Theta)
			put("emos_mean", i, b.Grid.MeanBar)
			g, err := json.Marshal(gridJSON{b.Grid.Global[:], b.Grid.Scale, b.Grid.Strength})
			if err != nil {
				return fmt.Errorf("baselines: %w", err)
			}
			meta[fmt.Sprintf("grid.%03d", i)] = string(g)
		}
		if b.Gain != nil {
			put("gain_bias", i, b.Gain.Bias)
			put("gain_emos", i, b.Gain.EMOS)
			put("gain_dispersion", i, b.Gain.Dispersion)
			meta[fmt.Sprintf("gain_members.%03d", i)] = strconv.Itoa(b.Gain.Members)
		}
	}
	return ckpt.WriteFile(path, tensors, meta)
}

// loadBaselines is the inverse of saveBaselines; without a file there are none.
func loadBaselines(path string) ([]Baselines, error) {
	tensors, meta, err := ckpt.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || exit.CodeOf(err) == exit.NotYet {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	get := map[string][]float64{}
	for _, t := range tensors {
		get[t.Name], _ = t.Data.([]float64)
	}
	bad := func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "the baselines are damaged", At: path, Why: why, Fix: "train again, or copy the whole folder again"}
	}
	var all []Baselines
	for i := 0; ; i++ {
		text, ok := meta[fmt.Sprintf("target.%03d", i)]
		if !ok {
			return all, nil
		}
		var b Baselines
		if err := json.Unmarshal([]byte(text), &b); err != nil {
			return nil, bad(err.Error())
		}
		name := func(s string) string { return fmt.Sprintf("%s.%03d", s, i) }
		if cycle := get[name("climatology_cycle")]; cycle != nil {
			b.Climatology = &baseline.Climatology{Cycle: cycle, Sigma: get[name("climatology_sigma")]}
		}
		if theta := get[name("emos_theta")]; theta != nil {
			var g gridJSON
			if err := json.Unmarshal([]byte(meta[name("grid")]), &g); err != nil {
				return nil, bad(err.Error())
			}
			b.Grid = &baseline.GridEMOS{Theta: theta, MeanBar: get[name("emos_mean")], Scale: g.Scale, Strength: g.Strength}
			if copy(b.Grid.Global[:], g.Global) != len(b.Grid.Global) {
				return nil, bad("coefficients are missing")
			}
		}
		if bias := get[name("gain_bias")]; bias != nil {
			m, err := strconv.Atoi(meta[name("gain_members")])
			b.Gain = &gain.Steps{Bias: bias, EMOS: get[name("gain_emos")], Dispersion: get[name("gain_dispersion")], Members: m}
			if err != nil || len(b.Gain.EMOS) != 4*len(bias) || len(b.Gain.Dispersion) != 2*len(bias) {
				return nil, bad("steps of the gain are missing")
			}
		}
		all = append(all, b)
	}
}

// The systems of a verification, as scores.json names them. The raw ensembles are
// "raw5" and "raw10" after the number of members.
const (
	systemNetwork     = "network"
	systemEMOS        = "emos"
	systemGridEMOS    = "emos_grid"
	systemClimatology = "climatology"
	systemAffine      = "affine"
)

func systemRaw(members int) string { return fmt.Sprintf("raw%d", members) }

// names are the baselines that give a distribution.
func (b *Baselines) names() []string {
	var out []string
	if b.Climatology != nil {
		out = append(out, systemClimatology)
	}
	if b.EMOS != nil {
		out = append(out, systemEMOS)
	}
	if b.Grid != nil {
		out = append(out, systemGridEMOS)
	}
	return out
}

// distributions are the baselines' forecasts for one date: mean and spread of a
// normal distribution by system.
func (b *Baselines) distributions(mean, std []float32, valid time.Time) map[string][2][]float32 {
	out := map[string][2][]float32{}
	room := func(name string) (mu, sigma []float32) {
		mu, sigma = make([]float32, len(mean)), make([]float32, len(mean))
		out[name] = [2][]float32{mu, sigma}
		return mu, sigma
	}
	if b.Climatology != nil {
		mu, sigma := room(systemClimatology)
		b.Climatology.Predict(mu, sigma, valid)
	}
	if b.EMOS != nil {
		mu, sigma := room(systemEMOS)
		b.EMOS.Predict(mu, sigma, mean, std)
	}
	if b.Grid != nil {
		mu, sigma := room(systemGridEMOS)
		b.Grid.Predict(mu, sigma, mean, std, valid)
	}
	return out
}
