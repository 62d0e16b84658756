package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// DistilJob is the configuration of `ensemble distil`: the student network, and how it is trained.
type DistilJob struct {
	Version      int     `key:"version"`
	Teachers     []Path  `key:"teachers"`
	Weight       float64 `key:"weight"`
	Epochs       int     `key:"epochs"`
	LearningRate float64 `key:"learning_rate"`
	Schedule     string  `key:"schedule"`
	Warmup       int     `key:"warmup"`
	Patience     int     `key:"patience"`
	Seed         int     `key:"seed"`
	Networks     int     `key:"networks"`
	CompareWith  []Path  `key:"compare_with"`
	Model        Model   `key:"model"`
}

// trainKeyOf maps keys of distil.yaml to the keys of train.yaml that they set.
var trainKeyOf = map[string]string{
	"weight": "teacher.weight", "epochs": "train.epochs", "learning_rate": "train.learning_rate", "schedule": "train.schedule", "warmup": "train.warmup",
	"patience": "train.early_stop.patience", "seed": "train.seed", "networks": "train.networks",
}

// DistilSchema is the schema of distil.yaml. The section model is that of train.yaml. Keys that are
// not given have the values of the first teacher's configuration.
var DistilSchema = newSchema[DistilJob]("distil", slices.Concat([]schema.Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "teachers", Required: true, Example: "[runs/large]",
		Help: "Run directories of the teachers; the student learns the mean of all their networks. Keys that are not given, data and loss included, are those of the first teacher."},
	{Path: "compare_with", Example: "[runs/alone]",
		Help: "Run directories of further networks for the comparison, such as the same student without a teacher."},
	{Path: "weight", Default: DefaultTeacherWeight, Check: Between(0, 1), Example: "0.8",
		Help: "Weight w of the teacher in the loss: (1 - w) times the CRPS against the analysis, plus w times the distance to the teacher's distribution."},
}, studentKeys()))

// studentKeys are the rows of train.yaml that a student has too: none is required, none has a
// default.
func studentKeys() (keys []schema.Key) {
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

// DistilConfig is a loaded distil.yaml: its values and their origins.
type DistilConfig struct {
	DistilJob
	*Loaded
}

// LoadDistil loads distil.yaml.
//
// Errors: exit 64 with all faults, each with its position and a fix. Conflicts with the teacher's
// configuration are found by Training.
func LoadDistil(src Sources) (*DistilConfig, error) {
	e, err := Load(DistilSchema, src)
	if err != nil {
		return nil, err
	}
	c := &DistilConfig{Loaded: e}
	e.Fill(&c.DistilJob)
	return c, nil
}

// Training returns the configuration of the student's training: the effective configuration of
// the first teacher (file), overridden by the keys of distil.yaml. teachers are the run
// directories of all teachers.
//
// Errors: those of LoadTrain.
func (c *DistilConfig) Training(file string, teachers []string) (*TrainConfig, error) {
	runs := make([]string, len(teachers))
	for i, dir := range teachers {
		runs[i] = strconv.Quote(dir)
	}
	set := []string{"teacher.runs=[" + strings.Join(runs, ", ") + "]"}
	// The student inherits neither pruning nor initial weights nor pre-training from the teacher.
	unset := []string{"model.pretrained", "model.channels_from"}
	for _, k := range slices.Concat(pruneKeys(), pretrainKeys()) {
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
