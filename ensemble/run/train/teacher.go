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

// teacher gives the distributions that finished trainings predict to one that learns from them: of the members that the student
// sees, without what calibration makes of them, as that was fitted to validation starts. A nil teacher teaches nothing.
type teacher struct {
	models  []*model.Model
	weight  float64
	options engine.Options
	// cache are the distributions of training starts, where a start always has the same members; else nil.
	cache map[int]teacherPrediction
}

// teacherPrediction is a normal distribution of each point, in physical units.
//
// Shape: as targets are stored.
type teacherPrediction struct{ mean, sigma []float32 }

// teacherFiles are those of the models that teach.
//
// Errors: 66 for a run that is not finished.
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
	slices.Sort(files) // names of weights come from a map
	return files, nil
}

// newTeacher opens the models of a configuration's teacher; nil if it has none.
//
// Errors: 64 for one that was trained on other data, or has seen what the student is judged by; those of model.Load.
func newTeacher(c *config.TrainConfig, d *samples.Data) (*teacher, error) {
	if len(c.Teacher.Runs) == 0 || c.Teacher.Weight == 0 {
		return nil, nil
	}
	if d.Ranks != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "a teacher is given to a training on several ranks", At: "teacher.runs", Why: "its networks predict whole fields, of which each rank has a part",
			Fix: "train on one rank, with several train.threads"}
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

// checkTeacher tells whether a model can teach a training: it predicts the same, of the same input, and has seen nothing that the
// student is chosen or judged by.
func checkTeacher(run string, m *model.Model, c *config.TrainConfig, d *samples.Data) error {
	no := func(what, why string) error {
		return &exit.Error{Code: exit.Usage, What: what, At: run, Why: why, Fix: "name a teacher that was trained on the same data and targets, or change those of the student"}
	}
	k, own, head := &m.Task, setup.TaskOf(c), m.Spec.Head
	a, b := k.Features.Axes, d.Axes
	switch {
	case head.Distribution == nil || head.Distribution.Family != config.NormalFamily:
		return no("the teacher gives no normal distribution", fmt.Sprintf("its head is %s%s", head.Name(), familyName(head)))
	case m.Spec.Reference != "":
		return no("the teacher corrects a baseline", fmt.Sprintf("%s, which was fitted to validation starts too, and to the training starts without leaving one out", m.Spec.Reference))
	case !slices.Equal(k.Targets, own.Targets):
		return no("the teacher has other targets", fmt.Sprintf("it predicts %v, the student %v", k.Targets, own.Targets))
	case !slices.Equal(a.Variables, b.Variables) || !slices.Equal(a.Levels, b.Levels) || !slices.Equal(a.Leads, b.Leads):
		return no("the teacher reads other fields", fmt.Sprintf("%v at %v of %v, the student %v at %v of %v", a.Variables, a.Levels, a.Leads, b.Variables, b.Levels, b.Leads))
	case !m.Grid.SameAs(d.Grid, input.GridTolerance):
		return no("the teacher has another grid", fmt.Sprintf("%d×%d points, the student %d×%d", m.Grid.NY, m.Grid.NX, d.Grid.NY, d.Grid.NX))
	case m.Interpolation != setup.InterpolationOf(c):
		return no("the teacher's fields come to their grid in another way", fmt.Sprintf("%+v, the student's %+v", m.Interpolation, setup.InterpolationOf(c)))
	case len(k.UsedMembers) != len(d.Used) || k.FullMembers != len(d.All) || m.Control != c.Data.Members.Control:
		return no("the teacher sees other members", fmt.Sprintf("%d of %d, control %s, the student %d of %d, control %s", len(k.UsedMembers), k.FullMembers, m.Control, len(d.Used), len(d.All), c.Data.Members.Control))
	}
	return checkUnseen(m, run, d.Split)
}

// familyName name the family of a distribution head.
func familyName(h network.HeadSpec) string {
	if h.Distribution == nil {
		return ""
	}
	return fmt.Sprintf(", its family %s", h.Distribution.Family)
}

// checkUnseen refuses a teacher that was trained on starts for which the student is to be chosen or judged, or was chosen by
// some on which it is to be judged.
func checkUnseen(m *model.Model, run string, split ensemble.Split) error {
	leak := func(what string, init ensemble.Init, p ensemble.Period) error {
		return &exit.Error{Code: exit.Usage, What: "the teacher has seen what the student is judged by", At: run,
			Why: fmt.Sprintf("it was %s %s to %s, and %s is a start for validation or test here", what, ensemble.Init{Time: p.From}, ensemble.Init{Time: p.To}, init),
			Fix: "train the teacher on the dates of data.split.train, or move data.split.validation and data.split.test behind its dates"}
	}
	in := func(p ensemble.Period, i ensemble.Init) bool { return !i.Time.Before(p.From) && !i.Time.After(p.To) }
	for _, i := range slices.Concat(split.Validation, split.Test) {
		if in(m.Trained, i) {
			return leak("trained on starts from", i, m.Trained)
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
			return &exit.Error{Code: exit.Usage, What: "which dates the teacher was chosen by is not known", At: run, Why: "its split is one of fractions of other starts than those of the student",
				Fix: "train it with data.split.train and data.split.validation by dates"}
		}
		if len(theirs.Validation) == 0 {
			return nil
		}
		chosen = ensemble.Period{From: theirs.Validation[0].Time, To: theirs.Validation[len(theirs.Validation)-1].Time}
	}
	for _, i := range split.Test {
		if in(chosen, i) {
			return leak("chosen by starts from", i, chosen)
		}
	}
	return nil
}

// lossWeight is the weight of the teacher in the loss.
func (t *teacher) lossWeight() float64 {
	if t == nil {
		return 0
	}
	return t.weight
}

// close frees the networks.
func (t *teacher) close() (err error) {
	if t == nil {
		return nil
	}
	for _, m := range t.models {
		err = errors.Join(err, m.Close())
	}
	return err
}

// fill writes what the teacher predicts for a training sample to its place in a batch: around the mean of the used members, in
// units of the error scale. Means and standard deviations of several networks are averaged, as in a prediction.
//
// Memory: two fields of each target and level for each training sample, where these have always the same members.
func (t *teacher) fill(ctx context.Context, k *task.Task, b *task.Batch, s slot) error {
	if t == nil {
		return nil
	}
	says, ok := t.cache[s.sample]
	if !ok {
		var err error
		if says, err = t.predict(ctx, s.fc, s.used); err != nil {
			return err
		}
		if t.cache != nil {
			t.cache[s.sample] = says
		}
	}
	return k.FillTeacher(b, s.index, s.fc, s.used, says.mean, says.sigma)
}

// predict is the mean of what the models say.
func (t *teacher) predict(ctx context.Context, fc *ensemble.Forecast, used []int) (says teacherPrediction, err error) {
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
			return says, err
		}
		if says.mean == nil {
			says = teacherPrediction{make([]float32, len(out.Mean)), make([]float32, len(out.Mean))}
		}
		share := float32(len(m.Networks)) / float32(networks)
		for i, mean := range out.Mean {
			says.mean[i] += share * mean
			says.sigma[i] += share * out.Sigma[i]
		}
	}
	return says, nil
}
