package model

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/postproc/drift"
)

// Drift holds the climatology of the input fields over the training data. With it, a prediction
// detects input that differs from the training data (drift).
type Drift struct {
	Boxes  *drift.Boxes
	Inits  int           // initialisations of the training data
	Axes   ensemble.Axes // of the features
	Fields []drift.Field // [lead][variable][level]
}

// DriftScore is the drift score of one input field: its distance from the climatology of the
// training data.
type DriftScore struct {
	Variable string         `json:"variable"`
	Level    ensemble.Level `json:"level"`
	Lead     ensemble.Lead  `json:"lead"`
	drift.Distance
}

// Score computes the drift score of a field. ok is false for a field that is not in the training
// data. The climatology is that of the valid time, so a season is no drift.
func (d *Drift) Score(init ensemble.Init, k ensemble.Key, s drift.Summary) (x DriftScore, ok bool) {
	t, v, l, ok := d.Axes.Find(k)
	if !ok {
		return x, false
	}
	f := &d.Fields[(t*len(d.Axes.Variables)+v)*len(d.Axes.Levels)+l]
	return DriftScore{k.Variable, k.Level, k.Lead, f.Distance(d.Boxes, s, init.Valid(k.Lead).Time)}, true
}

// DriftFile is the name of the file in a model folder. Models trained on fewer than drift.Least
// initialisations have none.
const DriftFile = "drift.safetensors"

// Tensors of the file: seasonal coefficients and standard deviations of level, spread and boxes of
// each field, departures, and least spreads.
const (
	driftSeasons      = "seasons"
	driftDepartures   = "departures"
	driftLeastSpreads = "least_spreads"
	driftInits        = "inits" // metadata key
	seasonNumbers     = 4       // three coefficients and a standard deviation
)

// Save writes the statistics as a safetensors file.
//
// Shape: seasons [field][2 + boxes][3 coefficients, standard deviation], departures [field][2],
// least_spreads [field].
// Errors: exit 73 or 74.
func (d *Drift) Save(path string) error {
	n := d.Boxes.Len() + 2
	seasons, departures := make([]float64, 0, len(d.Fields)*n*seasonNumbers), make([]float64, 0, 2*len(d.Fields))
	leastSpreads := make([]float64, len(d.Fields))
	for i, f := range d.Fields {
		leastSpreads[i] = f.LeastSpread
		for _, s := range append([]drift.SeasonalCycle{f.Mean, f.Spread}, f.Pattern...) {
			seasons = append(append(seasons, s.Coefficients[:]...), s.SD)
		}
		departures = append(departures, f.Departure[:]...)
	}
	return ckpt.WriteFile(path, []ckpt.Tensor{
		{Name: driftSeasons, Shape: []int{len(d.Fields), n, seasonNumbers}, Data: seasons},
		{Name: driftDepartures, Shape: []int{len(d.Fields), 2}, Data: departures},
		{Name: driftLeastSpreads, Shape: []int{len(d.Fields)}, Data: leastSpreads},
	}, map[string]string{driftInits: strconv.Itoa(d.Inits)})
}

// LoadDrift reads the file of Save from a model folder; nil if there is none.
//
// The boxes follow from the grid of the model and are not in the file.
//
// Errors: exit 65 if it does not match the model.
func (m *Model) LoadDrift(dir string) (*Drift, error) {
	path := filepath.Join(dir, DriftFile)
	if _, err := filesystem.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	tensors, meta, err := ckpt.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &Drift{Boxes: drift.NewBoxes(m.Grid), Axes: m.Task.Features.Axes}
	fields, n := m.Task.Features.Axes.Fields(), d.Boxes.Len()+2
	d.Inits, _ = strconv.Atoi(meta[driftInits])
	of := map[string][]float64{}
	for _, t := range tensors {
		of[t.Name], _ = t.Data.([]float64)
	}
	seasons, departures, leastSpreads := of[driftSeasons], of[driftDepartures], of[driftLeastSpreads]
	if len(seasons) != fields*n*seasonNumbers || len(departures) != 2*fields || len(leastSpreads) != fields {
		return nil, &exit.Error{Code: exit.BadData, What: "the statistics of the training data are damaged", At: path,
			Why: fmt.Sprintf("%d, %d and %d values do not match %d fields with %d boxes", len(seasons), len(departures), len(leastSpreads), fields, n-2), Fix: "train again, or copy the whole folder again"}
	}
	d.Fields = make([]drift.Field, fields)
	for i := range d.Fields {
		f := &d.Fields[i]
		f.Pattern = make([]drift.SeasonalCycle, n-2)
		f.Departure, f.LeastSpread = [2]float64(departures[2*i:]), leastSpreads[i]
		for k := range n {
			x := seasons[(i*n+k)*seasonNumbers:]
			s := drift.SeasonalCycle{Coefficients: [3]float64(x[:3]), SD: x[3]}
			switch k {
			case 0:
				f.Mean = s
			case 1:
				f.Spread = s
			default:
				f.Pattern[k-2] = s
			}
		}
	}
	return d, nil
}

// Words names the field for people, as in "temperature at 500 hPa +48 h".
func (x DriftScore) Words() string {
	v, ok := ensemble.VariableNamed(x.Variable)
	if !ok || v.LongName == "" {
		v.LongName = x.Variable
	}
	return fmt.Sprintf("%s at %s +%s", v.LongName, spaced(x.Level.ForVariable(x.Variable).String()), spaced(x.Lead.String()))
}

// spaced puts a space between a number and its unit.
func spaced(text string) string { return beforeUnit.ReplaceAllString(text, "$1 $2") }

var beforeUnit = regexp.MustCompile(`([0-9])([A-Za-z])`)

// Name identifies the field, as in "t at 850hPa, 48h".
func (x DriftScore) Name() string {
	return fmt.Sprintf("%s at %s, %s", x.Variable, x.Level.ForVariable(x.Variable), x.Lead)
}
