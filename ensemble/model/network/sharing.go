package network

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	sharing "github.com/ensemble-weather/ensemble/engine/share"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// SetSharing sets the options of parameter sharing from a configuration.
//
// The network is built as usual, then stores replace its filters. A model file has the stores. When
// it is loaded, the filters are computed from them, and the model is one without sharing from then
// on.
func (s *Spec) SetSharing(c *config.TrainConfig) {
	if h := c.Model.Share; h.Budget > 0 {
		s.Sharing = sharing.Options{Budget: float64(h.Budget), Groups: h.Groups, Coefficients: h.Coefficients, Templates: h.Templates}
		if h.Coefficients == sharing.Softmax {
			s.Sharing.GroupCount = h.GroupCount
		}
		for _, names := range h.Learned {
			s.Sharing.Learned = append(s.Sharing.Learned, strings.Fields(names))
		}
	}
}

// SharesParameters reports whether layers share parameters.
func (s Spec) SharesParameters() bool { return s.Sharing.Budget > 0 }

// withSharing replaces the filters of a network by shared parameters, if Spec.Sharing is set.
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
//
// Errors: exit 64 with the configuration key.
func (s Spec) planSharing(g *graph.Graph) (*sharing.Plan, error) {
	p, err := sharing.New(g, s.Sharing)
	if err == nil {
		return p, nil
	}
	e := &exit.Error{Code: exit.Usage, What: "the parameters cannot be shared as configured", At: fmt.Sprintf("model.share.budget: %s, groups: %s", config.Percent(s.Sharing.Budget), s.Sharing.Groups),
		Why: err.Error(), Fix: "remove model.share, or set another model.kind", Err: err}
	var small *sharing.BudgetError
	switch {
	case errors.As(err, &small) && s.Sharing.Groups == sharing.Auto:
		e.Fix = fmt.Sprintf("set model.share.budget: %s or more", config.Percent(small.Least))
	case errors.As(err, &small):
		e.Fix = fmt.Sprintf("set model.share.budget: %s or more, or model.share.groups: %s", config.Percent(small.Least), sharing.Auto)
	case s.Sharing.Groups == sharing.Learned:
		e.At, e.Fix = "model.share.learned", "list the groups that a training with model.share.coefficients: softmax printed, of the same model.kind"
	case s.Sharing.Groups == sharing.ByShape || s.Sharing.Groups == sharing.ByKernel:
		e.Fix = "set model.share.groups: " + sharing.Auto
	}
	return nil, e
}

// SharingPlan is the sharing plan of a network for a task; nil without sharing.
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
