package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Prune says which weights a training removes, and when (engine/prune).
type Prune struct {
	Method          string       `key:"method"`
	Structure       string       `key:"structure"`
	Scope           string       `key:"scope"` // empty: see EffectiveScope
	Target          float64      `key:"target"`
	TargetUnit      string       `key:"of"`       // what the target is a share of, with structure channel
	ChannelMultiple int          `key:"multiple"` // of the channels that a layer keeps
	Initial         float64      `key:"initial"`
	From            TrainingTime `key:"from"`
	To              TrainingTime `key:"to"`
	Every           int          `key:"every"` // steps
	DropFraction    float64      `key:"exchange"`
	EarlyBird       EarlyBird    `key:"settle"`
	Block           PruneBlock   `key:"block"`
	Keep            []string     `key:"keep"`
	Kernels         string       `key:"kernels"`
}

// PruneBlock is the shape of the blocks that structure block removes.
type PruneBlock struct {
	Out int `key:"out"`
	In  int `key:"in"`
}

// EarlyBird says when early_bird takes the structure for settled.
type EarlyBird struct {
	Distance float64 `key:"distance"`
	Epochs   int     `key:"epochs"`
}

// Methods of pruning.
const (
	NoPruning        = "none"
	MagnitudePruning = "magnitude"
	RandomPruning    = "random"
	MovementPruning  = "movement"
	TaylorPruning    = "taylor"
	SETPruning       = "set"
	RigLPruning      = "rigl"
	LotteryPruning   = "lottery"
	EarlyBirdPruning = "early_bird"
)

// PruneMethods are those that prune.
var PruneMethods = []string{MagnitudePruning, RandomPruning, MovementPruning, TaylorPruning, SETPruning, RigLPruning, LotteryPruning, EarlyBirdPruning}

// What is removed as one.
const (
	ElementStructure = "element"
	BlockStructure   = "block"
	TwoFourStructure = "2:4"
	ChannelStructure = "channel"
)

// PruneStructures are those that there are.
var PruneStructures = []string{ElementStructure, BlockStructure, TwoFourStructure, ChannelStructure}

// Scopes of a target.
const (
	GlobalScope  = "global"
	UniformScope = "uniform"
	ERKScope     = "erk"
)

// SparseKernels demands kernels that skip the zeros, DenseKernels has none.
const (
	SparseKernels = "sparse"
	DenseKernels  = "dense"
)

// EffectiveScope is the scope; where none is given erk, which leaves no layer almost empty, but for 2:4,
// which has its share in each layer.
func (p Prune) EffectiveScope() string {
	switch {
	case p.Scope != "":
		return p.Scope
	case p.Structure == ChannelStructure && p.Method != TaylorPruning:
		return UniformScope
	case p.Structure == ChannelStructure:
		return GlobalScope
	case p.Structure == TwoFourStructure:
		return GlobalScope
	}
	return ERKScope
}

// regrows says whether the method exchanges weights at a sparsity that it has from the start.
func (p Prune) regrows() bool { return p.Method == SETPruning || p.Method == RigLPruning }

// TrainingTime is a time within a training: after a share of its steps, or after some epochs.
type TrainingTime struct {
	Share  float64 // 0 to 1
	Epochs float64
}

// Fraction is the share of a training of so many epochs.
func (m TrainingTime) Fraction(epochs int) float64 { return m.Share + m.Epochs/float64(epochs) }

// ParseTrainingTime reads 30% and 12 epochs.
//
// Errors: for a bare number, since it could be either.
func ParseTrainingTime(s string) (TrainingTime, error) {
	m := trainingTimeText.FindStringSubmatch(s)
	if m == nil {
		return TrainingTime{}, errKind
	}
	v, err := strconv.ParseFloat(m[1], 64)
	switch {
	case err != nil:
		return TrainingTime{}, errKind
	case m[2] == "":
		return TrainingTime{}, fmt.Errorf("a moment needs its unit: write %s%% of the steps, or %s epochs", s, s)
	case m[2] == "%":
		return TrainingTime{Share: v / 100}, nil
	}
	return TrainingTime{Epochs: v}, nil
}

var trainingTimeText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(%|epochs?|)$`)

// String prints what ParseTrainingTime reads.
func (m TrainingTime) String() string {
	if m.Epochs > 0 {
		return strconv.FormatFloat(m.Epochs, 'f', -1, 64) + " epochs"
	}
	return strconv.FormatFloat(m.Share*100, 'g', 12, 64) + "%"
}

// pruneKeys are the rows of Prune.
func pruneKeys() []Key {
	return []Key{
		{Path: "prune.method", Default: NoPruning, Check: OneOf(append([]string{NoPruning}, PruneMethods...)...), Example: MagnitudePruning,
			Help: "How weights are chosen that become 0 for good: magnitude, the smallest, step by step; random, for comparison; movement, those that training moves towards 0; taylor, channels without which the loss would change least; set and rigl, sparse from the start, exchange some for random ones or those of the largest gradient; lottery, the smallest at prune.to, and training goes back to the weights of prune.from; early_bird, the smallest as soon as they stay the same ones. See docs/compression.md."},
		{Path: "prune.structure", Default: ElementStructure, Check: OneOf(PruneStructures...), Example: BlockStructure,
			Help: "What is removed as one: single weights (element), blocks of output and input channels (block), or two of each four weights along the inputs of a filter (2:4); biases and norms are never pruned. With channel whole channels go, with all that belongs to them, and the network becomes a smaller dense one."},
		{Path: "prune.scope", Check: OneOf(GlobalScope, UniformScope, ERKScope), Example: ERKScope,
			Help: "Where the target holds: global, in all layers together, so that weights of all compete; uniform, in each layer; erk, together, with the denser layers those of fewer weights. erk if not given, with 2:4 and with method taylor global, with structure channel uniform."},
		{Path: "prune.target", Default: "0", Check: Between(0, 1), Example: "0.9",
			Help: "Sparsity in the end: the share of the weights that are removed; with structure channel see prune.of."},
		{Path: "prune.of", Default: ChannelsUnit, Check: OneOf(ChannelsUnit, OperationsUnit), Example: OperationsUnit,
			Help: "What prune.target removes a share of, with structure channel: the channels of the layers that can lose any, or the floating point operations of a forecast, which falls about with the square."},
		{Path: "prune.multiple", Default: "8", Check: Between(1, 1024), Example: "16",
			Help: "With structure channel, a layer keeps a multiple of so many channels, as kernels compute that many at a time; at least so many, or all."},
		{Path: "prune.initial", Default: "0", Check: BetweenHalfOpen(0, 1), Example: "0.5",
			Help: "Sparsity at prune.from, where the gradual schedule of magnitude, random and movement begins."},
		{Path: "prune.from", Default: "10%", Example: "6 epochs",
			Help: "When pruning begins: a share of the steps of the training, or epochs."},
		{Path: "prune.to", Default: "60%", Example: "36 epochs",
			Help: "When the target is reached; the mask stays as it is from then on, and only what is trained after is validated for the best weights."},
		{Path: "prune.every", Default: "100", Check: AtLeast(1), Example: "20",
			Help: "Steps between changes of the mask, with early_bird epochs are compared instead."},
		{Path: "prune.exchange", Default: "0.3", Check: BetweenExclusive(0, 1), Example: "0.2",
			Help: "Share of the remaining weights that set and rigl exchange at a time; that of rigl falls to 0 until prune.to."},
		{Path: "prune.settle.distance", Default: "0.1", Check: BetweenExclusive(0, 1), Example: "0.05",
			Help: "Share of the weights in which the masks of two epochs may differ for early_bird to take them for the same."},
		{Path: "prune.settle.epochs", Default: "5", Check: AtLeast(1), Example: "3",
			Help: "Epochs in a row whose masks must be the same for early_bird to prune."},
		{Path: "prune.block.out", Default: "16", Check: Between(1, 1024), Example: "8",
			Help: "Output channels of a block, which has all places of the filter."},
		{Path: "prune.block.in", Default: "16", Check: Between(1, 1024), Example: "8",
			Help: "Input channels of a block. Layers with fewer channels than a block stay as they are."},
		{Path: "prune.keep", Example: "[out]",
			Help: "Layers that are not pruned, by the names of their weights without the end .weight; * stands for any text."},
		{Path: "prune.kernels", Default: "auto", Check: OneOf("auto", DenseKernels, SparseKernels), Example: SparseKernels,
			Help: "auto: zeros are skipped where that is faster. dense: a training multiplies them like others. sparse: a training does not begin where the device has no kernel that skips zeros of this structure."},
	}
}

// checkPrune: a target that leaves something, times in order, and nothing for other methods.
func (c *TrainConfig) checkPrune() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	p, epochs := c.Prune, c.Train.Train.Epochs
	for _, k := range pruneKeys() {
		// Defaults may be given: an effective configuration, which has them all, is trained again.
		if c.text(k.Path) == k.Default || k.Path == "prune.method" {
			continue
		}
		switch of := methodsReading(k.Path); {
		case p.Method == NoPruning:
			add(k.Path, k.Path+" is given and nothing is pruned", "prune.method is "+p.Method, "remove it, or set prune.method: "+MagnitudePruning)
		case of != nil && !slices.Contains(of, p.Method):
			add(k.Path, k.Path+" is given to prune.method: "+p.Method, "it has no use there", "remove it, or set prune.method: "+strings.Join(of, " or "))
		case (k.Path == "prune.of" || k.Path == "prune.multiple") && p.Structure != ChannelStructure:
			add(k.Path, k.Path+" is given to structure "+p.Structure, "it removes no channels", "remove it, or set prune.structure: "+ChannelStructure)
		case strings.HasPrefix(k.Path, "prune.block.") && p.Structure != BlockStructure:
			add(k.Path, k.Path+" is given to structure "+p.Structure, "it has no blocks", "remove it, or set prune.structure: "+BlockStructure)
		}
	}
	if p.Method == NoPruning {
		return faults
	}
	from, to := p.From.Fraction(epochs), p.To.Fraction(epochs)
	switch {
	case p.Target == 0:
		add("prune.target", "prune.target is missing or 0", "nothing would be pruned", "give the sparsity that is wanted, such as 0.8, or set prune.method: "+NoPruning)
	case p.Target == 1:
		add("prune.target", "prune.target 1 removes every layer entirely", "a network without weights says the same of all forecasts", "give less, such as 0.9")
	case p.Structure == TwoFourStructure && p.Target > 0.5:
		add("prune.target", fmt.Sprintf("prune.target is %g, and structure 2:4 allows 0.5", p.Target), "it keeps two of each four weights", "give at most 0.5, or another prune.structure")
	case p.Initial >= p.Target:
		add("prune.initial", fmt.Sprintf("prune.initial %g is not less than prune.target %g", p.Initial, p.Target), "sparsity rises", "give less")
	}
	switch {
	case to > 1:
		add("prune.to", fmt.Sprintf("prune.to is %s, after the end of %d epochs", p.To, epochs), "the target would not be reached", "give at most 100%")
	case from >= to:
		add("prune.from", fmt.Sprintf("prune.from is %s and prune.to %s", p.From, p.To), "pruning would end before it begins", "let prune.from come before prune.to")
	}
	if p.regrows() && p.EffectiveScope() == GlobalScope {
		add("prune.scope", p.Method+" is given scope "+GlobalScope, "it exchanges weights within a layer, so each layer has its share from the start", "set prune.scope: "+ERKScope+" or "+UniformScope)
	}
	if p.Method == TaylorPruning && p.Structure != ChannelStructure {
		add("prune.structure", "method taylor is given structure "+p.Structure, "it scores whole channels", "set prune.structure: "+ChannelStructure+", or prune.method: "+MagnitudePruning)
	}
	c.checkChannels(add)
	if p.Structure == TwoFourStructure && (p.regrows() || p.Scope == ERKScope) {
		add("prune.structure", "structure 2:4 is given to method "+p.Method+", scope "+p.EffectiveScope(), "it has two of each four weights, and nothing to exchange or to deal out", "choose another structure, or prune.scope: "+GlobalScope+" and another method")
	}
	if c.Model.Method == StagesMethod {
		add("prune.method", "networks of three stages are pruned", "the last of them begins with the weights of another", "set model.method: "+string(JointMethod)+", or prune.method: "+NoPruning)
	}
	return faults
}

// methodsReading are the methods that read a key; nil for all.
func methodsReading(path string) []string {
	switch path {
	case "prune.initial":
		return []string{MagnitudePruning, RandomPruning, MovementPruning, TaylorPruning}
	case "prune.exchange":
		return []string{SETPruning, RigLPruning}
	case "prune.settle.distance", "prune.settle.epochs":
		return []string{EarlyBirdPruning}
	case "prune.every":
		return []string{MagnitudePruning, RandomPruning, MovementPruning, TaylorPruning, SETPruning, RigLPruning}
	}
	return nil
}
