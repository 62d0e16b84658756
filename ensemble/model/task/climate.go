package task

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Climate holds quantiles of the climatology of some targets. Extreme forecast indices compare
// forecasts with it.
type Climate struct {
	Source    string          `json:"source"`     // config.ClimateMembers or config.ClimateAnalyses
	Period    ensemble.Period `json:"period"`     // of the initialisations
	Dates     int             `json:"dates"`      // number of dates
	MinValues int             `json:"min_values"` // smallest number of values per point in a window
	Steps     int             `json:"steps"`      // quantiles have the levels 0, 1/Steps … 1
	Windows   int             `json:"windows"`    // of the year
	Days      float64         `json:"days"`       // width of a window
	Targets   []ClimateTarget `json:"targets"`
	Grid      *ensemble.Grid  `json:"grid"`

	Quantiles []score.Climate `json:"-"` // [target]; stored as tensors
}

// ClimateTarget identifies the target of some quantiles.
type ClimateTarget struct {
	Variable string         `json:"variable"`
	Level    ensemble.Level `json:"level"`
	Lead     string         `json:"lead"`
}

// ClimateFile is the name of the file in a model folder.
const ClimateFile = "climate.safetensors"

// Find returns the quantiles of a target; nil if there are none. c may be nil.
func (c *Climate) Find(t score.Target) *score.Climate {
	if c == nil {
		return nil
	}
	i := slices.Index(c.Targets, ClimateTarget{t.Variable, t.Level, t.Lead.String()})
	if i < 0 {
		return nil
	}
	return &c.Quantiles[i]
}

// NewQuantiles allocates the quantiles of one target, all 0.
func (c *Climate) NewQuantiles() score.Climate {
	return score.Climate{Steps: c.Steps, Windows: c.Windows, Days: c.Days, Quantiles: make([]float32, c.Windows*(c.Steps+1)*c.Grid.Size())}
}

// Warnings describes windows with too few values for the number of quantiles.
func (c *Climate) Warnings() []string {
	if c.MinValues > c.Steps {
		return nil
	}
	return []string{fmt.Sprintf("climate: of %d windows one has only %d values per point for %d quantiles; increase climate.days or decrease climate.windows", c.Windows, c.MinValues, c.Steps+1)}
}

// climateMeta is the metadata key of the description.
const climateMeta = "climate"

// climateTensor is the name of the quantiles of target i.
func climateTensor(i int) string { return fmt.Sprintf("quantiles.%03d", i) }

// Save writes the climatology as a safetensors file.
//
// Errors: exit 73 or 74.
func (c *Climate) Save(path string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("climate: %w", err)
	}
	var tensors []ckpt.Tensor
	for i, q := range c.Quantiles {
		tensors = append(tensors, ckpt.Tensor{Name: climateTensor(i), Shape: []int{c.Windows, c.Steps + 1, c.Grid.Size()}, Data: q.Quantiles})
	}
	return ckpt.WriteFile(path, tensors, map[string]string{climateMeta: string(text)})
}

// LoadClimate reads a file of Save.
//
// Errors: exit 66 without the file, exit 65 if it is not a valid climatology.
func LoadClimate(path string) (*Climate, error) {
	tensors, meta, err := ckpt.ReadFile(path)
	if err != nil {
		return nil, err
	}
	bad := func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "not a valid climatology file", At: path, Why: why, Fix: "give a climate.safetensors written by `ensemble train`"}
	}
	c := &Climate{}
	if err := json.Unmarshal([]byte(meta[climateMeta]), c); err != nil {
		return nil, bad(err.Error())
	}
	if c.Grid == nil || c.Steps < 20 || c.Steps%20 != 0 || c.Windows < 1 || len(tensors) != len(c.Targets) {
		return nil, bad(fmt.Sprintf("%d tensors for %d targets in %d windows of %d steps", len(tensors), len(c.Targets), c.Windows, c.Steps))
	}
	for i := range c.Targets {
		at := slices.IndexFunc(tensors, func(t ckpt.Tensor) bool { return t.Name == climateTensor(i) })
		q := c.NewQuantiles()
		var ok bool
		if at >= 0 {
			q.Quantiles, ok = tensors[at].Data.([]float32)
		}
		if !ok || len(q.Quantiles) != c.Windows*(c.Steps+1)*c.Grid.Size() {
			return nil, bad("tensor " + climateTensor(i) + " is missing or has another size")
		}
		c.Quantiles = append(c.Quantiles, q)
	}
	return c, nil
}
