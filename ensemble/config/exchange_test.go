package config

import (
	"slices"
	"strings"
	"testing"
)

// Settings that late steps do not support are refused with the nearest one that works.
func TestExchangeRefusals(t *testing.T) {
	eager := []string{"train.exchange.system=eager", "train.exchange.period=10"}
	wagma := []string{"train.exchange.system=wagma", "train.exchange.period=10"}
	local := []string{"train.exchange.system=local", "train.exchange.period=10"}
	for _, c := range []struct {
		system, set []string
		fix         string // "": accepted
	}{
		{eager, nil, ""},
		{wagma, nil, ""},
		{local, nil, ""},
		{nil, []string{"train.exchange.system=synchronous"}, ""},
		{eager, []string{"train.exchange.initiator=solo", "train.accumulate=2", "train.ema=0.9"}, ""},
		{wagma, []string{"train.exchange.group=4"}, ""},
		{local, []string{"train.exchange.rate=1", "train.exchange.momentum=0"}, ""},
		{nil, []string{"train.exchange.system=eager"}, "train.exchange.period: 10"},
		{nil, []string{"train.exchange.system=local"}, "train.exchange.period: 10"},
		{eager, []string{"train.exchange.period=0"}, "train.exchange.period: 10"},
		{eager, []string{"train.exchange.period=-3"}, "train.exchange.period: 10"},
		{nil, []string{"train.exchange.period=10"}, "train.exchange.system: eager"},
		{nil, []string{"train.exchange.momentum=0.5"}, "train.exchange.system: local"},
		{eager, []string{"train.exchange.group=4"}, "train.exchange.system: wagma"},
		{local, []string{"train.exchange.initiator=solo"}, "train.exchange.system: eager"},
		{wagma, []string{"train.exchange.rate=1"}, "train.exchange.system: local"},
		{wagma, []string{"train.exchange.group=3"}, "train.exchange.group: 2"},
		{wagma, []string{"train.exchange.group=0"}, "train.exchange.group: 1"},
		{local, []string{"train.exchange.replay=runs/first"}, "train.exchange.system: eager"},
		{wagma, []string{"train.exchange.replay=runs/first"}, ""},
		{eager, []string{"train.exchange.skip=true"}, ""},
		{wagma, []string{"train.exchange.skip=true"}, ""},
		{local, []string{"train.exchange.skip=true"}, "train.exchange.system: eager"},
		{nil, []string{"train.exchange.skip=true"}, "train.exchange.system: eager"},
		{eager, []string{"train.exchange.skip=often"}, "train.exchange.skip"},
		{local, []string{"train.exchange.momentum=1"}, "momentum"},
		{local, []string{"train.exchange.rate=0"}, "rate"},
		{eager, []string{"train.shard_optimizer=true"}, "train.shard_optimizer: false"},
		{eager, []string{"train.compression.density=0.01"}, "remove train.compression"},
		{eager, []string{"train.optimizer=kfac"}, "train.optimizer: adamw"},
		{eager, []string{"train.device=cuda"}, "train.device: cpu"},
		{eager, []string{"train.precision=f16"}, "train.precision: bf16"},
		{eager, []string{"prune.method=magnitude", "prune.target=0.5"}, ""},
		{eager, []string{"prune.method=lottery", "prune.target=0.5"}, "prune.method: magnitude"},
		{eager, []string{"prune.method=early_bird", "prune.target=0.5"}, "prune.method: magnitude"},
		{eager, []string{"prune.method=taylor", "prune.structure=channel", "prune.target=0.5"}, "prune.structure: element"},
		{wagma, []string{"prune.method=magnitude", "prune.target=0.5"}, "train.exchange.system: eager"},
		{local, []string{"prune.method=magnitude", "prune.target=0.5"}, "train.exchange.system: eager"},
	} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: slices.Concat(c.system, c.set)})
		if c.fix == "" && err != nil || c.fix != "" && (err == nil || !strings.Contains(err.Error(), c.fix)) {
			t.Errorf("%v %v: error %v, want fix %q", c.system, c.set, err, c.fix)
		}
	}
}
