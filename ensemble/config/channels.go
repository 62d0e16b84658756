package config

import (
	"fmt"
	"slices"
)

// What prune.target removes a share of.
const (
	ChannelsUnit   = "channels"
	OperationsUnit = "operations"
)

// ChannelMethods are those that choose channels.
var ChannelMethods = []string{MagnitudePruning, TaylorPruning, RandomPruning}

// checkChannels: what the removal of channels cannot be.
func (c *TrainConfig) checkChannels(add func(path, what, why, fix string)) {
	p := c.Prune
	if p.Structure != ChannelStructure {
		return
	}
	if !slices.Contains(ChannelMethods, p.Method) {
		add("prune.method", p.Method+" is given structure "+ChannelStructure, "it brings weights back, and channels that went are nowhere in the network",
			"set prune.method: "+MagnitudePruning+" or "+TaylorPruning+", or another prune.structure")
	}
	if p.Method == TaylorPruning && p.Initial > 0 && p.From.Fraction(c.Train.Train.Epochs) == 0 {
		add("prune.initial", fmt.Sprintf("channels are removed before the first step, by method %s", p.Method), "scores come from gradients of steps", "remove prune.initial, or let prune.from come later")
	}
	if p.EffectiveScope() == ERKScope && !p.regrows() {
		add("prune.scope", "scope "+ERKScope+" is given structure "+ChannelStructure, "it shares out single weights", "set prune.scope: "+UniformScope+" or "+GlobalScope)
	}
	if n := c.Train.Train.Networks; n > 1 {
		add("train.networks", "channels are removed, and networks are averaged", "each would have other channels", "set train.networks: 1, and train with other seeds")
	}
	if p.Kernels == SparseKernels {
		add("prune.kernels", "prune.kernels is "+SparseKernels+" with structure "+ChannelStructure, "the smaller network is dense", "remove it")
	}
}
