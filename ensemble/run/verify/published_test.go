package verify

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// publishing makes products and analyses of ten initialisations of 2 m temperature.
type publishing struct {
	t       *testing.T
	dir     string
	pool    *decode.Pool
	lead    ensemble.Lead
	inits   []ensemble.Init
	grid    *ensemble.Grid
	obs     [][]float32 // [init][point]
	formats []product.Format
}

// startPublishing draws the analyses.
func startPublishing(t *testing.T) *publishing {
	testdecoder.Path(t)
	pool, err := decode.NewPool(decode.Options{})
	runtest.Must(t, err)
	t.Cleanup(func() { pool.Close() })
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 4, NY: 2, Lat: []float64{60, 30}, Lon: []float64{0, 90, 180, 270}}
	g.Source.ScanningMode = -1
	p := &publishing{t: t, dir: t.TempDir(), pool: pool, lead: ensemble.Lead(24 * time.Hour), grid: g}
	r := rand.New(rand.NewPCG(9, 1))
	for k := range 14 {
		p.inits = append(p.inits, ensemble.InitAt(time.Date(2021, 11, 20+k, 0, 0, 0, 0, time.UTC)))
		obs := make([]float32, g.Size())
		for q := range obs {
			obs[q] = float32(280 + 3*r.NormFloat64())
		}
		p.obs = append(p.obs, obs)
	}
	return p
}

var twoMetres = ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}

// publish writes products: mean and spread N(obs + 1, 1), and the fields that extra gives.
func (p *publishing) publish(folder string, extra func(mean []float32) []product.Field) (files []string) {
	p.t.Helper()
	for k, init := range p.inits {
		mean, spread := make([]float32, p.grid.Size()), make([]float32, p.grid.Size())
		for q, y := range p.obs[k] {
			mean[q], spread[q] = y+1, 1+float32(q)/100
		}
		x := &product.Product{Init: init, Grid: p.grid, Metadata: product.Metadata{Title: "synthetic", Members: []ensemble.Member{1, 2, 3}, ModelChecksum: "sha256:synthetic", DDOF: 1, ForecastType: "synthetic"}}
		x.Fields = append([]product.Field{{Kind: product.Mean, Values: mean}, {Kind: product.Spread, Values: spread}}, extra(mean)...)
		for i := range x.Fields {
			x.Fields[i].Variable, x.Fields[i].Level, x.Fields[i].Lead = cmp.Or(x.Fields[i].Variable, "2t"), twoMetres, p.lead
		}
		_, _, err := product.Publish(context.Background(), p.pool, filepath.Join(p.dir, folder), x, product.Publication{Formats: p.formats})
		runtest.Must(p.t, err)
		found, err := filepath.Glob(filepath.Join(product.InitDir(filepath.Join(p.dir, folder), init), "*_024h*"))
		runtest.Must(p.t, err)
		files = append(files, found...)
	}
	return files
}

// analyses writes the analyses; those of some initialisations have no value.
func (p *publishing) analyses(name string, empty ...int) []string {
	p.t.Helper()
	var all []*ensemble.Analysis
	for k, init := range p.inits {
		a := ensemble.NewAnalysis(init.Valid(p.lead), []string{"2t"}, []ensemble.Level{twoMetres}, p.grid)
		copy(a.Field(0, 0), p.obs[k])
		if slices.Contains(empty, k) {
			for q := range a.Field(0, 0) {
				a.Field(0, 0)[q] = float32(math.NaN())
			}
		}
		all = append(all, a)
	}
	path := filepath.Join(p.dir, name)
	runtest.Must(p.t, product.WriteAnalysesNetCDF(context.Background(), p.pool, path, all, product.Metadata{Title: "synthetic"}, product.Options{}))
	return []string{path}
}

// values returns a score of a system: by threshold or level.
func values(r *Result, id, system string) map[float64]float64 {
	out := map[float64]float64{}
	for _, v := range r.Scores.Scores {
		if v.ID == id && v.System == system {
			out[float64(v.Threshold)] = float64(v.Value)
		}
	}
	return out
}

// Scores of an event or a quantile are those of the published probability or quantile, beside those of the
// distribution. What cannot be scored is named.
func TestPublishedProbabilitiesAndQuantiles(t *testing.T) {
	p := startPublishing(t)
	an := p.analyses("an.nc")
	warm, mild := ensemble.Event{Relation: ensemble.Above, Lower: 282}, ensemble.Event{Relation: ensemble.Between, Lower: 278, Upper: 282}
	cold := ensemble.Event{Relation: ensemble.Below, Upper: 280}
	products := p.publish("products", func(mean []float32) []product.Field {
		half, below, high, between := make([]float32, len(mean)), make([]float32, len(mean)), make([]float32, len(mean)), make([]float32, len(mean))
		for q, m := range mean {
			half[q], below[q], high[q] = 0.5, float32(dist.NormalCDF(280-float64(m))), m+20
		}
		return []product.Field{{Kind: product.Probability, Event: warm, Values: half}, {Kind: product.Probability, Event: cold, Values: below},
			{Kind: product.Probability, Event: mild, Values: between}, {Kind: product.Quantile, Below: 0.5, Values: high}}
	})
	o := Options{Forecast: products, Analysis: an, Bootstrap: significance.Bootstrap{Resamples: 20}}
	r, err := Run(context.Background(), o)
	runtest.Must(t, err)
	published, computed := values(r, "brier", "network"), values(r, "brier", "network_distribution")
	if published[282] != 0.25 || !(computed[282] < 0.2) || len(published) != 2 {
		t.Errorf("Brier scores %v of the published probabilities, %v of the distribution", published, computed)
	}
	if d := published[280] - computed[280]; math.Abs(d) > 0.05 || d == 0 { // the published one has spread 1
		t.Errorf("above 280 K, from the probability below: %v, from the distribution %v", published, computed)
	}
	if q, own := values(r, "quantile_score", "network"), values(r, "quantile_score", "network_distribution"); math.Abs(q[0.5]-10.5) > 1e-5 || math.Abs(own[0.5]-0.5) > 1e-5 {
		t.Errorf("quantile score %v of the published median 21 K too warm, %v of the distribution 1 K too warm", q, own)
	}
	if f := values(r, "quantile_frequency", "network"); f[0.5] != 1 {
		t.Errorf("frequency below the published median: %v", f)
	}
	for _, v := range r.Scores.Scores {
		if v.ID == "brier" && v.System == "network" && v.Divisor != "published" || v.ID == "rmse" && v.System == "network_distribution" {
			t.Errorf("%+v", v)
		}
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool {
		return strings.Contains(w, "published and not scored: the probability between 278 and 282")
	}) {
		t.Errorf("warnings %q", r.Warnings)
	}

	o.Selection = scoring.Selection{Scores: []string{"brier", "crps_fair"}, Events: []string{"t2m>280", "2t@2m > 11.85 degC"}}
	r, err = Run(context.Background(), o)
	runtest.Must(t, err)
	for _, want := range []string{"add --event \"2t>282\"", "2t above 285: scores of the network are computed from its mean and spread", "--scores crps_fair: not computed, as no system has what it needs: members"} {
		if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("no warning %q in %q", want, r.Warnings)
		}
	}
	if v := values(r, "brier", "network"); v[280] != published[280] {
		t.Errorf("Brier score above 280: %v, want %g", v, published[280])
	}

	// Sums of both halves give the scores of the whole.
	o.Selection, o.Out = scoring.Selection{}, ""
	var sums []string
	for k, part := range [][]string{products[:4], products[4:]} {
		o.Forecast, o.Sums = part, filepath.Join(p.dir, fmt.Sprintf("%d.sums", k))
		_, err := Run(context.Background(), o)
		runtest.Must(t, err)
		sums = append(sums, o.Sums)
	}
	joined, err := JoinSums(JoinOptions{Files: sums, Bootstrap: o.Bootstrap})
	runtest.Must(t, err)
	if v := values(joined, "brier", "network"); v[280] != published[280] {
		t.Errorf("joined: Brier score %v, want %v", v, published)
	}
}

// A probability of at least a limit counts values at the limit, one above it does not, and so do those of at most a
// limit: IMPROVER publishes all. The stated relation is kept in products.
func TestPublishedProbabilityAtLimit(t *testing.T) {
	p := startPublishing(t)
	for k := range p.obs {
		for q := range p.obs[k] {
			p.obs[k][q] = 280
		}
	}
	an := p.analyses("an.nc")
	for _, c := range []struct {
		relation ensemble.Relation
		occurs   float32
	}{{ensemble.Above, 0}, {ensemble.AtLeast, 1}, {ensemble.AtMost, 1}} {
		e := ensemble.Event{Relation: c.relation, Upper: 280}
		if c.relation.HasLower() {
			e = ensemble.Event{Relation: c.relation, Lower: 280}
		}
		products := p.publish(c.relation.String(), func(mean []float32) []product.Field {
			sure := make([]float32, len(mean))
			for q := range sure {
				sure[q] = c.occurs
			}
			return []product.Field{{Kind: product.Probability, Event: e, Values: sure}}
		})
		r, err := Run(context.Background(), Options{Forecast: products, Analysis: an, Bootstrap: significance.Bootstrap{Resamples: 20}})
		runtest.Must(t, err)
		got := values(r, "brier", "network")
		for threshold, v := range got {
			if v != 0 || math.Abs(threshold-280) > 1e-3 {
				t.Errorf("%s: Brier score %g at %g, want 0 at 280", e, v, threshold)
			}
		}
		if len(got) != 1 || slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "so that 280 counts") }) != (c.relation == ensemble.AtLeast) {
			t.Errorf("%s: scores %v, warnings %q", e, got, r.Warnings)
		}
	}
}

// Thresholds of other variables and event scores without thresholds select nothing: 64.
func TestSelectionsOfNothing(t *testing.T) {
	p := startPublishing(t)
	o := Options{Forecast: p.publish("products", func([]float32) []product.Field { return nil }), Analysis: p.analyses("an.nc"), Bootstrap: significance.Bootstrap{Resamples: 20}}
	for _, s := range []scoring.Selection{{Events: []string{"tp>1"}}, {Events: []string{"2t@10m>280"}}, {Scores: []string{"roc_area"}}} {
		o.Selection = s
		if _, err := Run(context.Background(), o); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%+v: %v, want exit code 64", s, err)
		}
	}
	o.Selection = scoring.Selection{Events: []string{"2t>280"}}
	r, err := Run(context.Background(), o)
	runtest.Must(t, err)
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "--event selects nothing") }) {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// Two products of one initialisation: refused if they differ, used once if they are equal, also as NetCDF and
// packed GRIB2.
func TestProductsGivenTwice(t *testing.T) {
	p := startPublishing(t)
	an := p.analyses("an.nc")
	none := func([]float32) []product.Field { return nil }
	first := p.publish("a", none)
	run := func(files []string) (*Result, error) {
		return Run(context.Background(), Options{Forecast: files, Analysis: an, Bootstrap: significance.Bootstrap{Resamples: 20}})
	}
	alone, err := run(first)
	runtest.Must(t, err)
	twice, err := run(slices.Concat(first, p.publish("b", none)))
	runtest.Must(t, err)
	if !slices.ContainsFunc(twice.Warnings, func(w string) bool { return strings.HasPrefix(w, "28 fields in the input twice") }) {
		t.Errorf("warnings %q", twice.Warnings)
	}
	p.formats = []product.Format{product.NetCDF, product.GRIB2}
	formats, err := run(p.publish("c", none))
	runtest.Must(t, err)
	want := alone.Scores.Find("rmse", "network", "2t", "2m", "24h")
	for _, r := range []*Result{twice, formats} {
		if got := r.Scores.Find("rmse", "network", "2t", "2m", "24h"); math.Abs(float64(got.Value-want.Value)) > 1e-3 {
			t.Errorf("RMSE %g, of one product %g", got.Value, want.Value)
		}
	}
	p.formats = nil
	for k := range p.obs[3] {
		p.obs[3][k] += 0.01
	}
	other := p.publish("d", none)
	if _, err = run(slices.Concat(first, other)); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), first[3]) || !strings.Contains(err.Error(), other[3]) {
		t.Errorf("two different products: %v, want exit code 65 and both files", err)
	}
}

// Dates without any reference are left out and counted; if all are empty, there is nothing to score.
func TestDatesWithoutReference(t *testing.T) {
	p := startPublishing(t)
	products := p.publish("products", func([]float32) []product.Field { return nil })
	run := func(analyses []string) (*Result, error) {
		return Run(context.Background(), Options{Forecast: products, Analysis: analyses, Bootstrap: significance.Bootstrap{Resamples: 20}})
	}
	r, err := run(p.analyses("gaps.nc", 2, 7))
	runtest.Must(t, err)
	v := r.Scores.Find("rmse", "network", "2t", "2m", "24h")
	if v.N != 12 || v.Missing != 16 || math.Abs(float64(v.Value)-1) > 1e-5 {
		t.Errorf("%+v", v)
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "2 of 14 dates have no point") }) {
		t.Errorf("warnings %q", r.Warnings)
	}
	if _, err := run(p.analyses("empty.nc", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)); exit.CodeOf(err) != exit.BadData {
		t.Errorf("without any reference: %v, want exit code 65", err)
	}
}

// Directions are not scored on a line: they are named beside other variables, and refused alone.
func TestDirectionsAreNotScored(t *testing.T) {
	p := startPublishing(t)
	products := p.publish("products", func(mean []float32) []product.Field {
		return []product.Field{{Variable: "wdir", Unit: "degree", Kind: product.Mean, Values: mean}, {Variable: "wdir", Unit: "degree", Kind: product.Spread, Values: mean}}
	})
	r, err := Run(context.Background(), Options{Forecast: products, Analysis: p.analyses("an.nc"), Bootstrap: significance.Bootstrap{Resamples: 20}})
	runtest.Must(t, err)
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, "wdir is a direction") }) || r.Scores.Find("rmse", "network", "wdir", "2m", "24h") != nil {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// A variable outside the vocabulary has the unit of its products; statistics of the raw members are not scored as
// products.
func TestVariablesOutsideTheVocabulary(t *testing.T) {
	p := startPublishing(t)
	products := p.publish("products", func(mean []float32) []product.Field {
		other := make([]float32, len(mean))
		return []product.Field{{Variable: "rmm1", Unit: "1", Kind: product.Mean, Values: mean}, {Variable: "rmm1", Unit: "1", Kind: product.Spread, Values: mean},
			{Variable: "rmm1", Unit: "1", Kind: product.EnsembleSpread, Values: mean}, {Kind: product.RawMean, Values: other}, {Kind: product.RawSpread, Values: other}}
	})
	v := &Verification{Options: Options{Forecast: products, Analysis: p.analyses("an.nc"), Bootstrap: significance.Bootstrap{Resamples: 20}}}
	defer v.Close()
	if err := v.Open(context.Background()); err == nil || !strings.Contains(err.Error(), "no analysis of rmm1") {
		t.Fatalf("%v, want that the analysis of rmm1 is missing", err)
	}
	for _, target := range v.Targets {
		want := map[string]string{"2t": "K", "rmm1": "1"}[target.Key.Variable]
		if target.target().Unit != want || len(target.Inits) != 14 {
			t.Errorf("%+v: unit %q, want %q", target.Key, target.target().Unit, want)
		}
	}
	if len(v.Targets) != 2 {
		t.Errorf("%d targets, want 2t and rmm1", len(v.Targets))
	}
}
