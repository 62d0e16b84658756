package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Two truths that differ by 1 cm s-1 part at a realistic rate and end as far
// apart as any two days; and the climate stays what it is for a year.
func TestChaosAndClimate(t *testing.T) {
	m := newModel(natural, newPlanet())
	tr := newNatureRun(m, 7, 0)
	q := tr.q
	var psi, p, other state
	m.streamfunction(&psi, &q)
	noise(&p, stream(7, forSeeds, 1), seedPeak, 0.8)
	scaleTo(&p, 0.01)
	other = psi
	addScaled(&other, &p, 1)
	twin := m.integrator()
	var q2 state
	m.vorticity(&q2, &other)

	const days = 365
	var apart [days]float64
	fields := newFieldMaker()
	a := ensemble.NewAnalysis(ensemble.Valid{}, Variables, Levels, Grid())
	var wind [2]float64 // by half year
	height := [2]float64{math.Inf(1), math.Inf(-1)}
	for d := range days {
		at := tr.time + float64(d)
		tr.g.run(&q, at, stepsPerDay)
		m.streamfunction(&psi, &q)
		if d < 60 {
			twin.run(&q2, at, stepsPerDay)
			m.streamfunction(&other, &q2)
			addScaled(&other, &psi, -1)
			apart[d] = windNorm(&other)
		}
		wind[2*d/days] += windNorm(&psi) / (days / 2.0)
		if d%5 == 0 {
			fields.fill(a.Field, &psi)
			for _, z := range a.Field(0, 0) {
				height[0], height[1] = min(height[0], float64(z)), max(height[1], float64(z))
			}
		}
	}
	// From 0.02 to 0.5 m s-1 the error is small and grows like exp(t ln2/T).
	first := slices.IndexFunc(apart[:60], func(x float64) bool { return x > 0.02 })
	last := slices.IndexFunc(apart[:60], func(x float64) bool { return x > 0.5 })
	if first < 0 || last < 0 {
		t.Fatalf("twins did not part: %.3f m/s after 60 days", apart[59])
	}
	doubling := float64(last-first) / math.Log2(apart[last]/apart[first])
	t.Logf("errors double in %.1f days; far apart: %.1f of %.1f m/s; 500 hPa %.0f to %.0f m; wind by half year %.1f, %.1f m/s",
		doubling, apart[59], wind[0], height[0], height[1], wind[0], wind[1])
	if doubling < 1.2 || doubling > 5 {
		t.Errorf("errors double in %.1f days, want about 2 to 4", doubling)
	}
	if apart[59] < 0.6*wind[0] {
		t.Errorf("twins are %.1f m/s apart after 60 days in winds of %.1f", apart[59], wind[0])
	}
	if math.Abs(wind[0]/wind[1]-1) > 0.15 || wind[0] < 10 || wind[0] > 30 {
		t.Errorf("winds of %.1f and %.1f m/s in the two half years", wind[0], wind[1])
	}
	if height[0] < 4300 || height[1] > 6200 || height[1]-height[0] < 700 {
		t.Errorf("500 hPa between %.0f and %.0f m", height[0], height[1])
	}
}

// small is a quick data set of one northern winter: bias has seasons, and
// starts from all of the year would hide most of it.
var small = Config{Seed: 3, Inits: 8, Interval: 10 * 24 * time.Hour, Members: 5}

func generate(t *testing.T, cfg Config) []*Case {
	t.Helper()
	var starts []*Case
	if err := Generate(t.Context(), cfg, func(s *Case) error { starts = append(starts, s); return nil }); err != nil {
		t.Fatal(err)
	}
	return starts
}

// smallStarts are made once for the tests that only look at them.
var smallStarts = sync.OnceValues(func() (starts []*Case, err error) {
	err = Generate(context.Background(), small, func(s *Case) error { starts = append(starts, s); return nil })
	return starts, err
})

// The ensemble is what a real one is: error grows, spread grows, less than the error;
// and the same error comes back: a part of it is bias.
func TestEnsembleIsImperfect(t *testing.T) {
	starts, err := smallStarts()
	if err != nil {
		t.Fatal(err)
	}
	weights := Grid().Weights()
	for v, name := range []string{"gh", "t"} {
		for l, level := range Levels {
			var mse, variance, biased [3]float64
			for lead := range 3 {
				bias := make([]float64, npoint)
				var sumW float64
				for _, s := range starts {
					for k, w := range weights {
						var mean, square float64
						n := float64(len(s.Forecast.Members))
						for m := range s.Forecast.Members {
							x := float64(s.Forecast.Field(lead, m, v, l)[k])
							mean += x / n
						}
						for m := range s.Forecast.Members {
							d := float64(s.Forecast.Field(lead, m, v, l)[k]) - mean
							square += d * d / (n - 1)
						}
						e := mean - float64(s.Analyses[lead].Field(v, l)[k])
						bias[k] += e / float64(len(starts))
						mse[lead] += w * e * e
						variance[lead] += w * square
						sumW += w
					}
				}
				var sum float64
				for k, w := range weights {
					biased[lead] += w * bias[k] * bias[k]
					sum += w
				}
				mse[lead], variance[lead], biased[lead] = mse[lead]/sumW, variance[lead]/sumW, biased[lead]/sum
			}
			ratio := math.Sqrt(variance[2] / mse[2])
			// Were errors of the starts independent and without bias, their mean would
			// have 1/n of the variance.
			share := biased[2] / mse[2]
			t.Logf("%s %s: rmse %.3g %.3g %.3g, spread/error at 48 h %.2f, share of mean error %.2f (chance %.2f)", name, level,
				math.Sqrt(mse[0]), math.Sqrt(mse[1]), math.Sqrt(mse[2]), ratio, share, 1/float64(len(starts)))
			if !(mse[0] < mse[1] && mse[1] < mse[2]) {
				t.Errorf("%s %s: error does not grow: %v", name, level, mse)
			}
			if !(variance[0] < variance[2]) || ratio >= 0.95 || ratio < 0.35 {
				t.Errorf("%s %s: spread %.3g to %.3g, spread/error %.2f", name, level, math.Sqrt(variance[0]), math.Sqrt(variance[2]), ratio)
			}
			if share < 1.2/float64(len(starts)) {
				t.Errorf("%s %s: no bias: the mean error has %.2f of the variance", name, level, share)
			}
		}
	}
}

// The control is the analysis of the forecast model; it is not truth, and the members
// are not the control.
func TestMembersDiffer(t *testing.T) {
	starts, err := smallStarts()
	if err != nil {
		t.Fatal(err)
	}
	s := starts[0]
	for m := 1; m < len(s.Forecast.Members); m++ {
		if slices.Equal(s.Forecast.Field(0, 0, 0, 0), s.Forecast.Field(0, m, 0, 0)) {
			t.Errorf("member %d starts as the control does", m)
		}
	}
	if slices.Equal(s.Forecast.Field(0, 0, 0, 0), s.Analyses[0].Field(0, 0)) {
		t.Error("the control starts from truth")
	}
}

func equal(a, b *Case) error {
	if !slices.Equal(a.Forecast.Values, b.Forecast.Values) {
		return fmt.Errorf("forecasts of %s differ", a.Forecast.Init)
	}
	for i := range a.Analyses {
		if !slices.Equal(a.Analyses[i].Values, b.Analyses[i].Values) {
			return fmt.Errorf("analyses of %s differ", a.Analyses[i].Valid)
		}
	}
	return nil
}

// The same seed gives the same bits for one thread and for three; another seed other weather;
// and fewer starts are the first of more.
func TestDeterminism(t *testing.T) {
	cfg := Config{Seed: 11, Inits: 4, Interval: 24 * time.Hour, Members: 3, Threads: 1}
	one := generate(t, cfg)
	cfg.Threads, cfg.Inits = 3, 3
	three := generate(t, cfg)
	for i := range three {
		if err := equal(one[i], three[i]); err != nil {
			t.Error(err)
		}
	}
	other, err := smallStarts()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := one[0].Analyses[0], other[0].Analyses[0]; a.Valid != b.Valid || slices.Equal(a.Values, b.Values) {
		t.Errorf("two seeds gave the same weather of %s, or that of %s", a.Valid, b.Valid)
	}
}

func TestGenerateStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	cfg := Config{Inits: 6, Interval: 24 * time.Hour, Members: 2, Threads: 4}
	err := Generate(ctx, cfg, func(*Case) error {
		if n++; n == 2 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 2 {
		t.Errorf("cancelled at the second start: %d starts, error %v", n, err)
	}
	full := errors.New("disk full")
	n = 0
	err = Generate(t.Context(), cfg, func(*Case) error { n++; return full })
	if !errors.Is(err, full) || n != 1 {
		t.Errorf("emit failed at the first start: %d starts, error %v", n, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	hour := ensemble.Lead(time.Hour)
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"a lead between the cycles", Config{Leads: []ensemble.Lead{0, 7 * hour}}},
		{"leads that fall", Config{Leads: []ensemble.Lead{24 * hour, 0}}},
		{"a lead twice", Config{Leads: []ensemble.Lead{0, 0}}},
		{"no leads", Config{Leads: []ensemble.Lead{}}},
		{"negative starts", Config{Inits: -1}},
		{"starts between the cycles", Config{Interval: time.Hour}},
	} {
		if err := Generate(t.Context(), c.cfg, func(*Case) error { return nil }); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}

// The zero Config is the documented default, and what is given stays.
func TestConfigIsResolved(t *testing.T) {
	c, err := Config{Members: 3, Threads: 2}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	day := ensemble.Lead(24 * time.Hour)
	if c.Inits != 208 || c.Members != 3 || c.Threads != 2 || c.Interval != 7*24*time.Hour ||
		!c.FirstInit.Equal(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)) || !slices.Equal(c.Leads, []ensemble.Lead{0, day, 2 * day}) {
		t.Errorf("resolved to %+v", c)
	}
	if again, err := c.WithDefaults(); err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("resolved twice: %+v, %v", again, err)
	}
}

// recorder is a Writer that keeps names and times.
type recorder struct {
	files  []string
	valids []ensemble.Valid
}

func (r *recorder) WriteEnsembleGRIB2(_ context.Context, path string, _ *ensemble.Forecast) error {
	r.files = append(r.files, filepath.Base(path))
	return nil
}
func (r *recorder) WriteEnsembleNetCDF(ctx context.Context, path string, f *ensemble.Forecast) error {
	return r.WriteEnsembleGRIB2(ctx, path, f)
}
func (r *recorder) WriteAnalyses(ctx context.Context, path string, as []*ensemble.Analysis) error {
	for _, a := range as {
		r.valids = append(r.valids, a.Valid)
	}
	return r.WriteEnsembleGRIB2(ctx, path, nil)
}

// Over the turn of the year, with starts whose valid times meet.
func TestWrite(t *testing.T) {
	var r recorder
	cfg := Config{FirstInit: time.Date(2003, 12, 30, 0, 0, 0, 0, time.UTC), Inits: 3, Interval: 24 * time.Hour, Members: 2}
	var steps []int
	files, err := Write(t.Context(), cfg, "d", GRIB2|NetCDF, &r, func(done, total int) { steps = append(steps, done*10+total) })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"demo_fc_2003123000.grib2", "demo_fc_2003123000.nc", "demo_fc_2003123100.grib2", "demo_fc_2003123100.nc",
		"demo_an_2003.nc", "demo_fc_2004010100.grib2", "demo_fc_2004010100.nc", "demo_an_2004.nc"}
	got := slices.Clone(r.files)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if len(r.valids) != 5 || !slices.IsSortedFunc(r.valids, func(a, b ensemble.Valid) int { return a.Compare(b.Time) }) {
		t.Errorf("analyses at %v, want 5 different times in order", r.valids)
	}
	if !slices.Equal(files.Analyses, []string{"d/demo_an_2003.nc", "d/demo_an_2004.nc"}) || len(files.GRIB2) != 3 || len(files.NetCDF) != 3 {
		t.Errorf("reported %+v", files)
	}
	if !slices.Equal(steps, []int{13, 23, 33}) {
		t.Errorf("progress %v", steps)
	}
}

func ExampleGenerate() {
	cfg := Config{Inits: 1, Members: 2, Leads: []ensemble.Lead{0, ensemble.Lead(24 * time.Hour)}}
	err := Generate(context.Background(), cfg, func(s *Case) error {
		f := s.Forecast
		fmt.Println(f.Init, f.Members, f.Axes.Leads, f.Axes.Variables, f.Axes.Levels, f.Grid)
		fmt.Println(len(s.Analyses), "analyses, the last for", s.Analyses[1].Valid)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2001-01-01T00:00Z [0 1] [0h 24h] [gh t u v vo] [500hPa 850hPa] regular_gg 64x32, 85.7606 to -85.7606 N, 0 to 354.375 E
	// 2 analyses, the last for 2001-01-02T00:00Z
}
