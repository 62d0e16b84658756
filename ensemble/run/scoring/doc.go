// Package scoring computes scores from cases, which are pairs of forecast and analysis: sums by date, scores
// of the network and of the systems it is compared with, skill scores with confidence intervals, tests of
// member coupling, and map examples:
//
//	result, example, err := scoring.Evaluate(ctx, m, d.Test, options, scoring.Evaluation{})
package scoring
