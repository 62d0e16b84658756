package train

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// teacherRun trains a run of one quick epoch.
func teacherRun(t *testing.T, set ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "teacher")
	c := demotest.Config(t, demotest.Files(t), append([]string{"baselines=[climatology]", "train.epochs=1"}, set...)...)
	if _, err := Run(context.Background(), Options{Config: c, RunDir: dir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The teacher's target in a batch is the mean prediction of two runs for the same members, relative to the
// members' mean, in units of the student's error scale.
func TestTeacherPredictions(t *testing.T) {
	runs := []string{teacherRun(t, "train.networks=1"), teacherRun(t, "train.networks=2", "train.seed=5")}
	c := demotest.Config(t, demotest.Files(t), "teacher.runs=["+strings.Join(runs, ", ")+"]")
	forecasts, analyses, err := samples.TrainingFiles(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := samples.ReadData(context.Background(), c, forecasts, analyses, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	teacher, err := newTeacher(c, d)
	if err != nil {
		t.Fatal(err)
	}
	defer teacher.close()
	fc := samplestest.FirstValidationInit(t, c)
	used := []int{0, 3, 1}
	var members []ensemble.Member
	for _, i := range used {
		members = append(members, fc.Members[i])
	}
	k := teacher.models[0].Task
	k.ErrorScale = []float64{2, 3} // not the teacher's own
	b := network.Spec{TeacherWeight: 0.5}.NewBatch(&k, fc.Grid, 2, len(used), true)
	if err := teacher.fill(context.Background(), &k, &b, slot{index: 1, fc: fc, used: used}); err != nil {
		t.Fatal(err)
	}
	mean, sigma := make([]float64, len(b.Spread)/2), make([]float64, len(b.Spread)/2)
	for i, dir := range runs {
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		out, err := m.Predict(context.Background(), network.Options(1, ""), fc, members)
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
				t.Fatalf("level %d, point %d: N(%v, %v) in the batch, want %v of N(%v, %v)", at, q, b.TeacherShift[i], b.TeacherSigma[i], shift, mean[at*p+q], sigma[at*p+q])
			}
		}
	}
	if !slices.ContainsFunc(b.TeacherShift, func(x float32) bool { return x != 0 }) || slices.ContainsFunc(b.TeacherShift[:len(mean)], func(x float32) bool { return x != 0 }) {
		t.Error("no target in the batch, or that of another sample")
	}
}

// A teacher that does not match is refused before the first step; so is one that was fitted on samples on
// which the student is selected or evaluated.
func TestUnsuitableTeachers(t *testing.T) {
	run := teacherRun(t, "train.networks=1")
	c := demotest.Config(t, demotest.Files(t), "teacher.runs=["+run+"]")
	forecasts, analyses, err := samples.TrainingFiles(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := samples.ReadData(context.Background(), c, forecasts, analyses, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for want, change := range map[string]func(m *model.Model, c *config.TrainConfig, d *samples.Data){
		"": func(*model.Model, *config.TrainConfig, *samples.Data) {},
		"the teacher does not predict a normal": func(m *model.Model, _ *config.TrainConfig, _ *samples.Data) {
			m.Spec.Head = network.HeadSpec{Spread: &network.SpreadSpec{}}
		},
		"its family logistic": func(m *model.Model, _ *config.TrainConfig, _ *samples.Data) {
			m.Spec.Head.Distribution.Family = "logistic"
		},
		"the teacher corrects a baseline":        func(m *model.Model, _ *config.TrainConfig, _ *samples.Data) { m.Spec.Reference = "emos" },
		"the teacher has other targets":          func(_ *model.Model, c *config.TrainConfig, _ *samples.Data) { c.Data.Targets[0].Variable = "gh" },
		"the teacher reads other fields":         func(_ *model.Model, _ *config.TrainConfig, d *samples.Data) { d.Axes.Leads = d.Axes.Leads[1:] },
		"the teacher has another grid":           func(m *model.Model, _ *config.TrainConfig, _ *samples.Data) { m.Grid = &ensemble.Grid{NX: 3, NY: 2} },
		"the teacher uses another interpolation": func(m *model.Model, _ *config.TrainConfig, _ *samples.Data) { m.Interpolation.Method = "nearest" },
		"the teacher uses other members":         func(_ *model.Model, _ *config.TrainConfig, d *samples.Data) { d.Used = d.Used[:2] },
		"it was trained on initialisations from": func(m *model.Model, _ *config.TrainConfig, d *samples.Data) {
			m.Trained.To = d.Split.Validation[0].Time
		},
		"validation dates are unknown": func(m *model.Model, _ *config.TrainConfig, d *samples.Data) { m.Trained.To = d.Split.Train[1].Time },
		"it was selected on initialisations from": func(_ *model.Model, _ *config.TrainConfig, d *samples.Data) {
			all := slices.Concat(d.Split.Validation, d.Split.Test) // the student takes fewer for validation
			d.Split.Validation, d.Split.Test = all[:1], all[1:]
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
			err = checkTeacher(run, m, &cfg, &own)
			if want == "" && err != nil || want != "" && (exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
	c.Teacher.Runs = []config.Path{config.Path(t.TempDir())}
	if _, err := Run(context.Background(), Options{Config: c, RunDir: filepath.Join(t.TempDir(), "r"), Version: "test"}); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("%v for a run that is not finished", err)
	}
}
