package score

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// recordedTarget scores all systems and scores of one variable on invented dates, so that each part of a result has numbers: members with
// missing values, a normal distribution with published probabilities and quantiles, and a family with parameters; thresholds, quantiles,
// fractions, a climate, extremes, earlier leads, two regions and seasons. Differences between systems grow with the seed.
func recordedTarget(t *testing.T, target Target, seed uint64) *Result {
	t.Helper()
	const nx, ny, m, dates = 5, 4, 4, 26
	const n = nx * ny
	raw := fmt.Sprint(rawPrefix, m)
	r := rand.New(rand.NewPCG(seed, 1))
	weights, north, east := make([]float64, n), make([]bool, n), make([]bool, n)
	for p := range n {
		weights[p], north[p], east[p] = 1+float64(p/nx), p < n/2, p%nx > 2
	}
	const levels = 101
	climate := make([][]float32, levels)
	for k := range climate {
		climate[k] = field(n, func(p int) float64 {
			return 3 * dist.NormalQuantile(min(max(float64(k)/(levels-1), 1e-3), 1-1e-3))
		})
	}
	a, err := New(target, Grid{Weights: weights, Name: "rows", NX: nx, Periodic: true, Radius: 1, Neighbourhood: windows(n, 1)}, []System{
		{Name: "network", MembersUsed: m, Provides: Mean | Spread, Thresholds: []float64{1}, Levels: []float64{0.9}},
		{Name: raw, MembersUsed: m, Provides: Members | Leads},
		{Name: "censored", MembersUsed: m, Provides: Parameters | Mean | Spread, Family: dist.CensoredNormal},
	}, Options{Scores: IDs(), Thresholds: []float64{-0.5, 1}, Levels: []float64{0.25, 0.9}, Regions: []Region{{"north", north}, {"east", east}}, Seasons: true,
		FullSpread: true, Index: true, Extremes: 0.3, Climate: levels})
	if err != nil {
		t.Fatal(err)
	}
	for k := range dates {
		truth := field(n, func(p int) float64 { return 3 * math.Sin(float64(k+p)) * r.Float64() })
		obs := field(n, func(p int) float64 { return float64(truth[p]) + r.NormFloat64() })
		earlierObs := field(n, func(p int) float64 { return float64(truth[p]) + 0.5*r.NormFloat64() })
		member := func(sd float64) []float32 {
			return field(n, func(p int) float64 { return float64(truth[p]) + 0.2 + sd*r.NormFloat64() })
		}
		members, earlier := make([][]float32, m), make([][]float32, m)
		for i := range m {
			members[i], earlier[i] = member(0.8), member(0.4)
		}
		if k%5 == 0 {
			members[k%m][k%n] = float32(math.NaN())
		}
		spread := field(n, func(p int) float64 { return 0.6 + r.Float64() })
		shifted := field(n, func(p int) float64 { return float64(truth[p]) - 0.3*float64(seed) })
		network := Sample{Mean: truth, Spread: spread, Exceedance: [][]float32{field(n, func(int) float64 { return r.Float64() })}, Quantiles: [][]float32{field(n, func(p int) float64 { return float64(truth[p] + 1.3*spread[p]) })}}
		ref := Reference{Obs: obs, FullSpread: field(n, func(p int) float64 { return 0.9 + 0.2*r.Float64() }), Index: field(n, func(p int) float64 { return math.Tanh(float64(truth[p])) }), Climate: climate, Earlier: [][]float32{earlierObs}}
		ref.Extremes = ref.Index
		init := ensemble.InitAt(time.Date(1990, 1, 5+14*k, 0, 0, 0, 0, time.UTC))
		if err := a.Add(init, ref, []Sample{network, {Members: members, Earlier: [][][]float32{earlier}}, {Parameters: [][]float32{shifted, spread}, Mean: shifted, Spread: spread}}); err != nil {
			t.Fatal(err)
		}
	}
	pairs := slices.Concat(a.Pairs("network", raw), a.Pairs("network", "censored"))
	pairs = append(pairs, Pair{CRPSGauss.ID, "network", raw, CRPSPlain.ID}, Pair{CRPSGauss.ID, "network", "censored", CRPSFamily.ID})
	out, err := a.Result(significance.Bootstrap{Resamples: 40, Confidence: 0.9, Seed: 3}, pairs)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// recordedResult is a result of two targets.
func recordedResult(t *testing.T) *Result {
	t.Helper()
	out := recordedTarget(t, t850, 1)
	out.Append(recordedTarget(t, Target{Variable: "z", Level: ensemble.PressureLevel(500), Lead: ensemble.Lead(48 * time.Hour), Unit: "m2 s-2"}, 2))
	return out
}

var (
	numberInText = regexp.MustCompile(`-?\d+\.?\d*(e[-+]?\d+)?`)
	keyInText    = regexp.MustCompile(`"[A-Za-z0-9_]+":`)
)

// leastRecorded is the least number that is recorded: what is smaller may be a sum that is 0 on another processor.
const leastRecorded = 1e-9

// record is a list of values as JSON without keys, a line each, numbers with five significant digits.
func record[T any](t *testing.T, of []T) (lines []string) {
	t.Helper()
	for _, v := range of {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, numberInText.ReplaceAllStringFunc(keyInText.ReplaceAllString(string(raw), ""), func(s string) string {
			v, err := strconv.ParseFloat(s, 64)
			switch {
			case err != nil || v == math.Trunc(v) && math.Abs(v) < 1e5:
				return s
			case math.Abs(v) < leastRecorded:
				return "0"
			}
			return strconv.FormatFloat(v, 'g', 5, 64)
		}))
	}
	return lines
}

// sameText compares texts whose numbers may differ in the last digits, as processors and compilers round differently. Columns may have
// other widths then.
func sameText(a, b string) bool {
	words := func(s string) string {
		return strings.Join(strings.Fields(numberInText.ReplaceAllString(s, "#")), " ")
	}
	x, y := numberInText.FindAllString(a, -1), numberInText.FindAllString(b, -1)
	if len(x) != len(y) || words(a) != words(b) {
		return false
	}
	for i := range x {
		v, err1 := strconv.ParseFloat(x[i], 64)
		w, err2 := strconv.ParseFloat(y[i], 64)
		if err1 != nil || err2 != nil || math.Abs(v-w) > 3e-4*math.Abs(w)+leastRecorded {
			return false
		}
	}
	return true
}

// TestSameText: numbers may differ in their last digits, words and other numbers not.
func TestSameText(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{`{"a",0.56182,26}`, `{"a",0.56185,26}`, true}, {`{"a",0.56182,26}`, `{"a",0.56282,26}`, false}, {"26 dates", "27 dates", false}, {"a  0.0000 K", "a -0.0000 K", true},
		{"a 1", "b 1", false}, {"a 1", "a 1 1", false}, {"1e-12", "0", true}} {
		if got := sameText(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}

// compareRecorded compares lines with a file, or writes it.
func compareRecorded(t *testing.T, name string, got []string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	if len(got) != len(want) {
		t.Errorf("%s: %d lines, want %d", path, len(got), len(want))
	}
	faults := 0
	for i := range min(len(got), len(want)) {
		if !sameText(got[i], want[i]) {
			if faults++; faults <= 5 {
				t.Errorf("%s:%d:\n%s\nwant\n%s", path, i+1, got[i], want[i])
			}
		}
	}
}

// TestRecorded: a result of everything that can be scored is as recorded. Other tests judge single scores by other programs and by hand;
// this one notices each change of anything else, such as an interval, a unit or the dates of a season. If a change is wanted, -update writes the file again.
func TestRecorded(t *testing.T) {
	r := recordedResult(t)
	few := func(region, season, id string) bool { // the other regions and seasons have one score of each kind
		return IsOverall(region, season) || slices.Contains([]string{CRPSGauss.ID, BrierReliability.ID, SpreadSkillBins.ID}, id) && (region == "east" || region == LargestEFI) && (season == AllYear || season == "JJA")
	}
	r.Scores = slices.DeleteFunc(r.Scores, func(v Value) bool { return !few(v.Region, v.Season, v.ID) || v.Variable == "z" && v.ID != CRPSGauss.ID })
	r.Comparisons = slices.DeleteFunc(r.Comparisons, func(c Comparison) bool { return !few(c.Region, c.Season, c.ID) || c.Variable == "z" })
	r.Diagrams = slices.DeleteFunc(r.Diagrams, func(d Diagram) bool { return !few(d.Region, d.Season, d.ID) || d.Variable == "z" })
	r.Ranks = slices.DeleteFunc(r.Ranks, func(h RankHistogram) bool { return !few(h.Region, h.Season, "") })
	r.Calibration = slices.DeleteFunc(r.Calibration, func(c Calibration) bool { return !few(c.Region, c.Season, CRPSGauss.ID) })
	for i := range r.Scores {
		r.Scores[i].Formula = "" // in the table of docs/verification.md
	}
	lines := slices.Concat(record(t, r.Scores), record(t, r.Comparisons), record(t, r.Calibration), record(t, r.Ranks), record(t, r.Diagrams), []string{fmt.Sprintf("%+v", r.Bootstrap)})
	compareRecorded(t, "recorded.txt", lines)
}

// TestRecordedReport: the tables and sentences on it are as recorded, with those on results that it does not have.
func TestRecordedReport(t *testing.T) {
	r := recordedResult(t)
	r.SkillComponents = []SkillComponent{{Component: "bias", System: "network", Reference: "raw4", ReferenceID: CRPSPlain.ID, Variable: "t", Level: "850hPa", Lead: "96h", Reduction: 0.1234, CILow: 0.05, CIHigh: 0.2, CRPS: 0.512, BaselineCRPS: Missing(), Region: "north", Season: "DJF"},
		{Component: "season", System: "network", Reference: "raw4", ReferenceID: CRPSPlain.ID, Variable: "t", Level: "850hPa", Lead: "96h", Reduction: 0.02, CILow: -0.01, CIHigh: 0.05, CRPS: 0.5, Baseline: "samos", BaselineCRPS: 0.45, Region: "north", Season: "DJF"},
		{Component: "information", System: "network", Reference: "raw4", ReferenceID: CRPSPlain.ID, Variable: "t", Level: "850hPa", Lead: "96h", Reduction: 0.2, CILow: 0.1, CIHigh: 0.3, CRPS: 0.4, BaselineCRPS: Missing(), Region: "north", Season: "DJF"},
		{Component: "total", System: "network", Reference: "raw4", ReferenceID: CRPSPlain.ID, Variable: "t", Level: "850hPa", Lead: "96h", Reduction: 0.2, CILow: 0.1, CIHigh: 0.3, CRPS: 0.4, BaselineCRPS: Missing(), Region: "north", Season: "DJF"}}
	r.IdealScores = []IdealScore{{ID: "expected", Reference: "network", Variable: "t", Level: "850hPa", Lead: "96h", CRPS: 1234.56, CILow: 1e-4, CIHigh: 2e6, Ratio: 1.1, RatioLow: 0.9, RatioHigh: Missing(), Region: Everywhere, Season: AllYear}}
	r.Coupling = []Coupling{{Test: "independence", System: "drawn", Variable: "t", Level: "850hPa", Lead: "96h", Value: 0.1, CILow: 0.05, CIHigh: 0.15, Decided: true, N: 26, DatesFrom: FromTraining},
		{Test: "input_size", InputMembers: 3, System: "drawn", Variable: "t", Level: "850hPa", Lead: "96h", Value: 1, CILow: 0.9, CIHigh: 1.1, Expected: 1, Decided: true, Passed: true, N: 26, DatesFrom: FromProducts},
		{Test: "independence", System: "few", Variable: "t", Level: "850hPa", Lead: "96h", Value: 0.1, CILow: Missing(), CIHigh: Missing(), N: 3, DatesFrom: FromProducts}}
	var b strings.Builder
	few := []string{CRPSGauss.ID, CRPSPlain.ID, Brier.ID, QuantileScore.ID}
	shown := *r
	shown.Scores = slices.DeleteFunc(slices.Clone(r.Scores), func(v Value) bool {
		return !slices.Contains(few, v.ID) || v.Region == "north" || v.Season != AllYear && v.Season != "JJA"
	})
	shown.Comparisons = slices.DeleteFunc(slices.Clone(r.Comparisons), func(c Comparison) bool { return !slices.Contains(few, c.ID) || c.Region != Everywhere })
	one := *r
	one.Scores = slices.DeleteFunc(slices.Clone(r.Scores), func(v Value) bool { return v.Variable == "z" })
	one.Comparisons = slices.DeleteFunc(slices.Clone(r.Comparisons), func(c Comparison) bool { return c.Variable == "z" })
	if err := shown.Sections().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, of := range []*Result{r, &one} {
		if err := of.Brief("more").WriteText(&b); err != nil {
			t.Fatal(err)
		}
	}
	compareRecorded(t, "report.txt", strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"))
}
