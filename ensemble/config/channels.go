package config

import (
	"fmt"
	"slices"
)

// Units of the pruning target with structure channel.
const (
	ChannelsUnit   = "channels"   // fraction of the channels
	OperationsUnit = "operations" // fraction of the FLOPs
)

// ChannelMethods are the pruning methods that support structure channel.
var ChannelMethods = []string{MagnitudePruning, TaylorPruning, RandomPruning}

// checkChannels checks the keys that structure channel does not support.
func (c *TrainConfig) checkChannels(add func(path, what, why, fix string)) {
	p := c.Prune
	if p.Structure != ChannelStructure {
		return
	}
	if !slices.Contains(ChannelMethods, p.Method) {
		add("prune.method", "method "+p.Method+" does not support structure "+ChannelStructure, "it regrows weights, but removed channels no longer exist",
			"set prune.method: "+MagnitudePruning+" or "+TaylorPruning+", or another prune.structure")
	}
	if p.Method == TaylorPruning && p.Initial > 0 && p.From.Fraction(c.Train.Train.Epochs) == 0 {
		add("prune.initial", fmt.Sprintf("method %s would remove channels before the first step", p.Method), "its scores are computed from gradients", "remove prune.initial, or set a later prune.from")
	}
	if p.EffectiveScope() == ERKScope && !p.regrows() {
		add("prune.scope", "scope "+ERKScope+" does not support structure "+ChannelStructure, "it distributes single weights over layers", "set prune.scope: "+UniformScope+" or "+GlobalScope)
	}
	if n := c.Train.Train.Networks; n > 1 {
		add("train.networks", "channel pruning with averaged networks", "each network would keep different channels", "set train.networks: 1, and train once for each seed")
	}
	if p.Kernels == SparseKernels {
		add("prune.kernels", "prune.kernels is "+SparseKernels+" with structure "+ChannelStructure, "the pruned network is dense", "remove it")
	}
}
