package jobs

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
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// The schema accepts exactly the families of the heads, each with its losses, and thresholds for those with a
// closed form.
func TestFamilyNames(t *testing.T) {
	for _, r := range dist.Table {
		set := append(slices.Clone(runtest.PrecipitationKeys), "data.variables=[10si]", "data.targets=[{variable: 10si, levels: [single]}]", "model.family="+r.ID, runtest.DefaultLoss(r.ID))
		path := demotest.Config(t, runtest.NoFiles, runtest.PrecipitationKeys...).Files()[0].Path
		load := func(more ...string) error {
			_, err := config.LoadTrain(config.Sources{Files: []string{path}, Set: append(slices.Clone(set), more...)})
			return err
		}
		if err := load(); r.Head != (err == nil) {
			t.Errorf("%s: heads give it: %v, and %v", r.ID, r.Head, err)
		}
		allowed := r.Head && r.AnyFamily().Excess.Family != nil
		if err := load("train.loss.threshold=[10si>1m/s]"); allowed != (err == nil) {
			t.Errorf("%s: a threshold is allowed: %v, and %v", r.ID, allowed, err)
		}
		if err := load("train.loss.threshold=[10si@10m>1m/s]"); allowed && (err == nil || !strings.Contains(err.Error(), "write 10si without a level")) {
			t.Errorf("%s: a threshold at a level: %v", r.ID, err)
		}
		for _, rule := range []dist.Rule{dist.CRPSRule, dist.PinballRule, dist.CrossEntropyRule} {
			if err := load("train.loss.kind=" + string(rule)); (r.Head && r.HasRule(rule)) != (err == nil) {
				t.Errorf("%s is trained with %s: %v", r.ID, rule, err)
			}
		}
	}
}

// Products of a distribution that is not normal contain its parameters, with which verification reproduces
// the scores of the training; probabilities and members follow this distribution too.
func TestVerifyOfAnyFamily(t *testing.T) {
	f := demotest.Files(t)
	runDir, out := filepath.Join(t.TempDir(), "run"), t.TempDir()
	c := demotest.Config(t, f, "model.family=bernstein", "model.degree=4", "train.networks=1", "train.epochs=1", "train.loss.spread=0", "baselines=[climatology, emos]")
	trained, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	o := predict.Options{RunDir: runDir, Input: f.GRIB2[17:], Out: out, Formats: []product.Format{product.NetCDF}, Version: "test", Threads: 1}
	untrainedSpread(t, trained, o)
	o.Publish = runtest.Publishing(t, "products=[mean, spread, parameters, probabilities, members]", "probabilities=[\"t>0 degC\"]")
	predicted, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, path := range predicted.Outputs {
		if strings.HasSuffix(path, ".nc") {
			files = append(files, path)
		}
	}
	fields := runtest.FieldsOf(t, filepath.Join(filepath.Dir(files[0]), "*.nc"))
	var mean, probability []float32
	par := make(model.ParameterFields, 5)
	for k, field := range fields {
		if _, name, ok := strings.Cut(k.Variable, product.ParameterInfix); ok {
			par[slices.Index(dist.Bernstein(4).Parameters, name)] = field.Values
		}
		switch k.Product {
		case ensemble.EnsembleMean:
			mean = field.Values
		case ensemble.Probability:
			probability = field.Values
		}
	}
	family, one := dist.Bernstein(4), make([]float64, 5)
	for p := range mean {
		par.At(one, p)
		m, _ := family.Moments(one)
		if above := family.Above(one, 273.15); math.Abs(m-float64(mean[p])) > 1e-3 || math.Abs(above-float64(probability[p])) > 1e-3 {
			t.Fatalf("point %d: mean %g and probability %g, by the parameters %g and %g", p, mean[p], probability[p], m, above)
		}
	}
	verified, err := verify.Run(context.Background(), verify.Options{Forecast: files, Analysis: f.Analyses, Members: f.GRIB2[17:]})
	if err != nil {
		t.Fatal(err)
	}
	want, got := trained.Scores.Find("crps_family", "network", "t", "850hPa", "48h"), verified.Scores.Find("crps_family", "network", "t", "850hPa", "48h")
	if want == nil || got == nil || math.Abs(float64(got.Value-want.Value)) > 1e-5*float64(want.Value) {
		t.Errorf("CRPS %+v of products, %+v of the training", got, want)
	}
	if verified.Scores.Find("crps_gauss", "network", "t", "850hPa", "48h") != nil {
		t.Error("the network is scored as a normal distribution")
	}
	if len(trained.Scores.SkillComponents) == 0 {
		t.Error("the skill score is not decomposed")
	}
	o.Out, o.Publish = t.TempDir(), runtest.Publishing(t, "products=[mean, spread]")
	bare, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	as, err := verify.Run(context.Background(), verify.Options{Forecast: bare.Outputs, Analysis: f.Analyses})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(as.Warnings, func(w string) bool { return strings.Contains(w, "although its distribution is not normal") }) {
		t.Errorf("warnings %q", as.Warnings)
	}
}

// untrainedSpread: no loss trained the spread of the full ensemble, so it is neither scored nor published, and refused if it is
// requested.
func untrainedSpread(t *testing.T, r *train.Result, o predict.Options) {
	t.Helper()
	for _, v := range r.Scores.Scores {
		if v.ID == score.SpreadRMSE.ID {
			t.Errorf("the spread that no loss trained is scored: %+v", v)
		}
	}
	o.Publish = runtest.Publishing(t, "products=[mean, ensemble_spread]")
	if _, err := predict.Run(context.Background(), o); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "train.loss.spread") {
		t.Errorf("a request of it: %v", err)
	}
	o.Out, o.Publish = t.TempDir(), runtest.Publishing(t)
	predicted, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	count := func(kind product.Kind) int {
		return len(fields(t, predicted.Outputs, func(e ensemble.Entry) bool { return verify.KindOf(e) == kind }))
	}
	if count(product.Mean) == 0 || count(product.EnsembleSpread) > 0 {
		t.Errorf("by default %d fields of the mean, %d of the spread that no loss trained", count(product.Mean), count(product.EnsembleSpread))
	}
}
