package run

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// encoding is a quick training of a network that reads members.
func encoding(set ...string) []string {
	return slices.Concat([]string{"model.members=encoder", "model.encoder.channels=4", "data.features=[spread]", "train.networks=1", "train.epochs=2"}, set)
}

// startWithMembers reads a start with all its members.
func startWithMembers(t *testing.T, c *config.TrainConfig, file string) *ensemble.Forecast {
	t.Helper()
	in, err := fio.Open(context.Background(), []string{file}, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	wanted, err := selectForecasts(in, axesOf(c), in.Catalogue().Members(), destination{})
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := wanted.read(context.Background(), wanted.inits, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// with is a forecast of members of those numbers, whose fields are those of the members at the
// places from.
func with(fc *ensemble.Forecast, numbers []ensemble.Member, from ...int) *ensemble.Forecast {
	out := ensemble.NewForecast(fc.Init, fc.Axes, numbers, fc.Grid)
	for t := range fc.Axes.Leads {
		for m, was := range from {
			for v := range fc.Axes.Variables {
				for l := range fc.Axes.Levels {
					copy(out.Field(t, m, v, l), fc.Field(t, was, v, l))
				}
			}
		}
	}
	return out
}

// predictOf gives the fields of the products of a forecast, by statistic and member, and by lead where there are several.
func predictOf(t *testing.T, runDir string, fc *ensemble.Forecast, o PredictOptions) map[string][]float32 {
	t.Helper()
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	path := filepath.Join(t.TempDir(), "fc.nc")
	if err := product.WriteEnsembleNetCDF(context.Background(), pool, path, fc, demo.Metadata(), product.Options{}); err != nil {
		t.Fatal(err)
	}
	o.RunDir, o.Input, o.Out, o.Formats, o.Version = runDir, []string{path}, t.TempDir(), []product.Format{product.NetCDF}, "test"
	r, err := Predict(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	in, err := fio.Open(context.Background(), r.Outputs, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := map[string][]float32{}
	entries := in.Catalogue().Entries
	if err := in.Read(context.Background(), entries, func(i int, f *ensemble.Field) error {
		name := string(kindOf(entries[i]))
		switch e := entries[i]; e.Product {
		case ensemble.MemberField:
			name = e.Member.String()
		case ensemble.Quantile:
			name = fmt.Sprint(e.Below)
		case ensemble.Probability:
			name = e.Event.String()
		}
		if len((&ensemble.Catalogue{Entries: entries}).Leads()) > 1 {
			name = entries[i].Lead.String() + " " + name
		}
		out[name] = slices.Clone(f.Values)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// What a network that reads members predicts is the same, bit by bit, for files with the members
// in another order and for members with exchanged numbers, with as many members as in training
// and with fewer; and each member counts. The training, which draws numbers of
// members, goes on with the same bits after it was stopped.
func TestOrderOfMembers(t *testing.T) {
	f := smallData(t)
	c := quick(t, f, encoding("train.epochs=1", "data.members.least=2")...)
	runDir := resumesToTheSameBits(t, c, 2)
	fc := startWithMembers(t, c, f.NetCDF[17])
	want := predictOf(t, runDir, fc, PredictOptions{})
	two := PredictOptions{}
	two.Policy.Members.OnShort, two.Policy.Members.Minimum = "degrade", 2
	all := fc.Members
	wantTwo := predictOf(t, runDir, with(fc, all[:2], 0, 1), two)
	for _, r := range []struct {
		name string
		fc   *ensemble.Forecast
		o    PredictOptions
		want map[string][]float32
		same bool
	}{
		{"another order in the file", with(fc, []ensemble.Member{all[2], all[0], all[3], all[1]}, 2, 0, 3, 1), PredictOptions{}, want, true},
		{"exchanged numbers", with(fc, all, 1, 2, 0, 3), PredictOptions{}, want, true},
		{"two members with exchanged numbers", with(fc, all[:2], 1, 0), two, wantTwo, true},
		{"another member", with(fc, all, 0, 1, 3, 2), PredictOptions{}, want, false},
		{"two of three members", with(fc, all[:2], 0, 1), two, want, false},
	} {
		got := predictOf(t, runDir, r.fc, r.o)
		for _, kind := range []product.Kind{product.Mean, product.Spread, product.EnsembleSpread} {
			if have, ok := got[string(kind)]; !ok || equalBits(have, r.want[string(kind)]) != r.same {
				t.Errorf("%s: %s is the same: %v, want %v", r.name, kind, !r.same, r.same)
			}
		}
	}
}

// Samples have the channels of all their members, also where there are fewer of these.
func TestRoomForMembers(t *testing.T) {
	grid, err := ensemble.NamedGrid("12x8")
	if err != nil {
		t.Fatal(err)
	}
	c := quick(t, &demo.Files{GRIB2: []string{"/nowhere/fc.grib2"}}, encoding()...)
	k, spec := unfitted(taskOf(c)), specOf(c)
	o := model.Options(1, "")
	o.Store, o.Mode = engine.NewStore(), engine.Train
	net, err := spec.Compile(&k, grid, 2, 1, true, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer net.Plan.Close()
	if n, want := len(net.Batch.Members), 2*3*2*3*2*2*grid.Size(); n != want { // samples, members, kinds, leads, variables, levels
		t.Errorf("%d values of members, want %d", n, want)
	}
	fewer, err := spec.Reading(2).Compile(&k, grid, 2, 1, true, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fewer.Plan.Close()
	if n, want := len(fewer.Plan.Input("members")), 2*2*2*3*2*2*grid.Size(); n != want {
		t.Errorf("two members have %d values, want %d", n, want)
	}
}
