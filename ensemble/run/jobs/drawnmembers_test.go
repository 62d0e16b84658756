package jobs

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
)

// noisyMembers are overrides for a quick training of a network that draws members from noise.
var noisyMembers = slices.Clip(runtest.MemberOutput("model.encoder.input=[field, noise]", "train.loss.kind=crps_members", "train.learning_rate=0.03"))

// A network with noise makes any number of members: the first are those of the raw members, further ones change no bit
// of those before, on any number of threads, and statistics are those of all of them.
func TestDrawnMembers(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, noisyMembers...)
	runDir := traintest.Train(t, c)
	fc := samplestest.ReadInit(t, c, f.NetCDF[17])
	products := []string{"products=[mean, spread, members, quantiles, probabilities]", "quantiles=[0.5]", "probabilities=[t>280]"}
	drawn := func(count, threads int) map[string][]float32 {
		return predictOf(t, runDir, fc, predict.Options{Threads: threads, Publish: runtest.Publishing(t, append(products, fmt.Sprintf("coupling.count=%d", count))...)})
	}
	raw := predictOf(t, runDir, fc, predict.Options{Threads: 1, Publish: runtest.Publishing(t, products...)})
	few, many := drawn(6, 1), drawn(13, 2)
	for j := range 13 {
		number := fmt.Sprint(j + 1)
		if j < 4 && !runtest.EqualBits(many[number], raw[fc.Members[j].String()]) {
			t.Errorf("member %s is not raw member %s with draw 0", number, fc.Members[j])
		}
		if j < 6 && !runtest.EqualBits(few[number], many[number]) {
			t.Errorf("member %s of 6 is not that of 13", number)
		}
		for k := j % 4; k < j; k += 4 {
			if runtest.EqualBits(many[number], many[fmt.Sprint(k+1)]) {
				t.Errorf("members %d and %s have the same noise", k+1, number)
			}
		}
	}
	if few["7"] != nil || many["14"] != nil || many["0"] != nil {
		t.Error("more members than were asked for")
	}
	x := make([]float64, 13)
	for p := range many["mean"] {
		above := 0
		for j := range x {
			if x[j] = float64(many[fmt.Sprint(j+1)][p]); x[j] > 280 {
				above++
			}
		}
		mean, std := ensemble.MeanSpread(x, 1)
		slices.Sort(x)
		for kind, want := range map[string]float64{"mean": mean, "spread": std, "0.5": x[6], "above 280": float64(above) / 13} {
			if d := math.Abs(float64(many[kind][p]) - want); !(d < 1e-4) {
				t.Fatalf("point %d: %s is %g, of the members %v %g", p, kind, many[kind][p], x, want)
			}
		}
	}
	from := []int{2, 0, 3, 1} // exchanged members are corrected as before, in each draw
	exchanged := predictOf(t, runDir, runtest.WithMembers(fc, fc.Members, from...), predict.Options{Publish: runtest.Publishing(t, append(products, "coupling.count=13")...)})
	for j := range 12 {
		if was := j/4*4 + from[j%4]; !runtest.EqualBits(exchanged[fmt.Sprint(j+1)], many[fmt.Sprint(was+1)]) {
			t.Errorf("member %d is not what member %d was", j+1, was+1)
		}
	}
	t.Run("products", func(t *testing.T) { checkDrawnProducts(t, runDir) })
	t.Run("few", func(t *testing.T) { checkFewerThanRead(t, runDir, fc) })
}

// checkDrawnProducts publishes members as files, on one rank and on two, and verifies them.
func checkDrawnProducts(t *testing.T, runDir string) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	f := demotest.Files(t)
	o := predict.Options{RunDir: runDir, Input: f.GRIB2[17:], Out: t.TempDir(), Formats: []product.Format{product.NetCDF, product.GRIB2}, Version: "test", Threads: 1,
		Publish: runtest.Publishing(t, "products=[mean, spread, members]", "coupling.count=10")}
	predicted, err := predict.Run(context.Background(), o)
	runtest.Must(t, err)
	dir := filepath.Dir(predicted.Outputs[0])
	m, err := product.ReadManifest(dir)
	runtest.Must(t, err)
	if len(m.MembersUsed) != 4 || !strings.Contains(m.Coupling, "of 10 ") {
		t.Errorf("members used %v, coupling %q", m.MembersUsed, m.Coupling)
	}
	if n := len(runtest.FieldsOf(t, filepath.Join(dir, "*_member.grib2"))); n != 10 {
		t.Errorf("%d members in GRIB2", n)
	}
	if again, err := predict.Run(context.Background(), o); err != nil || again.Existing != again.Inits {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	verified, err := verify.Run(context.Background(), verify.Options{Forecast: predicted.Outputs, Analysis: f.Analyses})
	runtest.Must(t, err)
	for _, id := range []string{"crps_plain", "crps_fair"} {
		if row := verified.Scores.Find(id, scoring.SystemMembers, "t", "850hPa", "48h"); row == nil || row.Members != 10 {
			t.Errorf("%s of the products: %+v", id, row)
		}
	}
	want := o.Out
	o.Out = t.TempDir()
	_, err = predictOnRanks(2, runtest.Background, o)
	runtest.Must(t, err)
	sameFiles(t, o.Out, want)
	o.Publish.Coupling.Count = 5
	if r, err := predict.Run(context.Background(), o); err != nil || r.Existing != 0 {
		t.Errorf("another number of members: %+v, %v", r, err)
	}
}

// checkFewerThanRead predicts from three of four members, and fewer members than are read.
func checkFewerThanRead(t *testing.T, runDir string, fc *ensemble.Forecast) {
	members := func(of []ensemble.Member, count int) [][]float32 {
		m, err := model.Load(filepath.Join(runDir, "model"), true)
		runtest.Must(t, err)
		defer m.Close()
		runtest.Must(t, m.DrawMembers(count))
		out, err := m.Predict(context.Background(), network.Options(1, ""), fc, of)
		runtest.Must(t, err)
		return out.TargetMembers(0, len(m.Task.TargetWeights), m.Grid.Size())
	}
	all, three, two := members(fc.Members, 8), members(fc.Members[:3], 7), members(fc.Members, 2)
	if len(all) != 8 || len(three) != 7 || len(two) != 2 {
		t.Fatalf("%d, %d and %d members", len(all), len(three), len(two))
	}
	for j, x := range three[:6] { // members do not see each other
		if !runtest.EqualBits(x, all[j/3*4+j%3]) {
			t.Errorf("member %d of three raw ones has other bits than that of four", j+1)
		}
	}
	if !runtest.EqualBits(two[1], all[1]) {
		t.Error("the second of two members has other bits than that of eight")
	}
}

// Networks that cannot draw members refuse a number of them before they read input.
func TestDrawnMembersRefused(t *testing.T) {
	f := demotest.Files(t)
	for _, c := range []struct {
		runDir, why, fix string
	}{
		{traintest.TrainedRun(t), "predicts a distribution", "coupling.method: schaake"},
		{traintest.Train(t, demotest.Config(t, f, runtest.MemberOutput("train.epochs=1", "train.loss.kind=crps_members")...)), "have no noise", "model.encoder.input: [field, noise]"},
	} {
		o := predict.Options{RunDir: c.runDir, Input: []string{"/nowhere/fc.grib2"}, Out: t.TempDir(), Version: "test", Publish: runtest.Publishing(t, "coupling.count=50")}
		_, err := predict.Run(context.Background(), o)
		for _, text := range []string{"cannot draw 50 members", "coupling.count", c.why, c.fix} {
			if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want exit %d with %q", err, exit.Usage, text)
			}
		}
	}
}
