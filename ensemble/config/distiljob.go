package config

import (
	"slices"
	"strconv"
	"strings"
)

// DistilJob is the configuration of `ensemble distil`.
type DistilJob struct {
	Version      int     `key:"version"`
	Teachers     []Path  `key:"from"`
	Weight       float64 `key:"weight"`
	Epochs       int     `key:"epochs"`
	LearningRate float64 `key:"learning_rate"`
	Schedule     string  `key:"schedule"`
	Warmup       int     `key:"warmup"`
	Patience     int     `key:"patience"`
	Seed         int     `key:"seed"`
	Networks     int     `key:"networks"`
	CompareWith  []Path  `key:"beside"`
	Model        Model   `key:"model"`
}

// trainKeyOf are the keys of train.yaml that those of a student stand for.
var trainKeyOf = map[string]string{
	"weight": "teacher.weight", "epochs": "train.epochs", "learning_rate": "train.learning_rate", "schedule": "train.schedule", "warmup": "train.warmup",
	"patience": "train.early_stop.patience", "seed": "train.seed", "networks": "train.networks",
}

// DistilSchema describes distil.yaml. The student's network has the keys that it has in train.yaml; what is not given
// is as the teacher's training had it.
var DistilSchema = newSchema[DistilJob]("distil", slices.Concat([]Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "from", Required: true, Example: "[runs/large]",
		Help: "Folders of the finished trainings that teach: the mean of all their networks. What is not said here of the student, its data and loss too, is as in the first of them."},
	{Path: "beside", Example: "[runs/alone]",
		Help: "Folders of other finished trainings that stand in the table too, such as the same student without a teacher."},
	{Path: "weight", Default: DefaultTeacherWeight, Check: Between(0, 1), Example: "0.8",
		Help: "Weight w of the teacher in the loss: (1 - w) times the CRPS against the analysis, w times the distance to the teacher's distribution."},
}, studentKeys()))

// studentKeys are rows of train.yaml, without what is required and what is there without them.
func studentKeys() (keys []Key) {
	for _, k := range TrainSchema.Keys {
		for own, of := range trainKeyOf {
			if k.Path == of && own != "weight" {
				k.Path = own
			}
		}
		if _, own := trainKeyOf[k.Path]; own || strings.HasPrefix(k.Path, "model.") {
			k.Required, k.Default, k.MayChangeOnResume = false, "", false
			keys = append(keys, k)
		}
	}
	return keys
}

// DistilConfig is a loaded distil.yaml.
type DistilConfig struct {
	DistilJob
	*loaded
}

// LoadDistil reads the configuration of a student.
//
// Errors: exit 64 with all faults at once, each with its place and a remedy. What does not go with
// the teacher's training is found when that is read (Training).
func LoadDistil(src Sources) (*DistilConfig, error) {
	e, err := load(DistilSchema, src)
	if err != nil {
		return nil, err
	}
	c := &DistilConfig{loaded: e}
	e.fill(&c.DistilJob)
	return c, nil
}

// Training is the configuration of the student's training, of the effective configuration of its teacher, which is in a
// file. Teachers are the folders of its runs.
//
// Errors: as LoadTrain.
func (c *DistilConfig) Training(file string, teachers []string) (*TrainConfig, error) {
	runs := make([]string, len(teachers))
	for i, dir := range teachers {
		runs[i] = strconv.Quote(dir)
	}
	set := []string{"teacher.runs=[" + strings.Join(runs, ", ") + "]"}
	// How the teacher was pruned, and what it began with, is not the student's.
	unset := []string{"model.start", "model.channels_of"}
	for _, k := range pruneKeys() {
		unset = append(unset, k.Path)
	}
	for _, k := range DistilSchema.Keys {
		of, own := trainKeyOf[k.Path]
		if strings.HasPrefix(k.Path, "model.") {
			of, own = k.Path, true
		}
		if own && c.text(k.Path) != "" {
			unset = slices.DeleteFunc(unset, func(path string) bool { return path == of })
			set = append(set, of+"="+c.text(k.Path))
		}
	}
	return LoadTrain(Sources{Files: []string{file}, Set: set, unset: unset})
}
