package run

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

func distilJob(t *testing.T, text string, args ...any) *config.DistilConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "distil.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, text, args...), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadDistil(config.Sources{Files: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// teacherRun trains a run of one quick epoch.
func teacherRun(t *testing.T, set ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "teacher")
	c := quick(t, smallData(t), append([]string{"baselines=[climatology]", "train.epochs=1"}, set...)...)
	if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: dir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// apart is the mean distance of what two runs predict for a start.
func apart(t *testing.T, a, b string, fc *ensemble.Forecast) (sum float64) {
	t.Helper()
	var out []*model.Forecast
	for _, dir := range []string{a, b} {
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		o, err := m.Predict(context.Background(), model.Options(1, ""), fc, m.Task.Used)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	for i := range out[0].Mean {
		d, _, _ := dist.NormalCramer(float64(out[0].Mean[i]), float64(out[0].Sigma[i]), float64(out[1].Mean[i]), float64(out[1].Sigma[i]))
		sum += d / float64(len(out[0].Mean))
	}
	return sum
}

// A student learns what its teacher of two networks says: taught by nothing else it comes nearer to it than one of the same seed
// without a teacher. The table has all three; the student's run is one of a training.
func TestDistil(t *testing.T) {
	teacher := trainedTo(t, quick(t, smallData(t), "baselines=[climatology]", "train.epochs=2"))
	dirs := t.TempDir()
	student, alone := filepath.Join(dirs, "student"), filepath.Join(dirs, "alone")
	set := []string{"train.networks=1", "train.epochs=4", "train.seed=3", "model.base=1", "baselines=[climatology]"}
	if _, err := Train(context.Background(), TrainOptions{Config: quick(t, smallData(t), set...), RunDir: alone, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	c := distilJob(t, "version: 1\nfrom: [%s]\nweight: 1\nepochs: 4\nnetworks: 1\nseed: 3\nmodel: {base: 1}\nbeside: [%s]\n", teacher, alone)
	r, err := Distil(context.Background(), c, RetrainOptions{RunDir: student, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Table.Rows) != 3 || r.Table.Rows[1].Parameters != r.Table.Rows[2].Parameters || r.Table.Rows[1].Operations >= r.Table.Rows[0].Operations || len(r.Table.Rows[1].CRPS) != 1 {
		t.Errorf("table %+v", r.Table)
	}
	fc := validationStart(t, quick(t, smallData(t)))
	if with, without := apart(t, teacher, student, fc), apart(t, teacher, alone, fc); with > 0.7*without {
		t.Errorf("the student is %v from its teacher, without it %v", with, without)
	}
	if _, _, err := finishedTraining(student); err != nil {
		t.Error(err)
	}
}

// A training with a teacher resumes to the same bits, whether the members of a start change from epoch to epoch or not.
func TestTaughtTrainingResumes(t *testing.T) {
	teacher := trainedTo(t, quick(t, smallData(t), "baselines=[climatology]", "train.epochs=1", "train.networks=1", "data.split.fractions.validation=0.3")) // of which no start is left for the test
	for _, sampling := range []string{"random", "fixed"} {
		resumesToTheSameBits(t, quick(t, smallData(t), "train.networks=1", "train.epochs=2", "model.base=1", "train.ema=0.5", "baselines=[climatology]", "data.members.sampling="+sampling,
			"data.split.fractions.validation=0.3", "teacher.runs=["+teacher+"]", "teacher.weight=0.7"), 5)
	}
}

// What a batch is told is what the mean of two runs predicts of the same members, around the mean of these, in units of the student's error scale.
func TestWhatATeacherTells(t *testing.T) {
	runs := []string{teacherRun(t, "train.networks=1"), teacherRun(t, "train.networks=2", "train.seed=5")}
	c := quick(t, smallData(t), "teacher.runs=["+strings.Join(runs, ", ")+"]")
	forecasts, analyses, err := trainingFiles(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := readData(context.Background(), c, forecasts, analyses, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	teacher, err := newTeacher(c, d)
	if err != nil {
		t.Fatal(err)
	}
	defer teacher.close()
	fc := validationStart(t, c)
	used := []int{0, 3, 1}
	var members []ensemble.Member
	for _, i := range used {
		members = append(members, fc.Members[i])
	}
	k := teacher.models[0].Task
	k.ErrorScale = []float64{2, 3} // not the teacher's own
	b := model.NewBatch(&k, fc.Grid, 2)
	b.WithTeacher(model.Spec{Teach: 0.5})
	if err := teacher.tell(context.Background(), &k, &b, 1, 0, fc, used); err != nil {
		t.Fatal(err)
	}
	mean, sigma := make([]float64, len(b.Spread)/2), make([]float64, len(b.Spread)/2)
	for i, dir := range runs {
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		out, err := m.Predict(context.Background(), model.Options(1, ""), fc, members)
		if err != nil {
			t.Fatal(err)
		}
		for j := range mean {
			mean[j] += float64(out.Mean[j]) * float64(i+1) / 3
			sigma[j] += float64(out.Sigma[j]) * float64(i+1) / 3
		}
	}
	p := fc.Grid.Size()
	for at := range k.ErrorScale { // levels of the only target
		lead, variable := k.TargetAt(0)
		for q := range p {
			var raw float64
			for _, m := range used {
				raw += float64(fc.Field(lead, m, variable, at)[q]) / float64(len(used))
			}
			shift, i := (mean[at*p+q]-raw)/k.ErrorScale[at], len(mean)+at*p+q
			if math.Abs(float64(b.TeacherShift[i])-shift) > 1e-4 || math.Abs(float64(b.TeacherSigma[i])*k.ErrorScale[at]/sigma[at*p+q]-1) > 1e-5 {
				t.Fatalf("level %d, point %d: N(%v, %v) is told, %v of N(%v, %v)", at, q, b.TeacherShift[i], b.TeacherSigma[i], shift, mean[at*p+q], sigma[at*p+q])
			}
		}
	}
	if !slices.ContainsFunc(b.TeacherShift, func(x float32) bool { return x != 0 }) || slices.ContainsFunc(b.TeacherShift[:len(mean)], func(x float32) bool { return x != 0 }) {
		t.Error("nothing was told, or of another sample")
	}
}

// A teacher that does not fit is refused before the first step; so is one that has seen what the student is chosen or judged by.
func TestTeachersThatCannotTeach(t *testing.T) {
	run := teacherRun(t, "train.networks=1")
	c := quick(t, smallData(t), "teacher.runs=["+run+"]")
	forecasts, analyses, err := trainingFiles(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := readData(context.Background(), c, forecasts, analyses, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for want, change := range map[string]func(m *model.Model, c *config.TrainConfig, d *data){
		"":                                       func(*model.Model, *config.TrainConfig, *data) {},
		"the teacher gives no normal":            func(m *model.Model, _ *config.TrainConfig, _ *data) { m.Spec.Head = model.SpreadHead },
		"its family logistic":                    func(m *model.Model, _ *config.TrainConfig, _ *data) { m.Spec.Family = "logistic" },
		"the teacher corrects a baseline":        func(m *model.Model, _ *config.TrainConfig, _ *data) { m.Spec.Reference = "emos" },
		"the teacher has other targets":          func(_ *model.Model, c *config.TrainConfig, _ *data) { c.Data.Targets[0].Variable = "gh" },
		"the teacher reads other fields":         func(_ *model.Model, _ *config.TrainConfig, d *data) { d.axes.Leads = d.axes.Leads[1:] },
		"the teacher has another grid":           func(m *model.Model, _ *config.TrainConfig, _ *data) { m.Grid = &ensemble.Grid{NX: 3, NY: 2} },
		"come to their grid in another way":      func(m *model.Model, _ *config.TrainConfig, _ *data) { m.Interpolation.Method = "nearest" },
		"the teacher sees other members":         func(_ *model.Model, _ *config.TrainConfig, d *data) { d.used = d.used[:2] },
		"it was trained on starts from":          func(m *model.Model, _ *config.TrainConfig, d *data) { m.Trained.To = d.split.Validation[0].Time },
		"dates the teacher was chosen by is not": func(m *model.Model, _ *config.TrainConfig, d *data) { m.Trained.To = d.split.Train[1].Time },
		"it was chosen by starts from": func(_ *model.Model, _ *config.TrainConfig, d *data) {
			all := slices.Concat(d.split.Validation, d.split.Test) // the student takes fewer for validation
			d.split.Validation, d.split.Test = all[:1], all[1:]
		},
	} {
		t.Run(want, func(t *testing.T) {
			m, err := model.Load(filepath.Join(run, "model"), false)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			own, cfg := *d, *c
			cfg.Data.Targets = slices.Clone(c.Data.Targets)
			change(m, &cfg, &own)
			err = teaches(run, m, &cfg, &own)
			if want == "" && err != nil || want != "" && (exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
	c.Teacher.Runs = []config.Path{config.Path(t.TempDir())}
	if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: filepath.Join(t.TempDir(), "r"), Version: "test"}); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("%v for a run that is not finished", err)
	}
}

// trainedTo is the folder of a finished training.
func trainedTo(t *testing.T, c *config.TrainConfig) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: dir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return dir
}
