package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// Each setting that does not fit the length of a training or its data gives one message, which the training and
// `config check --schedule` share.
func TestScheduleMessages(t *testing.T) {
	f := demotest.Files(t)
	inits := make([]ensemble.Init, 30)
	for i := range inits {
		inits[i] = ensemble.Init{Time: time.Date(2001+i/8, 1, 1+28*(i%8), 0, 0, 0, 0, time.UTC)}
	}
	for _, c := range []struct {
		set                    string
		refused, warning, note string
		validation             int // initialisations; 0: 3
	}{
		{set: "train.warmup=16", refused: "the warm-up of 16 steps does not end before the training"},
		{set: "train.warmup=1000000", refused: "set train.warmup to 15 or less, or train.epochs to 250001 or more"},
		{set: "train.warmup=15"},
		{set: "train.schedule=plateau", validation: -1, refused: "plateau without validation initialisations"},
		{set: "train.schedule=plateau", note: "the largest possible rates are shown"},
		{set: "train.ema=0.999", warning: "train.ema: 0.999 averages over 1000 steps, but the training has 16"},
		{set: "train.ema=0.8"},
		{set: "train.batch_size=15", warning: "train.batch_size is 15, but network 1 is trained on 14 initialisations: every step uses all of them"},
		{set: "train.batch_size=14"},
		{validation: 1, warning: "the validation loss is that of one initialisation"},
		{set: "train.early_stop.patience=0", note: "patience is 0: all epochs are trained"},
		{set: "train.early_stop.patience=3", note: "training ends earlier after 3 epochs without better validation loss"},
		{set: "train.pretrain.epochs=2 train.warmup=8", refused: "set train.warmup to 7 or less, or train.pretrain.epochs to 3 or more"},
		{set: "train.pretrain.epochs=2 train.early_stop.patience=3", note: "members verify the pre-training: all its epochs are trained"},
		{validation: -1, note: "without validation initialisations all epochs are trained"},
		{set: "model.method=three_stage train.loss.spread=0 model.bias.folds=2 train.stages.sigma.epochs=1 train.warmup=5", refused: "(sigma) takes 4 steps (epochs: 1, steps in each: 4)"},
	} {
		split := ensemble.Split{Train: inits[:14], Validation: inits[14:17]}
		if c.validation != 0 {
			split.Validation = split.Validation[:max(0, c.validation)]
		}
		s, err := schedules(demotest.Config(t, f, strings.Fields(c.set)...), split)
		if c.refused != "" {
			if exit.CodeOf(err) != exit.Usage || !strings.Contains(fmt.Sprint(err), c.refused) {
				t.Errorf("%s: %v, want %q", c.set, err, c.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.set, err)
			continue
		}
		if got := strings.Join(s.Warnings, "\n"); c.warning == "" != (got == "") || !strings.Contains(got, c.warning) {
			t.Errorf("%s: warnings %q, want %q", c.set, got, c.warning)
		}
		if notes := strings.Join(s.Networks[0].Notes, "\n"); !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", c.set, notes, c.note)
		}
	}
}

// The printed rates are those of the steps, and a training warns as `config check --schedule` does.
func TestScheduleIsThatOfSteps(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, "train.epochs=2", "train.warmup=3", "train.accumulate=3", "train.ema=0.99")
	s, err := ReadSchedules(context.Background(), c)
	runtest.Must(t, err)
	dir := filepath.Join(t.TempDir(), "run")
	r, err := Run(context.Background(), Options{Config: c, RunDir: dir, Version: "test"})
	runtest.Must(t, err)
	if len(s.Networks) != 1 || !slices.Equal(s.Networks[0].Networks, []string{"network 1", "network 2"}) {
		t.Fatalf("%+v, want one schedule of two networks", s.Networks)
	}
	var rates []float64
	events, err := rundir.ReadEvents(dir)
	runtest.Must(t, err)
	for _, e := range events {
		if v, ok := e.Number("rate"); ok && e.Kind == "step" {
			rates = append(rates, v)
		}
	}
	if want := slices.Repeat(s.Networks[0].Rates, 2); !slices.Equal(rates, want) {
		t.Errorf("rates of steps %v, printed %v", rates, want)
	}
	for _, w := range s.Warnings {
		if !slices.Contains(r.Warnings, w) {
			t.Errorf("training does not warn %q", w)
		}
	}
	var text strings.Builder
	runtest.Must(t, s.Sections().WriteText(&text))
	for _, want := range []string{"Learning rate of network 1 to 2", "cosine: 4 steps, 2 epochs of 2, on 14 initialisations; the rate rises until step 3", "0.003 |  *", "step  1  4"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s\nhas no %q", text.String(), want)
		}
	}
}

// A plot shows rise and fall of the rate, with all values of the steps that share a column.
func TestPlot(t *testing.T) {
	rates := make([]float64, 128)
	for i := range rates {
		rates[i] = float64(i % 2)
	}
	if got := (NetworkSchedule{Rates: rates}).plot(); len(got) != plotRows+3 || strings.Count(strings.Join(got, ""), "*") != plotColumns*(plotRows+1) {
		t.Errorf("columns of 0 and 1 are not full:\n%s", strings.Join(got, "\n"))
	}
	got := strings.Join((NetworkSchedule{Rates: []float64{1, 0.5, 0}}).plot(), "\n")
	if want := "        1 |*\n" + strings.Repeat("          |\n", 4) + "      0.5 | *\n" + strings.Repeat("          |\n", 4) + "        0 |  *\n          +---\n     step  1 3"; got != want {
		t.Errorf("plot\n%s\nwant\n%s", got, want)
	}
}

// stoppedRun trains until a stop and returns the directory.
func stoppedRun(t *testing.T, c *config.TrainConfig, batches int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	stop := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	_, err := Run(context.Background(), Options{Config: c, RunDir: dir, Resume: "auto", Version: "test", Stop: func() error {
		if batches--; batches < 0 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	return dir
}

// TestFault28: a checkpoint of another training is refused before anything is overwritten, also if its tensors have the same names
// and shapes, as those of the same variables in another order have.
func TestFault28(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, "train.networks=1")
	dir := stoppedRun(t, c, 3)
	to := filepath.Join(dir, "checkpoints", ckpt.Name(5))
	for _, other := range []string{"model.base=4", "train.seed=7", "data.variables=[gh, t]"} {
		foreign := stoppedRun(t, demotest.Config(t, f, "train.networks=1", other), 5)
		runtest.Must(t, os.RemoveAll(to))
		runtest.Must(t, os.CopyFS(to, os.DirFS(filepath.Join(foreign, "checkpoints", ckpt.Name(5)))))
		_, err := Run(context.Background(), Options{Config: c, RunDir: dir, Resume: "5", Version: "test"})
		if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "the checkpoint is of another training") {
			t.Errorf("%s: %v, want a refusal", other, err)
		}
	}
}

// More epochs in mid-run give each step the rate of a training of the new length, and a warning has both rates. Schedules
// that count steps do not change.
func TestEpochsChangeInMidRun(t *testing.T) {
	f := demotest.Files(t)
	for _, x := range []struct{ schedule, want string }{
		{"cosine", "train.epochs was 4 and is 8 from step 7 on; the result can differ from that of an uninterrupted run; train.schedule: cosine counts by the share of all epochs, so that the learning rate of the next step is 0.00275, not 0.00207"},
		{"constant", "train.epochs was 4 and is 8 from step 7 on; the result can differ from that of an uninterrupted run"},
	} {
		set := []string{"train.networks=1", "train.schedule=" + x.schedule}
		dir := stoppedRun(t, demotest.Config(t, f, set...), 6)
		long := demotest.Config(t, f, append(set, "train.epochs=8")...)
		r, err := Run(context.Background(), Options{Config: long, RunDir: dir, Resume: "auto", Version: "test"})
		runtest.Must(t, err)
		if !slices.Contains(r.Warnings, x.want) {
			t.Errorf("%s: warnings %q, want %q", x.schedule, r.Warnings, x.want)
		}
		s, err := ReadSchedules(context.Background(), long)
		runtest.Must(t, err)
		events, err := rundir.ReadEvents(dir)
		runtest.Must(t, err)
		for _, e := range events {
			if v, ok := e.Number("rate"); ok && e.Kind == "step" && e.Step > 6 && v != s.Networks[0].Rates[e.Step-1] {
				t.Errorf("%s: rate %g at step %d, want %g", x.schedule, v, e.Step, s.Networks[0].Rates[e.Step-1])
			}
		}
		if r.Steps != 32 {
			t.Errorf("%s: %d steps, want 32", x.schedule, r.Steps)
		}
	}
}

// A finished run is not resumed with more epochs; the error has the setting with which another run goes on.
func TestFinishedRunWithMoreEpochs(t *testing.T) {
	f := demotest.Files(t)
	dir := filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), Options{Config: demotest.Config(t, f, "train.networks=1", "train.epochs=1"), RunDir: dir, Version: "test"})
	runtest.Must(t, err)
	_, err = Run(context.Background(), Options{Config: demotest.Config(t, f, "train.networks=1", "train.epochs=2"), RunDir: dir, Resume: "auto", Version: "test"})
	_, set, ok := strings.Cut(fmt.Sprint(err), "--set ")
	if !ok || exit.CodeOf(err) != exit.CannotWrite {
		t.Fatalf("%v, want exit 73 with a setting", err)
	}
	if _, err := Run(context.Background(), Options{Config: demotest.Config(t, f, "train.networks=1", "train.epochs=1", strings.Fields(set)[0]), RunDir: dir + "2", Version: "test"}); err != nil {
		t.Errorf("%s: %v", set, err)
	}
}

// What a training refuses because of its split is refused before the analyses, which are wrong here, are read.
func TestSplitIsRefusedBeforeReading(t *testing.T) {
	f := demotest.Files(t)
	for _, c := range []struct{ set, want string }{
		{"train.warmup=1000000", "the warm-up of 1000000 steps"},
		{"model.method=three_stage train.loss.spread=0 model.bias.folds=50", "folds"},
		{"train.epochs=1", ""},
	} {
		set := append(strings.Fields(c.set), "data.analyses=["+f.GRIB2[0]+"]")
		_, err := Run(context.Background(), Options{Config: demotest.Config(t, f, set...), RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"})
		if refused := exit.CodeOf(err) == exit.Usage; err == nil || refused != (c.want != "") || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %q", c.set, err, c.want)
		}
	}
}
