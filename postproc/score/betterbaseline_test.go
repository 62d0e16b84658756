package score

import "testing"

// A baseline below the last step before information is named, with the information relative to it: S₀ = 0.8, steps
// 0.6, baseline 0.5, network 0.4.
func TestBetterBaseline(t *testing.T) {
	row := func(component string, reduction, crps Number) SkillComponent {
		return SkillComponent{Component: component, System: "network", Reference: "raw4", Variable: "t", Level: "850hPa", Lead: "48h", Reduction: reduction, CRPS: crps, BaselineCRPS: Missing()}
	}
	season := row("season", 0.05, 0.6)
	other := row("total", 0.9, 0.1)
	other.Region = "north"
	r := &Result{SkillComponents: []SkillComponent{other, season, row("information", 0.25, 0.4), row("total", 0.5, 0.4)}}
	if got := r.BetterBaseline(season); got != "" {
		t.Errorf("no better baseline: %q", got)
	}
	season.Baseline, season.BaselineCRPS = "emos_grid", 0.5
	want := "the baseline emos_grid (CRPS 0.5000) is better than EMOS of all members with season and shrinkage (0.6000): relative to it, information is 12.50 % of the CRPS of raw4, not 25.00 %"
	if got := r.BetterBaseline(season); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
