package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Compression is the section train.compression: sparse sums of gradients over the data axis of the mesh.
type Compression struct {
	Density  float64 `key:"density"` // 0: dense sums
	Warmup   int     `key:"warmup"`  // epochs
	Momentum float64 `key:"momentum"`
	Clip     float64 `key:"clip"`
	Values   string  `key:"values"`
	Sums     string  `key:"sums"`
}

// IsEnabled reports whether sums are sparse.
func (c Compression) IsEnabled() bool { return c.Density > 0 }

// Words of train.compression.sums.
const (
	autoSums     = "auto"
	gradientSums = "gradients"
	updateSums   = "updates"
)

// updatesOptimizer is the value of train.optimizer whose updates ranks can sum.
const updatesOptimizer = "adamw"

// SumsUpdates reports whether ranks sum the updates of their optimisers instead of gradients.
func (t *Training) SumsUpdates() bool {
	k := t.Compression
	return k.IsEnabled() && (k.Sums == updateSums || k.Sums == autoSums && t.Optimizer == updatesOptimizer)
}

// BFloat16Values is the word of train.compression.values for values in bfloat16.
const BFloat16Values = "bf16"

// compressionKeys are the rows of Compression.
func compressionKeys() []schema.Key {
	return []schema.Key{
		{Path: "train.compression.density", Example: "0.01",
			Help: "Share of gradients that ranks with different samples exchange in a step: the largest ones; the others are added to those of the next step. For slow networks. Above 0 and at most 1. Default: all gradients. See docs/parallel.md."},
		{Path: "train.compression.warmup", Default: "0", Check: AtLeast(0), Example: "4",
			Help: "First epochs, in which the density falls in four stages: 0.25, 0.0625, 0.015625, 0.004, or train.compression.density if that is larger."},
		{Path: "train.compression.momentum", Default: "0", Check: Between(0, 0.999), Example: "0.9",
			Help: "Factor of momentum correction for optimisers sgd and lars: the momentum is that of each rank before the exchange, and the optimiser has none. 0: off."},
		{Path: "train.compression.sums", Default: autoSums, Check: OneOf(autoSums, updateSums, gradientSums), Example: gradientSums,
			Help: "What ranks exchange. updates: those of optimiser adamw, which each rank computes from its own gradients; gradients; auto: updates with adamw, else gradients."},
		{Path: "train.compression.clip", Default: "0", Check: AtLeast(0), Example: "1",
			Help: "Limit of the norm of the gradients that a rank adds to an exchange, times the square root of the number of data ranks; 0: none."},
		{Path: "train.compression.values", Default: "f32", Check: OneOf("f32", BFloat16Values), Example: BFloat16Values,
			Help: "Type in which values are sent. bf16: a quarter fewer bytes; rounding errors are added to the next step."},
	}
}

// checkCompression checks the density, and that other settings support sparse sums.
func (c *TrainConfig) checkCompression() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	const path, or = "train.compression.density", ", or remove train.compression"
	k, t := c.Train.Train.Compression, c.Train.Train
	if c.text(path) == "" {
		for _, row := range compressionKeys() {
			if row.Default != "" && c.text(row.Path) != row.Default {
				add(row.Path, row.Path+" without compression", path+" is not set", "set it, for example to 0.01, or remove "+strings.TrimPrefix(row.Path, "train."))
			}
		}
		return faults
	}
	if !(k.Density > 0 && k.Density <= 1) {
		nearest := "0.01"
		if k.Density > 1 {
			nearest = "1"
		}
		add(path, fmt.Sprintf("%s is %g", path, k.Density), "it is a share of all gradients, above 0 and at most 1", "set "+path+": "+nearest+or)
		return faults
	}
	if t.ShardOptimizer {
		add("train.shard_optimizer", "a sharded optimiser with train.compression", "each rank keeps a share of dense sums only", "set train.shard_optimizer: false"+or)
	}
	if t.Device != "cpu" {
		add("train.device", "train.device: "+t.Device+" with train.compression", "sparse sums are computed on processors only", "set train.device: cpu"+or)
	}
	if t.Accumulate > 1 {
		add("train.accumulate", fmt.Sprintf("train.accumulate: %d with train.compression", t.Accumulate), "each batch would be exchanged by itself", "set train.accumulate: 1"+or)
	}
	if k.Momentum > 0 && t.Optimizer != "sgd" && t.Optimizer != "lars" {
		add("train.compression.momentum", "momentum correction with train.optimizer: "+t.Optimizer, "its moments would be applied to gradients that have momentum",
			"remove train.compression.momentum, or set train.optimizer: sgd")
	}
	if k.Sums == updateSums && t.Optimizer != updatesOptimizer {
		add("train.compression.sums", "sums of updates with train.optimizer: "+t.Optimizer, "ranks compute updates of "+updatesOptimizer+" only", "set train.compression.sums: "+gradientSums)
	}
	if t.Optimizer == KFACOptimizer {
		add("train.optimizer", "train.optimizer: kfac with train.compression", "the steps that compute factors would have residuals of their own", "set train.optimizer: adamw"+or)
	}
	if c.Data.Members.Minimum > 0 {
		add("data.members.minimum", "data.members.minimum with train.compression", "each number of members would have residuals of its own", "remove data.members.minimum"+or)
	}
	switch {
	case c.Prune.Structure == ChannelStructure && c.Prune.Method != NoPruning:
		add("prune.structure", "pruned channels with train.compression", "gradients that are not sent yet are those of all channels", "set prune.structure: "+ElementStructure+or)
	case c.Prune.Method == LotteryPruning || c.Prune.Method == EarlyBirdPruning:
		add("prune.method", "prune.method: "+c.Prune.Method+" with train.compression", "gradients that are not sent yet are not rewound", "set prune.method: "+MagnitudePruning+or)
	case t.SumsUpdates() && slices.Contains([]string{MovementPruning, TaylorPruning, RigLPruning, SoftThresholding}, c.Prune.Method):
		add("train.compression.sums", "prune.method: "+c.Prune.Method+" with sums of updates", "it ranks weights by gradients", "set train.compression.sums: "+gradientSums)
	}
	return faults
}
