// Package scoring goes from cases (a forecast beside its analysis) to scores: systems that are compared, sums
// by date, skill scores with intervals, tests of coupling, and the example that a report shows:
//
//	result, example, err := scoring.Judge(ctx, m, d.Test, options, progress)
package scoring
