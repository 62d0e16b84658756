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

// Climate is quantiles of the climate of some targets, with which extreme forecast indices
// compare forecasts.
type Climate struct {
	Source    string          `json:"source"` // config.ClimateMembers or ClimateAnalyses
	Period    ensemble.Period `json:"period"` // of the starts
	Dates     int             `json:"dates"`
	MinValues int             `json:"min_values"` // values that a point has in the poorest window
	Steps     int             `json:"steps"`
	Windows   int             `json:"windows"`
	Days      float64         `json:"days"`
	Targets   []ClimateTarget `json:"targets"`
	Grid      *ensemble.Grid  `json:"grid"`

	Quantiles []score.Climate `json:"-"` // [target], which are in tensors
}

// ClimateTarget is what quantiles are of.
type ClimateTarget struct {
	Variable string         `json:"variable"`
	Level    ensemble.Level `json:"level"`
	Lead     string         `json:"lead"`
}

// ClimateFile is its file in a model folder.
const ClimateFile = "climate.safetensors"

// Find finds the quantiles of a target; nil if there are none.
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

// NewQuantiles are quantiles that are still to be found.
func (c *Climate) NewQuantiles() score.Climate {
	return score.Climate{Steps: c.Steps, Windows: c.Windows, Days: c.Days, Quantiles: make([]float32, c.Windows*(c.Steps+1)*c.Grid.Size())}
}

// Warnings say where a climate is a poor one.
func (c *Climate) Warnings() []string {
	if c.MinValues > c.Steps {
		return nil
	}
	return []string{fmt.Sprintf("climate: the poorest of %d windows has %d values at a point for %d quantiles; lengthen climate.days, or lower climate.windows", c.Windows, c.MinValues, c.Steps+1)}
}

// climateMeta is the key of the description in the metadata of the file.
const climateMeta = "climate"

func climateTensor(i int) string { return fmt.Sprintf("quantiles.%03d", i) }

// Save writes the quantiles.
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

// LoadClimate reads what save wrote.
//
// Errors: exit 66 without the file, 65 if it holds no climate.
func LoadClimate(path string) (*Climate, error) {
	tensors, meta, err := ckpt.ReadFile(path)
	if err != nil {
		return nil, err
	}
	bad := func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "this is no climate, or a damaged one", At: path, Why: why, Fix: "give a climate.safetensors that `ensemble train` wrote"}
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
			return nil, bad(climateTensor(i) + " is missing or of another size")
		}
		c.Quantiles = append(c.Quantiles, q)
	}
	return c, nil
}
