package plan

import "fmt"

// The conditions of systems whose results differ from synchronous training, or that cost more. docs/scaling.md states them, which
// a test compares.
const (
	// waitedShare is the share of a step in which gradients are waited for from which on sparse sums are proposed, and
	// siteShare that for local SGD.
	waitedShare = 0.1
	siteShare   = 0.5
	// lateRatio is the time of the slowest rank of a step over the mean from which on late sums are proposed, for the part that is
	// another rank in each step.
	//
	// Source: Li et al. 2020, arXiv:1908.04207, for imbalanced steps; the threshold is a choice of this program.
	lateRatio = 1.15
	// largeBatch is the number of samples of an optimiser step from which on scaled rates and LARS or LAMB are proposed.
	largeBatch = 32
)

// Systems of strategies.
const (
	synchronousSystem = "synchronous"
	shardedSystem     = "sharded optimiser"
	sparseSystem      = "sparse sums"
	largeBatchSystem  = "large batches"
	kfacSystem        = "K-FAC"
	pipeFisherSystem  = "PipeFisher" // K-FAC in a pipeline
	soloSystem        = "eager-SGD, solo"
	majoritySystem    = "eager-SGD, majority"
	wagmaSystem       = "WAGMA-SGD"
	localSystem       = "local SGD"
	pipelineSystem    = "pipeline"

	skipping = "skipping " // before late systems whose late units leave steps out
)

// Condition is a row of the table of docs/scaling.md: when a system pays, and the key that selects it.
type Condition struct {
	When, System, Key string
}

// Conditions lists when the systems of strategies pay.
func Conditions() []Condition {
	return []Condition{
		{"none of the below", "data and spatial parallelism, synchronous", "train.mesh"},
		{"the optimiser does not fit into memory", "sharded optimiser", "train.shard_optimizer"},
		{fmt.Sprintf("gradients are waited for in more than %g of the step (`gradients_s` of `plan`): networks of 1 to 10 Gbit/s", waitedShare),
			"sparse sums (Ok-Topk, deep gradient compression)", "train.compression"},
		{fmt.Sprintf("batches of %d or more", largeBatch), "linear or square-root scaling of the rate, warm-up, LARS, LAMB", "train.learning_rate_scaling"},
		{"a training needs fewer steps by more than the share that `plan` states: small networks (layers of up to some hundred channels), large batches",
			"second order (K-FAC)", "train.optimizer: kfac"},
		{"K-FAC where a pipeline is faster than a mesh: its idle times hide inversions", "K-FAC in a pipeline (PipeFisher)", "train.kfac.delay"},
		{fmt.Sprintf("the slowest rank of a step takes %g of the mean or more, another one in each step", lateRatio),
			"late sums (eager-SGD), group averages (WAGMA-SGD)", "train.exchange"},
		{fmt.Sprintf("gradients are waited for in more than %g of the step: links between sites", siteShare), "local SGD with an outer optimiser", "train.exchange"},
		{"a pipeline is faster than the best mesh, or no mesh fits into memory: a chain of equal layers with many parameters", "pipelines (GPipe, 1F1B, Chimera)", "train.pipeline"},
	}
}
