package score

import (
	"fmt"
	"slices"
)

// BetterBaseline states, for the component season, which listed baseline has a lower CRPS than its forecast, and the
// information of the system relative to that baseline, (S_b − S)/S₀ with the CRPS S_b of the baseline, S of the system
// and S₀ of the reference; "" for other components, and if no baseline is better.
func (r *Result) BetterBaseline(season SkillComponent) string {
	if season.Baseline == "" {
		return ""
	}
	find := func(component string) SkillComponent {
		i := slices.IndexFunc(r.SkillComponents, func(x SkillComponent) bool {
			return x.Component == component && x.System == season.System && x.Variable == season.Variable && x.Level == season.Level && x.Lead == season.Lead &&
				x.Region == season.Region && x.Season == season.Season && x.Weights == season.Weights
		})
		if i < 0 {
			return SkillComponent{Reduction: Missing(), CRPS: Missing()}
		}
		return r.SkillComponents[i]
	}
	total := find("total")
	reference := total.CRPS / (1 - total.Reduction)
	return fmt.Sprintf("the baseline %s (CRPS %s) is better than EMOS of all members with season and shrinkage (%s): relative to it, information is %s %% of the CRPS of %s, not %s %%",
		season.Baseline, digits(season.BaselineCRPS), digits(season.CRPS), percent((season.BaselineCRPS-total.CRPS)/reference, 2), season.Reference, percent(find("information").Reduction, 2))
}
