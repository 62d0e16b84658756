package plan

import (
	"context"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
)

// PlannedPipeline is a pipeline with its predicted step.
type PlannedPipeline struct {
	Configured   bool    `json:"configured"` // it is that of train.pipeline; otherwise the fastest one with micro-batches of one sample
	Schedule     string  `json:"schedule"`   // as train.pipeline.schedule
	Stages       int     `json:"stages"`
	Mesh         string  `json:"mesh,omitempty"` // of the ranks of a stage; "" for one rank
	MicroBatches int     `json:"micro_batches"`
	StepS        float64 `json:"step_s"`
	Idle         float64 `json:"idle"`          // mean share of the step in which a rank waits
	LargestStage float64 `json:"largest_stage"` // its share of the computation
	LargestLayer string  `json:"largest_layer"` // the layer of that stage with most computation
	MessageBytes int64   `json:"message_bytes"` // of a micro-batch over the cut with most, in one direction
	SentBytes    int64   `json:"sent_bytes"`    // in a step, by the busiest rank
	MemoryBytes  int64   `json:"memory_bytes"`  // of the rank with most: its stages with optimiser, and the values of micro-batches in transit
}

// mostStages is the largest number of stages that is planned without train.pipeline: networks have some tens of layers.
const mostStages = 16

// pipeline predicts the pipeline of train.pipeline, or the fastest one with one stage on each rank; nil for other numbers than 2
// to mostStages, and for more ranks than layers.
//
// Errors: exit 64 for a train.pipeline with more stages than layers, and for numbers that its schedule does not have.
func (c *planning) pipeline(ctx context.Context) (*PlannedPipeline, error) {
	training := c.o.Config.Train.Train
	p := &PlannedPipeline{Configured: training.Pipeline.IsEnabled(), Stages: c.o.Ranks, MicroBatches: c.subject.Batch}
	var mesh spatial.Mesh
	if p.Configured {
		var err error
		if mesh, err = setup.StageMesh(&training); err != nil {
			return nil, err
		}
		if p.MicroBatches, err = setup.MicroBatches(&training); err != nil {
			return nil, err
		}
		p.Stages, p.Mesh = training.Pipeline.Stages, mesh.String()
	} else if p.Stages < 2 || p.Stages > mostStages {
		return nil, nil
	}
	g, err := c.network(c.subject.Batch / p.MicroBatches / mesh.DataRanks())
	if err != nil {
		return nil, err
	}
	prices, err := setup.PriceStages(ctx, g, c.machine, c.optimiser, p.Stages, mesh)
	if err != nil {
		if p.Configured || ctx.Err() != nil {
			return nil, err
		}
		return nil, nil // more ranks than layers
	}
	prices.Recompute = training.Pipeline.Recompute
	d := prices.Division
	for k := range p.Stages {
		if k < p.Stages-1 {
			p.MessageBytes = max(p.MessageBytes, d.Crossing(k))
		}
		if d.Share(k) > p.LargestStage {
			p.LargestStage, p.LargestLayer = d.Share(k), largestLayer(d.Stage(k))
		}
	}
	if !p.Configured {
		return p, p.fastestSchedule(prices)
	}
	s, err := setup.PipelineSchedule(&training)
	if err != nil {
		return nil, err
	}
	step, idle, err := prices.Step(s)
	p.Schedule, p.StepS, p.Idle = training.Pipeline.Schedule, step.Seconds(), idle
	p.MemoryBytes, p.SentBytes = prices.Bytes(s)
	return p, err
}

// checkStages refuses a train.pipeline with another number of stages than ranks.
//
// Errors: exit 64.
func (c *planning) checkStages() error {
	if !c.o.Config.Train.Train.Pipeline.IsEnabled() {
		return nil
	}
	n, err := setup.PipelineRanks(&c.o.Config.Train.Train)
	if err != nil || n == c.o.Ranks {
		return err
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("train.pipeline has %s, --ranks states %d", humanise.Count(n, "rank"), c.o.Ranks), At: "train.pipeline.stages",
		Why: "each rank computes one stage of a pipe, or its part of it", Fix: fmt.Sprintf("give --ranks %d, or another number of stages", n)}
}

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
// micro-batches. GPipe takes the time of 1F1B.
func (p *PlannedPipeline) fastestSchedule(prices *setup.StagePrices) error {
	var best cluster.Time
	for _, name := range []string{config.OneFOneBSchedule, config.ChimeraSchedule} {
		s, err := setup.PipelineSchedule(&config.Training{BatchSize: p.MicroBatches, Distribution: config.Distribution{Pipeline: config.Pipeline{Stages: p.Stages, Schedule: name, Pairs: 1, MicroBatches: p.MicroBatches}}})
		if err != nil { // not for these numbers
			continue
		}
		step, idle, err := prices.Step(s)
		if err != nil {
			return err
		}
		if best == 0 || step < best {
			best = step
			p.Schedule, p.StepS, p.Idle = name, step.Seconds(), idle
			p.MemoryBytes, p.SentBytes = prices.Bytes(s)
		}
	}
	return nil
}

// section compares the pipeline with the plan, whose step takes a time.
func (p *PlannedPipeline) section(plan float64, batch int) answer.Section {
	than := fmt.Sprintf("%.0f %% more than the plan", 100*(p.StepS/plan-1))
	if p.StepS < plan {
		than = fmt.Sprintf("%.0f %% less than the plan", 100*(1-p.StepS/plan))
	}
	what, size := "a pipeline", humanise.Count(batch/p.MicroBatches, "sample")+" as micro-batches"
	if p.Configured {
		what = "the pipeline of train.pipeline,"
	}
	if p.Mesh != "" {
		size += ", mesh " + p.Mesh
	}
	s := answer.Section{Text: []string{
		fmt.Sprintf("%s of %d stages (%s, %s) would take %.3f ms, %s", what, p.Stages, p.Schedule, size, 1e3*p.StepS, than),
		fmt.Sprintf("  ranks are idle for %.0f %%; the stage of %s has %.0f %% of the computation; up to %.1f MiB cross a cut for each micro-batch, each way",
			100*p.Idle, p.LargestLayer, 100*p.LargestStage, mib(p.MessageBytes))}}
	if p.Configured && p.StepS > plan {
		s.Text = append(s.Text, "  a training on the mesh of the plan is faster: remove train.pipeline, unless its activations, gradients and moments do not fit into a rank")
	}
	if !p.Configured && p.StepS < plan {
		s.Text = append(s.Text, fmt.Sprintf("  to use it: --set train.pipeline.stages=%d --set train.pipeline.schedule=%s", p.Stages, p.Schedule))
	}
	return s
}
