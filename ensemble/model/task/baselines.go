package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// Baselines holds the statistical post-processing methods of one target, with which the network is
// compared. They were fitted on past dates and the same members.
type Baselines struct {
	Fits     []Baseline            // in the order of baseline.Methods
	Affine   baseline.AffineSpread // of the full ensemble's spread
	FittedTo []time.Time           // valid times of the fit, ascending
	// Reduction holds the corrections of bias, EMOS and dispersion to which the reduction in CRPS
	// is attributed. It is not a forecast. Nil if it was not fitted.
	Reduction *skill.Corrections
}

// Baseline is one fitted method.
type Baseline struct {
	Method *baseline.Method
	Fit    baseline.Fit
}

// BaselinesFile is the name of the file in a model folder.
const BaselinesFile = "baselines.safetensors"

// SaveBaselines writes the baselines of all targets as a safetensors file: arrays as tensors with
// the suffix ".NNN" (index of the target), all else as JSON in the metadata.
//
// Errors: exit 73 or 74.
func SaveBaselines(path string, all []Baselines) error {
	var tensors []ckpt.Tensor
	meta := map[string]string{}
	put := func(name string, i int, data any) {
		tensors = append(tensors, ckpt.Tensor{Name: fmt.Sprintf("%s.%03d", name, i), Shape: []int{reflect.ValueOf(data).Len()}, Data: data})
	}
	for i, b := range all {
		texts := map[string]any{affineKey: b.Affine, fittedKey: b.FittedTo}
		fits := b.Fits
		if b.Reduction != nil {
			fits = append(slices.Clip(fits), Baseline{SeasonalStep, b.Reduction.Seasonal})
		}
		for _, f := range fits {
			texts[f.Method.ID] = f.Fit
			for _, a := range f.Fit.Arrays() {
				put(f.Method.ArrayName(a), i, reflect.ValueOf(a.Data).Elem().Interface())
			}
		}
		if g := b.Reduction; g != nil {
			put("skill_bias", i, g.Bias)
			put("skill_emos", i, g.EMOS)
			put("skill_dispersion", i, g.Dispersion)
			put("skill_scale", i, g.SpreadFactor)
			meta[fmt.Sprintf("skill_members.%03d", i)] = strconv.Itoa(g.Members)
		}
		text, err := json.Marshal(texts)
		if err != nil {
			return fmt.Errorf("baselines: %w", err)
		}
		meta[fmt.Sprintf(targetFormat, i)] = string(text)
	}
	return ckpt.WriteFile(path, tensors, meta)
}

// SeasonalStep stores skill.Corrections.Seasonal like a baseline. It cannot be selected.
var SeasonalStep = &baseline.Method{ID: "skill_seasonal", Empty: func() baseline.Fit { return &baseline.GridEMOS{} }}

// Keys of the metadata: a JSON object for each target, and keys in it besides the IDs of methods.
const (
	targetFormat = "target.%03d"
	affineKey    = "affine_spread"
	fittedKey    = "fitted_to"
)

// LoadBaselines reads a file of SaveBaselines for a grid with the given number of points. If there
// is no file, it returns nil.
//
// Errors: exit 65 for a damaged file or arrays of another size.
func LoadBaselines(path string, points int) ([]Baselines, error) {
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
		if bias, ok := array("skill_bias").([]float64); ok {
			m, err := strconv.Atoi(meta[fmt.Sprintf("skill_members.%03d", i)])
			b.Reduction = &skill.Corrections{Bias: bias, Members: m}
			b.Reduction.EMOS, _ = array("skill_emos").([]float64)
			b.Reduction.Dispersion, _ = array("skill_dispersion").([]float64)
			b.Reduction.SpreadFactor, _ = array("skill_scale").([]float64)
			seasonal, seasonalErr := loadBaseline(SeasonalStep, texts[SeasonalStep.ID], points, array)
			if b.Reduction.Seasonal, _ = seasonal.(*baseline.GridEMOS); seasonalErr != nil {
				return nil, bad(fmt.Errorf("%s: %w", SeasonalStep.ID, seasonalErr))
			}
			if err != nil || len(b.Reduction.EMOS) != 4*len(bias) || len(b.Reduction.Dispersion) != 2*len(bias) || len(b.Reduction.SpreadFactor) != len(bias) {
				return nil, bad(errors.New("incomplete attribution of the CRPS reduction"))
			}
		}
		all = append(all, b)
	}
}

// loadBaseline reads one fit from its JSON and its arrays.
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
			return nil, fmt.Errorf("array %s: %d values, want %d", m.ArrayName(a), have, want)
		}
	}
	return fit, nil
}
