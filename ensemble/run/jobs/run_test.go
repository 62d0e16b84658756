package jobs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(jobVariable); job != "" {
		os.Exit(int(runAsRank(job)))
	}
	code := m.Run()
	demotest.Remove()
	os.Exit(code)
}

// The whole job on few initialisations: train, predict in both formats, verify the files, report.
// Verification of the products must reproduce the scores of the training.
func TestWholeJob(t *testing.T) {
	f := demotest.Files(t)
	runDir, out := filepath.Join(t.TempDir(), "run"), t.TempDir()
	baselines := "baselines=[climatology, emos, emos_grid, emos_point, emos_point_truncated_normal, mbm, mbm_crps]"
	c := demotest.Config(t, f, baselines)
	finished, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"})
	if err != nil || !again.Complete {
		t.Errorf("second training of a finished run: %+v, %v", again, err)
	}
	if more, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, "train.threads=2", baselines), RunDir: runDir, Version: "test"}); err != nil || !more.Complete {
		t.Errorf("a finished run with other threads: %+v, %v", more, err)
	}
	test := f.GRIB2[17:]
	predicted, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: test, Out: out, Formats: []product.Format{product.NetCDF, product.GRIB2}, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if predicted.Inits != 3 {
		t.Fatalf("%d cycles, want 3", predicted.Inits)
	}
	if text, err := os.ReadFile(predicted.Outputs[0]); err != nil || !bytes.Contains(text, []byte(time.Now().UTC().Format("2006-01-02T15:"))) && !bytes.Contains(text, []byte(time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:"))) {
		t.Errorf("the history has not the time of processing: %v", err)
	}
	reference := filepath.Join(out, trained.ReferenceDir, model.File)
	want, err := os.ReadFile(reference)
	runtest.Must(t, err)
	runtest.Must(t, os.Remove(reference)) // as of a process that ended before it was written
	repeated, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: test, Out: out, Formats: []product.Format{product.NetCDF, product.GRIB2}, Version: "test"})
	if err != nil || repeated.Existing != 3 {
		t.Errorf("predicting again: %+v, %v; want 3 existing initialisations", repeated, err)
	}
	if got, err := os.ReadFile(reference); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the reference is not completed: %v", err)
	}
	rereadOnce(t, runDir, test)
	alone, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: test[1:2], Out: out, Version: "test"})
	if err != nil || alone.Existing != 1 {
		t.Errorf("one initialisation without the other files: %+v, %v; want that it exists", alone, err)
	}
	var netcdf []string
	for _, path := range predicted.Outputs {
		if strings.HasSuffix(path, ".nc") {
			netcdf = append(netcdf, path)
		}
	}
	verified, err := verify.Run(context.Background(), verify.Options{Forecast: netcdf, Analysis: f.Analyses, Members: test, Out: filepath.Join(out, "verify")})
	if err != nil {
		t.Fatal(err)
	}
	if len(verified.Warnings) > 0 {
		t.Errorf("warnings: %q", verified.Warnings)
	}
	for _, want := range finished.Scores.Scores {
		got := verified.Scores.Find(want.ID, want.System, want.Variable, want.Level, want.Lead)
		if got == nil {
			t.Errorf("verification lacks %s of %s", want.ID, want.System)
		} else if d := math.Abs(float64(got.Value - want.Value)); d > 1e-5*math.Abs(float64(want.Value))+1e-6 {
			t.Errorf("%s of %s: %g from the products, %g from training", want.ID, want.System, got.Value, want.Value)
		}
	}
	for system, id := range map[string]string{"network": "crps_gauss", "raw3": "crps_gauss", "raw4": "crps_gauss", "emos": "crps_gauss", "emos_grid": "crps_gauss",
		"emos_point": "crps_gauss", "emos_point_truncated_normal": "crps_family", "mbm": "crps_plain", "mbm_crps": "crps_plain", "climatology": "crps_gauss"} {
		if verified.Scores.Find(id, system, "t", "850hPa", "48h") == nil {
			t.Errorf("system %s is not scored", system)
		}
		if system != "network" && !slices.ContainsFunc(verified.Scores.Comparisons, func(c score.Comparison) bool {
			return c.System == "network" && c.Reference == system && c.ID == "crps_gauss" && c.ReferenceID == id
		}) {
			t.Errorf("the network is not compared with %s", system)
		}
	}
	leaking(t, runDir, f)
	bare, err := verify.Run(context.Background(), verify.Options{Forecast: netcdf, Analysis: f.Analyses})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(bare.Scores); err != nil || bytes.Contains(text, []byte(`s":null`)) || len(bare.Warnings) != 1 {
		t.Errorf("without members: %v, warnings %q: %s", err, bare.Warnings, text)
	}
	if bare.Scores.Find("crps_gauss", "climatology", "t", "850hPa", "48h") == nil || bare.Scores.Find("crps_gauss", "emos", "t", "850hPa", "48h") != nil {
		t.Error("without members climatology can be scored, EMOS cannot")
	}
	chosenScores(t, verify.Options{Forecast: netcdf, Analysis: f.Analyses, Members: test, Out: filepath.Join(out, "chosen")})
	page, err := reports.Write(reports.Options{Dir: runDir})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(page); err != nil || st.Size() < 10000 {
		t.Errorf("report: %v %v", st, err)
	}
}

// leaking: baselines are not scored if they were fitted to one of the verified initialisations.
func leaking(t *testing.T, runDir string, f *demo.Files) {
	out := t.TempDir()
	predicted, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: f.GRIB2[16:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := verify.Run(context.Background(), verify.Options{Forecast: predicted.Outputs, Analysis: f.Analyses, Members: f.GRIB2[16:]})
	if err != nil {
		t.Fatal(err)
	}
	if verified.Scores.Find("crps_gauss", "emos", "t", "850hPa", "48h") != nil || verified.Scores.Find("crps_gauss", "network", "t", "850hPa", "48h") == nil ||
		len(verified.Warnings) != 1 || !strings.Contains(verified.Warnings[0], "1 of the 4 verified initialisations") || !strings.Contains(verified.Warnings[0], "too good") {
		t.Errorf("one of four initialisations was fitted to: warnings %q", verified.Warnings)
	}
}

// The configuration accepts the names of the baseline methods.
func TestBaselineNames(t *testing.T) {
	var ids []string
	for _, m := range baseline.Methods {
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, config.Baselines) {
		t.Errorf("the schema has %q, the methods are %q", config.Baselines, ids)
	}
}

// A stop before the first step leaves no run; resuming from a step requires one.
func TestTrainBeforeTheFirstStep(t *testing.T) {
	f := demotest.Files(t)
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := train.Run(ctx, train.Options{Config: demotest.Config(t, f), RunDir: dir, Version: "test"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	_, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f), RunDir: dir, Version: "test", Resume: "7"})
	if exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), "no run to resume") {
		t.Errorf("resume of nothing: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run directory is there: %v", err)
	}
}

// A run that is resumed with another number of epochs warns, and records its configuration. A change that is refused is so before any
// sample is read.
func TestResumeWithOtherEpochs(t *testing.T) {
	f := demotest.Files(t)
	dir := filepath.Join(t.TempDir(), "run")
	stopped := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	left := 5
	_, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, "train.networks=1"), RunDir: dir, Version: "test", Stop: func() error {
		if left--; left < 0 {
			return stopped
		}
		return nil
	}})
	if !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	const reading = "read fields"
	var tasks bytes.Buffer
	o := train.Options{Config: demotest.Config(t, f, "train.networks=1", "train.seed=9"), RunDir: dir, Version: "test", Resume: "auto", Progress: progress.New(&tasks, progress.Plain, time.Nanosecond)}
	if _, err := train.Run(context.Background(), o); exit.CodeOf(err) != exit.Usage || strings.Contains(tasks.String(), reading) {
		t.Errorf("another seed: %v, want exit 64 before samples are read:\n%s", err, tasks.String())
	}
	now := demotest.Config(t, f, "train.networks=1", "train.epochs=3")
	o.Config = now
	r, err := train.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Progress.Close()
	if !strings.Contains(tasks.String(), reading) {
		t.Errorf("no %s:\n%s", reading, tasks.String())
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "train.epochs was 4 and is 3 from step 6 on") }) {
		t.Errorf("warnings %q", r.Warnings)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "config.effective.yaml")); err != nil || !bytes.Equal(text, now.YAML()) {
		t.Errorf("recorded: %v\n%s", err, text)
	}
}

// A run that is stopped at any step and resumed ends with the bits of an uninterrupted run.
func TestStoppedRunResumesToTheSameBits(t *testing.T) {
	// in mid-epoch, at an epoch's end, in the second network
	traintest.CheckResume(t, demotest.Config(t, demotest.Files(t)), 3, 8, 9)
}

// A spread head trains with each of its losses and needs no analyses.
func TestSpreadHead(t *testing.T) {
	f := demotest.Files(t)
	for _, loss := range []string{"mse", "l1", "ms_ssim"} {
		c := demotest.Config(t, f, "model.head=spread", "train.loss.kind="+loss, "train.epochs=2", "train.networks=1")
		r, err := train.Run(context.Background(), train.Options{Config: c, RunDir: filepath.Join(t.TempDir(), "r"), Version: "test"})
		if err != nil {
			t.Fatalf("%s: %v", loss, err)
		}
		if r.Scores.Find("spread_rmse", "network", "t", "850hPa", "48h") == nil {
			t.Errorf("%s: no score of the spread", loss)
		}
	}
}

// resnet2d_simple trains on one level.
func TestResNetTrains(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, runtest.FirstInits(f, 10), "model.kind=resnet2d_simple", "model.head=spread", "train.loss.kind=l1", "train.epochs=1", "train.networks=1",
		"data.levels=[850hPa]", "data.features=[spread, first]", "data.variables=[t]")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: filepath.Join(t.TempDir(), "r"), Version: "test"}); err != nil {
		t.Fatal(err)
	}
}

// Invalid input gives one clear error with the right code, and no product.
func TestBadInput(t *testing.T) {
	f := demotest.Files(t)
	runDir := filepath.Join(t.TempDir(), "run")
	c := demotest.Config(t, f, "train.epochs=1", "train.networks=1")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	good := f.GRIB2[19]
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	netcdf, err := os.ReadFile(f.NetCDF[19])
	if err != nil {
		t.Fatal(err)
	}
	// The messages of one initialisation are ordered by lead, member, variable, level: 40 per lead.
	// Without the first of the last lead the control misses a field there.
	short := withoutMessage(text, 80)
	for _, bad := range []struct {
		name, input, want string
		code              exit.Code
	}{
		{"missing file", filepath.Join(dir, "none.grib2"), "none.grib2", exit.NotYet},
		{"wrong kind", write("page.grib2", []byte("<!DOCTYPE html><html></html>")), "page.grib2", exit.BadData},
		{"empty", write("empty.grib2", nil), "empty.grib2", exit.BadData},
		{"truncated GRIB", write("cut.grib2", text[:len(text)-100]), "cut.grib2", exit.BadData},
		{"truncated NetCDF", write("cut.nc", netcdf[:len(netcdf)/2]), "cut.nc", exit.BadData},
		{"missing field", write("short.grib2", short), "lead 48h", exit.NotYet},
		{"analysis for forecast", f.Analyses[0], "lead 24h", exit.BadData},
	} {
		out := filepath.Join(t.TempDir(), "out")
		_, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: []string{bad.input}, Out: out, Version: "test"})
		if exit.CodeOf(err) != bad.code || !strings.Contains(fmt.Sprint(err), bad.want) {
			t.Errorf("%s: exit %d, %v; want exit %d naming %q", bad.name, exit.CodeOf(err), err, bad.code, bad.want)
		}
		var e *exit.Error
		if errors.As(err, &e) && (e.What == "" || e.At == "" || e.Fix == "") {
			t.Errorf("%s: the error lacks a part: %+v", bad.name, e)
		}
		if bad.name == "analysis for forecast" && (strings.Count(err.Error(), "member") != 2 || !strings.Contains(err.Error(), "contain no members")) {
			t.Errorf("%s: %v", bad.name, err)
		}
		if files, _ := filepath.Glob(filepath.Join(out, "*", "*")); slices.ContainsFunc(files, func(s string) bool { return !strings.Contains(s, trained.ReferenceDir) }) {
			t.Errorf("%s: left %q", bad.name, files)
		}
	}
	if _, err := model.Load(filepath.Join(dir, "nothing"), false); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("no model: %v", err)
	}
}

// Where a used member is missing, mean and both spreads are missing, and nowhere else.
func TestMissingPointsStayMissing(t *testing.T) {
	f := demotest.Files(t)
	runDir := filepath.Join(t.TempDir(), "run")
	c := demotest.Config(t, f, "train.epochs=1", "train.networks=1")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(filepath.Join(runDir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	fc := ensemble.NewForecast(ensemble.InitAt(time.Date(2002, 7, 1, 0, 0, 0, 0, time.UTC)), m.Task.Features.Axes, m.Task.UsedMembers, m.Grid)
	for i := range fc.Values {
		fc.Values[i] = 270 + float32(math.Sin(float64(i)))
	}
	const hole = 77
	lead, variable := m.Task.TargetAt(0)
	fc.Field(lead, 1, variable, 0)[hole] = float32(math.NaN())
	out, err := m.Predict(context.Background(), network.Options(1, ""), fc, m.Task.UsedMembers)
	if err != nil {
		t.Fatal(err)
	}
	for name, field := range map[string][]float32{"mean": out.Mean, "sigma": out.Sigma, "spread": out.Spread} {
		for p, v := range field[:m.Grid.Size()] {
			if missing := v != v; missing != (p == hole) {
				t.Fatalf("%s at point %d is %g; the hole is at %d", name, p, v, hole)
			}
		}
	}
}

// withoutMessage drops one GRIB message, counted from 0; lengths are in octets 9
// to 16 of each.
func withoutMessage(text []byte, drop int) []byte {
	var out []byte
	for i := 0; len(text) > 16; i++ {
		n := binary.BigEndian.Uint64(text[8:16])
		if i != drop {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

// A model refuses input on another grid.
func TestAnotherGridIsRefused(t *testing.T) {
	f := demotest.Files(t)
	runDir := filepath.Join(t.TempDir(), "run")
	c := demotest.Config(t, f, "train.epochs=1", "train.networks=1")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(filepath.Join(runDir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	m.Grid.Lon[1] += 1 // the model's grid is no longer the input's
	if err := m.Save(filepath.Join(runDir, "model")); err != nil {
		t.Fatal(err)
	}
	traintest.UpdateModelChecksum(t, runDir)
	_, err = predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: f.GRIB2[19:], Out: t.TempDir(), Version: "test"})
	if exit.CodeOf(err) != exit.BadData || !strings.Contains(fmt.Sprint(err), "grids differ") {
		t.Errorf("another grid: %v", err)
	}
}

// rereadOnce: input that is replaced while it is read is read again, and the products are
// those of the new files; if it changes again, there are none.
func rereadOnce(t *testing.T, runDir string, files []string) {
	t.Helper()
	dir := t.TempDir()
	var given []string
	replace := func() {
		for i, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(dir, fmt.Sprint(i, ".grib2"))
			if err := os.WriteFile(name+".new", text, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(name+".new", name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range files {
		given = append(given, filepath.Join(dir, fmt.Sprint(i, ".grib2")))
	}
	defer func() { predict.InputOpened = func([]string) {} }()
	for _, c := range []struct {
		changes int
		code    exit.Code
	}{{1, exit.OK}, {2, exit.NotYet}} {
		replace()
		opened := 0
		predict.InputOpened = func([]string) {
			if opened++; opened <= c.changes {
				replace()
			}
		}
		r, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: given, Out: t.TempDir(), Version: "test"})
		if exit.CodeOf(err) != c.code {
			t.Errorf("%d changes: %v, want exit %d", c.changes, err, c.code)
		}
		if err == nil && (r.Inits != len(files) || !slices.Contains(r.Warnings, input.RereadWarning) || opened != 2) {
			t.Errorf("%d changes: %+v after %d looks", c.changes, r, opened)
		}
	}
}
