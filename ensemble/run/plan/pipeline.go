package plan

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// PlannedPipeline is a pipeline of micro-batches of one sample, with its predicted step.
type PlannedPipeline struct {
	Schedule     string  `json:"schedule"` // "1f1b" or "chimera"
	Stages       int     `json:"stages"`
	MicroBatches int     `json:"micro_batches"`
	StepS        float64 `json:"step_s"`
	Idle         float64 `json:"idle"`          // mean share of the step in which a rank waits
	LargestStage float64 `json:"largest_stage"` // its share of the computation
	LargestLayer string  `json:"largest_layer"` // the layer of that stage with most computation
	MessageBytes int64   `json:"message_bytes"` // of a micro-batch over the cut with most, in one direction
}

// mostStages is the largest number of stages that is planned: networks have some tens of layers.
const mostStages = 16

// pipeline predicts the fastest pipeline with one stage on each rank; nil for other numbers than 2 to mostStages, and for more
// ranks than layers.
//
// The computation of a stage is its share, by the layers' operations, of that of a step on one rank, which is priced after the
// compiler's passes. Backward passes compute the forward pass again, and the last stage only then. The pipes of Chimera send the
// gradients of a stage to each other, from its last backward pass on.
func (c *planning) pipeline(alone search.Plan) (*PlannedPipeline, error) {
	stages, batch := c.o.Ranks, cluster.Time(c.subject.Batch)
	if stages < 2 || stages > mostStages {
		return nil, nil
	}
	g, err := c.network(1)
	if err != nil {
		return nil, err
	}
	layers := pipeline.Layers(g, func(n *graph.Node) cluster.Time { return c.machine.OperationTime(g, n) })
	if len(layers) < stages {
		return nil, nil
	}
	var all cluster.Time
	for _, l := range layers {
		all += l.Cost
	}
	forward, backward := alone.Forward/batch, (alone.Forward+alone.Backward)/batch
	for i := range layers {
		layers[i].Cost = scaled(forward+backward, float64(layers[i].Cost)/float64(all))
	}
	// The slowest link of the ranks determines the cuts.
	d, err := pipeline.Divide(layers, stages, func(bytes int64) cluster.Time { return c.machine.MessageTime(0, stages-1, bytes) })
	if err != nil {
		return nil, err
	}
	costs := pipeline.EqualCosts(stages, 0, 0, 0)
	p := &PlannedPipeline{Stages: stages, MicroBatches: c.subject.Batch}
	for k := range stages {
		costs.Forward[k], costs.Backward[k] = scaled(forward, d.Share(k)), scaled(backward, d.Share(k))
		if k < stages-1 {
			costs.Send[k] = c.machine.MessageTime(k, k+1, d.Crossing(k))
			p.MessageBytes = max(p.MessageBytes, d.Crossing(k))
		}
		if d.Share(k) > p.LargestStage {
			p.LargestStage, p.LargestLayer = d.Share(k), largestLayer(d.Stage(k))
		}
	}
	costs.Forward[stages-1] = 0
	return p, c.fastestSchedule(p, g, d, costs, alone.Optimiser)
}

// scaled is a share of a time.
func scaled(t cluster.Time, share float64) cluster.Time { return cluster.Time(share * float64(t)) }

// largestLayer is the name of the layer with most computation.
func largestLayer(layers []pipeline.Layer) string {
	most := layers[0]
	for _, l := range layers {
		if l.Cost > most.Cost {
			most = l
		}
	}
	return most.Name
}

// fastestSchedule sets the schedule of a pipeline with the shortest step, of those that exist for its numbers of stages and
// micro-batches.
func (c *planning) fastestSchedule(p *PlannedPipeline, g *graph.Graph, d *pipeline.Division, costs pipeline.Costs, optimiser cluster.Time) error {
	parameters, sums := make([]int64, p.Stages), make([]cluster.Time, p.Stages)
	var total int64
	for k := range parameters {
		parameters[k] = d.Parameters(g, k)
		total += parameters[k]
		sums[k] = 2 * c.machine.MessageTime(k, p.Stages-1-k, 4*parameters[k])
	}
	for _, of := range []struct {
		name string
		make func(stages, micro int) (*pipeline.Schedule, error)
	}{
		{"1f1b", pipeline.OneFOneB},
		{"chimera", func(stages, micro int) (*pipeline.Schedule, error) {
			return pipeline.Chimera(stages, micro, pipeline.ChimeraOptions{})
		}},
		{"chimera", func(stages, micro int) (*pipeline.Schedule, error) {
			return pipeline.Chimera(stages, micro, pipeline.ChimeraOptions{Scaling: pipeline.DoubleForward})
		}},
	} {
		s, err := of.make(p.Stages, p.MicroBatches)
		if err != nil { // not for these numbers
			continue
		}
		t, err := s.Time(costs)
		if err != nil {
			return err
		}
		step := t.End
		if s.Pipes() > 1 {
			step += s.ExposedSums(t, sums)
		}
		var most int64
		for w := range p.Stages {
			var held int64
			for pipe := range s.Pipes() {
				held += parameters[s.Stage(pipe, w)]
			}
			most = max(most, held)
		}
		step += scaled(optimiser, float64(most)/float64(total))
		if p.Schedule == "" || step.Seconds() < p.StepS {
			p.Schedule, p.StepS, p.Idle = of.name, step.Seconds(), t.MeanBubbles()
		}
	}
	return nil
}

// section compares the pipeline with the plan, whose step takes a time.
func (p *PlannedPipeline) section(plan float64) answer.Section {
	than := fmt.Sprintf("%.0f %% more than the plan", 100*(p.StepS/plan-1))
	if p.StepS < plan {
		than = fmt.Sprintf("%.0f %% less than the plan", 100*(1-p.StepS/plan))
	}
	return answer.Section{Text: []string{
		fmt.Sprintf("a pipeline of %d stages (%s, %s as micro-batches) would take %.3f ms, %s; trainings do not use pipelines",
			p.Stages, p.Schedule, humanise.Count(p.MicroBatches, "sample"), 1e3*p.StepS, than),
		fmt.Sprintf("  ranks are idle for %.0f %%; the stage of %s has %.0f %% of the computation; up to %.1f MiB cross a cut for each sample, each way",
			100*p.Idle, p.LargestLayer, 100*p.LargestStage, mib(p.MessageBytes))}}
}
