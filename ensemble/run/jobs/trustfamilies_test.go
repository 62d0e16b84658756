package jobs

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/calibration"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// alarmed is a policy that falls back on a ladder, with an alarm of the model of a run.
func alarmed(t *testing.T, runDir string, ladder ...string) (p config.Policy) {
	t.Helper()
	sum, err := trained.ModelChecksum(filepath.Join(runDir, "model"))
	runtest.Must(t, err)
	text, err := json.Marshal(promote.Alarms{Schema: promote.AlarmsSchema, Model: sum, Alarms: []promote.Alarm{{Kind: "bias", Text: "bias of t", Since: "2001-01-01T00:00:00Z"}}})
	runtest.Must(t, err)
	path := filepath.Join(t.TempDir(), "alarms.json")
	runtest.Must(t, os.WriteFile(path, text, 0o644))
	p.Alarms.File, p.Alarms.OnAlarm, p.Fallback = config.Path(path), predict.ActionFallBack, ladder
	return p
}

// cutWeights damages the weights of a model.
func cutWeights(t *testing.T, runDir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(runDir, "model", "weights*.safetensors"))
	if runtest.Must(t, err); len(files) == 0 {
		t.Fatal("no weights")
	}
	runtest.Must(t, os.Truncate(files[0], 100))
}

// Families whose parameters are found in different ways; TestLongEveryFamilyFallsBack has the others.
func TestFamiliesFallBack(t *testing.T) {
	familiesFallBack(t, dist.Student, dist.CensoredNormal, dist.CSGamma, dist.Histogram(11))
}

// familiesFallBack checks the fallback of families: mean and spread are those of the members or of EMOS;
// quantiles and probabilities belong to the family with these moments.
func familiesFallBack(t *testing.T, families ...*dist.Family) {
	f, trained := demotest.Files(t), traintest.TrainedRun(t)
	c := demotest.Config(t, f)
	fc := samplestest.ReadInit(t, c, f.NetCDF[17])
	for _, family := range families {
		t.Run(family.ID, func(t *testing.T) {
			runDir := filepath.Join(t.TempDir(), "run")
			runtest.Must(t, os.CopyFS(runDir, os.DirFS(trained)))
			m, err := model.Load(filepath.Join(runDir, "model"), false)
			runtest.Must(t, err)
			defer m.Close()
			head := m.Spec.Head.Distribution
			m.Family, head.Family = family, config.Family(family.ID)
			switch family.ID {
			case dist.Student.ID:
				head.Family, head.Recalibration = config.NormalFamily, config.StudentCalibration
				for at := range m.Task.TargetWeights {
					m.Recalibrations = append(m.Recalibrations, model.Recalibration{Variable: "t", Level: m.Task.Features.Axes.Levels[at%2].String(), Lead: "48h", Factor: 3, Nu: 5})
				}
				m.Calibrations = []model.Calibration{{Variable: "t", Level: "850hPa", Lead: "48h", Event: ensemble.Event{Relation: ensemble.Above, Lower: 275}, Method: config.IsotonicCalibration,
					Mapping: calibration.Map{X: []float64{0, 1}, Y: []float64{0.5, 0.5}}}} // calibration of the network, not of the fallback
			case dist.BernsteinID:
				head.Degree = 5
			case dist.HistogramID: // of two networks
				head.Bins, head.Rule = 6, dist.CrossEntropyRule
				for range m.Task.TargetWeights {
					m.Task.Edges = append(m.Task.Edges, []float64{-4, -1.2, -0.5, 0, 0.5, 1.2, 4})
				}
			}
			runtest.Must(t, m.Save(filepath.Join(runDir, "model")))
			traintest.UpdateModelChecksum(t, runDir)
			publish := config.Publishing{Products: []string{config.MeanProduct, config.SpreadProduct, config.QuantilesProduct, config.ProbabilitiesProduct, config.ParametersProduct},
				Quantiles: []float64{0.9}, Probabilities: []ensemble.VariableEvent{{VariableAt: ensemble.VariableAt{Variable: "t"}, Event: ensemble.Event{Relation: ensemble.Above, Lower: 275}}}}
			var rawMean []float64
			check := func(got map[string][]float32, mean, std func(p int) float64) {
				t.Helper()
				for p := range got["mean"] {
					a, s := mean(p), std(p)
					if family.ID == dist.HistogramID { // what a normal distribution has in the bins around the members' mean
						var first, second, below float64
						edge := func(i int) float64 {
							x := 6 * float64(i) / 11
							e := m.Task.Edges[0]
							k := min(int(x), 5)
							return rawMean[p] + m.Task.ErrorScale[0]*(e[k]+(x-float64(k))*(e[k+1]-e[k]))
						}
						for i := range 11 {
							upTo := dist.NormalCDF((edge(i+1) - a) / s)
							if i == 10 {
								upTo = 1
							}
							l, h := edge(i)-a, edge(i+1)-a
							first += (upTo - below) * (l + h) / 2
							second += (upTo - below) * (l*l + l*h + h*h) / 3
							below = upTo
						}
						a, s = a+first, math.Sqrt(second-first*first)
					}
					if math.Abs(float64(got["mean"][p])-a) > 2e-4 || math.Abs(float64(got["spread"][p])-s) > 2e-4*(1+s) {
						t.Fatalf("point %d: %g ± %g, want %g ± %g", p, got["mean"][p], got["spread"][p], a, s)
					}
					if family.ID == dist.HistogramID {
						continue
					}
					par := make([]float64, len(family.Parameters))
					switch family.ID {
					case dist.Student.ID:
						par[2] = 5
					case dist.CSGamma.ID:
						par[1], par[2] = 1, 0.35
					}
					family.SetMoments(par, a, s)
					if q := family.Quantile(par, 0.9); math.Abs(float64(got["0.9"][p])-q) > 1e-3*s+1e-3 {
						t.Fatalf("point %d: quantile %g, want %g", p, got["0.9"][p], q)
					}
					if x := family.Above(par, 275); math.Abs(float64(got["above 275"][p])-x) > 1e-3 {
						t.Fatalf("point %d: probability %g, want %g", p, got["above 275"][p], x)
					}
				}
			}
			members := [][]float32{fc.Field(2, 0, 0, 0), fc.Field(2, 1, 0, 0), fc.Field(2, 2, 0, 0)}
			raw := baseline.Raw{Valid: fc.Init.Valid(m.Task.Targets[0].Lead).Time}
			raw.Mean, raw.Std = scoring.MeanStd(members, 1)
			for _, x := range raw.Mean {
				rawMean = append(rawMean, float64(x))
			}
			got := predictOf(t, runDir, fc, predict.Options{Publish: publish, Policy: alarmed(t, runDir, "raw")})
			check(got, func(p int) float64 { return float64(raw.Mean[p]) }, func(p int) float64 { return float64(raw.Std[p]) * math.Sqrt(4./3) })
			for _, fit := range verify.BaselinesOf(m, verify.ProductKey{Variable: "t", Level: ensemble.PressureLevel(850), Lead: m.Task.Targets[0].Lead}).Fits {
				if fit.Method.ID == "emos_grid" {
					cutWeights(t, runDir)
					want := fit.Fit.Forecast(raw)
					got = predictOf(t, runDir, fc, predict.Options{Publish: publish, Policy: config.Policy{OnFailure: predict.ActionFallBack, Fallback: []string{"emos_grid"}}})
					check(got, func(p int) float64 { return float64(want[0][p]) }, func(p int) float64 { return float64(want[1][p]) })
				}
			}
		})
	}
}

// The fallback for a network of members gives raw members, members corrected by a baseline, or quantiles of a
// distribution in their rank order. Baselines that are not fitted are refused before anything is read.
func TestMembersFallBack(t *testing.T) {
	f := demotest.Files(t)
	runDir := filepath.Join(t.TempDir(), "run")
	c := demotest.Config(t, f, runtest.MemberOutput("train.loss.kind=crps_members", "train.loss.fairness=fair", "baselines=[mbm, emos]", "train.epochs=1")...)
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	of, _, err := model.LoadDescription(filepath.Join(runDir, "model"))
	runtest.Must(t, err)
	fc := samplestest.ReadInit(t, c, f.NetCDF[17])
	raw := baseline.Raw{Valid: fc.Init.Valid(of.Task.Targets[0].Lead).Time}
	for m := range fc.Members {
		raw.Members = append(raw.Members, fc.Field(2, m, 0, 0))
	}
	raw.Mean, raw.Std = scoring.MeanStd(raw.Members, 1)
	want := map[string][][]float32{"raw": raw.Members}
	for _, fit := range verify.BaselinesOf(of, verify.ProductKey{Variable: "t", Level: ensemble.PressureLevel(850), Lead: of.Task.Targets[0].Lead}).Fits {
		y := fit.Fit.Forecast(raw)
		if fit.Method.ID == "mbm" {
			want["mbm"] = y
			continue
		}
		made := make([][]float32, len(raw.Members))
		for m := range made {
			made[m] = make([]float32, len(raw.Mean))
			for p := range made[m] {
				rank := 0
				for k := range raw.Members {
					if raw.Members[k][p] < raw.Members[m][p] || raw.Members[k][p] == raw.Members[m][p] && k < m {
						rank++
					}
				}
				made[m][p] = y[0][p] + y[1][p]*float32(dist.NormalQuantile((float64(rank)+0.5)/float64(len(made))))
			}
		}
		want["emos"] = made
	}
	if len(want) != 3 {
		t.Fatalf("%d ways", len(want))
	}
	check := func(rung string, policy config.Policy) {
		t.Helper()
		got := predictOf(t, runDir, fc, predict.Options{Policy: policy})
		one := make([]float64, len(fc.Members))
		for p := range got["mean"] {
			for m, id := range fc.Members {
				one[m] = float64(want[rung][m][p])
				if d := math.Abs(float64(got[id.String()][p]) - one[m]); d > 1e-4 {
					t.Fatalf("%s, member %s, point %d: %g, want %g", rung, id, p, got[id.String()][p], one[m])
				}
			}
			if a, s := ensemble.MeanSpread(one, 1); math.Abs(float64(got["mean"][p])-a) > 1e-4 || math.Abs(float64(got["spread"][p])-s) > 1e-4 {
				t.Fatalf("%s, point %d: %g ± %g, want %g ± %g", rung, p, got["mean"][p], got["spread"][p], a, s)
			}
		}
	}
	for rung := range want {
		check(rung, alarmed(t, runDir, rung))
	}
	o := predictOptions(t, t.TempDir())
	o.RunDir, o.Policy = runDir, alarmed(t, runDir, "emos_point", "climatology")
	if _, err := predict.Run(context.Background(), o); exit.CodeOf(err) != exit.Usage {
		t.Errorf("baselines that were not fitted: %v", err)
	}
	cutWeights(t, runDir)
	for rung := range want {
		check(rung, config.Policy{OnFailure: predict.ActionFallBack, Fallback: []string{rung}})
	}
}

// Ranks that predict an initialisation together use the fallback as one rank does.
func TestFallsBackOnAMesh(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	f, trained := demotest.Files(t), traintest.TrainedRun(t)
	cut := filepath.Join(t.TempDir(), "run")
	runtest.Must(t, os.CopyFS(cut, os.DirFS(trained)))
	cutWeights(t, cut)
	few := withMembers(t, f.GRIB2[16], "0/2")
	for name, set := range map[string]func(o *predict.Options){
		"an alarm": func(o *predict.Options) { o.Policy = alarmed(t, trained, "emos_grid") },
		"weights are cut": func(o *predict.Options) {
			o.RunDir, o.Policy.OnFailure, o.Policy.Fallback, o.Publish.Products = cut, predict.ActionFallBack, []string{"emos_grid"}, []string{"mean", "members"}
		},
		"too few members of one initialisation": func(o *predict.Options) {
			o.Input, o.Policy.Members.OnMissing, o.Policy.Fallback = []string{few, f.GRIB2[17]}, predict.ActionFallBack, []string{"raw"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := predictOptions(t, t.TempDir())
			o.Input, o.Formats = f.GRIB2[17:18], []product.Format{product.NetCDF}
			set(&o)
			alone := o.Out
			r, err := predict.Run(context.Background(), o)
			runtest.Must(t, err)
			o.Out, o.Mesh = t.TempDir(), "lat:2"
			results, err := predictOnRanks(2, runtest.Background, o)
			runtest.Must(t, err)
			for i, w := range results[0].Warnings {
				results[0].Warnings[i] = strings.Replace(w, " (rank 0)", "", 1)
			}
			if r.Degraded != 1 || results[0].Degraded != 1 || !slices.Equal(r.Warnings, results[0].Warnings) {
				t.Errorf("alone %d degraded, %q; on ranks %d, %q", r.Degraded, r.Warnings, results[0].Degraded, results[0].Warnings)
			}
			want, got := fieldsBelow(t, alone), fieldsBelow(t, o.Out)
			if len(got) != len(want) || len(want) == 0 {
				t.Fatalf("%d fields, want %d", len(got), len(want))
			}
			for key, x := range want {
				for p := range x {
					if d := math.Abs(float64(got[key][p]) - float64(x[p])); !(d <= 1e-5*math.Abs(float64(x[p]))+1e-5) {
						t.Fatalf("%s, point %d: %g, on one rank %g", key, p, got[key][p], x[p])
					}
				}
			}
			m, err := product.ReadManifest(filepath.Dir(results[0].Outputs[0]))
			runtest.Must(t, err)
			if m.Fallback != o.Policy.Fallback[0] {
				t.Errorf("fallen back on %q", m.Fallback)
			}
		})
	}
}
