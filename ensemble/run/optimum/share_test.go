package optimum

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// dated makes scores of a system by initialisation.
func dated(system, id string, crps ...float64) (out []score.DateScore) {
	for i, x := range crps {
		at := time.Date(2004, 1, 1+7*i, 0, 0, 0, 0, time.UTC)
		out = append(out, score.DateScore{System: system, Score: id, Variable: "t", Level: "850hPa", Lead: "48h", LeadH: 48, Init: at.Format(time.RFC3339), Region: score.Everywhere, Weight: 2, CRPS: score.Number(x)})
	}
	return out
}

// in gives scores the name of a region.
func in(region string, dates []score.DateScore) []score.DateScore {
	for i := range dates {
		dates[i].Region = region
	}
	return dates
}

// swing is n values about mean.
func swing(mean float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = mean * (1 + 0.2*math.Sin(float64(3*i)))
	}
	return out
}

// The share follows from mean scores, over dates and seeds; the oracle's plain CRPS is not the optimum.
func TestShares(t *testing.T) {
	const n = 40
	base := append(dated(Reference, score.CRPSGauss.ID, swing(1, n)...), dated("raw5", score.CRPSPlain.ID, swing(1.2, n)...)...)
	seeds := [][]score.DateScore{
		append(base, dated("network", score.CRPSGauss.ID, swing(0.8, n)...)...),
		append(base[:len(base):len(base)], dated("network", score.CRPSGauss.ID, swing(0.7, n)...)...),
		append(base[:len(base):len(base)], dated("network", score.CRPSGauss.ID, swing(0.75, n)...)...),
	}
	oracle := append(dated(Oracle, score.CRPSPlain.ID, swing(0.6, n)...), dated(Oracle, score.CRPSFair.ID, swing(0.5, n)...)...)
	all, err := Shares("base", seeds, oracle, significance.Bootstrap{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{Reference: 0, "raw5": -0.4, "network": 0.5, Oracle: 0.8}
	for _, x := range all {
		w := want[x.System]
		if math.Abs(float64(x.Share)-w) > 1e-12 || x.N != n || x.Variant != "base" || !(x.CILow <= x.Share && x.Share <= x.CIHigh) {
			t.Errorf("%+v, want share %g within its interval", x, w)
		}
	}
	if len(all) != 4 || all[0].System != "raw5" || all[2].System != "network" || all[3].Score != score.CRPSPlain.ID {
		t.Errorf("%+v", all)
	}
	if net := all[2]; !(net.CIHigh-net.CILow > 0.1) {
		t.Errorf("the interval %g to %g has no part of the seeds", net.CILow, net.CIHigh)
	}
}

// Each region has shares of its own scores; the page shows those of the network apart.
func TestSharesOfRegions(t *testing.T) {
	const n, tropics = 40, "tropics"
	dates := slices.Concat(dated(Reference, score.CRPSGauss.ID, swing(1, n)...), dated("network", score.CRPSGauss.ID, swing(0.8, n)...),
		in(tropics, dated(Reference, score.CRPSGauss.ID, swing(2, n)...)), in(tropics, dated("network", score.CRPSGauss.ID, swing(1.9, n)...)))
	oracle := slices.Concat(dated(Oracle, score.CRPSFair.ID, swing(0.5, n)...), in(tropics, dated(Oracle, score.CRPSFair.ID, swing(1, n)...)))
	all, err := Shares("base", [][]score.DateScore{dates}, oracle, significance.Bootstrap{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		want := map[string]float64{score.Everywhere + "network": 0.4, tropics + "network": 0.1}[x.Region+x.System]
		if math.Abs(float64(x.Share)-want) > 1e-12 || x.N != n {
			t.Errorf("%+v, want share %g", x, want)
		}
	}
	r := Result{Oracle: &score.Result{}, Shares: all}
	var b strings.Builder
	if err := r.Sections().WriteText(&b); err != nil || len(all) != 4 || len(r.way().Rows) != 2 || len(r.regions()) != 1 || len(r.regions()[0].Rows) != 1 || !strings.Contains(b.String(), tropics) {
		t.Errorf("%v, %d shares:\n%s", err, len(all), b.String())
	}
	if _, err := Shares("base", [][]score.DateScore{dates}, oracle[:n], significance.Bootstrap{}); exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), tropics) {
		t.Errorf("an oracle without the region: %v", err)
	}
}

// No share without reference or oracle, and none if the reference is as good as the oracle.
func TestSharesNeedBoth(t *testing.T) {
	network := dated("network", score.CRPSGauss.ID, 1, 2, 3)
	reference, oracle := dated(Reference, score.CRPSGauss.ID, 1, 2, 3), dated(Oracle, score.CRPSFair.ID, 1, 2)
	for _, c := range []struct {
		name, want  string
		dates, fair []score.DateScore
	}{
		{"no reference", "the baseline emos_grid was not scored", network, dated(Oracle, score.CRPSFair.ID, 1, 2, 3)},
		{"an oracle of fewer dates", "the oracle was not scored", append(network, reference...), oracle},
		{"a plain score", "the oracle was not scored", append(network, reference...), dated(Oracle, score.CRPSPlain.ID, 1, 2, 3)},
	} {
		if _, err := Shares("base", [][]score.DateScore{c.dates}, c.fair, significance.Bootstrap{}); exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	all, err := Shares("base", [][]score.DateScore{append(network, reference...)}, dated(Oracle, score.CRPSFair.ID, 1, 2, 3), significance.Bootstrap{})
	if err != nil || !math.IsNaN(float64(all[0].Share)) {
		t.Errorf("no way to go: %+v, %v", all, err)
	}
}

func TestMissing(t *testing.T) {
	inits := []ensemble.Init{ensemble.InitAt(time.Date(2004, 1, 1, 0, 0, 0, 0, time.UTC)), ensemble.InitAt(time.Date(2004, 1, 8, 0, 0, 0, 0, time.UTC))}
	err := missing(inits[:1], inits, []string{"a"})
	if exit.CodeOf(err) != exit.NotYet || !strings.Contains(fmt.Sprint(err), "lacks 1 of 2") || !strings.Contains(fmt.Sprint(err), "2004-01-08") {
		t.Errorf("got %v", err)
	}
	if err := missing(inits, inits[:1], nil); err != nil {
		t.Error(err)
	}
}
