package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// PruneJob is the configuration of `ensemble prune`.
type PruneJob struct {
	Version      int     `key:"version"`
	RunDir       Path    `key:"from"`
	Rounds       int     `key:"rounds"`
	Epochs       int     `key:"epochs"`
	LearningRate float64 `key:"learning_rate"`
	CompareWith  []Path  `key:"beside"`
	Prune        Prune   `key:"prune"`
	Teacher      Teacher `key:"teacher"`
}

// PruneSchema describes prune.yaml. What is removed has the keys that it has in train.yaml; when,
// follows from the rounds.
var PruneSchema = newSchema[PruneJob]("prune", slices.Concat([]Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "from", Required: true, Example: "runs/a",
		Help: "Folder of the finished training whose network is pruned. Its data, loss and seed are those of the training between the rounds."},
	{Path: "rounds", Default: "3", Check: Between(1, 1000), Example: "1",
		Help: "How often something is removed: the first time before the first step, each time less, along a cubic curve."},
	{Path: "epochs", Default: "10", Check: Between(1, 1e6), Example: "5",
		Help: "Passes over the training starts after each round."},
	{Path: "learning_rate", Check: Above(0), Example: "0.001",
		Help: "Largest learning rate of these passes, whose schedule is that of the training. Without it, a third of the training's."},
	{Path: "beside", Example: "[runs/small]",
		Help: "Folders of other finished trainings that stand in the table too, such as a smaller network trained from the start."},
}, pruneJobKeys(), teacherKeys()))

// derivedKeys are the keys of prune that follow from the rounds.
var derivedKeys = []string{"prune.from", "prune.to", "prune.every", "prune.initial"}

// GradualMethods are those that remove more and more, and bring nothing back.
var GradualMethods = []string{MagnitudePruning, RandomPruning, MovementPruning}

// pruneJobKeys are those of prune, with a method that prunes.
func pruneJobKeys() []Key {
	keys := pruneKeys()
	for i := range keys {
		if keys[i].Path == "prune.method" {
			keys[i].Default, keys[i].Check = MagnitudePruning, OneOf(GradualMethods...)
		}
	}
	return keys
}

// PruneConfig is a loaded prune.yaml.
type PruneConfig struct {
	PruneJob
	*loaded
}

// LoadPrune reads the configuration of a pruning job.
//
// Errors: exit 64 with all faults at once, each with its place and a remedy. What does not go with
// the training is found when that is read (Training).
func LoadPrune(src Sources) (*PruneConfig, error) {
	e, err := load(PruneSchema, src)
	if err != nil {
		return nil, err
	}
	c := &PruneConfig{loaded: e}
	e.fill(&c.PruneJob)
	var faults []*exit.Error
	for _, path := range derivedKeys {
		if c.Origin(path).Layer != "default" {
			faults = append(faults, c.fault(path, path+" is given to a pruning of rounds", "when something is removed follows from rounds and epochs", "remove it"))
		}
	}
	return c, joinFaults(append(faults, e.checkTeacherWeight(len(c.Teacher.Runs))...))
}

// Training is the configuration of the training that prunes the network of a finished one, whose
// effective configuration is in a file and whose weights are in another one; it had so many training starts.
//
// Errors: as LoadTrain; those of keys of prune name them as they stand in prune.yaml.
func (c *PruneConfig) Training(file, weights string, starts int) (*TrainConfig, error) {
	var set []string // also what has its default: the training may have pruned in another way
	for _, k := range pruneJobKeys() {
		if !slices.Contains(derivedKeys, k.Path) && c.text(k.Path) != "" {
			set = append(set, k.Path+"="+c.text(k.Path))
		}
	}
	if len(c.Teacher.Runs) > 0 {
		set = append(set, "teacher.runs="+c.text("teacher.runs"), "teacher.weight="+c.text("teacher.weight"))
	}
	set = append(set, "prune.from=0%", "prune.to=50%", "prune.every=1", "prune.initial=0")
	dense, err := LoadTrain(Sources{Files: []string{file}, Set: set})
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
	set = append(set, "model.start="+weights, "train.epochs="+strconv.Itoa(c.Rounds*c.Epochs), "train.learning_rate="+number(rate), "train.early_stop.patience=0")
	// Round k of R leaves a sparsity of target·(1 − (1 − (k+1)/R)³), the cubic curve of a training that began
	// one round before. It is the same curve from the first round's sparsity to the last round's.
	r := float64(c.Rounds)
	first := c.Prune.Target * (1 - math.Pow(1-1/r, 3))
	if c.Rounds == 1 { // a curve needs two points: all goes at the second step
		set = append(set, "prune.to="+number(100/float64(steps))+"%")
	} else {
		set = append(set, fmt.Sprintf("prune.to=%d epochs", (c.Rounds-1)*c.Epochs), "prune.every="+strconv.Itoa(steps), "prune.initial="+number(first))
	}
	return LoadTrain(Sources{Files: []string{file}, Set: set})
}
