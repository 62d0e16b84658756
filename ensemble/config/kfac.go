package config

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// KFACOptimizer is the value of train.optimizer that preconditions gradients by Kronecker factors.
const KFACOptimizer = "kfac"

// KFAC is the section train.kfac: the optimiser kfac.
type KFAC struct {
	Rule     string  `key:"rule"`     // optimiser that makes steps of the preconditioned gradient
	Refresh  int     `key:"refresh"`  // optimiser steps from one computation of the factors to the next
	Delay    int     `key:"delay"`    // optimiser steps from a computation of the factors to the use of their inverses
	Adaptive bool    `key:"adaptive"` // longer intervals while the factors hardly change
	Damping  float64 `key:"damping"`  // in units of the mean eigenvalue of a layer's Fisher block
	Decay    float64 `key:"decay"`    // of the running averages of the factors, for each refresh
	MaxSide  int     `key:"max_side"` // largest side of a factor
}

// kfacKeys are the keys of the section train.kfac.
func kfacKeys() []schema.Key {
	return []schema.Key{
		{Path: "train.kfac.rule", Default: "adamw", Check: OneOf("adamw", "sgd", "lars"), Example: "adamw",
			Help: "Optimiser that determines the length of the steps of kfac for each parameter tensor, as that of its own steps; kfac determines their direction."},
		{Path: "train.kfac.refresh", Default: "50", Check: Between(1, 1e6), Example: "50",
			Help: "Optimiser steps between two computations of the Kronecker factors and their inverses."},
		{Path: "train.kfac.delay", Default: "0", Check: Between(0, 1e6), Example: "10",
			Help: "Optimiser steps after which the inverses of new Kronecker factors are used, at most train.kfac.refresh; until then steps use the ones before. The first inverses are used at once. With train.pipeline the inversions run in idle times of these steps. Steps do not depend on when they run."},
		{Path: "train.kfac.adaptive", Default: "false", Example: "true",
			Help: "Whether the interval grows (1, 2, 3, 5, 8, … times refresh) while the factors change by less than a tenth, and shrinks when they change more."},
		{Path: "train.kfac.damping", Default: "0.01", Check: Above(0), Example: "0.01",
			Help: "Damping of kfac, relative to the mean eigenvalue of the Fisher matrix of each layer. Large values approach the gradient."},
		{Path: "train.kfac.decay", Default: "0.9", Check: BetweenHalfOpen(0, 1), Example: "0.9",
			Help: "Weight of the old running average of the factors at each refresh."},
		{Path: "train.kfac.max_side", Default: "1200", Check: Between(1, 65536), Example: "1200",
			Help: "Largest side of a Kronecker factor. A layer whose channels times filter points exceed it has a factor of its channels only; one whose channels exceed it has none and steps without preconditioning."},
	}
}

// checkKFAC checks that keys of kfac are set for it only, and that other settings support it.
func (c *TrainConfig) checkKFAC() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	t := c.Train.Train
	if t.Optimizer != KFACOptimizer {
		for _, k := range kfacKeys() {
			if c.text(k.Path) != k.Default {
				add(k.Path, k.Path+" is not used by "+t.Optimizer, "train.optimizer is not kfac", "remove it, or set train.optimizer: kfac")
			}
		}
		return faults
	}
	const or = ", or train.optimizer: adamw"
	if t.Device != "cpu" {
		add("train.device", "train.optimizer: kfac needs device cpu", "GPUs have no kernel for Kronecker factors", "set train.device: cpu"+or)
	}
	if t.ShardOptimizer {
		add("train.shard_optimizer", "train.shard_optimizer with kfac", "a direction of kfac needs the gradient of whole layers", "set train.shard_optimizer: false; inversions are distributed over the ranks anyway")
	}
	if t.KFAC.Delay > t.KFAC.Refresh {
		add("train.kfac.delay", fmt.Sprintf("train.kfac.delay: %d with train.kfac.refresh: %d", t.KFAC.Delay, t.KFAC.Refresh), "new factors are computed before the inverses of the last ones are used",
			fmt.Sprintf("set train.kfac.delay: %d, or less", t.KFAC.Refresh))
	}
	if c.Prune.Method != NoPruning {
		add("prune.method", "pruning with train.optimizer: kfac", "factors are those of dense filters", "set prune.method: "+NoPruning+or)
	}
	return faults
}
