package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/drift"
)

// Drift is what is known of the input fields from the training starts, so that input that is
// unlike theirs is noticed.
type Drift struct {
	Boxes  *drift.Boxes
	Inits  int           // of the training, that were looked at
	Axes   ensemble.Axes // of the features
	Fields []drift.Field // [lead][variable][level]
}

// DriftScore is how far a field of a start is from those of the training.
type DriftScore struct {
	Variable string         `json:"variable"`
	Level    ensemble.Level `json:"level"`
	Lead     ensemble.Lead  `json:"lead"`
	drift.Distance
}

// Score compares a field of a start with those of the training; ok is false for one that they did not have.
func (d *Drift) Score(init ensemble.Init, k ensemble.Key, s drift.Summary) (x DriftScore, ok bool) {
	t, v, l, ok := d.Axes.Find(k)
	if !ok {
		return x, false
	}
	f := &d.Fields[(t*len(d.Axes.Variables)+v)*len(d.Axes.Levels)+l]
	return DriftScore{k.Variable, k.Level, k.Lead, f.Distance(d.Boxes, s, init.Valid(k.Lead).Time)}, true
}

// DriftFile is its file in a model folder. Models of fewer starts than drift.Least have none.
const DriftFile = "drift.safetensors"

// Its tensors: of each field level, spread and boxes with their coefficients and standard deviation;
// and the departures.
const (
	driftSeasons    = "seasons"
	driftDepartures = "departures"
	driftInits      = "starts" // in the metadata
	seasonNumbers   = 4
)

// Save writes what is known.
func (d *Drift) Save(path string) error {
	n := d.Boxes.Len() + 2
	seasons, departures := make([]float64, 0, len(d.Fields)*n*seasonNumbers), make([]float64, 0, 2*len(d.Fields))
	for _, f := range d.Fields {
		for _, s := range append([]drift.SeasonalCycle{f.Mean, f.Spread}, f.Pattern...) {
			seasons = append(append(seasons, s.Coefficients[:]...), s.SD)
		}
		departures = append(departures, f.Departure[:]...)
	}
	return ckpt.WriteFile(path, []ckpt.Tensor{
		{Name: driftSeasons, Shape: []int{len(d.Fields), n, seasonNumbers}, Data: seasons},
		{Name: driftDepartures, Shape: []int{len(d.Fields), 2}, Data: departures},
	}, map[string]string{driftInits: strconv.Itoa(d.Inits)})
}

// LoadDrift reads what Save wrote beside a model; nil if there is none.
//
// Errors: exit 65 if it does not fit the model.
func (m *Model) LoadDrift(dir string) (*Drift, error) {
	path := filepath.Join(dir, DriftFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
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
	seasons, departures := of[driftSeasons], of[driftDepartures]
	if len(seasons) != fields*n*seasonNumbers || len(departures) != 2*fields {
		return nil, &exit.Error{Code: exit.BadData, What: "the statistics of the training's input are damaged", At: path,
			Why: fmt.Sprintf("%d and %d numbers for %d fields of %d boxes", len(seasons), len(departures), fields, n-2), Fix: "train again, or copy the whole folder again"}
	}
	d.Fields = make([]drift.Field, fields)
	for i := range d.Fields {
		f := &d.Fields[i]
		f.Pattern = make([]drift.SeasonalCycle, n-2)
		f.Departure = [2]float64(departures[2*i:])
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

// Name says which field it is: "t at 850hPa, 48h".
func (x DriftScore) Name() string {
	return fmt.Sprintf("%s at %s, %s", x.Variable, x.Level.ForVariable(x.Variable), x.Lead)
}
