package jobs

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// predictOf returns the fields of a forecast's products by statistic and member, and by lead if there are
// several.
func predictOf(t *testing.T, runDir string, fc *ensemble.Forecast, o predict.Options) map[string][]float32 {
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
	r, err := predict.Run(context.Background(), o)
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
		name := string(verify.KindOf(entries[i]))
		switch e := entries[i]; e.Product {
		case ensemble.MemberField:
			name = e.Member.String()
		case ensemble.Quantile:
			name = fmt.Sprint(e.QuantileProbability)
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

// The prediction of a network that reads members is the same, bit by bit, for files with members in another
// order and for exchanged member numbers, with all members and with fewer; and each member matters. Its
// training, which draws numbers of members, resumes to the same bits.
func TestOrderOfMembers(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, runtest.MemberInput("train.epochs=1", "data.members.minimum=2")...)
	runDir := traintest.CheckResume(t, c, 2)
	fc := samplestest.ReadInit(t, c, f.NetCDF[17])
	want := predictOf(t, runDir, fc, predict.Options{})
	two := predict.Options{}
	two.Policy.Members.OnMissing, two.Policy.Members.Minimum = "degrade", 2
	all := fc.Members
	wantTwo := predictOf(t, runDir, runtest.WithMembers(fc, all[:2], 0, 1), two)
	for _, r := range []struct {
		name string
		fc   *ensemble.Forecast
		o    predict.Options
		want map[string][]float32
		same bool
	}{
		{"another order in the file", runtest.WithMembers(fc, []ensemble.Member{all[2], all[0], all[3], all[1]}, 2, 0, 3, 1), predict.Options{}, want, true},
		{"exchanged numbers", runtest.WithMembers(fc, all, 1, 2, 0, 3), predict.Options{}, want, true},
		{"two members with exchanged numbers", runtest.WithMembers(fc, all[:2], 1, 0), two, wantTwo, true},
		{"another member", runtest.WithMembers(fc, all, 0, 1, 3, 2), predict.Options{}, want, false},
		{"two of three members", runtest.WithMembers(fc, all[:2], 0, 1), two, want, false},
	} {
		got := predictOf(t, runDir, r.fc, r.o)
		for _, kind := range []product.Kind{product.Mean, product.Spread, product.EnsembleSpread} {
			if have, ok := got[string(kind)]; !ok || runtest.EqualBits(have, r.want[string(kind)]) != r.same {
				t.Errorf("%s: %s is the same: %v, want %v", r.name, kind, !r.same, r.same)
			}
		}
	}
}
