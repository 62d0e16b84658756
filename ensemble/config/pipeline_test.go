package config

import (
	"strings"
	"testing"
)

// Settings that pipelines do not support are refused with the nearest ones that work.
func TestPipelineRefusals(t *testing.T) {
	for _, c := range []struct {
		set []string
		fix string // "": accepted
	}{
		{[]string{"train.pipeline.stages=4"}, ""},
		{[]string{"train.pipeline.stages=4", "train.accumulate=2", "train.ema=0.9", "train.optimizer=lamb"}, ""},
		{[]string{"train.pipeline.stages=4", "train.batch_size=8", "train.pipeline.micro_batches=4"}, ""},
		{[]string{"train.pipeline.stages=4", "train.batch_size=8", "train.pipeline.micro_batches=3"}, "train.pipeline.micro_batches: 2, or train.batch_size: 9"},
		{[]string{"train.pipeline.stages=4", "train.batch_size=4", "train.pipeline.micro_batches=8"}, "train.pipeline.micro_batches: 4, or train.batch_size: 8"},
		{[]string{"train.pipeline.schedule=gpipe"}, "remove pipeline.schedule"},
		{[]string{"train.pipeline.micro_batches=4"}, "remove pipeline.micro_batches"},
		{[]string{"train.pipeline.stages=4", "train.pipeline.pairs=2"}, "train.pipeline.schedule: chimera"},
		{[]string{"train.pipeline.stages=4", "train.pipeline.pairs=2", "train.pipeline.schedule=chimera"}, ""},
		{[]string{"train.pipeline.stages=4", "train.mesh=lat:4"}, ""},
		{[]string{"train.pipeline.stages=4", "train.mesh=auto"}, ""},
		{[]string{"train.pipeline.stages=4", "train.shard_optimizer=true"}, "train.shard_optimizer: false"},
		{[]string{"train.pipeline.stages=4", "train.compression.density=0.01"}, "remove train.compression"},
		{[]string{"train.pipeline.stages=4", "train.device=cuda"}, "train.device: cpu"},
		{[]string{"train.pipeline.recompute=true"}, "remove pipeline.recompute"},
		{[]string{"train.pipeline.stages=4", "train.exchange.system=eager"}, "train.exchange.system: synchronous"},
		{[]string{"train.pipeline.stages=4", "train.precision=f16"}, "train.precision: bf16"},
		{[]string{"train.pipeline.stages=4", "train.precision=bf16"}, ""},
		{[]string{"train.pipeline.stages=4", "prune.method=magnitude", "prune.target=0.5"}, "prune.method: none"},
		{[]string{"train.pipeline.stages=4", "data.members.minimum=3"}, "remove data.members.minimum"},
		{[]string{"train.pipeline.stages=4", "model.method=three_stage"}, "model.method: joint"},
		{[]string{"train.pipeline.stages=4", "teacher.runs=[a]"}, "remove teacher"},
	} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: c.set})
		if c.fix == "" && err != nil || c.fix != "" && (err == nil || !strings.Contains(err.Error(), c.fix)) {
			t.Errorf("%v: error %v, want fix %q", c.set, err, c.fix)
		}
	}
}
