package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/gain"
)

// Baselines are the forecasts of one target that stand beside the network's,
// fitted on past dates from the same members.
type Baselines struct {
	Fits     []Baseline            // in the order of baseline.Methods
	Affine   baseline.AffineSpread // of the full ensemble's spread
	FittedTo []time.Time           // valid times, ascending
	// Gain is what splits the gain over all members; it forecasts nothing by itself.
	Gain *gain.Steps
}

// Baseline is one of them.
type Baseline struct {
	Method *baseline.Method
	Fit    baseline.Fit
}

// baselinesFile is their file in a model folder.
const baselinesFile = "baselines.safetensors"

// methodsOf are the baselines of a list of names, which the schema has checked.
func methodsOf(ids []string) []*baseline.Method {
	return slices.DeleteFunc(slices.Clone(baseline.Methods), func(m *baseline.Method) bool { return !slices.Contains(ids, m.ID) })
}

// fitBaselines fits baselines to a task's targets, in the order in which they are stored.
//
// Targets for which the dates do not suffice lack the baseline concerned; what
// is lacking is named in the warnings. also is called with what each target is fitted to. Of several ranks the leading one fits, from the
// statistics of one target of all levels at a time; the others get nil.
//
// Memory: on the leading rank seven numbers of 4 bytes a date and point of all levels, and
// seven of one level; if a method looks at members, one more of each for each that was used.
// Cost: reads the starts once for each target variable and lead.
func fitBaselines(ctx context.Context, k *Task, methods []*baseline.Method, train examples, grid *ensemble.Grid, ranks *team.Team, also func(name string, set *baseline.Set)) (all []Baselines, warnings []string, err error) {
	w, n := grid.Weights(), grid.Size()
	fields := baselineStatistics
	if train.analysed && slices.ContainsFunc(methods, func(m *baseline.Method) bool { return m.Looks == baseline.AtMembers }) {
		fields += len(k.Used)
	}
	for v := range k.Targets {
		dates := make([][]float32, len(train.inits)) // [date][statistic][level][point]
		err := train.each(ctx, ranks, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
			used, err := positions(fc, k.Used)
			if err != nil {
				return err
			}
			part, err := k.baselineFields(fc, a, used, v, fields)
			if err != nil {
				return err
			}
			dates[i], err = team.Join(ranks, part, fields)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		if !ranks.Leads() {
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
				set.Valid = append(set.Valid, init.Valid(k.Targets[v].Lead).Time)
				whole.Mean, whole.Std = append(whole.Mean, of(4)...), append(whole.Std, of(5)...)
				if train.analysed {
					set.Obs = append(set.Obs, of(6)...)
				}
				for m := baselineStatistics; m < fields; m++ {
					set.Members = append(set.Members, of(m)...)
				}
			}
			whole.Valid, whole.Obs = set.Valid, set.Obs
			b := Baselines{FittedTo: slices.SortedFunc(slices.Values(set.Valid), time.Time.Compare)}
			name := k.named(v*len(k.Features.Axes.Levels) + l)
			lacking := func(what string, err error) {
				if err != nil {
					warnings = append(warnings, fmt.Sprintf("%s has no %s: %v", name, what, err))
				}
			}
			b.Affine, err = baseline.FitAffineSpread(few, full, w)
			lacking("affine spread", err)
			if train.analysed {
				also(name, set)
				for _, m := range methods {
					fit, err := m.Fit(set)
					lacking(m.ID, err)
					if err != nil {
						continue
					}
					b.Fits = append(b.Fits, Baseline{m, fit})
					if f, ok := fit.(baseline.Noted); ok && f.Note() != "" {
						warnings = append(warnings, fmt.Sprintf("%s of %s: %s", m.ID, name, f.Note()))
					}
				}
				b.Gain, err = gain.Fit(whole, k.Full)
				lacking("split of its gain", err)
			}
			all = append(all, b)
		}
	}
	return all, warnings, nil
}

// baselineStatistics is the number of fields that baselineFields gives of each level, but
// for members.
const baselineStatistics = 7

// baselineFields are what baselines are fitted to on one date, for target v:
// mean and spread of the used members with divisor M−1, the spread of the used and of
// all members with the divisor of the features, mean and spread of all members with
// divisor M−1, and the analysis; behind them, if there are to be more fields, the members
// that are used.
//
// Shape: [field][level][point] of the forecast.
func (k *Task) baselineFields(fc *ensemble.Forecast, analyses []*ensemble.Analysis, used []int, v, fields int) ([]float32, error) {
	n, depth := fc.Grid.Size(), len(fc.Axes.Levels)
	t, x := k.targetAt(v)
	answer, _ := k.answerAt(fc, v)
	out, unused := make([]float32, fields*depth*n), make([]float32, n)
	for l, level := range fc.Axes.Levels {
		of := func(statistic int) []float32 { return out[(statistic*depth+l)*n:][:n] }
		fc.MeanStd(of(0), of(1), t, x, l, used, 1)
		fc.MeanStd(unused, of(2), t, x, l, used, k.Features.DDOF)
		fc.MeanStd(unused, of(3), answer, x, l, everyMember(fc), k.Features.DDOF)
		fc.MeanStd(of(4), of(5), answer, x, l, everyMember(fc), 1)
		if analyses != nil {
			obs, err := k.observed(analyses, fc.Init, v, level)
			if err != nil {
				return nil, err
			}
			copy(of(6), obs)
		}
		for i := baselineStatistics; i < fields; i++ {
			copy(of(i), fc.Field(t, used[i-baselineStatistics], x, l))
		}
	}
	return out, nil
}

// saveBaselines writes maps as tensors, and all else as metadata.
func saveBaselines(path string, all []Baselines) error {
	var tensors []ckpt.Tensor
	meta := map[string]string{}
	put := func(name string, i int, data any) {
		tensors = append(tensors, ckpt.Tensor{Name: fmt.Sprintf("%s.%03d", name, i), Shape: []int{reflect.ValueOf(data).Len()}, Data: data})
	}
	for i, b := range all {
		texts := map[string]any{affineKey: b.Affine, fittedKey: b.FittedTo}
		for _, f := range b.Fits {
			texts[f.Method.ID] = f.Fit
			for _, a := range f.Fit.Arrays() {
				put(f.Method.ArrayName(a), i, reflect.ValueOf(a.Data).Elem().Interface())
			}
		}
		if g := b.Gain; g != nil {
			put("gain_bias", i, g.Bias)
			put("gain_emos", i, g.EMOS)
			put("gain_dispersion", i, g.Dispersion)
			if g.Scale != nil {
				put("gain_scale", i, g.Scale)
			}
			meta[fmt.Sprintf("gain_members.%03d", i)] = strconv.Itoa(g.Members)
		}
		text, err := json.Marshal(texts)
		if err != nil {
			return fmt.Errorf("baselines: %w", err)
		}
		meta[fmt.Sprintf(targetFormat, i)] = string(text)
	}
	return ckpt.WriteFile(path, tensors, meta)
}

// Names in the metadata.
const (
	targetFormat = "target.%03d"
	affineKey    = "affine_spread"
	fittedKey    = "fitted_to"
)

// loadBaselines is the inverse of saveBaselines, for a grid of so many points; without a
// file there are none.
func loadBaselines(path string, points int) ([]Baselines, error) {
	tensors, meta, err := ckpt.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || exit.CodeOf(err) == exit.NotYet {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	arrays := map[string]any{}
	for _, t := range tensors {
		arrays[t.Name] = t.Data
	}
	bad := func(err error) error {
		return &exit.Error{Code: exit.BadData, What: "the baselines are damaged", At: path, Why: err.Error(), Fix: "train again, or copy the whole folder again", Err: err}
	}
	var all []Baselines
	for i := 0; ; i++ {
		text, ok := meta[fmt.Sprintf(targetFormat, i)]
		if !ok {
			return all, nil
		}
		var texts map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &texts); err != nil {
			return nil, bad(err)
		}
		var b Baselines
		for key, to := range map[string]any{affineKey: &b.Affine, fittedKey: &b.FittedTo} {
			if err := json.Unmarshal(texts[key], to); err != nil && texts[key] != nil {
				return nil, bad(err)
			}
		}
		array := func(name string) any { return arrays[fmt.Sprintf("%s.%03d", name, i)] }
		if texts[fittedKey] == nil { // of an older program, which had these two without a text, or with another one
			if grid, ok := meta[fmt.Sprintf("grid.%03d", i)]; ok {
				texts["emos_grid"] = json.RawMessage(grid)
			}
			if array("climatology_sigma") != nil {
				texts["climatology"] = json.RawMessage("{}")
			}
		}
		for _, m := range baseline.Methods {
			if text := string(texts[m.ID]); text == "" || text == "null" {
				continue
			}
			fit, err := loadBaseline(m, texts[m.ID], points, array)
			if err != nil {
				return nil, bad(fmt.Errorf("%s: %w", m.ID, err))
			}
			b.Fits = append(b.Fits, Baseline{m, fit})
		}
		if bias, ok := array("gain_bias").([]float64); ok {
			m, err := strconv.Atoi(meta[fmt.Sprintf("gain_members.%03d", i)])
			b.Gain = &gain.Steps{Bias: bias, Members: m}
			b.Gain.EMOS, _ = array("gain_emos").([]float64)
			b.Gain.Dispersion, _ = array("gain_dispersion").([]float64)
			b.Gain.Scale, _ = array("gain_scale").([]float64) // none in files of older programs
			if err != nil || len(b.Gain.EMOS) != 4*len(bias) || len(b.Gain.Dispersion) != 2*len(bias) || b.Gain.Scale != nil && len(b.Gain.Scale) != len(bias) {
				return nil, bad(errors.New("steps of the gain are missing"))
			}
		}
		all = append(all, b)
	}
}

// loadBaseline reads one fit from its text and its arrays.
func loadBaseline(m *baseline.Method, text []byte, points int, array func(name string) any) (baseline.Fit, error) {
	fit := m.Empty()
	if err := json.Unmarshal(text, fit); err != nil {
		return nil, err
	}
	for _, a := range fit.Arrays() {
		want, have := a.Terms*points, 0
		if a.Pooled {
			want = a.Terms
		}
		data := array(m.ArrayName(a))
		switch to := a.Data.(type) {
		case *[]float64:
			*to, _ = data.([]float64)
			have = len(*to)
		case *[]float32:
			*to, _ = data.([]float32)
			have = len(*to)
		}
		if have == 0 || have != want {
			return nil, fmt.Errorf("%s has %d numbers, want %d", m.ArrayName(a), have, want)
		}
	}
	return fit, nil
}

// The systems of a verification, as scores.json names them. The raw ensembles are
// "raw5" and "raw10" after the number of members, baselines have the names of their methods.
const (
	systemNetwork = "network"
	systemAffine  = "affine"
)

func systemRaw(members int) string { return fmt.Sprintf("raw%d", members) }
