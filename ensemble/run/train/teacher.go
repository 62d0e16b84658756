package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// teacher predicts the distributions that a student network learns from (knowledge distillation). It uses the
// student's input members, and no calibration, which was fitted on validation samples. A nil teacher is none.
type teacher struct {
	models  []*model.Model
	weight  float64 // weight of the distillation term in the loss
	options engine.Options
	// cache caches predictions by training sample if a sample always has the same members; else nil.
	cache map[int]teacherPrediction
}

// teacherPrediction is a normal distribution at each point, in physical units.
//
// Shape: [target][level][point].
type teacherPrediction struct{ mean, sigma []float32 }

// teacherFiles lists the files of the teacher models.
//
// Errors: exit 66 for a run that is not finished.
func teacherFiles(c *config.TrainConfig) (files []string, err error) {
	for _, dir := range c.Teacher.Runs {
		if _, _, err := trained.FinishedTraining(string(dir)); err != nil {
			return nil, err
		}
		m, f, err := model.LoadDescription(filepath.Join(string(dir), "model"))
		if err != nil {
			return nil, err
		}
		for name := range m.WeightFiles(f.Networks) {
			files = append(files, filepath.Join(string(dir), "model", name))
		}
		files = append(files, filepath.Join(string(dir), "model", model.File), filepath.Join(string(dir), "model", model.ArraysFile))
	}
	slices.Sort(files) // map order is random
	return files, nil
}

// newTeacher opens the teacher models of a configuration; nil if it has none.
//
// Errors: exit 64 for several ranks, and for a teacher that does not match the student or was fitted on data
// that the student is evaluated on; those of model.Load.
func newTeacher(c *config.TrainConfig, d *samples.Data) (*teacher, error) {
	if len(c.Teacher.Runs) == 0 || c.Teacher.Weight == 0 {
		return nil, nil
	}
	if d.Ranks != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "distillation does not run on several ranks", At: "teacher.runs", Why: "the teacher predicts whole fields, and each rank has a part of them",
			Fix: "train on one rank with several train.threads"}
	}
	t := &teacher{weight: c.Teacher.Weight, options: network.Options(c.Train.Train.Threads, c.Train.Train.Device)}
	if c.Data.Members.Sampling != randomMembers && c.Data.Members.Minimum == 0 {
		t.cache = map[int]teacherPrediction{}
	}
	for _, run := range c.Teacher.Runs {
		m, err := model.Load(filepath.Join(string(run), "model"), false)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.models = append(t.models, m)
		if err := checkTeacher(string(run), m, c, d); err != nil {
			return nil, errors.Join(err, t.close())
		}
		m.Recalibrations, m.Spec.Head.Distribution.Recalibration = nil, ""
	}
	return t, nil
}

// checkTeacher checks that a model can teach a training: same targets, input and members, and no data that the
// student is selected or evaluated on.
func checkTeacher(run string, m *model.Model, c *config.TrainConfig, d *samples.Data) error {
	no := func(what, why string) error {
		return &exit.Error{Code: exit.Usage, What: what, At: run, Why: why, Fix: "give a teacher that was trained on the same data and targets, or change those of the student"}
	}
	k, own, head := &m.Task, setup.TaskOf(c), m.Spec.Head
	a, b := k.Features.Axes, d.Axes
	switch {
	case head.Distribution == nil || head.Distribution.Family != config.NormalFamily:
		return no("the teacher does not predict a normal distribution", fmt.Sprintf("its head is %s%s", head.Name(), familyName(head)))
	case m.Spec.Reference != "":
		return no("the teacher corrects a baseline", fmt.Sprintf("%s, which was fitted on validation samples too, and on training samples without cross-fitting", m.Spec.Reference))
	case !slices.Equal(k.Targets, own.Targets):
		return no("the teacher has other targets", fmt.Sprintf("it predicts %v, the student %v", k.Targets, own.Targets))
	case !slices.Equal(a.Variables, b.Variables) || !slices.Equal(a.Levels, b.Levels) || !slices.Equal(a.Leads, b.Leads):
		return no("the teacher reads other fields", fmt.Sprintf("%v at %v of %v, the student %v at %v of %v", a.Variables, a.Levels, a.Leads, b.Variables, b.Levels, b.Leads))
	case !m.Grid.SameAs(d.Grid, input.GridTolerance):
		return no("the teacher has another grid", fmt.Sprintf("%d×%d points, the student %d×%d", m.Grid.NY, m.Grid.NX, d.Grid.NY, d.Grid.NX))
	case m.Interpolation != setup.InterpolationOf(c):
		return no("the teacher uses another interpolation", fmt.Sprintf("%+v, the student's %+v", m.Interpolation, setup.InterpolationOf(c)))
	case len(k.UsedMembers) != len(d.Used) || k.FullMembers != len(d.All) || m.Control != c.Data.Members.Control:
		return no("the teacher uses other members", fmt.Sprintf("%d of %d, control %s, the student %d of %d, control %s", len(k.UsedMembers), k.FullMembers, m.Control, len(d.Used), len(d.All), c.Data.Members.Control))
	}
	return checkUnseen(m, run, d.Split)
}

// familyName describes the family of a distribution head, for errors.
func familyName(h network.HeadSpec) string {
	if h.Distribution == nil {
		return ""
	}
	return fmt.Sprintf(", its family %s", h.Distribution.Family)
}

// checkUnseen checks for leakage: the teacher must not be trained on validation or test samples of the student,
// nor be selected on its test samples.
//
// Errors: exit 64.
func checkUnseen(m *model.Model, run string, split ensemble.Split) error {
	leak := func(what string, init ensemble.Init, p ensemble.Period) error {
		return &exit.Error{Code: exit.Usage, What: "the teacher was fitted on samples that the student is evaluated on", At: run,
			Why: fmt.Sprintf("it was %s %s to %s, and %s is a validation or test initialisation of the student", what, ensemble.Init{Time: p.From}, ensemble.Init{Time: p.To}, init),
			Fix: "train the teacher on the dates of data.split.train, or move data.split.validation and data.split.test after its dates"}
	}
	in := func(p ensemble.Period, i ensemble.Init) bool { return !i.Time.Before(p.From) && !i.Time.After(p.To) }
	for _, i := range slices.Concat(split.Validation, split.Test) {
		if in(m.Trained, i) {
			return leak("trained on initialisations from", i, m.Trained)
		}
	}
	tc, err := config.LoadTrain(config.Sources{Files: []string{filepath.Join(run, "config.effective.yaml")}})
	if err != nil {
		return err
	}
	chosen := tc.Data.Split.Validation.Period()
	if !tc.Data.Split.IsByDate() {
		theirs, err := setup.ApplySplit(tc.Data.Split, samples.SplitInits(split))
		if err != nil || len(theirs.Train) == 0 || !theirs.Train[0].Equal(m.Trained.From) || !theirs.Train[len(theirs.Train)-1].Equal(m.Trained.To) {
			return &exit.Error{Code: exit.Usage, What: "the teacher's validation dates are unknown", At: run, Why: "its split is by fractions of other initialisations than those of the student",
				Fix: "train it with data.split.train and data.split.validation given as dates"}
		}
		if len(theirs.Validation) == 0 {
			return nil
		}
		chosen = ensemble.Period{From: theirs.Validation[0].Time, To: theirs.Validation[len(theirs.Validation)-1].Time}
	}
	for _, i := range split.Test {
		if in(chosen, i) {
			return leak("selected on initialisations from", i, chosen)
		}
	}
	return nil
}

// lossWeight is the weight of the teacher in the loss; 0 without one.
func (t *teacher) lossWeight() float64 {
	if t == nil {
		return 0
	}
	return t.weight
}

// close frees the teacher's networks.
func (t *teacher) close() (err error) {
	if t == nil {
		return nil
	}
	for _, m := range t.models {
		err = errors.Join(err, m.Close())
	}
	return err
}

// fill writes the teacher's prediction for a training sample into its slot of a batch, relative to the mean
// of the input members and in units of the error scale. Means and standard deviations of several networks are
// averaged, as in a prediction.
//
// Memory: two fields per target, level and training sample if predictions are cached.
func (t *teacher) fill(ctx context.Context, k *task.Task, b *task.Batch, s slot) error {
	if t == nil {
		return nil
	}
	prediction, ok := t.cache[s.sample]
	if !ok {
		var err error
		if prediction, err = t.predict(ctx, s.fc, s.used); err != nil {
			return err
		}
		if t.cache != nil {
			t.cache[s.sample] = prediction
		}
	}
	return k.FillTeacher(b, s.index, s.fc, s.used, prediction.mean, prediction.sigma)
}

// predict averages mean and standard deviation over the networks of all teacher models, with equal weight per
// network.
func (t *teacher) predict(ctx context.Context, fc *ensemble.Forecast, used []int) (average teacherPrediction, err error) {
	members := make([]ensemble.Member, len(used))
	for i, at := range used {
		members[i] = fc.Members[at]
	}
	networks := 0
	for _, m := range t.models {
		networks += len(m.Networks)
	}
	for _, m := range t.models {
		out, err := m.Predict(ctx, t.options, fc, members)
		if err != nil {
			return average, err
		}
		if average.mean == nil {
			average = teacherPrediction{make([]float32, len(out.Mean)), make([]float32, len(out.Mean))}
		}
		share := float32(len(m.Networks)) / float32(networks)
		for i, mean := range out.Mean {
			average.mean[i] += share * mean
			average.sigma[i] += share * out.Sigma[i]
		}
	}
	return average, nil
}
