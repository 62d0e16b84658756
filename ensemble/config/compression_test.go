package config

import (
	"strings"
	"testing"
)

// Settings that sparse sums of gradients do not support are refused with the nearest one that works.
func TestCompressionRefusals(t *testing.T) {
	for _, c := range []struct {
		set []string
		fix string // "": accepted
	}{
		{[]string{"train.compression.density=0.01"}, ""},
		{[]string{"train.compression.density=1"}, ""},
		{[]string{"train.compression.density=0"}, "train.compression.density: 0.01"},
		{[]string{"train.compression.density=-1"}, "train.compression.density: 0.01"},
		{[]string{"train.compression.density=1.5"}, "train.compression.density: 1"},
		{[]string{"train.compression.warmup=4"}, "remove compression.warmup"},
		{[]string{"train.compression.values=bf16"}, "remove compression.values"},
		{[]string{"train.compression.density=0.01", "train.shard_optimizer=true"}, "train.shard_optimizer: false"},
		{[]string{"train.compression.density=0.01", "train.device=cuda"}, "train.device: cpu"},
		{[]string{"train.compression.density=0.01", "train.device=auto"}, "train.device: cpu"},
		{[]string{"train.compression.density=0.01", "train.accumulate=2"}, "train.accumulate: 1"},
		{[]string{"train.compression.density=0.01", "train.compression.momentum=0.9"}, "train.optimizer: sgd"},
		{[]string{"train.compression.density=0.01", "train.compression.momentum=0.9", "train.optimizer=sgd"}, ""},
		{[]string{"train.compression.density=0.01", "train.compression.sums=updates"}, ""},
		{[]string{"train.compression.density=0.01", "train.compression.sums=updates", "train.optimizer=lamb"}, "train.compression.sums: gradients"},
		{[]string{"train.compression.density=0.01", "train.optimizer=kfac"}, "train.optimizer: adamw"},
		{[]string{"train.compression.density=0.01", "prune.method=movement", "prune.target=0.5"}, "train.compression.sums: gradients"},
		{[]string{"train.compression.density=0.01", "prune.method=movement", "prune.target=0.5", "train.compression.sums=gradients"}, ""},
		{[]string{"train.compression.density=0.01", "prune.method=lottery", "prune.target=0.5"}, "prune.method: magnitude"},
		{[]string{"train.compression.density=0.01", "prune.method=taylor", "prune.structure=channel", "prune.target=0.5"}, "prune.structure: element"},
		{[]string{"train.compression.density=0.01", "prune.method=magnitude", "prune.target=0.5"}, ""},
	} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: c.set})
		if c.fix == "" && err != nil || c.fix != "" && (err == nil || !strings.Contains(err.Error(), c.fix)) {
			t.Errorf("%v: error %v, want fix %q", c.set, err, c.fix)
		}
	}
}
