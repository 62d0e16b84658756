package config

import "github.com/ensemble-weather/ensemble/internal/exit"

// Teacher is what a network learns from beside the analyses: the distributions that finished trainings predict.
type Teacher struct {
	Runs   []Path  `key:"runs"` // none: no teacher
	Weight float64 `key:"weight"`
}

// DefaultTeacherWeight is that of the teacher's term unless it is told.
const DefaultTeacherWeight = "0.5"

// teacherKeys are the rows of Teacher.
func teacherKeys() []Key {
	return []Key{
		{Path: "teacher.runs", Example: "[runs/large]",
			Help: "Folders of finished trainings from which the network learns too: the distribution that it gives is drawn to the one that they predict, the mean of all their networks. Their data, targets and training dates are to be those of this training. See docs/compression.md."},
		{Path: "teacher.weight", Default: DefaultTeacherWeight, Check: Between(0, 1), Example: "0.8",
			Help: "Weight w of the teacher in the loss: (1 - w) times the CRPS against the analysis, w times the distance to the teacher's distribution."},
	}
}

// checkTeacherWeight refuses the weight of a teacher where none of so many runs teaches.
func (e *loaded) checkTeacherWeight(runs int) []*exit.Error {
	if runs > 0 || e.text("teacher.weight") == DefaultTeacherWeight {
		return nil
	}
	return []*exit.Error{e.fault("teacher.weight", "teacher.weight is given and there is no teacher", "teacher.runs is empty", "name its runs, or remove it")}
}

// checkTeacher: only a normal distribution has a distance to that of a teacher.
func (c *TrainConfig) checkTeacher() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	if len(c.Teacher.Runs) == 0 {
		return c.checkTeacherWeight(0)
	}
	const path, or = "teacher.runs", ", or remove teacher"
	m := c.Model
	if m.Head != DistributionHead || m.Family != NormalFamily {
		add(path, "a teacher is given to head "+string(m.Head)+", family "+string(m.Family), "the distance is that of two normal distributions", "set model.head: distribution and model.family: "+string(NormalFamily)+or)
	}
	if m.Method == StagesMethod {
		add(path, "a teacher is given to networks of three stages", "each of them has a loss of its own", "set model.method: "+string(JointMethod)+or)
	}
	if len(c.Train.Train.Loss.Threshold) > 0 {
		add(path, "a teacher and train.loss.threshold are given", "the distance knows no thresholds", "remove train.loss.threshold"+or)
	}
	if c.Train.Train.Mesh != "" && c.Train.Train.Mesh != "auto" {
		add(path, "a teacher is given to a mesh of ranks", "its networks predict whole fields", "remove train.mesh"+or)
	}
	return faults
}
