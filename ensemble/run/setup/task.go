package setup

import (
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/regrid"
	"github.com/ensemble-weather/ensemble/ensemble/team"
)

// auxiliaryOf returns the auxiliary fields of a configuration, not yet read.
func auxiliaryOf(c *config.TrainConfig) (all []ensemble.Auxiliary) {
	for _, v := range c.Data.Auxiliary.Variables {
		all = append(all, ensemble.Auxiliary{Name: v})
	}
	return all
}

// PlaceholderTask returns a task with placeholders for the numbers that a training fits to data. They are constants
// of the graph and do not change its structure if none is 0 or 1 and no two are equal, as the compiler merges
// equal constants.
func PlaceholderTask(k task.Task) task.Task {
	k.SpreadRange = 1.3
	for i := range len(k.Targets) * len(k.Features.Axes.Levels) {
		x := float64(i)
		k.ErrorScale, k.SpreadScale = append(k.ErrorScale, 1.1+x), append(k.SpreadScale, 1.7+x)
		k.SpreadAffine = append(k.SpreadAffine, [2]float64{0.3 + x, 0.9 + x})
		k.LargestError, k.LargestSpread = append(k.LargestError, 2.1+x), append(k.LargestSpread, 2.7+x)
	}
	return k
}

// InterpolationOf returns the interpolation of a configuration.
func InterpolationOf(c *config.TrainConfig) task.Interpolation {
	if c.Data.Grid.To == "" {
		return task.Interpolation{}
	}
	return task.Interpolation{Method: regrid.Method(c.Data.Grid.Method), MinValid: c.Data.Grid.MinValid}
}

// AxesOf returns the axes of a configuration's features.
func AxesOf(c *config.TrainConfig) ensemble.Axes {
	return ensemble.Axes{Variables: c.Data.Variables, Levels: c.Data.Levels, Leads: c.Data.Leads}
}

// TaskOf returns the task of a configuration, without what is fitted to data.
func TaskOf(c *config.TrainConfig) task.Task {
	return task.Task{
		Features: ensemble.Features{Axes: AxesOf(c), Aggregates: aggregates(c.Data.Features), Location: c.Model.Location, Season: c.Model.Season, DDOF: c.Data.SpreadDDOF, Auxiliary: auxiliaryOf(c),
			MemberInputs: network.MemberChannels(c), Exchangeable: c.Data.Members.Control == ensemble.NoControl, NewNoise: c.Model.Encoder.Noise == config.NewNoise},
		Targets: task.CrossTargets(TargetVariables(c), c.Data.TargetLeads),
	}
}

// SpecOf returns the network of a configuration.
func SpecOf(c *config.TrainConfig) network.Spec {
	s := network.Spec{
		BodySpec: network.BodySpec{Kind: c.Model.Kind, Base: c.Model.Base, Stages: c.Model.Stages, Dropout: c.Model.Dropout, Periodic: c.Model.Periodic,
			Embedding: c.Model.Embedding, Auxiliary: len(c.Data.Auxiliary.Variables)},
		Head:      network.NewHeadSpec(c),
		Precision: c.Train.Train.Precision,
	}
	s = s.WithMembers(c)
	s = s.WithLeads(c)
	s.SetSharing(c)
	if c.Model.LevelFilters != config.SharedLevelFilters {
		s.Height = c.Model.LevelFilters
	}
	if c.Model.Reference != config.NoReference {
		s.Reference = c.Model.Reference
	}
	if m := c.Model; m.Method == config.StagesMethod {
		s.Method, s.SpreadLoss = m.Method, c.Train.Train.Stages.Spread.Loss
		s.Bias = network.BiasSpec{Base: m.Bias.Base, Stages: m.Bias.Stages, Local: m.Bias.Local, Smooth: m.Bias.Smooth, Folds: m.Bias.Folds}
	}
	return s
}

// TargetVariables lists the variables of the targets once each, in order.
func TargetVariables(c *config.TrainConfig) []string {
	var out []string
	for _, t := range c.Data.Targets {
		if !slices.Contains(out, t.Variable) {
			out = append(out, t.Variable)
		}
	}
	return out
}

// ApplySplit applies a split by dates, or by fractions of the sorted initialisations.
//
// Errors: exit 64.
func ApplySplit(s config.Split, inits []ensemble.Init) (ensemble.Split, error) {
	if s.IsByDate() {
		test := s.Test.Period()
		if s.Test.From.IsZero() {
			test = ensemble.Period{From: time.Unix(1, 0), To: time.Unix(0, 0)} // the period contains no date
		}
		return ensemble.NewSplit(inits, s.Train.Period(), s.Validation.Period(), test)
	}
	n := float64(len(inits))
	a := int(math.Round(n * s.Fractions.Train))
	b := min(len(inits), a+int(math.Round(n*s.Fractions.Validation)))
	return ensemble.Split{Train: inits[:a], Validation: inits[a:b], Test: inits[b:]}, nil
}

// aggregates converts names of aggregates.
func aggregates(names []string) []ensemble.Aggregate {
	out := make([]ensemble.Aggregate, len(names))
	for i, n := range names {
		out[i] = ensemble.Aggregate(n)
	}
	return out
}

// ResolveTraining fills in what depends on the machine, and gives each rank of a process its share of threads and
// memory. All ranks get the same share, so that they choose the same kernels.
func ResolveTraining(c config.Training, ranks *team.Team) config.Training {
	n := ranks.MaxRanksPerProcess()
	c.Threads = max(1, network.Threads(c.Threads)/n)
	c.Memory /= config.Bytes(n)
	c.Workspace /= config.Bytes(n)
	return c
}
