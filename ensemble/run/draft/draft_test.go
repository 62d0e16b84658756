package draft_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/check"
	"github.com/ensemble-weather/ensemble/ensemble/run/draft"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/internal/testnetcdf"
)

func TestMain(m *testing.M) { demotest.Main(m) }

// The drafted configuration is valid, has at most 30 lines, and the files meet its requirements.
func TestDraftIsTrainable(t *testing.T) {
	f := demotest.Files(t)
	files := append(append([]string{}, f.GRIB2...), f.Analyses...)
	d, err := draft.Run(context.Background(), draft.Options{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	text := string(d.Config)
	if n := strings.Count(text, "\n"); n > 30 {
		t.Errorf("%d lines", n)
	}
	path := filepath.Join(t.TempDir(), "train.yaml")
	if err := os.WriteFile(path, d.Config, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadTrain(config.Sources{Files: []string{path}, IgnoreEnvironment: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	r, err := check.Run(context.Background(), check.Options{Config: c})
	if err != nil || r.FaultCount > 0 {
		t.Fatalf("%v, %+v\n%s", err, r.Faults, text)
	}
	for _, want := range []string{"variables: [t, gh, u, v, vo]", "target_lead: 48h", "variable: t, levels: [850hPa]", "full: 4", "demo_fc_200*00.grib2"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Files without an ensemble, and too few dates, are refused with what to do.
func TestDraftRefuses(t *testing.T) {
	f := demotest.Files(t)
	for name, files := range map[string][]string{"analyses": f.Analyses, "two initialisations": append(slices.Clone(f.GRIB2[:2]), f.Analyses...)} {
		if _, err := draft.Run(context.Background(), draft.Options{Files: files}); exit.CodeOf(err) != exit.BadData {
			t.Errorf("%s: %v", name, err)
		}
	}
	d, err := draft.Run(context.Background(), draft.Options{Files: f.GRIB2})
	if err != nil || !strings.Contains(string(d.Config), "head: spread") {
		t.Errorf("without analyses: %v, %+v", err, d)
	}
}

// TestDraftOfSeveralTargets: targets that are wanted, with their levels, and the ones that one training cannot have.
func TestDraftOfSeveralTargets(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	dir := t.TempDir()
	grid := func(members int) []string {
		if members == 0 {
			return []string{"init:12", "lat:8", "lon:8"}
		}
		return []string{"init:12", "member:3", "lat:8", "lon:8"}
	}
	of := func(members int) (all []testnetcdf.Variable) {
		lead := 24.0
		if members == 0 {
			lead = 0
		}
		all = testnetcdf.Coordinates(12, 8, 8, lead)
		if members == 0 { // valid one day after the initialisations
			all[2].Values = testnetcdf.Range(24, 24, 12)
		}
		for name, unit := range map[string]string{"t2m": "K", "tp": "mm", "u10": "m s-1", "T850_ens": "K", "t500": "K"} {
			n := 12 * 8 * 8 * max(1, members)
			all = append(all, testnetcdf.Variable{Name: name, Dimensions: grid(members), Attributes: map[string]string{"units": unit}, Values: testnetcdf.Range(280, 0.01, n)})
		}
		return all
	}
	fc, an := filepath.Join(dir, "fc.nc"), filepath.Join(dir, "an.nc")
	testnetcdf.Write(t, fc, of(3)...)
	testnetcdf.Write(t, an, of(0)...)
	for _, c := range []struct {
		targets []string
		want    []string // parts of the configuration, or of the error
		code    exit.Code
	}{
		{nil, []string{"targets: [{variable: 2t, levels: [single]}]", "also possible: tp, 10u, by --target of init"}, exit.OK},
		{[]string{"2t", "tp"}, []string{"{variable: 2t, levels: [single]}, {variable: tp, levels: [single]}", "family: censored_normal"}, exit.OK},
		{[]string{"tp"}, []string{"family: censored_shifted_gamma"}, exit.OK},
		{[]string{"t2m"}, []string{"targets: [{variable: 2t, levels: [single]}]"}, exit.OK},
		{[]string{"t@850hPa", "t@500hPa"}, []string{"{variable: t, levels: [850hPa]}, {variable: t, levels: [500hPa]}", "levels: [850hPa, 500hPa]", "names: {T850_ens: t@850hPa}", "guessed from names"}, exit.OK},
		{[]string{"2t", "t@850hPa"}, []string{"cannot be targets of one training", "--target 2t", "--target t@850hPa"}, exit.Usage},
		{[]string{"tp", "10u"}, []string{"cannot be targets of one training"}, exit.Usage},
		{[]string{"2t", "2t"}, []string{"given twice"}, exit.Usage},
		{[]string{"2d"}, []string{"did you mean `--target 2t`?"}, exit.Usage},
		{[]string{"t@850"}, []string{"invalid target"}, exit.Usage},
	} {
		d, err := draft.Run(context.Background(), draft.Options{Files: []string{fc, an}, Targets: c.targets})
		text := ""
		if exit.CodeOf(err) != c.code {
			t.Errorf("%q: %v", c.targets, err)
			continue
		} else if err != nil {
			text = err.Error()
		} else {
			text = string(d.Config)
			path := filepath.Join(t.TempDir(), "train.yaml")
			if err := os.WriteFile(path, d.Config, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := config.LoadTrain(config.Sources{Files: []string{path}, IgnoreEnvironment: true}); err != nil {
				t.Errorf("%q: %v", c.targets, err)
			}
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%q: no %q in\n%s", c.targets, want, text)
			}
		}
	}
}
