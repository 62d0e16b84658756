package config

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// Pipeline is the section train.pipeline: the layers of the network are divided into stages, one for each rank.
type Pipeline struct {
	Stages       int    `key:"stages"` // 0: no pipeline
	Schedule     string `key:"schedule"`
	Pairs        int    `key:"pairs"`         // pairs of pipes, for ChimeraSchedule
	MicroBatches int    `key:"micro_batches"` // 0: as many as possible
	Recompute    bool   `key:"recompute"`
}

// IsEnabled reports whether a training uses a pipeline.
func (p Pipeline) IsEnabled() bool { return p.Stages > 0 }

// Schedules of train.pipeline.schedule.
const (
	GPipeSchedule    = "gpipe"
	OneFOneBSchedule = "1f1b"
	ChimeraSchedule  = "chimera"
)

// Pipes is the number of copies of each stage in a pipeline.
func (p Pipeline) Pipes() int {
	if p.Schedule == ChimeraSchedule {
		return 2 * p.Pairs
	}
	return 1
}

// pipelineKeys are the rows of Pipeline.
func pipelineKeys() []schema.Key {
	return []schema.Key{
		{Path: "train.pipeline.stages", Check: Between(2, 256), Example: "4", MayChangeOnResume: true,
			Help: "Number of stages into which the layers of the network are divided, one for each rank, or for each group of ranks with the axes data, level, lat and lon of train.mesh. For networks whose activations, gradients and moments do not fit into a rank; a mesh is faster for U-Nets. Default: no pipeline. See docs/scaling.md."},
		{Path: "train.pipeline.schedule", Default: OneFOneBSchedule, Check: OneOf(OneFOneBSchedule, GPipeSchedule, ChimeraSchedule), Example: ChimeraSchedule, MayChangeOnResume: true,
			Help: "Order in which ranks compute micro-batches. gpipe: all forward passes first; 1f1b: forward and backward passes in turn, so that fewer activations are kept; chimera: pipes in opposite directions, with fewer idle times and several copies of the weights."},
		{Path: "train.pipeline.pairs", Default: "1", Check: Between(1, 128), Example: "2", MayChangeOnResume: true,
			Help: "Pairs of pipes of train.pipeline.schedule: chimera. A rank holds two stages for each pair. They divide half of the stages."},
		{Path: "train.pipeline.micro_batches", Check: Between(1, 65536), Example: "8", MayChangeOnResume: true,
			Help: "Number of micro-batches of a batch, which pass the stages one after the other. Their number, times the ranks along data of train.mesh, divides train.batch_size. Default: one sample of each data rank in a micro-batch."},
		{Path: "train.pipeline.recompute", Default: "false", Example: "true", MayChangeOnResume: true, OutsideIdentity: true,
			Help: "Whether backward passes compute the forward pass of their stage again, which takes a third more time. A rank then keeps only what its stages have received of micro-batches in transit, in place of their activations. Results are bit-identical."},
	}
}

// checkPipeline checks the numbers of a pipeline, and that other settings support it. Schedules check their numbers themselves.
func (c *TrainConfig) checkPipeline() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	const path, or = "train.pipeline.stages", ", or remove train.pipeline"
	t := c.Train.Train
	p := t.Pipeline
	if !p.IsEnabled() {
		for _, row := range pipelineKeys() {
			if row.Path != path && c.text(row.Path) != row.Default {
				add(row.Path, row.Path+" without a pipeline", path+" is not set", "set it to the number of ranks, for example to 4, or remove "+strings.TrimPrefix(row.Path, "train."))
			}
		}
		return faults
	}
	if n := p.MicroBatches; n > 0 && t.BatchSize%n != 0 {
		add("train.pipeline.micro_batches", fmt.Sprintf("%d micro-batches of a batch of %d samples", n, t.BatchSize), "all micro-batches have the same number of samples",
			fmt.Sprintf("set train.pipeline.micro_batches: %d, or train.batch_size: %d", nearest.Divisor(t.BatchSize, n), (t.BatchSize+n-1)/n*n))
	}
	if p.Pairs > 1 && p.Schedule != ChimeraSchedule {
		add("train.pipeline.pairs", fmt.Sprintf("train.pipeline.pairs: %d with schedule %s", p.Pairs, p.Schedule), "it has one pipe", "set train.pipeline.schedule: "+ChimeraSchedule+", or remove train.pipeline.pairs")
	}
	for _, x := range []struct {
		refused        bool
		path, why, fix string
	}{
		{t.ShardOptimizer, "train.shard_optimizer", "the optimiser is sharded by stages already", "set train.shard_optimizer: false"},
		{t.Compression.IsEnabled(), "train.compression.density", "sums over the copies of a stage are dense", "remove train.compression"},
		{t.Device != "cpu", "train.device", "stages are computed on processors only", "set train.device: cpu"},
		{t.Exchange.System != SynchronousExchange, "train.exchange.system", "ranks of a pipeline wait for each other in every step", "set train.exchange.system: " + SynchronousExchange},
		{t.Precision == "f16", "train.precision", "its loss scale is not that of each stage", "set train.precision: bf16"},
		{c.Prune.Method != NoPruning, "prune.method", "masks and channels are chosen from gradients of all stages", "set prune.method: " + NoPruning},
		{c.Data.Members.Minimum > 0, "data.members.minimum", "all micro-batches have the same number of members", "remove data.members.minimum"},
		{c.Model.Method == StagesMethod, "model.method", "its networks have running statistics", "set model.method: " + string(JointMethod)},
		{len(c.Teacher.Runs) > 0, "teacher.runs", "a teacher predicts the whole batch on each rank", "remove teacher"},
	} {
		if x.refused {
			add(x.path, x.path+" with train.pipeline", x.why, x.fix+or)
		}
	}
	return faults
}
