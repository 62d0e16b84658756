package config

import (
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Teacher is the section teacher: knowledge distillation from the distributions that finished
// networks predict.
type Teacher struct {
	Runs   []Path  `key:"runs"` // run directories; empty: no teacher
	Weight float64 `key:"weight"`
}

// DefaultTeacherWeight is the default of teacher.weight.
const DefaultTeacherWeight = "0.5"

// teacherKeys are the rows of Teacher.
func teacherKeys() []schema.Key {
	return []schema.Key{
		{Path: "teacher.runs", Example: "[runs/large]",
			Help: "Run directories of teachers for knowledge distillation: the loss includes the distance from the distribution that they predict, the mean of all their networks. Data, targets and training period must be the same. See docs/compression.md."},
		{Path: "teacher.weight", Default: DefaultTeacherWeight, Check: Between(0, 1), Example: "0.8",
			Help: "Weight w of the teacher in the loss: (1 - w) times the CRPS against the analysis, plus w times the distance to the teacher's distribution."},
	}
}

// checkTeacherWeight returns a fault if teacher.weight is set without teachers; runs is their number.
func (e *Loaded) checkTeacherWeight(runs int) []*exit.Error {
	if runs > 0 || e.text("teacher.weight") == DefaultTeacherWeight {
		return nil
	}
	return []*exit.Error{e.Fault("teacher.weight", "teacher.weight without a teacher", "teacher.runs is empty", "set teacher.runs, or remove it")}
}

// checkTeacher checks that other settings support a teacher. The distance is defined for normal
// distributions.
func (c *TrainConfig) checkTeacher() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	if len(c.Teacher.Runs) == 0 {
		return c.checkTeacherWeight(0)
	}
	const path, or = "teacher.runs", ", or remove teacher"
	m := c.Model
	if m.Head != DistributionHead || m.Family != NormalFamily {
		add(path, "a teacher is not supported by head "+string(m.Head)+", family "+string(m.Family), "the distance is defined for normal distributions", "set model.head: distribution and model.family: "+string(NormalFamily)+or)
	}
	if m.Method == StagesMethod {
		add(path, "a teacher is not supported by method "+string(StagesMethod), "each stage has its own loss", "set model.method: "+string(JointMethod)+or)
	}
	if len(c.Train.Train.Loss.Threshold) > 0 {
		add(path, "a teacher is not supported with train.loss.threshold", "the distance has no thresholds", "remove train.loss.threshold"+or)
	}
	if c.Train.Train.Mesh != "" && c.Train.Train.Mesh != "auto" {
		add(path, "a teacher is not supported with a mesh of ranks", "teachers predict whole fields", "remove train.mesh"+or)
	}
	return faults
}
