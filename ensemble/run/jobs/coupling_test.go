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
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// membersOf predicts one initialisation with mean, spread and members, and returns their fields.
func membersOf(t *testing.T, o predict.Options, set ...string) (mean, sigma []float32, members map[ensemble.Member][]float32, dir string) {
	t.Helper()
	o.Out = t.TempDir()
	o.Publish = runtest.Publishing(t, append([]string{"products=[mean, spread, members]"}, set...)...)
	r, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir, members = filepath.Dir(r.Outputs[0]), map[ensemble.Member][]float32{}
	for k, f := range runtest.FieldsOf(t, filepath.Join(dir, "*.nc")) {
		switch k.Product {
		case ensemble.EnsembleMean:
			mean = f.Values
		case ensemble.Spread:
			sigma = f.Values
		default:
			members[k.Member] = f.Values
		}
	}
	return mean, sigma, members, dir
}

// The Schaake shuffle makes any number of members: at every point quantiles of the distribution, in the rank
// order of past analyses of the same season. GRIB2 states their number.
func TestPredictSchaake(t *testing.T) {
	o := predictOptions(t, "")
	o.Input = o.Input[:1]
	data := demotest.Files(t)
	template := filepath.Join(filepath.Dir(data.Analyses[0]), "demo_an_*.nc")
	mean, sigma, members, dir := membersOf(t, o, "coupling.method=schaake", "coupling.template=["+template+"]", "coupling.count=5", "coupling.window=200d")
	if len(members) != 5 || members[1] == nil || members[5] == nil {
		t.Fatalf("%d members", len(members))
	}
	m, err := product.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(m.Coupling, "Schaake") || len(m.Inputs) < 2 {
		t.Errorf("the manifest: coupling %q, inputs %v", m.Coupling, m.Inputs)
	}
	analyses := runtest.FieldsOf(t, template)
	var init ensemble.Init
	for k := range runtest.FieldsOf(t, filepath.Join(dir, "*.nc")) {
		init = k.Init
	}
	var past []ensemble.Valid
	for k := range analyses {
		if k.Variable == "t" && k.Level == ensemble.PressureLevel(850) && k.Valid().Before(init.Time) {
			past = append(past, k.Valid())
		}
	}
	slices.SortFunc(past, func(a, b ensemble.Valid) int { return a.Compare(b.Time) })
	fields := make([][]float32, 5)
	for i := range fields {
		at := past[(2*i+1)*len(past)/10]
		for k, f := range analyses {
			if k.Variable == "t" && k.Level == ensemble.PressureLevel(850) && k.Valid() == at {
				fields[i] = f.Values
			}
		}
	}
	for p := range mean {
		for a := range fields {
			rank := 0
			for b := range fields {
				if fields[b][p] < fields[a][p] || fields[b][p] == fields[a][p] && b < a {
					rank++
				}
			}
			want := dist.Normal.Quantile([]float64{float64(mean[p]), float64(sigma[p])}, (float64(rank)+0.5)/5)
			if got := float64(members[ensemble.Member(a+1)][p]); math.Abs(got-want) > 1e-6*want {
				t.Fatalf("member %d at point %d is %g, want %g", a+1, p, got, want)
			}
		}
	}
	grib := runtest.FieldsOf(t, filepath.Join(dir, "*_member.grib2"))
	if len(grib) != 5 {
		t.Errorf("%d members in GRIB2", len(grib))
	}

	// The same again is there; of another method it is not.
	o.Out = filepath.Dir(dir)
	o.Publish = runtest.Publishing(t, "products=[mean, spread, members]", "coupling.method=schaake", "coupling.template=["+template+"]", "coupling.count=5", "coupling.window=200d")
	if r, err := predict.Run(context.Background(), o); err != nil || r.Existing != 1 {
		t.Errorf("the same again: %+v, %v", r, err)
	}
	for _, c := range []struct {
		set, text string
	}{
		{"coupling.count=900", "analyses for a template of 900 members"},
		{"coupling.window=1h", "analyses for a template of"},
	} {
		o.Publish = runtest.Publishing(t, "products=[members]", "coupling.method=schaake", "coupling.template=["+template+"]", c.set)
		if _, err := predict.Run(context.Background(), o); exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
}

// Random draws are the same in every run and on every part of the grid. ECC-T members have exactly the mean
// and spread of the distribution.
func TestPredictCoupling(t *testing.T) {
	o := predictOptions(t, "")
	o.Input, o.Formats = o.Input[:1], nil
	_, _, all, _ := membersOf(t, o, "coupling.method=random")
	_, _, part, dir := membersOf(t, o, "coupling.method=random", "output.area=40/-30/-20/20")
	whole := runtest.FieldsOf(t, o.Input[0])
	for k := range whole {
		_, places, err := whole[k].Grid.Crop(ensemble.Area{North: 40, West: -30, South: -20, East: 20})
		if err != nil {
			t.Fatal(err)
		}
		for m := range part {
			if !slices.Equal(part[m], ensemble.Take(all[m], places)) {
				t.Errorf("member %s of the area is another one", m)
			}
		}
		break
	}
	if m, err := product.ReadManifest(dir); err != nil || !strings.Contains(m.Coupling, "ECC-R") {
		t.Errorf("the manifest: %+v, %v", m, err)
	}
	mean, sigma, members, _ := membersOf(t, o, "coupling.method=transformation")
	for p := range mean {
		var sum, square float64
		for _, x := range members {
			sum += float64(x[p])
		}
		for _, x := range members {
			d := float64(x[p]) - sum/3
			square += d * d / 2
		}
		if math.Abs(sum/3-float64(mean[p])) > 1e-3 || math.Abs(math.Sqrt(square)-float64(sigma[p])) > 1e-3 {
			t.Fatalf("point %d: members have mean %g and spread %g, the distribution %g and %g", p, sum/3, math.Sqrt(square), mean[p], sigma[p])
		}
	}
}

// Conflicting coupling keys are reported together.
func TestCouplingKeys(t *testing.T) {
	for _, c := range []struct {
		set  []string
		text string
	}{
		{[]string{"coupling.method=schaake"}, "no template"},
		{[]string{"coupling.method=random", "coupling.count=5"}, "one member for each raw member"},
		{[]string{"coupling.template=[a.nc]"}, "not used by coupling.method"},
		{[]string{"coupling.method=random", "coupling.levels=equidistant"}, "its own levels"},
	} {
		if _, err := config.LoadPredict(config.Sources{Set: c.set}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: %v", c.set, err)
		}
	}
}
