package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/pipeline/price"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// pipelineStages is where a user sets the stages of a pipeline.
const pipelineStages = "train.pipeline.stages"

// PipelineSchedule returns the schedule of a training's pipeline. Chimera runs forward passes of two micro-batches where their
// number allows it: more idle time would follow from units of as many micro-batches as stages.
//
// Errors: exit 64 for numbers that the schedule does not have, with the nearest ones that it has.
func PipelineSchedule(c *config.Training) (s *pipeline.Schedule, err error) {
	p := c.Pipeline
	micro, err := MicroBatches(c)
	if err != nil {
		return nil, err
	}
	switch p.Schedule {
	case config.GPipeSchedule:
		s, err = pipeline.GPipe(p.Stages, micro)
	case config.ChimeraSchedule:
		o := pipeline.ChimeraOptions{Pairs: p.Pairs}
		if p.Pairs == 1 && micro%(2*p.Stages) == 0 {
			o.Scaling = pipeline.DoubleForward
		}
		s, err = pipeline.Chimera(p.Stages, micro, o)
	default:
		s, err = pipeline.OneFOneB(p.Stages, micro)
	}
	return s, atKey(err, pipelineStages)
}

// MicroBatches is the number of micro-batches of a batch in a pipeline, of a data rank's part of it if the mesh has an axis data. All
// have equally many samples; by default one.
//
// Errors: those of StageMesh; exit 64 for a batch that micro-batches and data ranks do not divide, with the nearest that they do.
func MicroBatches(c *config.Training) (int, error) {
	m, err := StageMesh(c)
	if err != nil {
		return 0, err
	}
	data := m.DataRanks()
	n := cmp.Or(c.Pipeline.MicroBatches, max(1, c.BatchSize/data))
	if least := n * data; c.BatchSize%least != 0 {
		return 0, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("batches of %s with %s of %s", humanise.Count(c.BatchSize, "sample"), humanise.Count(n, "micro-batch"), humanise.Count(data, "data rank")),
			At: "train.batch_size", Why: "the micro-batches of all data ranks have equally many samples", Fix: fmt.Sprintf("set train.batch_size: %d", nearestMultiple(c.BatchSize, least))}
	}
	return n, nil
}

// nearestMultiple is the positive multiple of a number that is nearest to n.
func nearestMultiple(n, of int) int { return max(1, (n+of/2)/of) * of }

// atKey names the key of an error that has none.
func atKey(err error, key string) error {
	var e *exit.Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	named.At = cmp.Or(e.At, key)
	return &named
}

// describePipeline describes a pipeline for records.
func describePipeline(c *config.Training, micro int, m spatial.Mesh) string {
	text := fmt.Sprintf("pipeline %s: %d stages, %d micro-batches", c.Pipeline.Schedule, c.Pipeline.Stages, micro)
	if c.Pipeline.Pairs > 1 {
		text += fmt.Sprintf(", %d pairs", c.Pipeline.Pairs)
	}
	if m != nil {
		text += ", mesh " + m.String()
	}
	return text
}

// StageMesh is the mesh of the ranks that compute a stage of a pipeline together, the axis data first; nil for one rank.
//
// Errors: exit 64 for a mesh that is invalid, divides channels, or changes between layers.
func StageMesh(c *config.Training) (spatial.Mesh, error) {
	if c.Mesh == "" || c.Mesh == autoMesh {
		return nil, nil
	}
	m, err := spatial.ParseMesh(c.Mesh)
	if err != nil {
		return nil, err
	}
	for _, a := range m {
		if !slices.Contains(stageAxes, a.Name) || len(a.Overrides) > 0 {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the mesh %q with train.pipeline", m), At: TrainMesh.At, Why: "the ranks of a stage divide samples, and all fields along levels, latitudes and longitudes",
				Fix: fmt.Sprintf("set train.mesh to axes among %s, such as lat:2, or remove it", strings.Join(stageAxes, ", "))}
		}
	}
	// Samples are read by the coordinate on data and stages together, which needs data beside the axis of stages.
	slices.SortStableFunc(m, func(a, b spatial.MeshAxis) int { return cmp.Compare(axisOrder(a), axisOrder(b)) })
	return m, nil
}

// axisOrder is 0 for the axis data and 1 for others.
func axisOrder(a spatial.MeshAxis) int {
	if a.Name == spatial.DataAxis {
		return 0
	}
	return 1
}

// stageAxes are the axes of a StageMesh.
var stageAxes = []string{spatial.DataAxis, "level", "lat", "lon"}

// PipelineRanks is the number of ranks of a pipeline: its stages, each with the ranks of its mesh.
//
// Errors: those of StageMesh.
func PipelineRanks(c *config.Training) (int, error) {
	m, err := StageMesh(c)
	return c.Pipeline.Stages * m.Size(), err
}

// checkStages refuses a pipeline whose ranks are not those of a job.
//
// Errors: exit 64.
func checkStages(c *config.Training, ranks int) error {
	n, err := PipelineRanks(c)
	if err != nil || n == ranks {
		return err
	}
	what, fix := "", fmt.Sprintf("start %s", humanise.Count(n, "process"))
	if each := n / c.Pipeline.Stages; each > 1 {
		what = fmt.Sprintf(" of %d ranks each", each)
	} else if ranks > 1 {
		fix += fmt.Sprintf(", or add --set %s=%d", pipelineStages, ranks)
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a pipeline of %d stages%s on %s", c.Pipeline.Stages, what, humanise.Count(ranks, "rank")), At: pipelineStages, Why: "each rank computes one stage of a pipe, or its part of it", Fix: fix}
}

// hostedStages is the number of ranks of a pipeline, which processes host.
//
// Errors: exit 64 for more processes than ranks, and for numbers that the schedule does not have.
func hostedStages(c *config.Training, processes int) (int, error) {
	n, err := PipelineRanks(c)
	if err != nil {
		return 0, err
	}
	if processes > n {
		return 0, checkStages(c, processes)
	}
	_, err = PipelineSchedule(c)
	return n, err
}

// arrangePipeline divides the layers of a training's network over a team, as rank 0 predicts them to take the least time on the
// machine of the configuration.
//
// Errors: exit 64 for another number of ranks, for a mesh that does not suit the network, for more stages than layers, and for networks that cannot be divided.
func arrangePipeline(ctx context.Context, t *team.Team, c *config.TrainConfig, grid *ensemble.Grid) error {
	training := &c.Train.Train
	if err := checkStages(training, t.Size()); err != nil {
		return err
	}
	micro, err := MicroBatches(training)
	if err != nil {
		return err
	}
	k, spec := PlaceholderTask(TaskOf(c)), SpecOf(c)
	m, err := StageMesh(training)
	if err != nil {
		return err
	}
	samples := training.BatchSize / micro / m.DataRanks()
	g, err := spec.Graph(&k, grid, samples, uint64(training.Seed), true)
	if err != nil {
		return err
	}
	if len(g.Assigns) > 0 {
		return &exit.Error{Code: exit.Usage, What: "model.kind: " + c.Model.Kind + " with train.pipeline", At: "model.kind", Why: "a step follows the running statistics of batch norm, and copies of a stage would follow different ones",
			Fix: "set model.kind: " + unet3d.UNetKind.Name + ", or another kind without batch norm, or remove train.pipeline"}
	}
	if err := TrainMesh.CheckMesh(g, m.Fields(), samples, team.ProcessCount(t.Comm)); err != nil {
		return err
	}
	var cuts []int
	if t.IsRoot() {
		cuts, err = divide(ctx, c, g, m)
	}
	if err := t.AgreeOnError(atKey(err, pipelineStages)); err != nil {
		return err
	}
	if cuts, err = team.Broadcast(t, cuts); err != nil {
		return err
	}
	t.Pipeline = &team.Pipeline{Text: describePipeline(training, micro, m), Cuts: cuts, Mesh: m}
	t.Mesh = append(spatial.Mesh{{Name: spatial.DataAxis, Size: training.Pipeline.Stages * m.DataRanks()}}, m.Fields()...)
	one, err := spec.Graph(&k, grid, 1, 0, true)
	if err != nil {
		return err
	}
	if err := t.AssignShards(one, grid, 1); err != nil { // one sample: for validation all ranks have all samples
		return err
	}
	if m.HasDataRanks() {
		t.DataGroups = m.DataRanks()
	}
	return nil
}

// divide returns the cuts of train.pipeline of a training graph, which has the samples of one micro-batch of a data rank, with a
// StageMesh.
//
// Errors: exit 64 for more stages than layers, and for a network that cannot be divided.
func divide(ctx context.Context, c *config.TrainConfig, g *graph.Graph, m spatial.Mesh) ([]int, error) {
	training := &c.Train.Train
	o, err := OptimiserOf(training, g)
	if err != nil {
		return nil, err
	}
	p, err := price.NewNetwork(g, MachineOf(c), o).Divide(ctx, training.Pipeline.Stages, m)
	if err != nil {
		return nil, err
	}
	return p.Division.Cuts, p.Check()
}
