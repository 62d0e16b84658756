package network

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	sharing "github.com/ensemble-weather/ensemble/engine/share"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Layers that share parameters: a network is built as it is, and stores take the place of its filters. Its model keeps the stores; one that is
// loaded has the filters that are built of them, and is a model like others from then on.

// SetSharing is the part of a spec that a configuration says of shared parameters.
func (s *Spec) SetSharing(c *config.TrainConfig) {
	if h := c.Model.Share; h.Budget > 0 {
		s.Sharing = sharing.Options{Budget: float64(h.Budget), Groups: h.Groups, Coefficients: h.Coefficients, Templates: h.Templates}
	}
}

// SharesParameters tells whether layers share parameters.
func (s Spec) SharesParameters() bool { return s.Sharing.Budget > 0 }

// withSharing puts stores in the place of the filters of a network, if its layers share parameters.
//
// Errors: err; those of sharing.New.
func (s Spec) withSharing(g *graph.Graph, err error) (*graph.Graph, error) {
	if err != nil || !s.SharesParameters() {
		return g, err
	}
	p, err := s.planSharing(g)
	if err != nil {
		return nil, err
	}
	return p.Rewrite(g)
}

// planSharing plans the sharing of a network.
func (s Spec) planSharing(g *graph.Graph) (*sharing.Plan, error) {
	p, err := sharing.New(g, s.Sharing)
	if err == nil {
		return p, nil
	}
	e := &exit.Error{Code: exit.Usage, What: "parameters cannot be shared so", At: fmt.Sprintf("model.share.budget: %s, groups: %s", config.Percent(s.Sharing.Budget), s.Sharing.Groups),
		Why: err.Error(), Fix: "remove model.share, or set another model.kind", Err: err}
	if errors.Is(err, sharing.ErrInfeasible) || s.Sharing.Groups == sharing.ByShape {
		e.Fix = "raise model.share.budget, or set model.share.groups: " + sharing.OneGroup
	}
	return nil, e
}

// SharingPlan is the plan of a network of a task; nil if it shares nothing.
func (s Spec) SharingPlan(k *task.Task, grid *ensemble.Grid) (*sharing.Plan, error) {
	if !s.SharesParameters() {
		return nil, nil
	}
	whole := s
	whole.Sharing = sharing.Options{}
	g, err := whole.Graph(k, grid, 1, 0, false)
	if err != nil {
		return nil, err
	}
	return s.planSharing(g)
}
