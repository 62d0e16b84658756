package config

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Exchange is the section train.exchange: how groups of ranks that compute different samples of a batch exchange what
// they learn.
type Exchange struct {
	System    string  `key:"system"`
	Period    int     `key:"period"` // steps from one that waits for all groups to the next
	Initiator string  `key:"initiator"`
	Group     int     `key:"group"` // groups of ranks that average their models in a step
	Rate      float64 `key:"rate"`  // of the outer optimiser
	Momentum  float64 `key:"momentum"`
	Skip      bool    `key:"skip"`   // a late group leaves out the samples of steps that it missed
	Replay    Path    `key:"replay"` // run directory
}

// Values of train.exchange.system.
const (
	SynchronousExchange = "synchronous" // all ranks take every step together
	EagerExchange       = "eager"       // eager-SGD: late gradients are part of a later sum
	WAGMAExchange       = "wagma"       // WAGMA-SGD: averages of models in changing groups
	LocalExchange       = "local"       // local SGD with an outer optimiser
)

// IsEnabled reports whether groups of ranks take steps that do not wait for all others.
func (e Exchange) IsEnabled() bool { return e.System != SynchronousExchange && e.System != "" }

// Values of train.exchange.initiator: the first group that is ready starts a sum, or one that is drawn at random.
const (
	SoloInitiator     = "solo"
	MajorityInitiator = "majority"
)

// exchangeKeys are the rows of Exchange.
func exchangeKeys() []schema.Key {
	return []schema.Key{
		{Path: "train.exchange.system", Default: SynchronousExchange, Check: OneOf(SynchronousExchange, EagerExchange, WAGMAExchange, LocalExchange), Example: EagerExchange,
			Help: "How ranks with different samples exchange gradients or weights. synchronous: every step waits for the slowest rank. eager: gradients that are late are part of a later step (eager-SGD). wagma: each group of ranks steps by itself and averages its model with some others (WAGMA-SGD). local: each group steps by itself, and an outer optimiser steps every period steps (DiLoCo). See docs/scaling.md."},
		{Path: "train.exchange.period", Example: "10",
			Help: "Steps from one in which all ranks wait for each other to the next, as they do at the end of an epoch; 1: all steps. Needed for other systems than synchronous."},
		{Path: "train.exchange.initiator", Default: MajorityInitiator, Check: OneOf(SoloInitiator, MajorityInitiator), Example: MajorityInitiator,
			Help: "Who starts a sum of eager. solo: the first group that is ready; majority: one drawn at random, so that half of them are ready on average."},
		{Path: "train.exchange.group", Default: "2", Example: "2",
			Help: "Number of models that wagma averages in a step, a power of two; about the square root of the number of data ranks."},
		{Path: "train.exchange.rate", Default: "0.7", Check: Above(0), Example: "0.7",
			Help: "Learning rate of the outer optimiser of local; 1 with momentum 0 averages the models."},
		{Path: "train.exchange.momentum", Default: "0.9", Check: BetweenHalfOpen(0, 1), Example: "0.9",
			Help: "Nesterov momentum of the outer optimiser of local."},
		{Path: "train.exchange.skip", Default: "false", Example: "true",
			Help: "Whether a late group of eager or wagma leaves out its samples of steps that began without it, instead of computing all of its steps. Faster if groups are late in turn; the samples of a group that is always slow would count less."},
		{Path: "train.exchange.replay", Example: "runs/first",
			Help: "Run directory of a training with the same settings, whose late contributions are repeated, and with them its bits."},
	}
}

// exchangeOf lists the systems that use a key of train.exchange.
var exchangeOf = map[string][]string{
	"train.exchange.period":    {EagerExchange, WAGMAExchange, LocalExchange},
	"train.exchange.initiator": {EagerExchange},
	"train.exchange.group":     {WAGMAExchange},
	"train.exchange.rate":      {LocalExchange},
	"train.exchange.momentum":  {LocalExchange},
	"train.exchange.skip":      {EagerExchange, WAGMAExchange},
	"train.exchange.replay":    {EagerExchange, WAGMAExchange},
}

// checkExchange checks that keys are those of the system, and that other settings support it.
func (c *TrainConfig) checkExchange() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	const or = ", or remove train.exchange"
	t := c.Train.Train
	e := t.Exchange
	for _, row := range exchangeKeys() {
		if users := exchangeOf[row.Path]; users != nil && c.text(row.Path) != row.Default && !slices.Contains(users, e.System) {
			add(row.Path, fmt.Sprintf("%s is not used by train.exchange.system: %s", row.Path, e.System), "it belongs to "+strings.Join(users, ", "),
				"remove it, or set train.exchange.system: "+users[0])
		}
	}
	if !e.IsEnabled() {
		return faults
	}
	if e.Period < 1 {
		what := "train.exchange.period is not set"
		if c.text("train.exchange.period") != "" {
			what = fmt.Sprintf("train.exchange.period is %d", e.Period)
		}
		add("train.exchange.period", what, "without steps that wait for all, nothing limits how far ranks are apart", "set train.exchange.period: 10; with 1 every step waits")
	}
	if e.System == WAGMAExchange && (e.Group < 1 || e.Group&(e.Group-1) != 0) {
		low := 1 << max(0, bits.Len(uint(max(1, e.Group)))-1)
		add("train.exchange.group", fmt.Sprintf("train.exchange.group is %d", e.Group), "models that are averaged are those of ranks that differ in some bits of their numbers", fmt.Sprintf("set train.exchange.group: %d, a power of two", low))
	}
	if t.ShardOptimizer {
		add("train.shard_optimizer", "a sharded optimiser with train.exchange", "the update of a rank needs what other ranks compute in the same step", "set train.shard_optimizer: false"+or)
	}
	if t.Compression.IsEnabled() {
		add("train.compression.density", "train.compression with train.exchange", "late sums are dense", "remove train.compression"+or)
	}
	if t.Optimizer == KFACOptimizer {
		add("train.optimizer", "train.optimizer: kfac with train.exchange", "Kronecker factors are those of a whole batch", "set train.optimizer: adamw"+or)
	}
	if t.Device != "cpu" {
		add("train.device", "train.device: "+t.Device+" with train.exchange", "gradients are exchanged in the memory of the host only", "set train.device: cpu"+or)
	}
	if t.Precision == "f16" {
		add("train.precision", "train.precision: f16 with train.exchange", "its loss scale changes in a step of all ranks", "set train.precision: bf16"+or)
	}
	return append(faults, c.checkExchangePruning(or)...)
}

// checkExchangePruning refuses pruning that a system of train.exchange does not support.
func (c *TrainConfig) checkExchangePruning(or string) []*exit.Error {
	p, system := c.Prune, c.Train.Train.Exchange.System
	switch {
	case p.Method == NoPruning:
	case system != EagerExchange:
		return []*exit.Error{c.Fault("prune.method", "pruning with train.exchange.system: "+system, "ranks have different weights between two averages, and would prune different ones", "set train.exchange.system: "+EagerExchange+", or prune.method: "+NoPruning)}
	case p.Structure == ChannelStructure:
		return []*exit.Error{c.Fault("prune.structure", "pruned channels with train.exchange", "gradients that are late are those of all channels", "set prune.structure: "+ElementStructure+or)}
	case p.Method == LotteryPruning || p.Method == EarlyBirdPruning:
		return []*exit.Error{c.Fault("prune.method", "prune.method: "+p.Method+" with train.exchange", "gradients that are late are not rewound", "set prune.method: "+MagnitudePruning+or)}
	}
	return nil
}
