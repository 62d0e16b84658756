package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir/rundirtest"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// issue predicts all initialisations of the small data, or some of them, and lists the products.
func issue(t *testing.T, runDir, out string, input []string, change func(o *predict.Options)) []string {
	t.Helper()
	o := predictOptions(t, out)
	o.RunDir, o.Input, o.Formats = runDir, input, []product.Format{product.NetCDF}
	if change != nil {
		change(&o)
	}
	r, err := predict.Run(context.Background(), o)
	runtest.Must(t, err)
	return r.Outputs
}

// Analyses arrive one year after the other: sums of earlier calls are reused, and the scores equal those of
// one verification. Alarms are raised by analyses that do not match the products, keep the initialisation at
// which they were raised, and make predictions use the fallback.
func TestRolling(t *testing.T) {
	f, trained := demotest.Files(t), traintest.TrainedRun(t)
	dir := t.TempDir()
	products := issue(t, trained, filepath.Join(dir, "products"), f.GRIB2, nil)
	if len(f.Analyses) != 2 {
		t.Fatalf("%d years of analyses", len(f.Analyses))
	}
	o := verify.RollingOptions{Options: verify.Options{Forecast: products, Analysis: f.Analyses[:1], Members: f.GRIB2}, Dir: filepath.Join(dir, "rolling"), Window: significance.MinDates,
		Bands: verify.Bands{SpreadSkill: [2]float64{0.01, 100}, Bias: 3, Slope: 10, Convexity: 10, Skill: -10}}
	rolling := func() *verify.RollingResult {
		t.Helper()
		var r *verify.RollingResult
		rundirtest.CheckPublished(t, o.Dir, func() {
			var err error
			r, err = verify.Rolling(context.Background(), o)
			runtest.Must(t, err)
		})
		return r
	}
	first := rolling()
	if first.New == 0 || first.Waiting == 0 || first.New+first.Waiting != 20 || len(first.Alarms.Alarms) != 0 {
		t.Fatalf("%+v", first)
	}
	o.Analysis = f.Analyses
	second := rolling()
	if second.New != first.Waiting || second.Waiting != 0 || second.Inits != o.Window {
		t.Fatalf("%+v", second)
	}
	whole, err := verify.Run(context.Background(), verify.Options{Forecast: products[20-o.Window:], Analysis: f.Analyses, Members: f.GRIB2[20-o.Window:], RunDir: trained})
	runtest.Must(t, err)
	want, _ := json.Marshal(whole.Scores.Scores)
	if got, _ := json.Marshal(second.Scores.Scores); string(got) != string(want) {
		t.Error("the scores of the window are not those of its initialisations")
	}
	text, err := os.ReadFile(filepath.Join(o.Dir, verify.AlarmsFile))
	runtest.Must(t, err)
	third := rolling()
	if again, _ := os.ReadFile(filepath.Join(o.Dir, verify.AlarmsFile)); third.New != 0 || string(again) != string(text) {
		t.Errorf("%d new starts, alarms changed: %t", third.New, string(again) != string(text))
	}
	interrupted(t, o)

	// Analyses that are 5 K warmer, as two programs write them.
	warm := make([]string, len(f.Analyses))
	for i, program := range [][]string{{"ncap2", "-O", "-s", "t=t+5"}, {"cdo", "-s", "addc,5"}} {
		warm[i] = filepath.Join(dir, filepath.Base(f.Analyses[i]))
		if text, err := exec.Command(program[0], append(program[1:], f.Analyses[i], warm[i])...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program[0], err, text)
		}
	}
	o.Dir, o.Bands, o.Analysis, o.Forecast = filepath.Join(dir, "alarmed"), verify.Bands{}, warm, products[:o.Window]
	early := rolling()
	o.Forecast = products
	late := rolling()
	bias := func(r *verify.RollingResult) *promote.Alarm {
		at := slices.IndexFunc(r.Alarms.Alarms, func(a promote.Alarm) bool { return a.Kind == "bias" })
		if at < 0 {
			t.Fatalf("no bias: %+v; %d starts, %d new, %d waiting, %+v", r.Alarms.Alarms, r.Inits, r.New, r.Waiting, r.Checked)
		}
		return &r.Alarms.Alarms[at]
	}
	if a, b := bias(early), bias(late); a.Since != b.Since || !early.At.Before(late.At) || a.Value > -0.25 || late.Inits != o.Window {
		t.Errorf("first %+v, then %+v", a, b)
	}
	fallen := issue(t, trained, filepath.Join(dir, "products2"), f.GRIB2[18:], func(p *predict.Options) {
		p.Policy.Alarms.File, p.Policy.Alarms.OnAlarm, p.Policy.Fallback = config.Path(filepath.Join(o.Dir, verify.AlarmsFile)), predict.ActionFallBack, []string{"raw"}
	})
	o.Forecast, o.Dir = append(slices.Clone(products[:18]), fallen...), filepath.Join(dir, "third")
	if r := rolling(); r.Fallback != 2 || r.New != 18 {
		t.Errorf("%d fallen back, %d new", r.Fallback, r.New)
	}
	history, err := os.ReadFile(filepath.Join(o.Dir, verify.HistoryFile))
	runtest.Must(t, err)
	for line := range strings.Lines(string(history)) {
		var h verify.HistoryLine
		runtest.Must(t, json.Unmarshal([]byte(line), &h))
	}
}

// interrupted calls a verification again that was interrupted: whatever it had not yet written, or half, is written as if it had
// never been. A start whose sums are damaged is refused, and judged anew when they are removed.
func interrupted(t *testing.T, o verify.RollingOptions) {
	t.Helper()
	content := func() map[string]string {
		t.Helper()
		files := map[string]string{}
		runtest.Must(t, filepath.WalkDir(o.Dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			files[strings.TrimPrefix(path, o.Dir)] = string(text)
			return err
		}))
		return files
	}
	want := content()
	history := filepath.Join(o.Dir, verify.HistoryFile)
	sums, err := filepath.Glob(filepath.Join(o.Dir, "sums-*", "*"+verify.SumsEnding))
	runtest.Must(t, err)
	newest, oldest := sums[len(sums)-1], sums[len(sums)-o.Window] // which the training had seen
	cut := func() {                                               // the lines of the last call
		lines := slices.Collect(strings.Lines(want["/"+verify.HistoryFile]))
		last := slices.IndexFunc(lines, func(l string) bool { return l[:40] == lines[len(lines)-1][:40] }) // "at" is the first field
		runtest.Must(t, os.WriteFile(history, []byte(strings.Join(lines[:last], "")), 0o644))
	}
	for name, undo := range map[string]func(){
		"while it wrote, before the history": func() {
			for _, path := range []string{newest, history, filepath.Join(o.Dir, verify.AlarmsFile), filepath.Join(o.Dir, "scores", "scores.json")} {
				runtest.Must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial-x1"), []byte("half"), 0o644))
			}
			runtest.Must(t, errors.Join(os.Remove(filepath.Join(o.Dir, verify.AlarmsFile)), os.Remove(filepath.Join(o.Dir, verify.ScoresDir, "scores.json"))))
			cut()
		},
		"before the sums of an initialisation": func() { cut(); runtest.Must(t, errors.Join(os.Remove(newest), os.Remove(oldest))) },
	} {
		undo()
		_, err := verify.Rolling(context.Background(), o)
		runtest.Must(t, err)
		if got := content(); !maps.Equal(got, want) {
			for path := range got {
				if got[path] != want[path] {
					t.Errorf("interrupted %s: %s differs", name, path)
				}
			}
			t.Fatalf("interrupted %s: %d files, want %d", name, len(got), len(want))
		}
	}
	text := []byte(want[strings.TrimPrefix(newest, o.Dir)])
	text[len(text)/2] ^= 1
	runtest.Must(t, os.WriteFile(newest, text, 0o644))
	if _, err := verify.Rolling(context.Background(), o); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), newest) {
		t.Errorf("sums with one bit changed: %v", err)
	}
	runtest.Must(t, os.Remove(newest))
	alone, err := verify.Rolling(context.Background(), o) // judged with baselines, which the others are not
	runtest.Must(t, err)
	if alone.New != 1 || alone.Inits != 1 || !slices.ContainsFunc(alone.Warnings, func(s string) bool { return strings.HasPrefix(s, "19 initialisations not in the window") }) {
		t.Errorf("a start that is judged otherwise: %d new, %d in the window, %q", alone.New, alone.Inits, alone.Warnings)
	}
	runtest.Must(t, errors.Join(os.Remove(newest), os.Remove(oldest)))
	cut()
	_, err = verify.Rolling(context.Background(), o)
	runtest.Must(t, err)
	if got := content(); !maps.Equal(got, want) {
		t.Error("after damaged sums were removed the files differ")
	}
}

// spoil copies a training and multiplies the weights of its networks by 1.5. Twice the weights give errors that grow in the
// 20 initialisations, which cannot be told from chance.
func spoil(t *testing.T, trained string) string {
	t.Helper()
	spoilt := filepath.Join(t.TempDir(), "spoilt")
	runtest.Must(t, os.CopyFS(spoilt, os.DirFS(trained)))
	for _, name := range []string{"weights-00.safetensors", "weights-01.safetensors"} {
		path := filepath.Join(spoilt, "model", name)
		tensors, meta, err := ckpt.ReadFile(path)
		runtest.Must(t, err)
		for _, x := range tensors {
			if values, ok := x.Data.([]float32); ok && strings.Contains(x.Name, "weight") {
				for i := range values {
					values[i] *= 1.5
				}
			}
		}
		runtest.Must(t, ckpt.WriteFile(path, tensors, meta))
	}
	traintest.UpdateModelChecksum(t, spoilt)
	return spoilt
}

// unbounded publishes forecasts of modified networks, which are far from their ensemble.
func unbounded(o *predict.Options) { o.Policy.Bound.Limit = math.MaxFloat64 }

// A network with modified weights runs as a shadow of the trained one: its verdict is worse, and that of the
// trained one against it better. Models without a common initialisation, and the same model twice, are
// refused.
func TestVerdict(t *testing.T) {
	f, trained := demotest.Files(t), traintest.TrainedRun(t)
	dir := t.TempDir()
	spoilt := spoil(t, trained)
	o := map[string]verify.RollingOptions{}
	for name, run := range map[string]string{"live": trained, "shadow": spoilt} {
		o[name] = verify.RollingOptions{Options: verify.Options{Forecast: issue(t, run, filepath.Join(dir, "products-"+name), f.GRIB2, unbounded), Analysis: f.Analyses},
			Dir: filepath.Join(dir, name), Window: 20}
		_, err := verify.Rolling(context.Background(), o[name])
		runtest.Must(t, err)
	}
	for name, want := range map[string]string{"shadow": promote.VerdictWorse, "live": promote.VerdictBetter} {
		c := o[name]
		c.Against = o[map[string]string{"shadow": "live", "live": "shadow"}[name]].Dir
		r, err := verify.Rolling(context.Background(), c)
		runtest.Must(t, err)
		if v := r.Verdict; v.Verdict != want || v.Inits != 20 || len(v.Targets) != 1 || (v.CRPSS > 0) != (want == promote.VerdictBetter) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	promotions(t, trained, spoilt, filepath.Join(o["shadow"].Dir, verify.VerdictFile), filepath.Join(o["live"].Dir, verify.VerdictFile))
	c := o["live"]
	c.Against = c.Dir
	if _, err := verify.Rolling(context.Background(), c); exit.CodeOf(err) != exit.Usage {
		t.Errorf("one model: %v", err)
	}
	c.Against = t.TempDir()
	if _, err := verify.Rolling(context.Background(), c); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("nothing to compare with: %v", err)
	}
	c.Against = filepath.Join(c.Against, "mistyped")
	if _, err := verify.Rolling(context.Background(), c); exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), "named by --compare-with") {
		t.Errorf("a missing folder: %v", err)
	}
}

// promotions lets a name stand for a trained model and for a worse one, of which the verdicts are given, and back.
func promotions(t *testing.T, finished, worse, worseVerdict, betterVerdict string) {
	t.Helper()
	name, f := filepath.Join(t.TempDir(), "t850"), demotest.Files(t)
	predict := func() (string, error) {
		o := predictOptions(t, t.TempDir())
		o.RunDir, o.Input, o.Formats = name, f.GRIB2[19:], []product.Format{product.NetCDF}
		unbounded(&o)
		r, err := predict.Run(context.Background(), o)
		if err != nil {
			return "", err
		}
		m, err := product.ReadManifest(filepath.Dir(r.Outputs[0]))
		runtest.Must(t, err)
		return m.ModelChecksum, nil
	}
	stands := func(after, runDir string) {
		t.Helper()
		want, err := trained.ModelChecksum(filepath.Join(runDir, "model"))
		runtest.Must(t, err)
		if got, err := predict(); err != nil || got != want {
			t.Errorf("after %s: model %s, want %s: %v", after, got, want, err)
		}
	}
	if _, err := promote.RollBack(name, ""); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("a name without a model: %v", err)
	} else if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("rolling back a missing name made its folder: %v", err)
	}
	if _, err := promote.Promote(promote.Options{Name: worse, RunDir: finished}); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "not that of a model name") {
		t.Errorf("a run directory became a name: %v", err)
	}
	var first *promote.Promotion
	var err error
	rundirtest.CheckPublished(t, name, func() {
		first, err = promote.Promote(promote.Options{Name: name, RunDir: finished, Verdict: betterVerdict})
	})
	runtest.Must(t, err)
	stands("the first promotion", finished)
	if _, err := promote.RollBack(name, ""); exit.CodeOf(err) != exit.Usage {
		t.Errorf("before the first: %v", err)
	}
	if _, err := promote.Promote(promote.Options{Name: name, RunDir: worse, Verdict: worseVerdict}); exit.CodeOf(err) != exit.No {
		t.Errorf("a worse model: %v", err)
	}
	if _, err := promote.Promote(promote.Options{Name: name, RunDir: worse, Verdict: betterVerdict}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("the verdict on another model: %v", err)
	}
	stands("what was refused", finished)
	_, err = promote.Promote(promote.Options{Name: name, RunDir: worse, Verdict: worseVerdict, IgnoreVerdict: true})
	runtest.Must(t, err)
	stands("the second promotion", worse)
	back, err := promote.RollBack(name, "")
	if runtest.Must(t, err); back.Version != first.Version {
		t.Errorf("back to %s, not %s", back.Version, first.Version)
	}
	stands("going back", finished)
	other := filepath.Join(t.TempDir(), "next")
	p, err := promote.Promote(promote.Options{Name: other, RunDir: name})
	if runtest.Must(t, err); p.Version != first.Version || p.From != filepath.Base(name) {
		t.Errorf("a name of a name: %+v", p)
	}
	list, err := promote.ListPromotions(name)
	runtest.Must(t, err)
	if len(list) != 3 || list[0].Verdict.Verdict != promote.VerdictBetter || list[1].Verdict.Verdict != promote.VerdictWorse || list[2].Action != "roll_back" || list[2].Previous != list[1].Version {
		t.Errorf("%+v", list)
	}
	runtest.Must(t, os.WriteFile(filepath.Join(name, promote.VersionsDir, first.Version, "model", "coupling.json"), []byte("[]\n"), 0o644))
	if _, err := predict(); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "changed after it was promoted") {
		t.Errorf("a model that was changed: %v", err)
	}

	// What the errors advise helps, and what a killed one left goes.
	for _, left := range []string{promote.VersionsDir + "/.0123.partial-x", ".current.json.partial-y"} {
		runtest.Must(t, os.MkdirAll(filepath.Join(name, left), 0o755))
	}
	_, err = promote.Promote(promote.Options{Name: name, RunDir: finished})
	runtest.Must(t, err)
	stands("promoting again what was changed", finished)
	current := filepath.Join(name, promote.PromotionFile)
	text, err := os.ReadFile(current)
	runtest.Must(t, err)
	for _, bad := range []string{"", "{", string(text[:len(text)-20]), strings.Replace(string(text), first.Version, "..", 1), strings.Replace(string(text), first.Model, "", 1), strings.Replace(string(text), first.Model, list[1].Model, 1)} {
		runtest.Must(t, os.WriteFile(current, []byte(bad), 0o644))
		for what, err := range map[string]error{"predict": func() error { _, err := predict(); return err }(), "promote": func() error { _, err := promote.Promote(promote.Options{Name: name, RunDir: finished}); return err }()} {
			if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "does not name a model") {
				t.Errorf("%s with %q: %v", what, bad, err)
			}
		}
	}
	runtest.Must(t, os.Remove(current))
	_, err = promote.Promote(promote.Options{Name: name, RunDir: finished})
	runtest.Must(t, err)
	stands("promoting after a damaged file was removed", finished)
	if left, err := filepath.Glob(filepath.Join(name, "*", ".*")); err != nil || left != nil {
		t.Errorf("left: %q", left)
	}
	if left, err := filepath.Glob(filepath.Join(name, ".*")); err != nil || left != nil {
		t.Errorf("left: %q", left)
	}
	if _, err := promote.Promote(promote.Options{Name: name, RunDir: t.TempDir()}); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("no training: %v", err)
	}
}
