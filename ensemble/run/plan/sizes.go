package plan

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
)

// StepSizes are the operations of training steps of the sizes of train.sizes, relative to whole fields.
type StepSizes struct {
	Sizes []StepSize `json:"sizes"`
	Mean  float64    `json:"mean"` // of all steps of a training
}

// StepSize is a size of fields.
type StepSize struct {
	Size string  `json:"size"`
	Cost float64 `json:"cost"` // operations of a step, relative to whole fields
}

// sizes returns the sizes of a training whose steps with whole fields are g; nil without train.sizes.
//
// Errors: exit 64 for sizes that do not suit the fields.
func (c *planning) sizes(g *graph.Graph) (*StepSizes, error) {
	s, err := setup.NewSizes(c.o.Config, c.grid)
	if s == nil || err != nil {
		return nil, err
	}
	out, costs := &StepSizes{}, []float64{}
	for i, size := range s.All {
		of := g
		if i > 0 {
			x := c.subject
			if of, err = x.Spec.WithWindow(size).Graph(&x.Task, c.grid, x.Batch, x.Seed, true); err != nil {
				return nil, err
			}
		}
		costs = append(costs, float64(of.FLOPs())/float64(g.FLOPs()))
		out.Sizes = append(out.Sizes, StepSize{size.String(), costs[i]})
	}
	out.Mean = s.Cost(costs, c.o.Config.Train.Train.Epochs)
	return out, nil
}

// section is the table of sizes.
func (s *StepSizes) section() answer.Section {
	x := answer.Section{Title: "Sizes of fields in steps (train.sizes)", Columns: []answer.Column{{Name: "rows x columns"}, answer.NumberColumn("operations, relative", "", "%.3g")},
		Notes: []string{fmt.Sprintf("a step of the training has %.3g of the operations of one with whole fields in the mean; the other tables are of whole fields", s.Mean)}}
	for _, size := range s.Sizes {
		x.Rows = append(x.Rows, []any{size.Size, size.Cost})
	}
	return x
}
