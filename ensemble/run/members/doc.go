// Package members makes calibrated members of a predicted distribution: quantiles in the rank order of the
// raw members (ensemble copula coupling) or of past dates (the Schaake shuffle). Predictions publish them, and scores
// test their coupling:
//
//	fields, err := coupling.Couple(init, field, grid, template, family, parameters)
package members
