package score

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// sharedData is where tests find real data, skipped where they are not.
func sharedData(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("ENSEMBLE_TEST_DATA")
	if root == "" {
		root = "../../../shared/data"
	}
	path := root + "/stations/" + name
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no test data: %v", err)
	}
	return path
}

// summers reads the 27 seasonal forecasts of 24 members.
func summers(t *testing.T) (members [][]float64, obs []float64) {
	f, err := os.Open(sharedData(t, "europe_summer_t2m_cfsv2_24_members.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		var v []float64
		for _, text := range row[1:] {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			v = append(v, x)
		}
		obs, members = append(obs, v[0]), append(members, v[1:])
	}
	return members, obs
}

// The scores of R (SpecsVerification, scoringRules) on real seasonal forecasts: points
// are the summers. float32 keeps 18 K to 1e-6.
func TestSeasonalForecastsAsR(t *testing.T) {
	members, obs := summers(t)
	raw, err := os.ReadFile(sharedData(t, "europe_summer_t2m_cfsv2_24_members_reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Plain     float64   `json:"ens_crps_mean"`
		Fair      float64   `json:"fair_crps_mean"`
		Gauss     float64   `json:"gauss_crps_mean"`
		Brier     float64   `json:"ens_brier_bin_mean"`
		BrierFair float64   `json:"fair_brier_bin_mean"`
		Ranks     []float64 `json:"rankhist"`
		Test      []float64 `json:"testrankhist"`
		AUC       []float64 `json:"auc"`
		Count     []float64 `json:"ens_bin_count"`
		Happened  []float64 `json:"obs_bin"`
		Parts     []float64 `json:"brierdecomp"`
		Corr      []float64 `json:"enscorr"`
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	n := len(obs)
	fields := make([][]float32, 24)
	for m := range fields {
		fields[m] = field(n, func(p int) float64 { return members[p][m] })
	}
	r := once(t, n, field(n, func(p int) float64 { return obs[p] }), Sample{Members: fields}, Options{Scores: []string{"crps_plain", "crps_fair", "crps_gauss", "rank_flatness", "correlation"}})
	for id, v := range map[string]float64{"crps_plain": want.Plain, "crps_fair": want.Fair, "crps_gauss": want.Gauss, "correlation": want.Corr[0]} {
		near(t, id, of(r, id, "raw")[0], v, 1e-6)
	}
	if !slices.Equal(r.Ranks[0].Counts, want.Ranks) {
		t.Errorf("ranks %v, want %v", r.Ranks[0].Counts, want.Ranks)
	}
	f := TestFlatness(want.Ranks)
	for i, got := range []Number{f.ChiSquare, f.P, f.Slope, f.PSlope, f.Convexity, f.PConvexity} {
		near(t, fmt.Sprint("flatness ", i), got, want.Test[i], 1e-10)
	}
	// The event in R is "warmer than last summer", with a threshold for each case, so members are
	// 1 or 0 and the threshold is ½.
	for m := range fields {
		fields[m] = field(n, func(p int) float64 {
			if float64(m) < want.Count[p] {
				return 1
			}
			return 0
		})
	}
	r = once(t, n, field(n, func(p int) float64 { return want.Happened[p] }), Sample{Members: fields},
		Options{Scores: []string{"brier", "brier_fair", "roc_area", "brier_uncertainty", "reliability"}, Thresholds: []float64{0.5}})
	for id, v := range map[string]float64{"brier": want.Brier, "brier_fair": want.BrierFair, "roc_area": want.AUC[0], "brier_uncertainty": want.Parts[4]} {
		near(t, id, of(r, id, "raw")[0], v, 1e-9)
	}
	// R groups probabilities by tenths, (0.1, 0.2] and so on.
	table := make([]float64, 30)
	for p, c := range want.Count {
		k := 3 * max(0, int(math.Ceil(c/24*10-1e-9))-1)
		table[k], table[k+1], table[k+2] = table[k]+1, table[k+1]+c/24, table[k+2]+want.Happened[p]
	}
	d := Decompose(table)
	near(t, "reliability", Number(d.Reliability), want.Parts[0], 1e-9)
	near(t, "resolution", Number(d.Resolution), want.Parts[2], 1e-9)
}

// once scores one date of one system of equal weights.
func once(t *testing.T, points int, obs []float32, s Sample, o Options) *Result {
	t.Helper()
	gives := Members
	if s.Members == nil {
		gives = Mean | Spread
	}
	a, err := New(t850, Grid{Weights: field64(points, func(int) float64 { return 1 })}, []System{{Name: "raw", Provides: gives}}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(day(0), Reference{Obs: obs, Index: obs}, []Sample{s}); err != nil {
		t.Fatal(err)
	}
	r, err := a.Result(significance.Bootstrap{Resamples: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// draws are n points of M members and a reference, all from N(0, 1).
func draws(r *rand.Rand, m, n int) (Sample, []float32) {
	s := Sample{Members: make([][]float32, m)}
	for i := range s.Members {
		s.Members[i] = field(n, func(int) float64 { return r.NormFloat64() })
	}
	return s, field(n, func(int) float64 { return r.NormFloat64() })
}

// Of a calibrated Gaussian ensemble: the fair CRPS is σ/√π for any M, the plain one
// (1+1/M) of it, the Brier score p(1−p)(1+1/M) and fair without the factor, the
// spread-skill ratio 1; the distribution itself scores σ/√π. Tolerances are four
// standard errors.
func TestCalibratedGaussian(t *testing.T) {
	const n = 30000
	r := rand.New(rand.NewPCG(5, 6))
	sigma, last := 1/math.Sqrt(math.Pi), 1.0
	for _, m := range []int{2, 3, 9} {
		s, y := draws(r, m, n)
		res := once(t, n, y, s, Options{Scores: []string{"crps_plain", "crps_fair", "spread_skill", "brier", "brier_fair", "crps_reliability", "crps_potential"}, Thresholds: []float64{0.4}})
		name := fmt.Sprintf("%d members: ", m)
		tol := 4 * 0.6 / math.Sqrt(n) // standard deviation of the CRPS of M members is below 0.6 with M ≥ 2
		near(t, name+"fair CRPS", of(res, "crps_fair", "raw")[0], sigma, tol)
		near(t, name+"plain CRPS", of(res, "crps_plain", "raw")[0], sigma*(1+1/float64(m)), tol)
		near(t, name+"spread-skill", of(res, "spread_skill", "raw")[0], 1, 0.02)
		q := 1 - 0.6554217416103242 // P(X > 0.4)
		near(t, name+"Brier", of(res, "brier", "raw")[0], q*(1-q)*(1+1/float64(m)), 4*0.35/math.Sqrt(n))
		near(t, name+"fair Brier", of(res, "brier_fair", "raw")[0], q*(1-q), 4*0.35/math.Sqrt(n))
		near(t, name+"parts of the CRPS", of(res, "crps_reliability", "raw")[0]+of(res, "crps_potential", "raw")[0], float64(of(res, "crps_plain", "raw")[0]), 1e-9)
		// Of few members the outermost bins are never reliable: 1/(M+1) lie beyond each.
		part := float64(of(res, "crps_reliability", "raw")[0])
		if part >= last/1.5 {
			t.Errorf("%sreliability part %g, with fewer members %g", name, part, last)
		}
		last = part
	}
	_, y := draws(r, 2, n)
	net := Sample{Mean: make([]float32, n), Spread: field(n, func(int) float64 { return 1 })}
	res := once(t, n, y, net, Options{Scores: []string{"crps_gauss", "coverage_50", "coverage_90", "pit_flatness", "log_gauss", "brier", "reliability", "spread_skill_bins", "economic_value"}, Thresholds: []float64{0.4}})
	near(t, "Gaussian CRPS", of(res, "crps_gauss", "raw")[0], sigma, 4*0.4/math.Sqrt(n))
	near(t, "coverage 50", of(res, "coverage_50", "raw")[0], 0.5, 4*0.5/math.Sqrt(n))
	near(t, "coverage 90", of(res, "coverage_90", "raw")[0], 0.9, 4*0.3/math.Sqrt(n))
	near(t, "PIT", of(res, "pit_flatness", "raw")[0], 0, 20*4*math.Sqrt(0.05/n))
	near(t, "log score", of(res, "log_gauss", "raw")[0], 0.5+0.5*math.Log(2*math.Pi), 4*0.75/math.Sqrt(n))
	near(t, "no skill, no value", of(res, "economic_value", "raw")[0], 0, 1e-9)
	for _, d := range res.Diagrams {
		if d.ID == "reliability" && (len(d.Rows) != 1 || math.Abs(float64(d.Rows[0][0]-d.Rows[0][1])) > 0.01) {
			t.Errorf("one probability is forecast, and right: %v", d.Rows)
		}
	}
}

// Dates that were summed alone and joined in any order give the bits of one run, with
// regions, seasons, thresholds and diagrams.
func TestSumsMergeExactly(t *testing.T) {
	const n, points = 7, 600
	half := Region{Name: "half", Mask: make([]bool, points)}
	for p := range points / 2 {
		half.Mask[p] = true
	}
	o := Options{Scores: IDs(), Thresholds: []float64{-0.3, 0.8}, Regions: []Region{half}, Seasons: true, Index: true, Extremes: 0.1, Climate: 101}
	fresh := func() *Accumulator {
		a, err := New(t850, Grid{Weights: field64(points, func(p int) float64 { return 0.1 + float64(p%13)/7 }), NX: 30, Periodic: true, Name: "test"},
			[]System{{Name: "raw", Provides: Members}, {Name: "net", Provides: Mean | Spread}}, o)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	r := rand.New(rand.NewPCG(3, 4))
	whole, joined := fresh(), fresh()
	var dates []Date
	for k := range n {
		s, y := draws(r, 4, points)
		y[k] = float32(math.NaN())
		s.Members[2][40+k] = float32(math.NaN())
		samples := []Sample{s, {Mean: y, Spread: field(points, func(int) float64 { return 0.5 + r.Float64() })}}
		samples[1].Mean = field(points, func(p int) float64 { return r.NormFloat64() })
		ref := Reference{Obs: y, Index: field(points, func(int) float64 { return r.Float64() }), Extremes: field(points, func(int) float64 { return r.NormFloat64() })}
		for q := range 101 {
			ref.Climate = append(ref.Climate, field(points, func(int) float64 { return float64(q)/25 - 2 }))
		}
		if err := whole.Add(day(7*k), ref, samples); err != nil {
			t.Fatal(err)
		}
		d, err := fresh().Sum(day(7*k), ref, samples)
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
	if err := joined.Join(dates[0]); err == nil || len(joined.Dates()) != n {
		t.Errorf("a date was joined twice: %v", err)
	}
	var texts [2][]byte
	var res *Result
	for i, a := range []*Accumulator{whole, joined} {
		var err error
		if res, err = a.Result(significance.Bootstrap{Resamples: 20}, a.Pairs("net", "raw")); err != nil {
			t.Fatal(err)
		}
		if texts[i], err = json.Marshal(exact(res)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("joined sums differ from those of one run")
	}
	cells := map[string]int{}
	for _, v := range res.Scores {
		cells[v.Region+" "+v.Season]++
		if v.System == "raw" && v.MissingMembers == 0 && v.Region == Everywhere && v.Season == AllYear {
			t.Errorf("%s: missing members were not counted", v.ID)
		}
	}
	if len(cells) < 4 || cells["half all"] != cells["all all"] || cells["all DJF"] == 0 {
		t.Errorf("results by region and season: %v", cells)
	}
	other := dates[0]
	other.Regions = slices.Clone(other.Regions)
	other.Regions[0].Sums = other.Regions[0].Sums[1:]
	if err := fresh().Join(other); err == nil {
		t.Error("sums of different scores were joined")
	}
}

// exact shows every bit of the numbers of a result.
func exact(r *Result) any {
	var out []string
	for _, v := range r.Scores {
		out = append(out, fmt.Sprintf("%s %s %s %s %v %x %x %x %d %d", v.ID, v.System, v.Region, v.Season, v.Threshold, v.Value, v.CILow, v.CIHigh, v.Points, v.MissingMembers))
	}
	for _, d := range r.Diagrams {
		out = append(out, fmt.Sprintf("%s %s %x %x %x", d.ID, d.System, d.Rows, d.Low, d.High))
	}
	for _, h := range r.Ranks {
		out = append(out, fmt.Sprintf("%s %x %x %x", h.System, h.Counts, h.Shares, h.Low))
	}
	for _, c := range r.Calibration {
		out = append(out, fmt.Sprintf("%s %s %s %s %x %x %x %x %s", c.System, c.Histogram, c.Region, c.Season, c.Slope, c.SlopeHigh, c.Convexity, c.ConvexityLow, c.Text))
	}
	for _, c := range r.Comparisons {
		out = append(out, fmt.Sprintf("%s %s %s %x %x %x %x", c.ID, c.Region, c.Season, c.SkillScore, c.CILow, c.CIHigh, c.P))
	}
	return out
}

// Seasons follow the valid time, regions their points: a bias in one region and season appears
// only in its results.
func TestRegionsAndSeasons(t *testing.T) {
	east := Region{Name: "east", Mask: []bool{false, true}}
	a, err := New(t850, Grid{Weights: []float64{1, 3}}, []System{{Name: "raw", Provides: Mean}}, Options{Scores: []string{"bias"}, Regions: []Region{east}, Seasons: true})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 12 { // every 42 days
		var d float32
		if m := day(6 * k).Valid(t850.Lead).Time.Month(); m >= 6 && m <= 8 {
			d = 2
		}
		if err := a.Add(day(6*k), Reference{Obs: []float32{0, 0}}, []Sample{{Mean: []float32{0, d}}}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := a.Result(significance.Bootstrap{Resamples: 5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Scores) != 10 {
		t.Fatalf("%d scores, want 2 regions × (all year + 4 seasons)", len(r.Scores))
	}
	for _, v := range r.Scores {
		switch {
		case v.Season == "JJA" && v.Region == "east":
			near(t, "summer in the east", v.Value, 2, 1e-12)
		case v.Season == "JJA":
			near(t, "summer", v.Value, 1.5, 1e-12)
		case v.Season != AllYear:
			near(t, v.Season, v.Value, 0, 0)
		}
	}
}

func TestBoxes(t *testing.T) {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 4, NY: 3, Lat: []float64{60, 0, -60}, Lon: []float64{0, 90, 180, 270}}
	for _, c := range []struct {
		text string
		want []int // points
	}{
		{"tropics", []int{4, 5, 6, 7}},
		{"northern_extratropics", []int{0, 1, 2, 3}},
		{"date_line=-90:90:170:280", []int{2, 3, 6, 7, 10, 11}},
		{"greenwich=50:70:-100:10", []int{0, 3}},
	} {
		b, err := ParseBox(c.text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Region(g)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for p, in := range r.Mask {
			if in {
				got = append(got, p)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: points %v, want %v", c.text, got, c.want)
		}
	}
	for turn := -3.0; turn <= 3; turn++ { // a meridian, and a box whose edges are meridians of the grid
		for _, c := range []struct {
			west, east float64
			want       []bool
		}{{90, 90, []bool{false, true, false, false}}, {180, 270, []bool{false, false, true, true}}, {-90, 0, []bool{true, false, false, true}}} {
			r, err := (Box{"turned", -90, 90, c.west + 360*turn, c.east + 360*turn}).Region(g)
			if err != nil || !slices.Equal(r.Mask[:4], c.want) || !slices.Equal(r.Mask[8:], c.want) {
				t.Errorf("%g to %g east: %v, %v", c.west+360*turn, c.east+360*turn, r.Mask, err)
			}
		}
	}
	for _, text := range []string{"circle=-90:90:0:360", "pole=90:90:-180:180", "southern_pole=-90:-90:0:1"} {
		if b, err := ParseBox(text); err != nil || !strings.HasPrefix(text, b.Name+"=") {
			t.Errorf("%s: %v, %v", text, b, err)
		}
	}
	if _, err := ParseBox("moon"); err == nil || !strings.Contains(err.Error(), "northern_extratropics, tropics, ") || !strings.Contains(err.Error(), ", east_asia,") {
		t.Errorf("regions that can be selected: %v", err)
	}
	for _, text := range []string{"moon", "x=1:2:3", "x=10:0:0:5", "x=0:10:5:0", "=0:1:0:1", "x=0:NaN:0:1", "x=0:100:0:1"} {
		if _, err := ParseBox(text); err == nil {
			t.Errorf("region %q accepted", text)
		}
	}
	if _, err := (Box{"nowhere", 70, 80, 0, 360}).Region(g); err == nil {
		t.Error("a region without points accepted")
	}
}

// TestParseBoxes: several regions are read in their order; a name that another one or the whole area has is refused, as is one that is none.
func TestParseBoxes(t *testing.T) {
	boxes, err := ParseBoxes([]string{"tropics", "alps=43:49:5:17"})
	if err != nil || len(boxes) != 2 || boxes[0] != NamedBoxes[1] || boxes[1] != (Box{"alps", 43, 49, 5, 17}) {
		t.Errorf("%v, %v", boxes, err)
	}
	for want, texts := range map[string][]string{`has the name "alps"`: {"alps=43:49:5:17", "alps=0:1:0:1"}, `has the name "all"`: {Everywhere + "=0:1:0:1"}, `unknown region "moon"`: {"tropics", "moon"}} {
		if boxes, err := ParseBoxes(texts); boxes != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", texts, boxes, err)
		}
	}
}

// TestNamedBoxes: the regions have the published bounds, which belong to them: WMO-No. 485 for the extratropics and tropics, the
// ECMWF scorecards for the others.
func TestNamedBoxes(t *testing.T) {
	published := map[string]struct{ south, north, west, east float64 }{
		"northern_extratropics": {20, 90, -180, 180}, "tropics": {-20, 20, -180, 180}, "southern_extratropics": {-90, -20, -180, 180},
		"europe": {35, 75, -12.5, 42.5}, "north_america": {25, 60, -120, -75}, "east_asia": {25, 60, 102.5, 150},
	}
	if len(NamedBoxes) != len(published) {
		t.Errorf("%d regions, want %d", len(NamedBoxes), len(published))
	}
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 720, NY: 361}
	for i := range g.NX {
		g.Lon = append(g.Lon, float64(i)/2)
	}
	for j := range g.NY {
		g.Lat = append(g.Lat, 90-float64(j)/2)
	}
	for _, b := range NamedBoxes {
		want := published[b.Name]
		r, err := b.Region(g)
		if err != nil {
			t.Fatal(err)
		}
		for p, in := range r.Mask {
			lat, lon := g.Lat[p/g.NX], g.Lon[p%g.NX]
			if lon > 180 {
				lon -= 360
			}
			if in != (want.south <= lat && lat <= want.north && want.west <= lon && lon <= want.east) {
				t.Fatalf("%s: %g north, %g east: %v", b.Name, lat, lon, in)
			}
		}
	}
}

func TestOptionsRefuse(t *testing.T) {
	for _, o := range []Options{
		{Scores: []string{"crps"}}, {Thresholds: []float64{2, 1}}, {Thresholds: []float64{math.NaN()}},
		{Levels: []float64{0}}, {Levels: []float64{1}}, {Levels: []float64{math.NaN()}}, {Levels: []float64{0.9, 0.1}},
		{Extremes: -0.1}, {Extremes: 1}, {Extremes: math.NaN()}, {Climate: 1}, {Climate: -1},
		{Regions: []Region{{Name: "a", Mask: []bool{true}}, {Name: "a", Mask: []bool{true}}}}, {Regions: []Region{{Name: LargestEFI, Mask: []bool{true}}}},
		{Regions: []Region{{Name: "a", Mask: []bool{true, true}}}}, {Regions: []Region{{Name: "all", Mask: []bool{true}}}}, {Regions: []Region{{Mask: []bool{true}}}},
	} {
		if _, err := New(t850, Grid{Weights: []float64{1}}, []System{{Name: "raw", Provides: Members}}, o); err == nil {
			t.Errorf("options %+v accepted", o)
		}
	}
	for _, o := range []Options{{Levels: []float64{0.001, 0.999}}, {Thresholds: []float64{-1, 0, 1}}, {Extremes: 0.99, Climate: 2}} {
		if _, err := New(t850, Grid{Weights: []float64{1}}, []System{{Name: "raw", Provides: Members}}, o); err != nil {
			t.Errorf("options %+v: %v", o, err)
		}
	}
	if _, err := New(t850, Grid{Weights: []float64{1, 1, 1}, NX: 2}, []System{{Name: "raw", Provides: Members}}, Options{}); err == nil {
		t.Error("rows that do not divide the points accepted")
	}
}

// A 90 % band contains 90 % of the shares of flat histograms, separately or simultaneously.
func TestFlatBand(t *testing.T) {
	const n, k, trials = 200, 8, 3000
	r := rand.New(rand.NewPCG(8, 9))
	for _, together := range []bool{false, true} {
		low, high := FlatBand(n, k, 0.9, together)
		in := 0
		for range trials {
			var counts [k]int
			for range n {
				counts[r.IntN(k)]++
			}
			all := true
			for i, c := range counts {
				ok := float64(c)/n >= low && float64(c)/n <= high
				all = all && ok
				if i == 0 && !together && ok {
					in++
				}
			}
			if together && all {
				in++
			}
		}
		if share := float64(in) / trials; share < 0.88 || share > 0.96 { // counts are whole: the band is a little wide
			t.Errorf("together %v: band %g to %g holds %g", together, low, high, share)
		}
	}
}

// A system with a family is scored by its own distribution: the normal family has the same scores
// as mean and spread; a censored one has its closed form and no Gaussian scores.
func TestFamilies(t *testing.T) {
	const n = 500
	r := rand.New(rand.NewPCG(7, 8))
	mean, spread := field(n, func(int) float64 { return r.NormFloat64() }), field(n, func(int) float64 { return 0.5 + r.Float64() })
	rain := field(n, func(int) float64 { return math.Max(r.NormFloat64(), 0) })
	ids := append([]string{"crps_family", "brier", "coverage_90", "mae", "interval_score_90", "roc_area", "economic_value"}, Default...)
	systems := []System{{Name: "plain", Provides: Mean | Spread}, {Name: "normal", Provides: Parameters | Mean | Spread, Family: dist.Normal}, {Name: "censored", Provides: Parameters, Family: dist.CensoredNormal}}
	a, err := New(t850, Grid{Weights: field64(n, func(int) float64 { return 1 })}, systems, Options{Scores: ids, Thresholds: []float64{0.3}})
	if err != nil {
		t.Fatal(err)
	}
	own := [][]float32{mean, spread}
	if err := a.Add(day(0), Reference{Obs: rain}, []Sample{{Mean: mean, Spread: spread}, {Mean: mean, Spread: spread, Parameters: own}, {Parameters: own}}); err != nil {
		t.Fatal(err)
	}
	res, err := a.Result(significance.Bootstrap{Resamples: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"brier", "coverage_90", "mae", "interval_score_90", "rmse", "spread_skill", "pit_flatness", "roc_area"} {
		near(t, id+" of the normal family", of(res, id, "normal")[0], float64(of(res, id, "plain")[0]), 1e-9)
	}
	near(t, "CRPS of the normal family", of(res, "crps_family", "normal")[0], float64(of(res, "crps_gauss", "plain")[0]), 1e-12)
	var want float64
	for p := range rain {
		c, _, _ := dist.CensoredNormalCRPS(float64(mean[p]), float64(spread[p]), float64(rain[p]))
		want += c / n
	}
	near(t, "CRPS of the censored family", of(res, "crps_family", "censored")[0], want, 1e-9)
	near(t, "chance of 0.3, above 0", of(res, "brier", "censored")[0], float64(of(res, "brier", "plain")[0]), 1e-9)
	for _, system := range []string{"normal", "censored"} {
		if len(of(res, "crps_gauss", system)) != 0 {
			t.Errorf("%s has the CRPS of a plain normal distribution", system)
		}
	}
	if len(of(res, "rmse", "censored")) != 0 || len(of(res, "crps_family", "plain")) != 0 {
		t.Error("scores of what a system does not give")
	}
	for _, s := range []System{{Name: "x", Provides: Parameters}, {Name: "x", Provides: Mean, Family: dist.Normal}, {Name: "x", Provides: Members | Parameters, Family: dist.Normal}} {
		if _, err := New(t850, Grid{Weights: []float64{1}}, []System{s}, Options{}); err == nil {
			t.Errorf("system %+v accepted", s)
		}
	}
	if err := a.Add(day(1), Reference{Obs: rain}, []Sample{{Mean: mean, Spread: spread}, {Mean: mean, Spread: spread, Parameters: own[:1]}, {Parameters: own}}); err == nil {
		t.Error("a family with one parameter of two accepted")
	}
}

// TestTiesOutside: of members 0 and 2 and the observations 3 and 2, one lies above all members and one is equal to the largest, which is
// not outside: the outer bin has the frequency ½ and the width 1, the inner one 0 and 2. The same below.
func TestTiesOutside(t *testing.T) {
	for _, obs := range [][]float32{{3, 2}, {-1, 0}} {
		r := once(t, 2, obs, Sample{Members: [][]float32{{0, 0}, {2, 2}}}, Options{Scores: []string{"crps_plain", "crps_reliability", "crps_potential"}})
		near(t, "reliability", of(r, "crps_reliability", "raw")[0], 0.75, 1e-12)
		near(t, "potential", of(r, "crps_potential", "raw")[0], 0.25, 1e-12)
		near(t, "CRPS", of(r, "crps_plain", "raw")[0], 1, 1e-12)
	}
}

// TestLogScoreWithoutSpread: it is infinite, also if the mean is right.
func TestLogScoreWithoutSpread(t *testing.T) {
	for _, y := range []float64{0, 1} {
		parts := make([]float64, 1)
		LogGauss.Point(parts, &Case{Mean: 1, Obs: y})
		if !math.IsInf(parts[0], 1) {
			t.Errorf("mean 1, observation %g: %g", y, parts[0])
		}
	}
}

// TestSeasonsWithoutDates: a season in which no date is valid has no scores.
func TestSeasonsWithoutDates(t *testing.T) {
	a, err := New(t850, Grid{Weights: []float64{1}}, []System{{Name: "raw", Provides: Mean}}, Options{Scores: []string{"bias"}, Seasons: true})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 3 { // in January
		if err := a.Add(day(k), Reference{Obs: []float32{0}}, []Sample{{Mean: []float32{float32(k)}}}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := a.Result(significance.Bootstrap{Resamples: 5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var seasons []string
	for _, v := range r.Scores {
		seasons = append(seasons, v.Season)
	}
	if want := []string{AllYear, "DJF"}; !slices.Equal(seasons, want) {
		t.Errorf("seasons %v, want %v", seasons, want)
	}
}

// TestCertainForecast: a forecast without spread exceeds a threshold with the probability 0 or 1.
func TestCertainForecast(t *testing.T) {
	c := &Case{Mean: 1}
	for x, want := range map[float64]float64{0.9: 1, 1: 0, 1.1: 0} {
		if got := c.exceedance(x, x); got != want {
			t.Errorf("P(1 > %g) = %g, want %g", x, got, want)
		}
	}
}
