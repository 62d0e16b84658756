package score

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

func day(k int) ensemble.Init {
	return ensemble.InitAt(time.Date(1990, 1, 5+7*k, 0, 0, 0, 0, time.UTC))
}

var t850 = Target{Variable: "t", Level: ensemble.PressureLevel(850), Lead: ensemble.Lead(96 * time.Hour), Unit: "K"}

// field is a row of float32 made by f.
func field(n int, f func(p int) float64) []float32 {
	out := make([]float32, n)
	for p := range out {
		out[p] = float32(f(p))
	}
	return out
}

func near(t *testing.T, what string, got Number, want, tol float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= tol) {
		t.Errorf("%s: got %.9g, want %.9g", what, float64(got), want)
	}
}

// Two points of weights 1 and 3, two dates, members 0 and 2 shifted by the date:
// everything can be computed by hand.
func TestScoresByHand(t *testing.T) {
	a, err := New(t850, Grid{Weights: []float64{1, 3}, Name: "test"}, []System{
		{Name: "raw", MembersUsed: 2, Provides: Members},
		{Name: "net", MembersUsed: 2, Provides: Mean | Spread},
	}, Options{FullSpread: true})
	if err != nil {
		t.Fatal(err)
	}
	full := []float32{1, 2}
	// raw: mean 1, spread √2. Date 0: y = (1, 4); date 1: y = (−1, 1).
	for k, obs := range [][]float32{{1, 4}, {-1, 1}} {
		raw := Sample{Members: [][]float32{{0, 0}, {2, 2}}}
		net := Sample{Mean: obs, Spread: []float32{1, 2}}
		if err := a.Add(day(k), Reference{Obs: obs, FullSpread: full}, []Sample{raw, net}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := a.Result(significance.Bootstrap{Resamples: 10, BlockLength: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	get := func(id, system string) Number {
		v := r.Find(id, system, "t", "850hPa", "96h")
		if v == nil {
			t.Fatalf("no %s of %s", id, system)
		}
		return v.Value
	}
	// distances of the mean: 0 (w 1), −3 (w 3), 2 (w 1), 0 (w 3); Σw = 8
	near(t, "bias", get("bias", "raw"), (0-9+2+0)/8.0, 1e-12)
	near(t, "rmse", get("rmse", "raw"), math.Sqrt((27+4)/8.0), 1e-12)
	near(t, "spread", get("spread", "raw"), math.Sqrt2, 1e-12)
	near(t, "spread_skill", get("spread_skill", "raw"), math.Sqrt(1.5)*math.Sqrt(2/(31/8.0)), 1e-12)
	// mean |x−y|: 1, 3, 2, 1; pairs |0−2|: plain 2·2/(2·4) = 0.5, fair 1
	near(t, "crps_plain", get("crps_plain", "raw"), (1+9+2+3)/8.0-0.5, 1e-12)
	near(t, "crps_fair", get("crps_fair", "raw"), (1+9+2+3)/8.0-1, 1e-12)
	near(t, "crps_gauss at the centre", get("crps_gauss", "net"), 0.2336949773*(1+3*2)*2/8, 1e-9)
	near(t, "spread_rmse of raw", get("spread_rmse", "raw"), math.Sqrt((sq(math.Sqrt2-1)+3*sq(math.Sqrt2-2))/4), 1e-12)
	near(t, "spread_rmse of net", get("spread_rmse", "net"), 0, 1e-12)
	near(t, "spread_skill of net: no factor", get("spread", "net"), math.Sqrt((1+3*4)/4.0), 1e-12)
	if v := r.Find("crps_plain", "net", "t", "850hPa", "96h"); v != nil {
		t.Error("a distribution has no plain CRPS of members")
	}
	// Ranks: y=1 between, y=4 above, y=−1 below, y=1 between.
	if len(r.Ranks) != 1 || !slices.Equal(r.Ranks[0].Counts, []float64{1, 2, 1}) || !slices.Equal(r.Ranks[0].Shares, []float64{1. / 8, 4. / 8, 3. / 8}) {
		t.Errorf("rank histogram %+v", r.Ranks)
	}
}

func sq(v float64) float64 { return v * v }

// TestManyPoints: each point of a field that is summed in several pieces counts once.
func TestManyPoints(t *testing.T) {
	const n = 3*4096 + 5
	a, err := New(t850, Grid{Weights: field64(n, func(p int) float64 { return float64(1 + p%3) })}, []System{{Name: "net", Provides: Mean}}, Options{Scores: []string{"bias"}})
	if err != nil {
		t.Fatal(err)
	}
	mean := field(n, func(p int) float64 { return float64(p) })
	if err := a.Add(day(0), Reference{Obs: make([]float32, n)}, []Sample{{Mean: mean}}); err != nil {
		t.Fatal(err)
	}
	r, err := a.Result(significance.Bootstrap{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var sum, weight float64
	for p := range n {
		sum, weight = sum+float64((1+p%3)*p), weight+float64(1+p%3)
	}
	near(t, "bias", r.Scores[0].Value, sum/weight, 1e-9)
	if got := r.Scores[0].Points; got != n {
		t.Errorf("%d points, want %d", got, n)
	}
}

func TestRankTiesShare(t *testing.T) {
	counts, shares := make([]float64, 4), make([]float64, 4)
	addRank(counts, shares, []float64{5, 1, 5}, 5, 2)
	if want := []float64{0, 1. / 3, 1. / 3, 1. / 3}; !slices.Equal(counts, want) {
		t.Errorf("counts %v, want %v", counts, want)
	}
	if shares[3] != 2./3 {
		t.Errorf("shares %v", shares)
	}
}

// A missing value in one system must remove the point from all of them.
func TestMissingPointIsDroppedForAll(t *testing.T) {
	nan := float32(math.NaN())
	base := []Sample{{Members: [][]float32{{0, 0, 0}, {2, 2, 9}}}, {Mean: []float32{1, 1, 5}, Spread: []float32{1, 1, 1}}}
	for _, c := range []struct {
		why    string
		spoil  func(obs, full []float32, s []Sample)
		points int
	}{
		{"nothing missing", func(_, _ []float32, _ []Sample) {}, 3},
		{"observation", func(obs, _ []float32, _ []Sample) { obs[2] = nan }, 2},
		{"full spread", func(_, full []float32, _ []Sample) { full[2] = nan }, 2},
		{"member", func(_, _ []float32, s []Sample) { s[0].Members[1][2] = nan }, 2},
		{"mean of the other system", func(_, _ []float32, s []Sample) { s[1].Mean[2] = nan }, 2},
		{"spread of the other system", func(_, _ []float32, s []Sample) { s[1].Spread[2] = nan }, 2},
	} {
		s := []Sample{
			{Members: [][]float32{slices.Clone(base[0].Members[0]), slices.Clone(base[0].Members[1])}},
			{Mean: slices.Clone(base[1].Mean), Spread: slices.Clone(base[1].Spread)},
		}
		obs, full := []float32{1, 1, 1}, []float32{1, 1, 1}
		c.spoil(obs, full, s)
		a, err := New(t850, Grid{Weights: []float64{1, 1, 1}}, []System{{Name: "a", Provides: Members}, {Name: "b", Provides: Mean | Spread}}, Options{FullSpread: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Add(day(0), Reference{Obs: obs, FullSpread: full}, s); err != nil {
			t.Fatal(err)
		}
		r, err := a.Result(significance.Bootstrap{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range r.Scores {
			if v.Points != c.points || v.Missing != 3-c.points || math.IsNaN(float64(v.Value)) {
				t.Errorf("%s: %s of %s: %d points, %d missing, value %v", c.why, v.ID, v.System, v.Points, v.Missing, v.Value)
			}
			if !math.IsNaN(float64(v.CILow)) {
				t.Errorf("%s: one date has no interval, got %v", c.why, v.CILow)
			}
		}
		if c.points == 2 {
			near(t, c.why+": rmse of b", r.Find("rmse", "b", "t", "850hPa", "96h").Value, 0, 0)
		}
	}
}

// random adds n dates of a raw ensemble whose distances are scaled by damp in a
// second system.
func random(t *testing.T, n, points int, damp float64) *Accumulator {
	r := rand.New(rand.NewPCG(3, 4))
	a, err := New(t850, Grid{Weights: field64(points, func(p int) float64 { return 1 + float64(p%5) }), Name: "test"},
		[]System{{Name: "raw", MembersUsed: 5, Provides: Members}, {Name: "damped", Provides: Mean | Spread}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	order := r.Perm(n)
	for _, k := range order {
		obs := make([]float32, points)
		raw := Sample{Members: make([][]float32, 5)}
		for m := range raw.Members {
			raw.Members[m] = field(points, func(int) float64 { return r.NormFloat64() })
		}
		mean, spread := make([]float32, points), make([]float32, points)
		var c Case
		c.Members = make([]float64, 5)
		for p := range points {
			c.load(Members, raw, p)
			mean[p], spread[p] = float32(damp*c.Mean), float32(damp*c.Spread)
		}
		if err := a.Add(day(k), Reference{Obs: obs}, []Sample{raw, {Mean: mean, Spread: spread}}); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func field64(n int, f func(int) float64) []float64 {
	out := make([]float64, n)
	for p := range out {
		out[p] = f(p)
	}
	return out
}

// With all distances and spreads halved, RMSE and Gaussian CRPS are halved on
// every resample: the paired interval of the skill score has no width, whatever the
// noise of the dates, but the interval of each score has.
func TestPairedGainHasNoWidthForAFixedFactor(t *testing.T) {
	a := random(t, 13, 40, 0.5)
	r, err := a.Result(significance.Bootstrap{Seed: 1}, a.Pairs("damped", "raw"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Comparisons) != 2 {
		t.Fatalf("comparisons %+v", r.Comparisons)
	}
	for _, c := range r.Comparisons {
		near(t, c.ID+" skill score", c.SkillScore, 0.5, 1e-6) // the damped fields are float32
		near(t, c.ID+" low", c.CILow, 0.5, 1e-6)
		near(t, c.ID+" high", c.CIHigh, 0.5, 1e-6)
	}
	v := r.Find("rmse", "raw", "t", "850hPa", "96h")
	if !(v.CILow < v.Value && v.Value < v.CIHigh) {
		t.Errorf("interval of the RMSE: %+v", v)
	}
	if r.Bootstrap.BlockLength != 1 || r.Bootstrap.Resamples != 2000 {
		t.Errorf("defaults: %+v", r.Bootstrap)
	}
	if _, err := a.Result(significance.Bootstrap{}, []Pair{{ID: "bias", System: "damped", Reference: "raw"}}); err == nil {
		t.Error("bias has no skill score, but was compared")
	}
	x, err := a.Result(significance.Bootstrap{}, []Pair{{ID: "crps_gauss", System: "damped", Reference: "raw", ReferenceID: "crps_plain"}})
	if err != nil || x.Comparisons[0].ReferenceID != "crps_plain" || x.Comparisons[0].SkillScore < 0.4 {
		t.Errorf("comparison over kinds of CRPS: %+v %v", x, err)
	}
}

// The bits of a result depend on the seed, not on the number of processors, nor
// on the order in which dates came.
func TestResultIsDeterministic(t *testing.T) {
	bytes := func(procs int, seed uint64) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		a := random(t, 9, 9000, 0.7)
		r, err := a.Result(significance.Bootstrap{Seed: seed}, a.Pairs("damped", "raw"))
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	one := bytes(1, 7)
	if two := bytes(2, 7); one != two {
		t.Error("results differ between one and two processors")
	}
	if bytes(2, 8) == one {
		t.Error("another seed gave the same intervals")
	}
}

// The interval of a mean of dates that are equal in pairs: blocks of 2 must include
// the dependence that single dates miss. With pairs of equal dates the variance
// of the mean is that of n/2 dates, so intervals widen by √2.
// Dates summed elsewhere and joined in any order give the same bits.
func TestJoinedDates(t *testing.T) {
	const n, points = 7, 5000 // more points than one chunk
	systems := []System{{Name: "raw", MembersUsed: 3, Provides: Members}, {Name: "net", MembersUsed: 3, Provides: Mean | Spread}}
	weights := field64(points, func(p int) float64 { return 0.1 + float64(p%13)/7 })
	fresh := func() *Accumulator {
		a, err := New(t850, Grid{Weights: weights, Name: "test"}, systems, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	r := rand.New(rand.NewPCG(3, 4))
	draw := func() []float32 { return field(points, func(int) float64 { return r.NormFloat64() }) }
	whole, joined := fresh(), fresh()
	var dates []Date
	for k := range n {
		obs, samples := draw(), []Sample{{Members: [][]float32{draw(), draw(), draw()}}, {Mean: draw(), Spread: field(points, func(int) float64 { return 0.5 + r.Float64() })}}
		if err := whole.Add(day(k), Reference{Obs: obs}, samples); err != nil {
			t.Fatal(err)
		}
		d, err := fresh().Sum(day(k), Reference{Obs: obs}, samples)
		if err != nil {
			t.Fatal(err)
		}
		dates = append(dates, d)
	}
	for _, k := range r.Perm(n) {
		if err := joined.Join(dates[k]); err != nil {
			t.Fatal(err)
		}
	}
	var texts [2]string
	for i, a := range []*Accumulator{whole, joined} {
		res, err := a.Result(significance.Bootstrap{Resamples: 20}, a.Pairs("net", "raw"))
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%x", res.Scores[0].Value)
		for _, h := range res.Ranks {
			text += fmt.Sprintf(" %x %x", h.Counts, h.Shares)
		}
		for _, v := range res.Scores {
			text += fmt.Sprintf(" %s %x %x %d", v.ID, float64(v.Value), float64(v.CILow), v.Points)
		}
		texts[i] = text
	}
	if texts[0] != texts[1] {
		t.Errorf("joined:\n%s\nwant\n%s", texts[1], texts[0])
	}
	if err := joined.Join(dates[0]); err == nil {
		t.Error("a date is taken twice")
	}
	other := dates[0]
	other.Init, other.Members = day(n), []int{4, 0}
	if err := joined.Join(other); err == nil {
		t.Error("a date with more members is taken")
	}
}

func TestBlocksSeeDependence(t *testing.T) {
	const n = 4000
	r := rand.New(rand.NewPCG(9, 9))
	a, err := New(t850, Grid{Weights: []float64{1}}, []System{{Name: "x", Provides: Mean}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var v float64
	for k := range n {
		if k%2 == 0 {
			v = r.NormFloat64()
		}
		if err := a.Add(day(k), Reference{Obs: []float32{0}}, []Sample{{Mean: []float32{float32(v)}}}); err != nil {
			t.Fatal(err)
		}
	}
	width := func(block int) float64 {
		res, err := a.Result(significance.Bootstrap{BlockLength: block, Resamples: 2000}, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := res.Find("bias", "x", "t", "850hPa", "96h")
		return float64(b.CIHigh - b.CILow)
	}
	one := width(1)
	if want := 2 * 1.96 / math.Sqrt(n); math.Abs(one/want-1) > 0.1 {
		t.Errorf("single dates: width %.4f, theory %.4f", one, want)
	}
	if ratio := width(10) / one; math.Abs(ratio-math.Sqrt(1.9)) > 0.12 { // blocks of 10 see 9/10 of the extra variance
		t.Errorf("blocks of 10 widen by %.3f, want about √1.9", ratio)
	}
}

func TestAddRefuses(t *testing.T) {
	systems := []System{{Name: "raw", Provides: Members}}
	a, err := New(t850, Grid{Weights: []float64{1, 1}}, systems, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Result(significance.Bootstrap{}, nil); err == nil || !strings.Contains(err.Error(), "no dates") {
		t.Errorf("a result of no dates: %v", err)
	}
	two := [][]float32{{1, 2}, {3, 4}}
	obs := []float32{0, 0}
	if err := a.Add(day(0), Reference{Obs: obs}, []Sample{{Members: two}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why  string
		init ensemble.Init
		obs  []float32
		s    []Sample
		want string
	}{
		{"same date", day(0), obs, []Sample{{Members: two}}, "twice"},
		{"short observation", day(1), obs[:1], []Sample{{Members: two}}, "observation has 1 points"},
		{"one member", day(1), obs, []Sample{{Members: two[:1]}}, "needs 2 members"},
		{"other number of members", day(1), obs, []Sample{{Members: [][]float32{two[0], two[0], two[0]}}}, "earlier dates 2"},
		{"short member", day(1), obs, []Sample{{Members: [][]float32{two[0], two[0][:1]}}}, "member of raw has 1"},
		{"no sample", day(1), obs, nil, "0 samples for 1"},
	} {
		if err := a.Add(c.init, Reference{Obs: c.obs}, c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.why, err, c.want)
		}
	}
	for _, s := range [][]System{{}, {{Name: "x"}}, {{Name: "x", Provides: Mean}, {Name: "x", Provides: Mean}}} {
		if _, err := New(t850, Grid{Weights: []float64{1}}, s, Options{}); err == nil {
			t.Errorf("systems %v accepted", s)
		}
	}
	if _, err := New(t850, Grid{Weights: []float64{1, math.NaN()}}, systems, Options{}); err == nil {
		t.Error("NaN weight accepted")
	}
	if _, err := a.Result(significance.Bootstrap{BlockLength: 5}, nil); err == nil {
		t.Error("block longer than the series accepted")
	}
}

// TestPairsOfUnknown: a system that there is not has no pair with another.
func TestPairsOfUnknown(t *testing.T) {
	a := random(t, 1, 3, 0.5)
	if n := len(a.Pairs("damped", "raw")); n == 0 {
		t.Error("no pairs")
	}
	for _, names := range [][2]string{{"damped", "none"}, {"none", "raw"}, {"none", "none"}} {
		if pairs := a.Pairs(names[0], names[1]); len(pairs) > 0 {
			t.Errorf("%v: %v", names, pairs)
		}
	}
}

// TestSkillScores: the scores that have a skill score are those with a natural zero that lower values approach, but for parts of others.
func TestSkillScores(t *testing.T) {
	var got []string
	for _, s := range Table {
		if s.hasSkillScore() {
			got = append(got, s.ID)
		}
	}
	want := []string{"crps_gauss", "crps_family", "crps_plain", "crps_fair", "crps_almost_fair", "crps_potential", "crps_above", "eecrps_gauss", "eecrps_plain", "rmse", "mae", "spread_rmse",
		"interval_score_90", "quantile_score", "brier", "brier_fair", "rps", "rps_fair", "energy", "energy_fair", "variogram", "energy_time", "energy_time_fair", "variogram_time"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// Every score of the package must be in the table with all its words.
func TestTableIsComplete(t *testing.T) {
	seen := map[string]bool{}
	defined := 0
	for _, s := range Table {
		if s.ID == "" || s.Name == "" || s.Formula == "" || s.Doc == "" || s.Source == "" || s.Needs == 0 {
			t.Errorf("score %q lacks words", s.ID)
		}
		if (s.SharedSums == nil) != (s.Parts > 0 && s.Point != nil) || s.Value == nil && s.Diagram == nil {
			t.Errorf("score %q has no sums, or neither value nor diagram", s.ID)
		}
		if s.MinMembers > 2 || strings.Contains(s.Divisor, "M-1") && s.MinMembers != 2 {
			t.Errorf("score %q needs %d members and divides by %q", s.ID, s.MinMembers, s.Divisor)
		}
		if d := s.Diagram; d != nil && (d.IntervalColumn >= len(d.Columns) || d.WeightColumn >= len(d.Columns) || d.Rows == nil) {
			t.Errorf("diagram %q has no such columns", s.ID)
		}
		if seen[s.ID] || ByID(s.ID) != s {
			t.Errorf("score id %q twice", s.ID)
		}
		seen[s.ID] = true
	}
	for _, name := range exportedVars(t) {
		if name != "Table" && name != "Default" && name != "DefaultForClimate" && name != "DefaultForLeads" && name != "NamedBoxes" && name != "Seasons" {
			defined++
		}
	}
	if defined != len(Table) {
		t.Errorf("%d scores defined, %d in the table", defined, len(Table))
	}
	for _, id := range slices.Concat(DefaultForClimate, DefaultForLeads, Default) {
		if ByID(id) == nil {
			t.Errorf("default score %q is not in the table", id)
		}
	}
}

// exportedVars are the names of the package's exported variables, which are its scores.
func exportedVars(t *testing.T) (names []string) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				for _, n := range spec.(*ast.ValueSpec).Names {
					if n.IsExported() {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// TestFewestMembers: a score of as few members as it takes is a number, and of one less it is refused.
func TestFewestMembers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range Table {
		if s.Value == nil || s.Needs&(Parameters|Leads|Fractions|Tails|FullSpread|Index) != 0 || s.DistributionsOnly {
			continue
		}
		of := func(members int) (*Accumulator, error) {
			a, err := New(t850, Grid{Weights: field64(6, func(int) float64 { return 1 }), NX: 3}, []System{{Name: "raw", Provides: Members}},
				Options{Scores: []string{s.ID}, Thresholds: []float64{0}, Levels: []float64{0.5}, Climate: 5})
			if err != nil {
				t.Fatal(err)
			}
			draw := func() []float32 { return field(6, func(int) float64 { return r.NormFloat64() }) }
			climate := make([][]float32, 5)
			for k := range climate {
				climate[k] = field(6, func(int) float64 { return float64(k) - 2 })
			}
			var sample Sample
			for range members {
				sample.Members = append(sample.Members, draw())
			}
			return a, a.Add(day(0), Reference{Obs: draw(), Climate: climate}, []Sample{sample})
		}
		a, err := of(max(1, s.MinMembers))
		if err != nil {
			t.Errorf("%s of %d members: %v", s.ID, s.MinMembers, err)
			continue
		}
		res, err := a.Result(significance.Bootstrap{Resamples: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Scores) != 1 || math.IsNaN(float64(res.Scores[0].Value)) || math.IsInf(float64(res.Scores[0].Value), 0) {
			t.Errorf("%s of %d members: %+v", s.ID, s.MinMembers, res.Scores)
		}
		if _, err := of(max(1, s.MinMembers) - 1); err == nil {
			t.Errorf("%s of %d members is accepted", s.ID, s.MinMembers-1)
		}
	}
	var one []string // scores of a single member: those without its spread and without distances between members
	for _, s := range Table {
		if s.MinMembers == 1 {
			one = append(one, s.ID)
		}
	}
	if want := []string{"crps_plain", "crps_reliability", "crps_potential", "eecrps_plain", "efi_ens10", "rank_flatness", "fss", "fss_useful", "energy", "variogram", "energy_time", "variogram_time"}; !slices.Equal(one, want) {
		t.Errorf("scores of one member %q, want %q", one, want)
	}
}

// TestPartsAreSet: each score computes all of the quantities that are averaged for it, for ensembles and distributions. Those that it does
// not compute would have the values of another score.
func TestPartsAreSet(t *testing.T) {
	const points, unset = 6, 1e300
	computed := map[string]bool{}
	for _, s := range Table {
		point := s.Point
		if point == nil {
			continue
		}
		s.Point = func(parts []float64, c *Case) {
			for i := range parts {
				parts[i] = unset
			}
			point(parts, c)
			computed[s.ID] = true
			if i := slices.Index(parts, unset); i >= 0 {
				t.Errorf("%s: part %d of %d is not computed", s.ID, i, len(parts))
			}
		}
		defer func() { s.Point = point }()
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one goroutine at a time counts
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() []float32 { return field(points, func(int) float64 { return 1 + r.Float64() }) }
	several := func(n int) (all [][]float32) {
		for range n {
			all = append(all, draw())
		}
		return all
	}
	a, err := New(t850, Grid{Weights: field64(points, func(int) float64 { return 1 }), NX: 3, Neighbourhood: windows(points, 1), Radius: 1},
		[]System{{Name: "raw", Provides: Members | Leads}, {Name: "moments", Provides: Mean | Spread}, {Name: "family", Provides: Parameters | Mean | Spread, Family: dist.Logistic}},
		Options{Scores: IDs(), Thresholds: []float64{1.2, 1.5}, Levels: []float64{0.1, 0.5}, FullSpread: true, Index: true, Climate: 101})
	if err != nil {
		t.Fatal(err)
	}
	climate := make([][]float32, 101)
	for k := range climate {
		climate[k] = field(points, func(int) float64 { return 1 + float64(k)/100 })
	}
	if err := a.Add(day(0), Reference{Obs: draw(), FullSpread: draw(), Index: draw(), Climate: climate, Earlier: several(2)}, []Sample{
		{Members: several(3), Earlier: [][][]float32{several(3), several(3)}}, {Mean: draw(), Spread: draw()}, {Mean: draw(), Spread: draw(), Parameters: several(2)}}); err != nil {
		t.Fatal(err)
	}
	for _, s := range Table {
		if s.Point != nil && !computed[s.ID] {
			t.Errorf("%s was not computed", s.ID)
		}
	}
}

// TestDiagramColumns: the column with the interval is that which the forecasts determine. Rates, frequencies and shares lie in 0 to 1, the
// economic value below 1, an error above 0. Rows are left out only where a column has their weight.
func TestDiagramColumns(t *testing.T) {
	infinite := math.Inf(1)
	all := map[string]struct {
		interval, weight string
		least, most      float64
	}{
		"pit_flatness": {"share", "", 0, 1}, "reliability": {"frequency", "share", 0, 1}, "roc_area": {"hit_rate", "", 0, 1},
		"economic_value": {"value", "", -infinite, 1}, "spread_skill_bins": {"rmse", "share", 0, infinite},
	}
	for _, s := range Table {
		d, want := s.Diagram, all[s.ID]
		if d == nil {
			continue
		}
		weight := ""
		if d.WeightColumn >= 0 {
			weight = d.Columns[d.WeightColumn]
		}
		if d.Columns[d.IntervalColumn] != want.interval || weight != want.weight || d.Least != want.least || d.Most != want.most {
			t.Errorf("%s: interval of %s, weight %q, %g to %g; want %+v", s.ID, d.Columns[d.IntervalColumn], weight, d.Least, d.Most, want)
		}
	}
}

// TestMeansOfResamples: each date counts as often as it was drawn, whatever their number and wherever some were not drawn. The sums are powers
// of two times the date, so that each date of each number of draws has a digit of its own.
func TestMeansOfResamples(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 12; n++ {
		for range 20 {
			dates, times := make([]RegionSums, n), make([]int, n)
			var digits, weight float64
			for i := range dates {
				times[i] = r.IntN(8)
				dates[i] = RegionSums{Weight: float64(1 + i), Sums: []float64{math.Ldexp(1, 3*i), 1, 99}}
				digits += math.Ldexp(float64(times[i]), 3*i)
				weight += float64(times[i] * (1 + i))
			}
			drawn := 0.
			for _, k := range times {
				drawn += float64(k)
			}
			got := means(dates, times, 2)
			if drawn == 0 {
				if !math.IsNaN(got[0]) {
					t.Errorf("no date: %v", got)
				}
				continue
			}
			if len(got) != 2 || math.Abs(got[0]*weight/digits-1) > 1e-14 || math.Abs(got[1]*weight/drawn-1) > 1e-14 {
				t.Errorf("dates drawn %v times: %v, want %v", times, got, []float64{digits / weight, drawn / weight})
			}
		}
	}
}

// TestWeightedSums: a mean over points is given date by date, in the order of adding, with the weights of the points that count; scores of
// thresholds, of quantiles and of several quantities are not.
func TestWeightedSums(t *testing.T) {
	a, err := New(t850, Grid{Weights: []float64{1, 3}}, []System{{Name: "net", Provides: Mean}, {Name: "raw", Provides: Members}},
		Options{Scores: IDs(), Thresholds: []float64{1}, Levels: []float64{0.5}, Regions: []Region{{Name: "part", Mask: []bool{true, false}}}})
	if err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	for _, d := range []struct {
		k   int
		obs []float32
	}{{1, []float32{2, 4}}, {0, []float32{nan, 1}}} {
		if err := a.Add(day(d.k), Reference{Obs: d.obs}, []Sample{{Mean: []float32{5, 5}}, {Members: [][]float32{{4, 4}, {6, 6}}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := a.WeightedSums("net", "bias", Everywhere), []WeightedSum{{day(1), 4, 3 + 3*1}, {day(0), 3, 3 * 4}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := a.WeightedSums("net", "bias", "part"), []WeightedSum{{day(1), 1, 3}, {day(0), 0, 0}}; !slices.Equal(got, want) {
		t.Errorf("of a region: %+v, want %+v", got, want)
	}
	if got := a.WeightedSums("net", "bias", "other"); got != nil {
		t.Errorf("of an unknown region: %+v", got)
	}
	for _, s := range Table {
		if got := a.WeightedSums("raw", s.ID, Everywhere); got != nil && (s.IsPerThreshold() || s.IsPerQuantile() || s.Parts > 1) {
			t.Errorf("%s: %+v", s.ID, got)
		}
	}
	if got := a.WeightedSums("none", "bias", Everywhere); got != nil {
		t.Errorf("of an unknown system: %+v", got)
	}
	if empty, all := a.EmptyDates(); empty != 0 || all != 2 {
		t.Errorf("%d of %d dates are empty", empty, all)
	}
	if err := a.Add(day(2), Reference{Obs: []float32{nan, nan}}, []Sample{{Mean: []float32{5, 5}}, {Members: [][]float32{{4, 4}, {6, 6}}}}); err != nil {
		t.Fatal(err)
	}
	if empty, all := a.EmptyDates(); empty != 1 || all != 3 {
		t.Errorf("%d of %d dates are empty, want one of three", empty, all)
	}
}

// TestMembersCell: a climatology has no number of members.
func TestMembersCell(t *testing.T) {
	if got := (Value{Members: 3}).members(); got != 3 {
		t.Errorf("got %v", got)
	}
	if got := (Value{}).members(); got != nil {
		t.Errorf("without members: %v", got)
	}
}

func TestJSONShape(t *testing.T) {
	a := random(t, 1, 3, 0.5)
	r, err := a.Result(significance.Bootstrap{}, a.Pairs("damped", "raw"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"scores":[{"id":"crps_gauss","system":"raw","variable":"t","level":"850hPa","lead":"96h","lead_h":96,"value":`,
		`"ci_low":null`, `"comparisons":[{"id":"crps_gauss","system":"damped","reference":"raw"`, `"skill_score":`, `"divisor":"M-1"`, `"weights":"test"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("JSON lacks %s:\n%s", want, raw)
		}
	}
	if raw, err := json.Marshal(Result{}); err != nil || strings.Contains(string(raw), "null") || strings.Count(string(raw), "[]") != 8 { // a reader may rely on eight lists
		t.Errorf("without anything: %s, %v", raw, err)
	}
	var back Result
	if err := json.Unmarshal(raw, &back); err != nil || !math.IsNaN(float64(back.Scores[0].CILow)) || !(math.Abs(float64(back.Scores[0].Value-r.Scores[0].Value)) <= 1e-9) {
		t.Errorf("round trip: %v", err)
	}
}

func ExampleAccumulator() {
	a, _ := New(Target{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Lead: ensemble.Lead(24 * time.Hour), Unit: "K"},
		Grid{Weights: []float64{1}, Name: "none"}, []System{{Name: "raw", MembersUsed: 3, Provides: Members}}, Options{})
	for k, obs := range []float32{274, 272.5, 271} {
		sample := Sample{Members: [][]float32{{271}, {273}, {275}}}
		if err := a.Add(day(k), Reference{Obs: []float32{obs}}, []Sample{sample}); err != nil {
			fmt.Println(err)
		}
	}
	r, _ := a.Result(significance.Bootstrap{}, nil)
	_ = r.Sections().WriteText(os.Stdout)
	// Output:
	// 2t 2m +24h, 3 dates, weights none, 0 points missing
	// score          system  members   value  95 % low  high  unit
	// crps_gauss     raw           3  0.7949         -     -  K
	// crps_plain     raw           3  0.8333         -     -  K
	// crps_fair      raw           3  0.3889         -     -  K
	// rmse           raw           3  1.3229         -     -  K
	// bias           raw           3  0.5000         -     -  K
	// spread         raw           3  2.0000         -     -  K
	// spread_skill   raw           3  1.7457         -     -  1
	// rank_flatness  raw           3  0.6667         -     -  1
	//
	// 2t 2m +24h
	//   raw: Too few dates (3 dates) to judge the rank histogram.
}

func BenchmarkAdd(b *testing.B) {
	const points, members = 65160, 10
	r := rand.New(rand.NewPCG(1, 1))
	s := Sample{Members: make([][]float32, members)}
	for m := range s.Members {
		s.Members[m] = field(points, func(int) float64 { return r.NormFloat64() })
	}
	obs := field(points, func(int) float64 { return r.NormFloat64() })
	a, err := New(t850, Grid{Weights: field64(points, func(int) float64 { return 1 })}, []System{{Name: "raw", Provides: Members}}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	k := 0
	for b.Loop() {
		if err := a.Add(day(k), Reference{Obs: obs}, []Sample{s}); err != nil {
			b.Fatal(err)
		}
		k++
	}
	b.ReportMetric(float64(points*members*b.N)/b.Elapsed().Seconds()/1e6, "Mmembers/s")
}

// TestAppend: each list of another target is added, but for periods and trends, which are computed of all targets at once; the longest block counts.
func TestAppend(t *testing.T) {
	filled := func(block int) *Result {
		r := &Result{Bootstrap: significance.Bootstrap{BlockLength: block}}
		v := reflect.ValueOf(r).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Slice {
				f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			}
		}
		return r
	}
	for _, blocks := range [][2]int{{2, 5}, {5, 2}} {
		r := filled(blocks[0])
		r.Append(filled(blocks[1]))
		if r.Bootstrap.BlockLength != 5 {
			t.Errorf("blocks of %d and %d dates: %d", blocks[0], blocks[1], r.Bootstrap.BlockLength)
		}
		v := reflect.ValueOf(r).Elem()
		for i := range v.NumField() {
			name, want := v.Type().Field(i).Name, 2
			if name == "Periods" || name == "Trends" {
				want = 1
			}
			if f := v.Field(i); f.Kind() == reflect.Slice && f.Len() != want {
				t.Errorf("%s has %d elements, want %d", name, f.Len(), want)
			}
		}
	}
}
