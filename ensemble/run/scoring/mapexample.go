package scoring

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// MapExample is one initialisation, of the test or of a prediction, with the fields that a report shows as maps, and
// scores by place of all dates. Those of a verification have only the latter.
type MapExample struct {
	Init    ensemble.Init
	Lead    ensemble.Lead // lead of fields without a lead
	Grid    *ensemble.Grid
	Used    int    // input members
	Full    int    // members of the full ensemble
	Control string // policy for the control
	Fields  []MapField
	Step    int // every Step-th row and column is a point of coarse fields; 0: there are none
}

// MapField is one map.
//
// Unit: SI.
// Missing: NaN.
type MapField struct {
	Variable string         `json:"variable"`
	Level    ensemble.Level `json:"level"`
	Lead     ensemble.Lead  `json:"lead,omitempty"`
	Kind     string         `json:"kind"` // one of the Show constants
	Values   []float32      `json:"-"`
	// Reference is the system that the network is compared with; "": none.
	Reference string `json:"reference,omitempty"`
	Coarse    bool   `json:"coarse,omitempty"` // on the coarse grid
	// Threshold and Source describe a probability of exceedance.
	Threshold float64 `json:"threshold,omitempty"`
	Source    string  `json:"source,omitempty"`
	// NoTest states why a difference has no p-values; "": it has.
	NoTest string `json:"no_test,omitempty"`
}

// Kinds of maps.
const (
	ShowAnalysis    = "analysis"
	ShowRawMean     = "raw_mean"        // mean of the input members
	ShowRawSpread   = "raw_spread"      // spread of the input members
	ShowFullSpread  = "full_spread"     // spread of all members
	ShowMean        = "mean"            // the network's
	ShowSpread      = "spread"          // the network's
	ShowEstimate    = "ensemble_spread" // the network's estimate of the full ensemble's spread
	ShowProbability = "probability"     // published probability of values above Threshold, 0 to 1
	ShowMember      = "member"          // an input member; one field for each, coarse
	ShowDifference  = "crps_difference" // CRPS of the network minus that of a reference, mean over all test dates; coarse
	ShowP           = "p_value"         // of the difference; coarse
)

// ExampleFile is the path of a map example within a run directory or a folder of scores.
var ExampleFile = filepath.Join("report", "example.safetensors")

// newMapExample returns the maps of one initialisation's cases, by target.
//
// Members are thinned by the step of scores by place.
func newMapExample(m *model.Model, fc *ensemble.Forecast, cases []*Case, step int) *MapExample {
	k, levels := &m.Task, m.Task.Features.Axes.Levels
	e := &MapExample{Init: fc.Init, Lead: k.Targets[0].Lead, Grid: m.Grid, Used: len(k.UsedMembers), Full: len(fc.Members), Control: m.Control}
	for i, c := range cases {
		if c == nil {
			continue
		}
		t := k.Targets[i/len(levels)]
		add := func(kind string, values []float32) {
			if values != nil {
				e.Fields = append(e.Fields, MapField{Variable: t.Variable, Level: levels[i%len(levels)].ForVariable(t.Variable), Lead: t.Lead, Kind: kind, Values: values})
			}
		}
		_, full := MeanStd(c.Members, k.Features.DDOF)
		mean, few := MeanStd(selectMembers(*c, c.Used), k.Features.DDOF)
		add(ShowAnalysis, c.Obs)
		add(ShowRawMean, mean)
		add(ShowRawSpread, few)
		if len(c.Used) < len(c.Members) { // else it is the spread of the input members
			add(ShowFullSpread, full)
		}
		add(ShowMean, c.Mean)
		add(ShowSpread, c.Sigma)
		add(ShowEstimate, c.Spread)
		if c.Mean != nil {
			d := published{Members: c.Calibrated, Family: family(m, t.Variable), Parameters: c.Parameters}
			if d.Parameters == nil {
				d.Parameters = [][]float32{c.Mean, c.Sigma}
			}
			e.addProbability(m, t, levels[i%len(levels)], d, c.Mean, true)
		}
		if m.Grid.Rectangular() {
			e.Step = step
			for _, at := range c.Used {
				add(ShowMember, e.Thin(c.Members[at]))
				e.Fields[len(e.Fields)-1].Coarse = true
			}
		}
	}
	return e
}

// AddPlaces adds the scores by place of one target.
//
// Missing: NaN where fewer than three dates have all values.
func (e *MapExample) AddPlaces(s *Scoring) {
	found := s.MapScores()
	if found == nil {
		return
	}
	e.Step = s.MapStep
	for _, r := range found.References {
		f := MapField{Variable: s.Target.Variable, Level: s.Target.Level, Lead: s.Target.Lead, Reference: r.System, Coarse: true}
		for k, n := range found.N {
			if n < 3 {
				r.Difference[k] = float32(math.NaN())
			}
		}
		f.Kind, f.Values, f.NoTest = ShowDifference, r.Difference, r.NoTest()
		e.Fields = append(e.Fields, f)
		if r.P == nil {
			continue
		}
		p := make([]float32, len(r.P))
		for k, v := range r.P {
			p[k] = float32(v)
		}
		f.Kind, f.Values = ShowP, p
		e.Fields = append(e.Fields, f)
	}
}

// HasForecast reports whether the example has maps of a forecast, and not only scores by place.
func (e *MapExample) HasForecast() bool {
	return slices.ContainsFunc(e.Fields, func(f MapField) bool { return f.Kind != ShowDifference && f.Kind != ShowP })
}

// CoarseGrid is the grid of the coarse fields.
func (e *MapExample) CoarseGrid() *ensemble.Grid {
	g, _ := thin(e.Grid, max(1, e.Step))
	return g
}

// Thin takes the values of a field at the points of the coarse grid.
func (e *MapExample) Thin(values []float32) []float32 {
	_, points := thin(e.Grid, max(1, e.Step))
	return ensemble.Take(values, points)
}

// gridOf is the grid of a field.
func (e *MapExample) gridOf(f *MapField) *ensemble.Grid {
	if f.Coarse {
		return e.CoarseGrid()
	}
	return e.Grid
}

// family is the published family of a variable; nil for a model without distribution.
func family(m *model.Model, variable string) *dist.Family {
	if m.Family == nil {
		return nil
	}
	return m.VariableFamily(variable)
}

// Prediction describes what a prediction was made from.
type Prediction struct {
	Init     ensemble.Init
	Used     []ensemble.Member
	Control  string // policy for the control
	Fallback bool   // by the fallback forecast, whose probabilities are not calibrated
}

// PredictionExample returns maps of a prediction and of the members that it was made from.
func PredictionExample(m *model.Model, of Prediction, stats []task.Statistics, out *model.Forecast) *MapExample {
	k, levels, n := &m.Task, m.Task.Features.Axes.Levels, m.Grid.Size()
	e := &MapExample{Init: of.Init, Lead: k.Targets[0].Lead, Grid: m.Grid, Used: len(of.Used), Full: k.FullMembers, Control: of.Control}
	for i, st := range stats {
		if k.TargetWeights[i] == 0 {
			continue
		}
		t, level := k.Targets[i/len(levels)], levels[i%len(levels)]
		add := func(kind string, all []float32, at int) {
			if all != nil {
				e.Fields = append(e.Fields, MapField{Variable: t.Variable, Level: level.ForVariable(t.Variable), Lead: t.Lead, Kind: kind, Values: slices.Clone(all[at*n : (at+1)*n])})
			}
		}
		add(ShowRawMean, st.Mean, 0)
		add(ShowRawSpread, st.Std, 0)
		add(ShowMean, out.Mean, i)
		add(ShowSpread, out.Sigma, i)
		add(ShowEstimate, out.Spread, i)
		if out.Mean == nil {
			continue
		}
		d := published{Family: family(m, t.Variable), Parameters: out.ParametersAt(i, n, model.FullField)}
		if out.Members != nil {
			d.Members = out.TargetMembers(i, len(k.TargetWeights), n)
		}
		e.addProbability(m, t, level, d, out.Mean[i*n:(i+1)*n], !of.Fallback)
	}
	return e
}

// exampleJSON is the metadata of the file.
type exampleJSON struct {
	Init    ensemble.Init  `json:"init"`
	Lead    ensemble.Lead  `json:"lead"`
	Grid    *ensemble.Grid `json:"grid"`
	Used    int            `json:"used"`
	Full    int            `json:"full"`
	Control string         `json:"control"`
	Fields  []MapField     `json:"fields"` // without values
	Step    int            `json:"coarse_step,omitempty"`
}

// Save writes the example into a run directory or a folder of scores, as report/example.safetensors.
//
// Errors: those of exit.CreateError.
func (e *MapExample) Save(dir string) error {
	if err := atomicfile.MkdirAll(filepath.Join(dir, "report"), 0o755); err != nil {
		return exit.CreateError(dir, err)
	}
	j := exampleJSON{e.Init, e.Lead, e.Grid, e.Used, e.Full, e.Control, nil, e.Step}
	var tensors []ckpt.Tensor
	for i, f := range e.Fields {
		tensors = append(tensors, ckpt.Tensor{Name: fmt.Sprintf("field.%03d", i), Shape: []int{e.gridOf(&f).NY, e.gridOf(&f).NX}, Data: f.Values})
		j.Fields = append(j.Fields, f)
	}
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("example: %w", err)
	}
	return ckpt.WriteFile(filepath.Join(dir, ExampleFile), tensors, map[string]string{"example": string(text)})
}

// LoadExample reads the example of a run; nil if it has none.
//
// Errors: exit 65 if it is damaged.
func LoadExample(dir string) (*MapExample, error) {
	path := filepath.Join(dir, ExampleFile)
	tensors, meta, err := ckpt.ReadFile(path)
	if exit.CodeOf(err) == exit.NotYet {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var j exampleJSON
	bad := func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "the map example of the report is damaged", At: path, Why: why, Fix: "remove it, or train again with --overwrite always, or verify again"}
	}
	if err := json.Unmarshal([]byte(meta["example"]), &j); err != nil {
		return nil, bad(err.Error())
	}
	if len(j.Fields) != len(tensors) || j.Grid == nil || j.Step < 0 {
		return nil, bad(fmt.Sprintf("it has %d of %d fields, with a grid: %t", len(tensors), len(j.Fields), j.Grid != nil))
	}
	e := &MapExample{j.Init, j.Lead, j.Grid, j.Used, j.Full, j.Control, j.Fields, j.Step}
	for i, t := range tensors {
		if e.Fields[i].Values, err = t.Float32(); err != nil {
			return nil, bad(err.Error())
		}
		g := e.gridOf(&e.Fields[i])
		if n := len(e.Fields[i].Values); n == 0 || n != g.Size() {
			return nil, bad(fmt.Sprintf("a field of %d values on a grid of %d points", n, g.Size()))
		}
	}
	return e, nil
}

// Times lists the leads with their valid times.
func (e *MapExample) Times() string {
	var out []string
	for _, f := range e.Fields {
		lead := cmp.Or(f.Lead, e.Lead)
		if t := fmt.Sprintf("lead %s, valid %s", lead, e.Init.Valid(lead)); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return strings.Join(out, "; ")
}
