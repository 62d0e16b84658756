package plan

import (
	"context"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/pipeline/price"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// PlannedPipeline is a pipeline with its predicted step.
type PlannedPipeline struct {
	Configured   bool   `json:"configured"` // it is that of train.pipeline; otherwise the fastest one with micro-batches of one sample
	Schedule     string `json:"schedule"`   // as train.pipeline.schedule
	Stages       int    `json:"stages"`
	Mesh         string `json:"mesh,omitempty"` // of the ranks of a stage, as train.mesh; "" for one rank
	MicroBatches int    `json:"micro_batches"`  // of a data rank
	Fits         bool   `json:"fits"`           // into the memory of a rank
	PipelineTimes
	Idle float64 `json:"idle"` // mean share of the passes in which a rank waits
	PipelineStages
	SentBytes   int64             `json:"sent_bytes"`   // in a step, by the busiest rank
	MemoryBytes int64             `json:"memory_bytes"` // of the rank with most: its stages with optimiser, and the values of micro-batches in transit
	KFAC        *PlannedCurvature `json:"kfac,omitempty"`
	Simulated   *SimulatedStep    `json:"simulated,omitempty"`

	of candidate
}

// PipelineTimes are the parts of a step of a pipeline. StepS is their sum, and with K-FAC the mean over the steps between two updates
// of the curvature.
type PipelineTimes struct {
	StepS       float64 `json:"step_s"`
	PassesS     float64 `json:"passes_s"`     // with their messages
	GradientsS  float64 `json:"gradients_s"`  // sums over copies of stages and over data ranks
	OptimiserS  float64 `json:"optimiser_s"`  // update
	ParametersS float64 `json:"parameters_s"` // exchange of updated parameters
}

// PipelineStages is how a pipeline divides the layers.
type PipelineStages struct {
	LargestStage float64 `json:"largest_stage"` // its share of the computation
	LargestLayer string  `json:"largest_layer"` // the layer of that stage with most computation
	MessageBytes int64   `json:"message_bytes"` // of a micro-batch over the cut with most, in one direction
}

// PlannedCurvature is the work of K-FAC in a pipeline. Times of inversions are those of an update.
type PlannedCurvature struct {
	Refresh     int     `json:"refresh"`       // steps between two updates
	Delay       int     `json:"delay"`         // steps until inverses are used, in whose idle times inversions run
	HidingDelay int     `json:"hiding_delay"`  // the least with which idle times save most; 0: they save nothing
	MostFilledS float64 `json:"most_filled_s"` // inversions that idle times save with that delay
	ProductsS   float64 `json:"products_s"`    // in each step
	FactorsS    float64 `json:"factors_s"`     // by which a step with factors is longer
	FilledS     float64 `json:"filled_s"`      // inversions for which ranks need not wait, as idle times hide them
	ExposedS    float64 `json:"exposed_s"`     // inversions that ranks wait for
}

// mostStages is the largest number of stages that is planned without train.pipeline: networks have some tens of layers.
const mostStages = 16

// candidate is a pipeline with its prices.
type candidate struct {
	stages, micro int
	mesh          spatial.Mesh
	schedule      string // its name
	s             *pipeline.Schedule
	prices        *price.Pipeline
	step          price.Step
}

// pipeline predicts the pipeline of train.pipeline, or the fastest one; nil if there is none: for one rank, and for networks and numbers
// that pipelines do not have.
//
// Errors: exit 64 for a train.pipeline with more stages than layers, and for numbers that its schedule does not have.
func (c *planning) pipeline(ctx context.Context) (*PlannedPipeline, error) {
	of, err := c.fastestPipeline(ctx)
	training := &c.o.Config.Train.Train
	if training.Pipeline.IsEnabled() {
		of, err = c.configuredPipeline(ctx)
	}
	if err != nil || of == nil {
		return nil, err
	}
	p := &PlannedPipeline{Configured: training.Pipeline.IsEnabled(), Schedule: of.schedule, Stages: of.stages, Mesh: of.mesh.String(), MicroBatches: of.micro,
		Idle: of.step.Idle, SentBytes: of.step.Sent, MemoryBytes: of.step.Memory, Fits: c.fits(of.step.Memory), of: *of}
	p.PipelineTimes = PipelineTimes{StepS: of.step.Mean().Seconds(), PassesS: of.step.Passes.Seconds(), GradientsS: of.step.Gradients.Seconds(),
		OptimiserS: of.step.Optimiser.Seconds(), ParametersS: of.step.Parameters.Seconds()}
	d := of.prices.Division
	for k := range of.stages {
		if k < of.stages-1 {
			p.MessageBytes = max(p.MessageBytes, d.Crossing(k))
		}
		if d.Share(k) > p.LargestStage {
			p.LargestStage, p.LargestLayer = d.Share(k), largestLayer(d.Stage(k))
		}
	}
	if of.step.Curvature != nil {
		p.KFAC = plannedCurvature(of.step.Curvature)
	}
	return p, nil
}

// fits reports whether a rank has the memory.
func (c *planning) fits(bytes int64) bool { return c.machine.Memory == 0 || bytes <= c.machine.Memory }

// configuredPipeline prices train.pipeline.
func (c *planning) configuredPipeline(ctx context.Context) (*candidate, error) {
	training := &c.o.Config.Train.Train
	mesh, err := setup.StageMesh(training)
	if err != nil {
		return nil, err
	}
	x := &candidate{stages: training.Pipeline.Stages, mesh: mesh, schedule: training.Pipeline.Schedule}
	if x.micro, err = setup.MicroBatches(training); err != nil {
		return nil, err
	}
	if x.s, err = setup.PipelineSchedule(training); err != nil {
		return nil, err
	}
	g, err := c.network(c.subject.Batch / x.micro / mesh.DataRanks())
	if err != nil {
		return nil, err
	}
	if x.prices, err = price.NewNetwork(g, c.machine, c.optimiser).Divide(ctx, x.stages, mesh); err != nil {
		return nil, err
	}
	x.prices.Recompute = training.Pipeline.Recompute
	x.step, err = x.prices.Step(ctx, x.s, c.kfac())
	return x, err
}

// kfac returns the settings of K-FAC; nil for another optimiser.
func (c *planning) kfac() *price.KFAC {
	training := &c.o.Config.Train.Train
	if training.Optimizer != config.KFACOptimizer {
		return nil
	}
	return kfacSettings(training)
}

// kfacSettings are those of train.kfac.
func kfacSettings(c *config.Training) *price.KFAC {
	return &price.KFAC{MaxSide: c.KFAC.MaxSide, Refresh: c.KFAC.Refresh, Delay: c.KFAC.Delay, Options: setup.KFACOptions(c)}
}

// fastestPipeline finds the fastest pipeline with micro-batches of one sample, of those that fit into memory: of 2 to mostStages
// stages, each for the ranks of a mesh that divides samples and fields, by 1F1B and Chimera. GPipe takes the time of 1F1B.
func (c *planning) fastestPipeline(ctx context.Context) (best *candidate, err error) {
	if c.o.Config.Train.Train.Pipeline.IsEnabled() || c.o.Ranks < 2 {
		return nil, nil
	}
	g, err := c.network(1)
	if err != nil || len(g.Assigns) > 0 { // copies of a stage would follow different running statistics
		return nil, err
	}
	n := price.NewNetwork(g, c.machine, c.optimiser)
	for stages := 2; stages <= min(mostStages, c.o.Ranks); stages++ {
		if c.o.Ranks%stages != 0 {
			continue
		}
		for _, mesh := range stageMeshes(g, c.o.Ranks/stages, c.subject.Batch) {
			x, err := c.fasterOf(ctx, n, stages, mesh, best)
			if err != nil {
				return nil, err
			}
			best = x
		}
	}
	return best, nil
}

// stageMeshes lists the meshes of a number of ranks of a stage: axes of fields, behind one of samples that divides the batch.
func stageMeshes(g *graph.Graph, ranks, batch int) (all []spatial.Mesh) {
	for data := 1; data <= ranks; data++ {
		if ranks%data != 0 || batch%data != 0 {
			continue
		}
		for _, fields := range search.Meshes(g, ranks/data) {
			mesh := fields
			if data > 1 {
				mesh = append(spatial.Mesh{{Name: spatial.DataAxis, Size: data}}, fields...)
			}
			all = append(all, mesh)
		}
	}
	return all
}

// fasterOf returns the fastest pipeline of a number of stages and a mesh, or the best one so far if that is better.
//
// Errors: that of the context. A division that cannot be computed is left out.
func (c *planning) fasterOf(ctx context.Context, n *price.Network, stages int, mesh spatial.Mesh, best *candidate) (*candidate, error) {
	prices, err := n.Divide(ctx, stages, mesh)
	if err != nil {
		return best, ctx.Err()
	}
	micro := c.subject.Batch / mesh.DataRanks()
	for _, name := range []string{config.OneFOneBSchedule, config.ChimeraSchedule} {
		s, err := setup.PipelineSchedule(&config.Training{BatchSize: micro, Distribution: config.Distribution{Pipeline: config.Pipeline{Stages: stages, Schedule: name, Pairs: 1, MicroBatches: micro}}})
		if err != nil { // not for these numbers
			continue
		}
		x := &candidate{stages: stages, micro: micro, mesh: mesh, schedule: name, s: s, prices: prices}
		if x.step, err = prices.Step(ctx, s, c.kfac()); err != nil {
			return nil, err
		}
		if c.isFaster(x, best) && prices.Check() == nil {
			best = x
		}
	}
	return best, nil
}

// isFaster compares a pipeline with the best one so far: those that fit into memory first, by time; the others by memory.
func (c *planning) isFaster(x, best *candidate) bool {
	if best == nil {
		return true
	}
	fits, did := c.fits(x.step.Memory), c.fits(best.step.Memory)
	switch {
	case fits != did:
		return fits
	case !fits:
		return x.step.Memory < best.step.Memory
	}
	return x.step.Mean() < best.step.Mean()
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

// simulatePipeline simulates the step of the pipeline on the virtual cluster. The work of K-FAC is the predicted one.
func (c *planning) simulatePipeline(ctx context.Context, r *Result) error {
	if r.Pipeline == nil {
		return nil
	}
	network, _, err := c.cluster()
	if err != nil {
		return err
	}
	of := &r.Pipeline.of
	s, err := of.prices.Simulate(ctx, of.s, network)
	if err != nil {
		return err
	}
	s.Step += of.step.Mean() - of.step.Time
	r.Pipeline.Simulated = c.compareSimulated(r, "pipeline", s, of.step.Mean())
	return nil
}

// setting is what selects the pipeline in train.yaml.
func (p *PlannedPipeline) setting() string {
	text := fmt.Sprintf("train.pipeline: {stages: %d, schedule: %s}", p.Stages, p.Schedule)
	if p.Mesh != "" {
		text += fmt.Sprintf(", train.mesh: %q", p.Mesh)
	}
	return text
}

// pipelineSection compares the pipeline with the plan, with K-FAC in both if the training uses it.
func (r *Result) pipelineSection() answer.Section {
	p, plan, than := r.Pipeline, r.Plan.time(), "the plan"
	time := p.StepS
	if p.Simulated != nil {
		time = p.Simulated.StepS
	}
	if at := slices.IndexFunc(r.Strategies, func(x Strategy) bool { return x.System == kfacSystem }); at >= 0 && p.KFAC != nil {
		plan, than = plan-r.Plan.StepS+r.Strategies[at].EvenStepS, "K-FAC on the mesh of the plan"
	}
	compared := fmt.Sprintf("%.0f %% more than %s", 100*(time/plan-1), than)
	if time < plan {
		compared = fmt.Sprintf("%.0f %% less than %s", 100*(1-time/plan), than)
	}
	what, size := "a pipeline", humanise.Count(r.Batch/p.MicroBatches/p.of.mesh.DataRanks(), "sample")+" as micro-batches"
	if p.Configured {
		what = "the pipeline of train.pipeline,"
	}
	if p.Mesh != "" {
		size += ", mesh " + p.Mesh
	}
	simulated := ""
	if p.Simulated != nil {
		simulated = fmt.Sprintf(" (simulated %.3f)", 1e3*time)
	}
	s := answer.Section{Text: []string{
		fmt.Sprintf("%s of %d stages (%s, %s) would take %.3f ms%s, %s", what, p.Stages, p.Schedule, size, 1e3*p.StepS, simulated, compared),
		fmt.Sprintf("  ranks are idle for %.0f %%; the stage of %s has %.0f %% of the computation; up to %.1f MiB cross a cut for each micro-batch, each way",
			100*p.Idle, p.LargestLayer, 100*p.LargestStage, mib(p.MessageBytes)),
		fmt.Sprintf("  passes take %.3f ms, sums of gradients %.3f, the update %.3f, the exchange of parameters %.3f; %.1f MiB a rank",
			1e3*p.PassesS, 1e3*p.GradientsS, 1e3*p.OptimiserS, 1e3*p.ParametersS, mib(p.MemoryBytes))}}
	if !p.Fits {
		s.Text = append(s.Text, fmt.Sprintf("  it does not fit into a rank, which has %.1f MiB", mib(r.Machine.Memory)))
	}
	if p.KFAC != nil {
		s.Text = append(s.Text, "  K-FAC: "+p.KFAC.text())
	}
	if p.Configured && time > plan {
		s.Text = append(s.Text, "  a training on the mesh of the plan is faster: remove train.pipeline, unless its activations, gradients and moments do not fit into a rank")
	}
	if !p.Configured && p.Fits && time < plan {
		use := fmt.Sprintf("  to use it: --set train.pipeline.stages=%d --set train.pipeline.schedule=%s", p.Stages, p.Schedule)
		if p.Mesh != "" {
			use += fmt.Sprintf(" --set train.mesh=%q", p.Mesh)
		}
		s.Text = append(s.Text, use)
	}
	return s
}
