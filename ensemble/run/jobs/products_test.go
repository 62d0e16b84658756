package jobs

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/check"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

var allProducts = []string{"products=[mean, spread, quantiles, probabilities, members]", "quantiles=[0.1, 0.5, 0.875]",
	"probabilities=[\"t>0 degC\", t850<270, 270<t@850hPa<275]"}

// All products of one initialisation: each field follows from mean and spread, and members have the rank
// order of the raw ones.
func TestPredictProducts(t *testing.T) {
	o := predictOptions(t, t.TempDir())
	o.Input, o.Publish = o.Input[:1], runtest.Publishing(t, allProducts...)
	r, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(r.Outputs[0])
	nc := runtest.FieldsOf(t, filepath.Join(dir, "*.nc"))
	if len(nc) != 2+3+3+3 {
		t.Errorf("%d fields", len(nc))
	}
	raw := runtest.FieldsOf(t, o.Input[0])
	var at ensemble.Key
	for k := range nc {
		at = ensemble.Key{Variable: "t", Level: ensemble.PressureLevel(850), Member: ensemble.NoMember, Init: k.Init, Lead: k.Lead}
	}
	of := func(change func(k *ensemble.Key)) []float32 {
		k := at
		change(&k)
		if nc[k] == nil {
			t.Fatalf("no field %s", k)
		}
		return nc[k].Values
	}
	mean, sigma := of(func(k *ensemble.Key) { k.Product = ensemble.EnsembleMean }), of(func(k *ensemble.Key) { k.Product = ensemble.Spread })
	for k, f := range nc {
		for p := range mean {
			mu, s, got := float64(mean[p]), float64(sigma[p]), float64(f.Values[p])
			want := got
			switch {
			case k.Product == ensemble.Quantile:
				want = dist.Normal.Quantile([]float64{mu, s}, k.QuantileProbability)
			case k.Product == ensemble.Probability && k.Event.Relation == ensemble.Above:
				want = dist.Normal.Above([]float64{mu, s}, 273.15)
			case k.Product == ensemble.Probability && k.Event.Relation == ensemble.Below:
				want = dist.Normal.Below([]float64{mu, s}, 270)
			case k.Product == ensemble.Probability:
				want = dist.Normal.Below([]float64{mu, s}, 275) - dist.Normal.Below([]float64{mu, s}, 270)
			}
			if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
				t.Fatalf("%s is %g at point %d, want %g", k, got, p, want)
			}
		}
	}
	var members, inputs [3][]float32
	for m := range members {
		members[m] = of(func(k *ensemble.Key) { k.Member = ensemble.Member(m) })
		k := at
		k.Member = ensemble.Member(m)
		inputs[m] = raw[k].Values
	}
	order := func(fields [3][]float32, p int) []int {
		out := []int{0, 1, 2}
		slices.SortStableFunc(out, func(a, b int) int {
			switch x, y := fields[a][p], fields[b][p]; {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		return out
	}
	for p := range mean {
		if a, b := order(members, p), order(inputs, p); !slices.Equal(a, b) {
			t.Fatalf("members at point %d are in the order %v, the raw ones %v", p, a, b)
		}
		for i, level := range []float64{1. / 6, 0.5, 5. / 6} {
			want := dist.Normal.Quantile([]float64{float64(mean[p]), float64(sigma[p])}, level)
			if got := float64(members[order(members, p)[i]][p]); math.Abs(got-want) > 1e-6*want {
				t.Fatalf("member of level %g at point %d is %g, want %g", level, p, got, want)
			}
		}
	}
	grib := runtest.FieldsOf(t, filepath.Join(dir, "*.grib2"))
	if len(grib) != len(nc) {
		t.Errorf("%d fields in GRIB2, %d in NetCDF", len(grib), len(nc))
	}
	for k, f := range nc {
		if grib[k] == nil {
			t.Errorf("no %s in GRIB2", k)
			continue
		}
		lo, hi := slices.Min(f.Values), slices.Max(f.Values)
		for p, v := range f.Values {
			if d := math.Abs(float64(v - grib[k].Values[p])); d > float64(hi-lo)/65535+1e-4 {
				t.Errorf("%s is %g in NetCDF and %g in GRIB2 at point %d", k, v, grib[k].Values[p], p)
				break
			}
		}
	}

	// check finds no fault in what was published.
	files, err := filepath.Glob(filepath.Join(dir, "*.grib2"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := check.Run(context.Background(), check.Options{Files: files}); err != nil || len(r.Faults) > 0 {
		t.Errorf("check: %+v, %v", r, err)
	}

	// The same again is there already; an area of some products is another set, which
	// takes the place of this one, with the values of its points.
	if r, err = predict.Run(context.Background(), o); err != nil || r.Existing != 1 {
		t.Errorf("the same again: %+v, %v", r, err)
	}
	o.Publish = runtest.Publishing(t, "products=[mean, quantiles]", "output.area=40/-30/-20/20")
	if r, err = predict.Run(context.Background(), o); err != nil || r.Existing != 0 {
		t.Fatalf("other products: %+v, %v", r, err)
	}
	part := runtest.FieldsOf(t, filepath.Join(dir, "*.nc"))
	if len(part) != 1+5 || len(runtest.FieldsOf(t, filepath.Join(dir, "*.grib2"))) != 1+5 {
		t.Errorf("%d fields of an area", len(part))
	}
	k := at
	k.Product, k.QuantileProbability = ensemble.Quantile, 0.1
	whole, some := nc[k], part[k]
	_, places, err := whole.Grid.Crop(ensemble.Area{North: 40, West: -30, South: -20, East: 20})
	if err != nil || !slices.Equal(ensemble.Take(whole.Values, places), some.Values) || some.Grid.Lon[0] >= 360 || some.Grid.Lon[some.Grid.NX-1] <= 360 {
		t.Errorf("the area is %s, %v", some.Grid, err)
	}
}

// Ranks that share an initialisation join the members of their slabs.
func TestPredictMembersOnAMesh(t *testing.T) {
	o := predictOptions(t, t.TempDir())
	o.Input, o.Formats, o.Publish = o.Input[:1], nil, runtest.Publishing(t, "products=[members]")
	alone, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.FieldsOf(t, alone.Outputs[0])
	o.Out, o.Mesh = t.TempDir(), "lat:2 lon:2"
	results, err := predictOnRanks(4, runtest.Background, o)
	if err != nil {
		t.Fatal(err)
	}
	got := runtest.FieldsOf(t, results[0].Outputs[0])
	if len(got) != 3 {
		t.Errorf("%d members", len(got))
	}
	for k, f := range want {
		for p, v := range f.Values {
			if d := math.Abs(float64(v - got[k].Values[p])); d > 1e-5*math.Abs(float64(v)) {
				t.Fatalf("%s is %g at point %d, on one rank %g", k, got[k].Values[p], p, v)
			}
		}
	}
}

// Products that a model cannot provide are refused before anything is read, with the available ones.
func TestPredictRefusesProducts(t *testing.T) {
	o := predictOptions(t, t.TempDir())
	for _, c := range []struct {
		set  []string
		text string
	}{
		{[]string{"probabilities=[2t>0degC]"}, "t at 850hPa"},
		{[]string{"probabilities=[t700>280]"}, "t@700hPa of t@700hPa>280 is not predicted"},
		{[]string{"probabilities=[t>5hPa]"}, "unit hPa does not apply to t"},
		{[]string{"output.variables=[gh]"}, "variable gh is not predicted"},
		{[]string{"output.levels=[700hPa]"}, "level 700hPa"},
		{[]string{"output.levels=[500hPa]"}, "no product is selected"},
		{[]string{"output.leads=[24h]"}, "lead 24h"},
		{[]string{"output.area=10.2/5/10.1/6"}, "no point of the grid"},
	} {
		o.Publish = runtest.Publishing(t, c.set...)
		if _, err := predict.Run(context.Background(), o); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: got %v, want exit 64 with %q", c.set, err, c.text)
		}
	}
	m := &model.Model{Family: dist.Normal}
	if f, err := m.CheckedFamily("tp"); f != dist.CensoredNormal || err != nil {
		t.Errorf("rain is %v, %v", f, err)
	}
	if _, err := m.CheckedFamily("tcc"); exit.CodeOf(err) != exit.Usage {
		t.Errorf("cloud cover: %v", err)
	}
	m.Spec.Head.Spread, m.Task.Targets = &network.SpreadSpec{}, []task.Target{{Variable: "t", Lead: 48}}
	if _, err := predict.ChooseProducts(m, runtest.Publishing(t, "quantiles=[0.5]"), nil, ""); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "no quantiles") {
		t.Errorf("quantiles of a spread: %v", err)
	}
	if e, err := task.EventSI(ensemble.VariableEvent{VariableAt: ensemble.VariableAt{Variable: "2t"}, Event: ensemble.Event{Relation: ensemble.Between, Lower: 0, Upper: 5}, Unit: "degC"}); err != nil || e.Lower != 273.15 || e.Upper != 278.15 {
		t.Errorf("0 to 5 degC is %s, %v", e, err)
	}
}
