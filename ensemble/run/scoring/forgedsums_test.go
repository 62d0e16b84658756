package scoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// realSums are the sums of four dates with distributions, spreads, a split reduction and coupling tests.
func realSums(t *testing.T) (path string, b significance.Bootstrap) {
	t.Helper()
	grid, err := ensemble.NamedGrid("18x12")
	if err != nil {
		t.Fatal(err)
	}
	var inits []ensemble.Init
	for i := range 4 {
		inits = append(inits, ensemble.InitAt(time.Date(2020, 1, 1+i, 0, 0, 0, 0, time.UTC)))
	}
	b = significance.Bootstrap{Resamples: 20, BlockLength: 1, Confidence: 0.95}
	const members = 4
	fill := func(n int, x float64) []float64 { return slices.Repeat([]float64{x}, n) }
	points := grid.Size()
	split := &skill.Corrections{Bias: fill(points, 0.1), EMOS: fill(4*points, 1), Dispersion: fill(2*points, 1), SpreadFactor: fill(points, 1), Members: members,
		Seasonal: &baseline.GridEMOS{Theta: fill(6*points, 0), MeanBar: fill(points, 280), Scale: 1}}
	s, err := TargetOptions{Target: score.Target{Variable: "t", Level: ensemble.PressureLevel(850), Unit: "K"}, Grid: grid, DDOF: 1, Inits: inits, Source: score.FromProducts,
		Baselines: &task.Baselines{Reduction: split}, Bootstrap: b, KeepSums: true, Selection: Selection{Seasons: true}}.
		Begin(Shape{Mean: true, Spread: true, Obs: true, Used: 2, Full: members, Calibrated: members})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	field := func(mean float32) []float32 {
		out := make([]float32, points)
		for p := range out {
			out[p] = mean + r.Float32()
		}
		return out
	}
	for _, init := range inits {
		c := Case{Init: init, Obs: field(280), Used: []int{0, 1}, Mean: field(280), Sigma: field(1), Spread: field(1)}
		for range members {
			c.Members, c.Calibrated = append(c.Members, field(280)), append(c.Calibrated, field(280))
		}
		d, err := s.Sum(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Join(d); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(t.TempDir(), "real.sums")
	if err := SaveSums(path, []*Scoring{s}, nil); err != nil {
		t.Fatal(err)
	}
	return path, b
}

// forge changes one random value below v: a number, a text, the length of a list, or a pointer.
func forge(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.CanSet() && r.IntN(8) == 0 {
			if v.CanSet() {
				v.SetZero()
			}
			return
		}
		forge(r, v.Elem())
	case reflect.Struct:
		if init, ok := v.Addr().Interface().(*ensemble.Init); ok {
			*init = ensemble.InitAt(init.AddDate(0, 0, r.IntN(3)-1))
			return
		}
		forge(r, v.Field(r.IntN(v.NumField())))
	case reflect.Slice:
		n := v.Len()
		switch r.IntN(6) {
		case 0:
			v.SetLen(r.IntN(n + 1))
		case 1:
			v.Set(reflect.AppendSlice(v, v.Slice(0, r.IntN(n+1))))
		default:
			if n > 0 {
				forge(r, v.Index(r.IntN(n)))
			}
		}
	case reflect.Array:
		forge(r, v.Index(r.IntN(v.Len())))
	case reflect.Int:
		v.SetInt([]int64{-1, 0, 1, 2, 3, 1 << 40}[r.IntN(6)])
	case reflect.Float64, reflect.Float32:
		v.SetFloat([]float64{-1, 0, 1e300}[r.IntN(3)])
	case reflect.String:
		v.SetString([]string{"", "raw4", "other"}[r.IntN(3)])
	}
}

// forgeJSON replaces one random value of a document.
func forgeJSON(r *rand.Rand, text []byte) []byte {
	var document any
	if json.Unmarshal(text, &document) != nil {
		return text
	}
	var walk func(x any) any
	walk = func(x any) any {
		switch x := x.(type) {
		case map[string]any:
			names := slices.Sorted(maps.Keys(x))
			if len(names) > 0 && r.IntN(8) > 0 {
				name := names[r.IntN(len(names))]
				x[name] = walk(x[name])
				return x
			}
		case []any:
			if len(x) > 0 && r.IntN(4) > 0 {
				i := r.IntN(len(x))
				x[i] = walk(x[i])
				return x
			}
			return x[:r.IntN(len(x)+1)]
		}
		return []any{nil, -1, 0, 1, 2, 3, 1 << 40, "", "normal", "emos", true, false, []any{}, []any{1}, []any{"emos"}, map[string]any{}}[r.IntN(16)]
	}
	out, err := json.Marshal(walk(document))
	if err != nil {
		return text
	}
	return out
}

// A file of sums that was made with other content and a right checksum ends in an error with exit 65, or in scores;
// it does not end the program.
func TestForgedSums(t *testing.T) {
	path, b := realSums(t)
	forged := filepath.Join(t.TempDir(), "forged.sums")
	for seed := range uint64(300) {
		s, err := LoadSums(path)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(seed, 7))
		if r.IntN(2) == 0 {
			s.Targets[0].Header = forgeJSON(r, s.Targets[0].Header)
		} else {
			forge(r, reflect.ValueOf(&s.Targets[0].Dates))
		}
		if err := s.Save(forged); err != nil {
			t.Fatal(err)
		}
		if err := joinAll(forged, b); err != nil {
			var e *exit.Error
			if !errors.As(err, &e) || e.Code != exit.BadData {
				t.Errorf("seed %d: %v, want exit 65", seed, err)
			}
		}
		if t.Failed() {
			head, _ := headOf(t, s)
			t.Fatalf("%s", head[:min(len(head), 3000)])
		}
	}
}

// joinAll joins a file and computes its scores. A panic is returned as an error.
func joinAll(path string, b significance.Bootstrap) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	all, _, _, err := JoinFiles([]string{path}, b)
	if err != nil {
		return err
	}
	for _, s := range all {
		if _, err := s.Result(); err != nil {
			return err
		}
	}
	return nil
}
