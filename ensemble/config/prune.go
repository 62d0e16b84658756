package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Prune is the section prune: which weights a training prunes, and when (engine/prune).
type Prune struct {
	Method          string       `key:"method"`
	Structure       string       `key:"structure"`
	Scope           string       `key:"scope"` // empty: default, see EffectiveScope
	Target          float64      `key:"target"`
	TargetUnit      string       `key:"target_unit"`      // unit of Target with structure channel
	ChannelMultiple int          `key:"channel_multiple"` // layers keep a multiple of this number of channels
	Initial         float64      `key:"initial"`
	From            TrainingTime `key:"from"`
	To              TrainingTime `key:"to"`
	Every           int          `key:"every"` // steps between updates of the mask
	Regrowth
	EarlyBird EarlyBird  `key:"early_bird"`
	Block     PruneBlock `key:"block"`
	Keep      []string   `key:"keep"`
	Kernels   string     `key:"kernels"`
}

// Regrowth are constants of methods whose masked weights may return.
type Regrowth struct {
	DropFraction float64 `key:"drop_fraction"` // of set and rigl
	MaskedDecay  float64 `key:"masked_decay"`  // of sr_ste
}

// PruneBlock is the shape of the blocks that structure block removes.
type PruneBlock struct {
	Out int `key:"out"`
	In  int `key:"in"`
}

// EarlyBird is the convergence criterion of method early_bird.
//
// Source: You et al. 2020, arXiv:1909.11957.
type EarlyBird struct {
	Distance float64 `key:"distance"`
	Epochs   int     `key:"epochs"`
}

// Pruning methods; docs/compression.md describes them.
const (
	NoPruning        = "none"
	MagnitudePruning = "magnitude"
	RandomPruning    = "random"
	MovementPruning  = "movement"
	TaylorPruning    = "taylor"
	SETPruning       = "set"
	RigLPruning      = "rigl"
	TopKASTPruning   = "topkast"
	SRSTEPruning     = "sr_ste"
	SoftThresholding = "soft_threshold"
	LotteryPruning   = "lottery"
	EarlyBirdPruning = "early_bird"
)

// PruneMethods lists all methods except none.
var PruneMethods = []string{MagnitudePruning, RandomPruning, MovementPruning, TaylorPruning, SETPruning, RigLPruning, TopKASTPruning, SRSTEPruning, SoftThresholding, LotteryPruning, EarlyBirdPruning}

// Pruning structures: the units that are removed together.
const (
	ElementStructure = "element"
	BlockStructure   = "block"
	TwoFourStructure = "2:4"
	ChannelStructure = "channel"
)

// PruneStructures lists all structures.
var PruneStructures = []string{ElementStructure, BlockStructure, TwoFourStructure, ChannelStructure}

// Scopes: over which layers the target sparsity holds.
const (
	GlobalScope  = "global"
	UniformScope = "uniform"
	ERKScope     = "erk"
)

// SparseKernels requires kernels that skip zeros, DenseKernels disables them.
const (
	SparseKernels = "sparse"
	DenseKernels  = "dense"
)

// Keeps reports whether prune.keep names a layer.
func (p Prune) Keeps(layer string) bool {
	return slices.ContainsFunc(p.Keep, func(pattern string) bool { ok, err := path.Match(pattern, layer); return ok && err == nil })
}

// EffectiveScope returns the scope, or its default: erk, which leaves no layer almost empty; global with
// structure 2:4, whose sparsity is equal in all layers, and with methods taylor, soft_threshold and obs; uniform for other
// channel pruning.
func (p Prune) EffectiveScope() string {
	switch {
	case p.Scope != "":
		return p.Scope
	case p.Structure == ChannelStructure && p.Method != TaylorPruning:
		return UniformScope
	case p.Structure == ChannelStructure:
		return GlobalScope
	case p.Structure == TwoFourStructure, p.Method == SoftThresholding, p.Method == OBSPruning:
		return GlobalScope
	}
	return ERKScope
}

// regrows reports whether the method drops and regrows weights at constant sparsity (SET, RigL, Top-KAST, SR-STE).
func (p Prune) regrows() bool {
	return slices.Contains([]string{SETPruning, RigLPruning, TopKASTPruning, SRSTEPruning}, p.Method)
}

// TrainingTime is a point in time of a training: a fraction of its steps, or a number of epochs.
type TrainingTime struct {
	Share  float64 // 0 to 1
	Epochs float64
}

// Fraction returns the fraction of a training of the given number of epochs.
func (m TrainingTime) Fraction(epochs int) float64 { return m.Share + m.Epochs/float64(epochs) }

// ParseTrainingTime parses 30% and 12 epochs.
//
// Errors: a number without unit; any other text.
func ParseTrainingTime(s string) (TrainingTime, error) {
	m := trainingTimeText.FindStringSubmatch(s)
	if m == nil {
		return TrainingTime{}, schema.ErrKind
	}
	v, err := strconv.ParseFloat(m[1], 64)
	switch {
	case err != nil:
		return TrainingTime{}, schema.ErrKind
	case m[2] == "":
		return TrainingTime{}, fmt.Errorf("missing unit: write %s%% for a percentage of the steps, or %s epochs", s, s)
	case m[2] == "%":
		return TrainingTime{Share: v / 100}, nil
	}
	return TrainingTime{Epochs: v}, nil
}

// trainingTimeText matches a number and its unit, which ParseTrainingTime requires.
var trainingTimeText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(%|epochs?|)$`)

// String formats m for ParseTrainingTime.
func (m TrainingTime) String() string {
	if m.Epochs > 0 {
		return strconv.FormatFloat(m.Epochs, 'f', -1, 64) + " epochs"
	}
	return strconv.FormatFloat(m.Share*100, 'g', 12, 64) + "%"
}

// pruneKeys are the rows of Prune.
func pruneKeys() []schema.Key {
	return []schema.Key{
		{Path: "prune.method", Default: NoPruning, Check: OneOf(append([]string{NoPruning}, PruneMethods...)...), Example: MagnitudePruning,
			Help: "Pruning method. magnitude: the smallest weights, gradually; random: random weights, for comparison; movement: weights that training moves towards 0; taylor: channels whose removal changes the loss least; set and rigl: sparse from the start, drop small weights and regrow random ones or those with the largest gradients; topkast: sparse from the start, the largest of weights of which twice as many are trained; sr_ste: sparse from the start, the largest of weights that are all trained, also 2:4; soft_threshold: weights below thresholds of each layer, which are trained; lottery: the smallest weights at prune.to, then rewind to the weights of prune.from; early_bird: the smallest weights once the mask has converged. See docs/compression.md."},
		{Path: "prune.structure", Default: ElementStructure, Check: OneOf(PruneStructures...), Example: BlockStructure,
			Help: "Pruning structure. element: single weights; block: blocks of output and input channels; 2:4: two of four neighbouring input channels of a filter, at each output channel and tap; channel: whole channels, which leaves a smaller dense network. Biases and normalisation parameters are never pruned."},
		{Path: "prune.scope", Check: OneOf(GlobalScope, UniformScope, ERKScope), Example: ERKScope,
			Help: "Scope of the target sparsity. global: all layers together; uniform: each layer; erk: Erdos-Renyi-Kernel, layers with fewer weights are denser. Default: erk; global with structure 2:4, method taylor, soft_threshold or obs; uniform with structure channel."},
		{Path: "prune.target", Default: "0", Check: Between(0, 1), Example: "0.9",
			Help: "Final sparsity: fraction of the weights that are pruned; with structure channel see prune.target_unit."},
		{Path: "prune.target_unit", Default: ChannelsUnit, Check: OneOf(ChannelsUnit, OperationsUnit), Example: OperationsUnit,
			Help: "Unit of prune.target with structure channel: channels (of prunable layers), or operations (FLOPs of a forecast, which decrease roughly with the square of the channels)."},
		{Path: "prune.channel_multiple", Default: "8", Check: Between(1, 1024), Example: "16",
			Help: "With structure channel, layers keep a multiple of this number of channels, the vector width of kernels; at least this number, or all."},
		{Path: "prune.initial", Default: "0", Check: BetweenHalfOpen(0, 1), Example: "0.5",
			Help: "Initial sparsity at prune.from of the gradual schedule of magnitude, random, movement, taylor and soft_threshold."},
		{Path: "prune.from", Default: "10%", Example: "6 epochs",
			Help: "Begin of pruning: a percentage of the training steps, or epochs."},
		{Path: "prune.to", Default: "60%", Example: "36 epochs",
			Help: "End of pruning, when the target is reached. The mask is constant afterwards, and only later weights can become the best weights."},
		{Path: "prune.every", Default: "100", Check: AtLeast(1), Example: "20",
			Help: "Steps between mask updates; early_bird compares epochs instead."},
		{Path: "prune.drop_fraction", Default: "0.3", Check: BetweenExclusive(0, 1), Example: "0.2",
			Help: "Fraction of the remaining weights that set and rigl drop and regrow at each update; that of rigl decays to 0 at prune.to."},
		{Path: "prune.masked_decay", Default: "10", Check: Between(0, 1e4), Example: "1",
			Help: "Weight decay of masked weights with method sr_ste: each step multiplies them by 1 - learning rate x masked_decay. More decay makes masks change less; without it weights return with values that are as random as at the start."},
		{Path: "prune.early_bird.distance", Default: "0.1", Check: BetweenExclusive(0, 1), Example: "0.05",
			Help: "Largest mask distance between epochs, as a fraction of the weights, at which early_bird considers masks equal."},
		{Path: "prune.early_bird.epochs", Default: "5", Check: AtLeast(1), Example: "3",
			Help: "Number of consecutive epochs with equal masks after which early_bird prunes."},
		{Path: "prune.block.out", Default: "16", Check: Between(1, 1024), Example: "8",
			Help: "Output channels of a block; a block covers all positions of the filter."},
		{Path: "prune.block.in", Default: "16", Check: Between(1, 1024), Example: "8",
			Help: "Input channels of a block. Layers with fewer channels than a block are not pruned."},
		{Path: "prune.keep", Example: "[out]",
			Help: "Layers that are not pruned, by parameter name without the suffix .weight; * matches any text."},
		{Path: "prune.kernels", Default: "auto", Check: OneOf("auto", DenseKernels, SparseKernels), Example: SparseKernels,
			Help: "auto: use sparse kernels if they are faster. dense: use dense kernels. sparse: fail if the device has no sparse kernels for this structure."},
	}
}

// checkPrune checks the target, the order of times, and that each key is used by the method.
func (c *TrainConfig) checkPrune() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	p, epochs := c.Prune, c.Train.Train.Epochs
	for _, k := range pruneKeys() {
		// Defaults are allowed: an effective configuration, which lists them all, must load again.
		if c.text(k.Path) == k.Default || k.Path == "prune.method" {
			continue
		}
		switch of := methodsReading(k.Path); {
		case p.Method == NoPruning:
			add(k.Path, k.Path+" without pruning", "prune.method is "+p.Method, "remove it, or set prune.method: "+MagnitudePruning)
		case of != nil && !slices.Contains(of, p.Method):
			add(k.Path, k.Path+" is not used by prune.method: "+p.Method, "", "remove it, or set prune.method: "+strings.Join(of, " or "))
		case (k.Path == "prune.target_unit" || k.Path == "prune.channel_multiple") && p.Structure != ChannelStructure:
			add(k.Path, k.Path+" is not used by structure "+p.Structure, "it prunes no channels", "remove it, or set prune.structure: "+ChannelStructure)
		case strings.HasPrefix(k.Path, "prune.block.") && p.Structure != BlockStructure:
			add(k.Path, k.Path+" is not used by structure "+p.Structure, "it has no blocks", "remove it, or set prune.structure: "+BlockStructure)
		}
	}
	if p.Method == NoPruning {
		return faults
	}
	from, to := p.From.Fraction(epochs), p.To.Fraction(epochs)
	switch {
	case p.Target == 0:
		add("prune.target", "prune.target is missing or 0", "nothing would be pruned", "set a sparsity such as 0.8, or prune.method: "+NoPruning)
	case p.Target == 1:
		add("prune.target", "prune.target is 1", "it would prune all weights", "set a lower target, such as 0.9")
	case p.Structure == TwoFourStructure && p.Target > 0.5:
		add("prune.target", fmt.Sprintf("prune.target is %g, want at most 0.5 with structure 2:4", p.Target), "it keeps two of four weights", "set at most 0.5, or another prune.structure")
	case p.Initial >= p.Target:
		add("prune.initial", fmt.Sprintf("prune.initial is %g, want less than prune.target, %g", p.Initial, p.Target), "sparsity increases", "set a lower prune.initial")
	}
	switch {
	case to > 1:
		add("prune.to", fmt.Sprintf("prune.to is %s, after the end of %d epochs", p.To, epochs), "the target would not be reached", "set at most 100%")
	case from >= to:
		add("prune.from", fmt.Sprintf("prune.from is %s and prune.to %s", p.From, p.To), "pruning would end before it begins", "set prune.from before prune.to")
	}
	twoFour := p.Structure == TwoFourStructure && p.Method == SRSTEPruning // the same sparsity in each layer anyway
	if p.regrows() && p.EffectiveScope() == GlobalScope && !twoFour {
		add("prune.scope", "method "+p.Method+" does not support scope "+GlobalScope, "it regrows weights within a layer, so each layer has a fixed sparsity", "set prune.scope: "+ERKScope+" or "+UniformScope)
	}
	if p.Method == SoftThresholding && (p.EffectiveScope() != GlobalScope || p.Structure == TwoFourStructure) {
		add("prune.method", "method "+p.Method+" does not support structure "+p.Structure+" with scope "+p.EffectiveScope(), "its thresholds distribute the sparsity over layers",
			"set prune.scope: "+GlobalScope+" and structure "+ElementStructure+" or "+BlockStructure)
	}
	if p.Method == TaylorPruning && p.Structure != ChannelStructure {
		add("prune.structure", "method taylor does not support structure "+p.Structure, "it scores whole channels", "set prune.structure: "+ChannelStructure+", or prune.method: "+MagnitudePruning)
	}
	c.checkChannels(add)
	if p.Structure == TwoFourStructure && (p.regrows() && !twoFour || p.Scope == ERKScope) {
		add("prune.structure", "structure 2:4 does not support method "+p.Method+" with scope "+p.EffectiveScope(), "its sparsity is 0.5 in every layer", "choose another structure, or prune.scope: "+GlobalScope+" and another method")
	}
	if c.Model.Method == StagesMethod {
		add("prune.method", "pruning with method "+string(StagesMethod), "its last stage starts from the weights of another network", "set model.method: "+string(JointMethod)+", or prune.method: "+NoPruning)
	}
	return faults
}

// methodsReading lists the methods that use a key; nil: all methods.
func methodsReading(path string) []string {
	switch path {
	case "prune.initial":
		return []string{MagnitudePruning, RandomPruning, MovementPruning, TaylorPruning, SoftThresholding}
	case "prune.drop_fraction":
		return []string{SETPruning, RigLPruning}
	case "prune.masked_decay":
		return []string{SRSTEPruning}
	case "prune.early_bird.distance", "prune.early_bird.epochs":
		return []string{EarlyBirdPruning}
	case "prune.every":
		return []string{MagnitudePruning, RandomPruning, MovementPruning, TaylorPruning, SETPruning, RigLPruning, TopKASTPruning, SRSTEPruning, SoftThresholding}
	}
	return nil
}
