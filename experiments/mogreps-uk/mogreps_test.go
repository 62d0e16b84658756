// Package mogreps compares EMOS and calibrated members with the known-good results that come with an operational
// ensemble of the Met Office.
package mogreps

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/netcdf"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/ecc"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// reader reads files of the data set through one pool of decoder processes.
type reader struct {
	dir  string
	pool *decode.Pool
}

func newReader(t *testing.T) *reader {
	t.Helper()
	dir := testdata.Dir(t, "mogreps-uk")
	pool, err := decode.NewPool(decode.Options{Program: testdecoder.Path(t), Children: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return &reader{dir, pool}
}

// fields reads all fields of the files that match, in the order of the catalogue.
func (r *reader) fields(t *testing.T, pattern string) []*ensemble.Field {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	in, err := fio.Open(context.Background(), files, fio.Options{Pool: r.pool})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out []*ensemble.Field
	err = in.Read(context.Background(), in.Catalogue().Entries, func(_ int, f *ensemble.Field) error {
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// history is the data that EMOS is fitted to: three inits with their observations.
type history struct {
	inits   []ensemble.Init
	lead    ensemble.Lead
	members [][][]float32 // [init][member][point]
	obs     [][]float32   // [init][point]
}

func (r *reader) history(t *testing.T, set string, members int) *history {
	t.Helper()
	h := &history{}
	for _, f := range r.fields(t, set+"/history/*.nc") { // sorted by init, then member
		if n := len(h.inits); n == 0 || !h.inits[n-1].Equal(f.Key.Init.Time) {
			h.inits = append(h.inits, f.Key.Init)
			h.members = append(h.members, nil)
		}
		h.lead = f.Key.Lead
		h.members[len(h.members)-1] = append(h.members[len(h.members)-1], f.Values)
	}
	if len(h.inits) != 3 || h.lead != ensemble.Lead(12*time.Hour) {
		t.Fatalf("%s: inits %v, lead %v", set, h.inits, h.lead)
	}
	h.obs = make([][]float32, len(h.inits))
	for _, f := range r.fields(t, set+"/truth/*.nc") {
		for d, init := range h.inits {
			if init.Valid(h.lead).Equal(f.Key.Valid().Time) {
				h.obs[d] = f.Values
			}
		}
	}
	for d := range h.inits {
		if len(h.members[d]) != members || h.obs[d] == nil {
			t.Fatalf("%s: init %s has %d members and observations %v", set, h.inits[d], len(h.members[d]), h.obs[d] != nil)
		}
	}
	return h
}

// set returns the history as a baseline.Set.
func (h *history) set() *baseline.Set {
	s := &baseline.Set{}
	for d, init := range h.inits {
		s.Valid = append(s.Valid, init.Valid(h.lead).Time)
		mean, std := meanStd(h.members[d])
		s.Mean, s.Std, s.Obs = append(s.Mean, mean...), append(s.Std, std...), append(s.Obs, h.obs[d]...)
	}
	return s
}

// meanStd returns mean and standard deviation (divisor M−1) of members.
func meanStd(members [][]float32) (mean, std []float32) {
	m := float64(len(members))
	for p := range members[0] {
		var sum, sq float64
		for _, f := range members {
			sum += float64(f[p])
		}
		for _, f := range members {
			sq += (float64(f[p]) - sum/m) * (float64(f[p]) - sum/m)
		}
		mean, std = append(mean, float32(sum/m)), append(std, float32(math.Sqrt(sq/(m-1))))
	}
	return mean, std
}

// four returns the coefficients in the order of the files.
func four(e *baseline.EMOS) [4]float64 { return [4]float64{e.Alpha, e.Beta, e.Gamma, e.Delta} }

// within reports whether all coefficients agree to absolute + relative·|want|.
func within(got, want *baseline.EMOS, tolerance float64) bool {
	w := four(want)
	for k, g := range four(got) {
		if math.Abs(g-w[k]) > tolerance+tolerance*math.Abs(w[k]) {
			return false
		}
	}
	return true
}

// TestKnownGoodCoefficients: the known-good coefficients and the tolerances of the source: 1e-3 absolute plus 1e-3
// relative for each, and a CRPS at most 1e-4 above theirs.
func TestKnownGoodCoefficients(t *testing.T) {
	r := newReader(t)
	sets := map[string]*baseline.Set{"t2m": r.history(t, "t2m", 12).set(), "wind10m": r.history(t, "wind10m", 12).set()}
	minima := map[string]*baseline.EMOS{}
	for _, c := range []struct {
		name, set, file string
		options         baseline.EMOSOptions
		crps            float64 // with the known-good coefficients
	}{
		{"t2m", "t2m", "t2m/kgo_coefficients_mean.nc", baseline.EMOSOptions{Family: baseline.Normal}, 0.232292112},
		{"t2m from the default initial guess", "t2m", "t2m/kgo_coefficients_mean_default_guess.nc", baseline.EMOSOptions{Family: baseline.Normal, DefaultStart: true}, 0.247338755},
		{"wind", "wind10m", "wind10m/kgo_coefficients_mean.nc", baseline.EMOSOptions{Family: baseline.TruncatedNormal}, 0.504768281},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := r.coefficients(t, c.file, c.options.Family)[0]
			c.options.NelderMead = true
			e, err := baseline.FitEMOS(sets[c.set], c.options)
			if err != nil {
				t.Fatal(err)
			}
			if got := want.MeanCRPS(sets[c.set]); math.Abs(got-c.crps) > 1e-8 {
				t.Errorf("CRPS of the known-good coefficients is %.9f, want %.9f", got, c.crps)
			}
			if got := e.MeanCRPS(sets[c.set]); got > c.crps+1e-4 {
				t.Errorf("CRPS %.9f, known-good %.9f", got, c.crps)
			}
			if !within(e, want, 1e-3) {
				t.Errorf("coefficients %.6f, known-good %.6f", four(e), four(want))
			}
			t.Logf("coefficients %.6f, known-good %.6f; CRPS %.9f, known-good %.9f", four(e), four(want), e.MeanCRPS(sets[c.set]), c.crps)
			// The minimum itself is never above the result of the simplex.
			best := minima[c.set]
			if best == nil {
				if best, err = baseline.FitEMOS(sets[c.set], baseline.EMOSOptions{Family: c.options.Family}); err != nil {
					t.Fatal(err)
				}
				minima[c.set] = best
			}
			if a, b := best.MeanCRPS(sets[c.set]), e.MeanCRPS(sets[c.set]); a > b+1e-9 {
				t.Errorf("BFGS ends at %.9f, the simplex at %.9f", a, b)
			}
		})
	}
}

// coefficients reads a file of EMOS coefficients: one set, or one for each site. They are not fields, so the
// decoder is called directly.
func (r *reader) coefficients(t *testing.T, file string, family baseline.Family) []*baseline.EMOS {
	t.Helper()
	path := filepath.Join(r.dir, file)
	var h cf.Header
	if err := r.pool.Do(context.Background(), decode.Call{Kind: netcdf.HeaderKind, File: path, Args: netcdf.HeaderRequest{Path: path}, Result: &h}); err != nil {
		t.Fatal(err)
	}
	req := netcdf.ValuesRequest{Path: path, Double: true}
	for _, name := range []string{"alpha", "beta", "gamma", "delta"} {
		v := slices.IndexFunc(h.Vars, func(v cf.Var) bool { return v.Name == "emos_coefficient_"+name })
		if v < 0 {
			t.Fatalf("%s has no %s", file, name)
		}
		slab := cf.Slab{Var: v}
		for _, d := range h.Vars[v].Dims {
			slab.Start, slab.Count = append(slab.Start, 0), append(slab.Count, h.Dims[d].Len)
		}
		req.Slabs = append(req.Slabs, slab)
	}
	var places []wire.Values
	var out []*baseline.EMOS
	err := r.pool.Do(context.Background(), decode.Call{Kind: netcdf.ValuesKind, File: path, Args: req, Result: &places, ReadOutput: func(payload []byte) error {
		get := func(k, p int) float64 {
			return math.Float64frombits(binary.LittleEndian.Uint64(payload[places[k].Offset+8*p:]))
		}
		for p := range places[0].Count {
			out = append(out, &baseline.EMOS{Family: family, Alpha: get(0, p), Beta: get(1, p), Gamma: get(2, p), Delta: get(3, p)})
		}
		return nil
	}})
	if err != nil || len(out) == 0 {
		t.Fatalf("%s: %d sets, %v", file, len(out), err)
	}
	return out
}

// TestKnownGoodCoefficientsBySite: each site separately, to the tolerance of the source: 0.1 + 0.1 relative. An
// independent recomputation reached it at 113 sites; three inits do not determine four numbers at every site.
func TestKnownGoodCoefficientsBySite(t *testing.T) {
	r := newReader(t)
	h := r.history(t, "sites-t2m", 3)
	agree := 0
	var sum float64
	for p, want := range r.coefficients(t, "sites-t2m/kgo_coefficients_by_site.nc", baseline.Normal) {
		one := &history{inits: h.inits, lead: h.lead}
		for d := range h.inits {
			var members [][]float32
			for _, f := range h.members[d] {
				members = append(members, f[p:p+1])
			}
			one.members, one.obs = append(one.members, members), append(one.obs, h.obs[d][p:p+1])
		}
		fit, err := baseline.FitEMOS(one.set(), baseline.EMOSOptions{NelderMead: true, Tolerance: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		if within(fit, want, 0.1) {
			agree++
		}
		sum += fit.MeanCRPS(one.set())
	}
	if agree < 113 {
		t.Errorf("%d of 121 sites agree", agree)
	}
	if got := sum / 121; got > 0.112093931+1e-4 {
		t.Errorf("mean CRPS over sites %.9f, known-good 0.112093931", got)
	}
	t.Logf("%d of 121 sites agree, mean CRPS %.9f", agree, sum/121)
}

// TestKnownGoodMembers: the calibrated members of the next day, to the tolerance of the source, 1e-3 K. Equal raw
// members have a random order there, so sorted values are compared.
func TestKnownGoodMembers(t *testing.T) {
	r := newReader(t)
	t.Run("grid", func(t *testing.T) {
		e := r.coefficients(t, "t2m/apply/coefficients.nc", baseline.Normal)
		r.checkMembers(t, "t2m", 745, func(int) *baseline.EMOS { return e[0] })
	})
	t.Run("sites", func(t *testing.T) {
		sites := r.coefficients(t, "sites-t2m/apply/coefficients_by_site.nc", baseline.Normal)
		r.checkMembers(t, "sites-t2m", 1, func(p int) *baseline.EMOS { return sites[p] })
	})
}

func (r *reader) checkMembers(t *testing.T, set string, wantTies int, at func(p int) *baseline.EMOS) {
	var raw, want [][]float32
	for _, f := range r.fields(t, set+"/apply/*-input.nc") {
		raw = append(raw, f.Values)
	}
	for _, f := range r.fields(t, set+"/apply/kgo_calibrated_members.nc") {
		want = append(want, f.Values)
	}
	if len(raw) == 0 || len(raw) != len(want) {
		t.Fatalf("%d raw and %d calibrated members", len(raw), len(want))
	}
	mean, std := meanStd(raw)
	n := len(mean)
	mu, sigma := make([]float32, n), make([]float32, n)
	for p := range n {
		at(p).Predict(mu[p:p+1], sigma[p:p+1], mean[p:p+1], std[p:p+1])
	}
	got, err := ecc.CoupleQuantiles(raw, ecc.Levels(len(raw)), ecc.Draws{}, func(p int, level float64) float64 {
		return at(p).Family.Quantile(float64(mu[p]), float64(sigma[p]), level)
	})
	if err != nil {
		t.Fatal(err)
	}
	column := func(fields [][]float32, p int) []float32 {
		out := make([]float32, len(fields))
		for m, f := range fields {
			out[m] = f[p]
		}
		return out
	}
	ties := 0
	var worst float64
	for p := range n {
		x, y, z := column(got, p), column(want, p), column(raw, p)
		slices.Sort(z)
		if len(slices.Compact(z)) < len(raw) {
			ties++
			slices.Sort(x)
			slices.Sort(y)
		}
		for m := range x {
			worst = max(worst, math.Abs(float64(x[m]-y[m])))
		}
	}
	if worst > 1e-3 || ties != wantTies {
		t.Errorf("largest difference %.3g K, want at most 1e-3; %d points with ties, want %d", worst, ties, wantTies)
	}
	t.Logf("largest difference %.3g K, %d of %d points with ties", worst, ties, n)
}

// TestRawScores: scores of the raw ensembles where observations exist. Three inits give reference numbers, not
// skill. They agree to 1e-8 with expected.json, written by make_expected.py.
func TestRawScores(t *testing.T) {
	r := newReader(t)
	text, err := os.ReadFile("expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var expected struct {
		Sets map[string]struct {
			Members, Points int
			Scores          map[string]float64
			Ranks           []float64
		}
	}
	if err := json.Unmarshal(text, &expected); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set    string
		target score.Target
	}{
		{"t2m", score.Target{Variable: "2t", Unit: "K"}},
		{"wind10m", score.Target{Variable: "10si", Unit: "m s-1"}},
		{"sites-t2m", score.Target{Variable: "2t", Unit: "K"}},
	} {
		t.Run(c.set, func(t *testing.T) {
			want, ok := expected.Sets[c.set]
			if !ok {
				t.Fatal("not in expected.json")
			}
			h := r.history(t, c.set, want.Members)
			weights := make([]float64, len(h.obs[0]))
			for p := range weights {
				weights[p] = 1
			}
			c.target.Lead = h.lead
			a, err := score.New(c.target, score.Grid{Weights: weights, Name: "equal areas"},
				[]score.System{{Name: "raw", MembersUsed: want.Members, Provides: score.Members}}, score.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for d := range h.inits {
				if err := a.Add(h.inits[d], score.Reference{Obs: h.obs[d]}, []score.Sample{{Members: h.members[d]}}); err != nil {
					t.Fatal(err)
				}
			}
			res, err := a.Result(significance.Bootstrap{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			flatness := 0.0
			for _, share := range want.Ranks {
				flatness += math.Abs(share - 1/float64(len(want.Ranks)))
			}
			want.Scores[score.RankFlatness.ID] = flatness
			for _, v := range res.Scores {
				x, ok := want.Scores[v.ID]
				if !ok || math.Abs(float64(v.Value)-x) > 1e-8 || v.Points != want.Points || v.Missing != 0 {
					t.Errorf("%s: %.9f, want %.9f; %d points, %d missing", v.ID, float64(v.Value), x, v.Points, v.Missing)
				}
				t.Logf("%-12s %.6f %s", v.ID, float64(v.Value), v.Unit)
			}
			if len(res.Scores) != len(want.Scores) || len(res.Ranks) != 1 || len(res.Ranks[0].Shares) != len(want.Ranks) {
				t.Fatalf("%d scores, want %d; rank histograms %v", len(res.Scores), len(want.Scores), res.Ranks)
			}
			for k, s := range res.Ranks[0].Shares {
				if math.Abs(s-want.Ranks[k]) > 1e-8 {
					t.Errorf("rank %d: share %.8f, want %.8f", k, s, want.Ranks[k])
				}
			}
			t.Logf("rank histogram %.3f, each %.3f if calibrated", res.Ranks[0].Shares, 1/float64(want.Members+1))
		})
	}
}
