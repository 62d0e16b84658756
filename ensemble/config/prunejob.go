package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// PruneJob is prune.yaml, the configuration of `ensemble prune`.
type PruneJob struct {
	Version      int     `key:"version"`
	RunDir       Path    `key:"run_dir"`
	Rounds       int     `key:"rounds"`
	Epochs       int     `key:"epochs"`
	LearningRate float64 `key:"learning_rate"`
	CompareWith  []Path  `key:"compare_with"`
	Prune        Prune   `key:"prune"`
	Teacher      Teacher `key:"teacher"`
	Calibration  Surgery `key:"calibration"`
}

// Surgery is the section calibration: the data and the damping of method obs (engine/prune/obs).
type Surgery struct {
	Inits   int     `key:"inits"`
	Damping float64 `key:"damping"`
	MaxSide int     `key:"max_side"`
}

// PruneSchema is the schema of prune.yaml. The section prune is that of train.yaml, but times follow
// from rounds and epochs.
var PruneSchema = newSchema[PruneJob]("prune", slices.Concat([]schema.Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "run_dir", Required: true, Example: "runs/a",
		Help: "Run directory of the network to prune. Fine-tuning has the same data, loss and seed."},
	{Path: "rounds", Default: "3", Check: Between(1, 1000), Example: "1",
		Help: "Number of pruning rounds; the first is before the first step. Sparsity follows a cubic curve, so each round prunes less."},
	{Path: "epochs", Default: "10", Check: Between(0, 1e6), Example: "5",
		Help: "Epochs of fine-tuning after each round. 0: prune at once, without training. Method obs never trains."},
	{Path: "learning_rate", Check: Above(0), Example: "0.001",
		Help: "Largest learning rate of fine-tuning; the schedule is that of the training. Default: a third of that of the training."},
	{Path: "compare_with", Example: "[runs/small]",
		Help: "Run directories of further networks for the comparison, such as a small network trained from scratch."},
	{Path: "calibration.inits", Default: "16", Check: Between(1, 1e6), Example: "32",
		Help: "Number of training initialisations whose fields give the Hessians of method obs, evenly spread."},
	{Path: "calibration.damping", Default: "0.01", Check: Above(0), Example: "0.1",
		Help: "Damping of the Hessians of method obs, relative to the mean of their diagonal. More damping changes the remaining weights less."},
	{Path: "calibration.max_side", Default: "4096", Check: Between(1, 1e5), Example: "2048",
		Help: "Largest number of input channels times filter positions for which method obs uses the full Hessian. Layers with more have a Hessian of the channels."},
}, pruneJobKeys(), teacherKeys()))

// derivedKeys lists the keys of prune that are derived from rounds and epochs.
var derivedKeys = []string{"prune.from", "prune.to", "prune.every", "prune.initial"}

// GradualMethods lists the methods that increase sparsity gradually and never regrow weights.
var GradualMethods = []string{MagnitudePruning, RandomPruning, MovementPruning}

// OBSPruning removes blocks at once and adapts the remaining weights (Optimal Brain Surgeon).
const OBSPruning = "obs"

// pruneJobKeys are the rows of Prune for prune.yaml, where prune.method must be a gradual one or obs.
func pruneJobKeys() []schema.Key {
	keys := pruneKeys()
	for i := range keys {
		if keys[i].Path == "prune.method" {
			keys[i].Default, keys[i].Check = MagnitudePruning, OneOf(append([]string{OBSPruning}, GradualMethods...)...)
			keys[i].Help = "Pruning method. magnitude: the smallest weights; random: random weights, for comparison; movement: weights that training moves towards 0; obs: without training, the blocks whose removal changes the results least when the remaining weights follow; later layers repair the errors of earlier ones. See docs/compression.md."
		}
	}
	return keys
}

// PruneConfig is a loaded prune.yaml: its values and their origins.
type PruneConfig struct {
	PruneJob
	*Loaded
}

// LoadPrune loads prune.yaml.
//
// Errors: exit 64 with all faults, each with its position and a fix. Conflicts with the
// configuration of the run are found by Training.
func LoadPrune(src Sources) (*PruneConfig, error) {
	e, err := Load(PruneSchema, src)
	if err != nil {
		return nil, err
	}
	c := &PruneConfig{Loaded: e}
	e.Fill(&c.PruneJob)
	var faults []*exit.Error
	for _, path := range derivedKeys {
		if c.Origin(path).Layer != "default" {
			faults = append(faults, c.Fault(path, path+" is not used by `ensemble prune`", "times follow from rounds and epochs", "remove it"))
		}
	}
	faults = append(faults, c.checkAtOnce()...)
	return c, JoinFaults(append(faults, e.checkTeacherWeight(len(c.Teacher.Runs))...))
}

// AtOnce reports whether the network is pruned without training.
func (c *PruneConfig) AtOnce() bool { return c.Prune.Method == OBSPruning || c.Epochs == 0 }

// checkAtOnce checks the keys of pruning without training, and that those of calibration belong to obs.
func (c *PruneConfig) checkAtOnce() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	set := func(path string) bool { return c.Origin(path).Layer != "default" }
	p := c.Prune
	for _, path := range []string{"calibration.inits", "calibration.damping", "calibration.max_side"} {
		if p.Method != OBSPruning && set(path) {
			add(path, path+" is not used by prune.method: "+p.Method, "only obs has Hessians", "remove it, or set prune.method: "+OBSPruning)
		}
	}
	if !c.AtOnce() {
		return faults
	}
	for _, path := range []string{"rounds", "learning_rate", "teacher.runs"} {
		if set(path) {
			add(path, path+" without training", "the network is pruned at once", "remove it, or set another prune.method and epochs")
		}
	}
	switch {
	case p.Method == OBSPruning && c.Epochs > 0 && set("epochs"):
		add("epochs", "prune.method: "+OBSPruning+" does not train", "", "remove epochs, or set prune.method: "+MagnitudePruning)
	case p.Method == MovementPruning:
		add("prune.method", "prune.method: "+p.Method+" with epochs: 0", "its scores come from training", "set epochs, or prune.method: "+MagnitudePruning)
	}
	switch {
	case p.Structure == ChannelStructure:
		add("prune.structure", "structure "+ChannelStructure+" without training", "channels are removed during training", "set epochs, or prune.structure: "+BlockStructure)
	case p.Method == OBSPruning && p.Structure != BlockStructure:
		add("prune.structure", "prune.method: "+OBSPruning+" with structure "+p.Structure, "it removes blocks", "set prune.structure: "+BlockStructure)
	}
	if p.Target == 0 || p.Target == 1 {
		add("prune.target", fmt.Sprintf("prune.target is %g", p.Target), "nothing, or everything, would be pruned", "set a sparsity such as 0.5")
	}
	return faults
}

// Training returns the configuration of the training that prunes a finished network: the effective
// configuration of its run (file), its weights, and pruning times derived from rounds and epochs.
// starts is the number of training initialisations, from which steps are computed.
//
// Errors: those of LoadTrain; faults in keys of prune name their position in prune.yaml.
func (c *PruneConfig) Training(file, weights string, starts int) (*TrainConfig, error) {
	// The weights of the run are fine-tuned already.
	var unset []string
	for _, k := range pretrainKeys() {
		unset = append(unset, k.Path)
	}
	var set []string // defaults too: the run may have been pruned with other settings
	for _, k := range pruneJobKeys() {
		if !slices.Contains(derivedKeys, k.Path) && c.text(k.Path) != "" {
			set = append(set, k.Path+"="+c.text(k.Path))
		}
	}
	if len(c.Teacher.Runs) > 0 {
		set = append(set, "teacher.runs="+c.text("teacher.runs"), "teacher.weight="+c.text("teacher.weight"))
	}
	set = append(set, "prune.from=0%", "prune.to=50%", "prune.every=1", "prune.initial=0")
	dense, err := LoadTrain(Sources{Files: []string{file}, Set: set, unset: unset})
	if err != nil {
		return nil, err
	}
	t := dense.Train.Train
	rate := c.LearningRate
	if rate == 0 {
		rate = t.LearningRate / 3
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	batches := (starts + t.BatchSize - 1) / t.BatchSize
	perEpoch := (batches + t.Accumulate - 1) / t.Accumulate
	steps := perEpoch * c.Epochs
	set = append(set, "model.pretrained="+weights, "train.epochs="+strconv.Itoa(c.Rounds*c.Epochs), "train.learning_rate="+number(rate), "train.early_stop.patience=0")
	// After round k of R, from 0, the sparsity is target·(1 − (1 − (k+1)/R)³), the cubic schedule of Zhu & Gupta
	// 2017, arXiv:1710.01878, that began one round earlier. It equals the schedule from the sparsity of the
	// first round to that of the last.
	r := float64(c.Rounds)
	first := c.Prune.Target * (1 - math.Pow(1-1/r, 3))
	if c.Rounds == 1 { // a schedule needs two points: prune everything at the second step
		set = append(set, "prune.to="+number(100/float64(steps))+"%")
	} else {
		set = append(set, fmt.Sprintf("prune.to=%d epochs", (c.Rounds-1)*c.Epochs), "prune.every="+strconv.Itoa(steps), "prune.initial="+number(first))
	}
	return LoadTrain(Sources{Files: []string{file}, Set: set, unset: unset})
}
