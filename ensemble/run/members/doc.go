// Package members makes calibrated members from a predicted distribution: quantiles in the rank order of the
// raw members (ensemble copula coupling, ECC) or of past analyses (Schaake shuffle). Predictions publish
// them, and verification tests their coupling:
//
//	fields, err := coupling.Couple(members.Draws(init, field, grid), template, family, parameters)
//
// Source: ECC: Schefzik, Thorarinsdottir and Gneiting 2013, doi:10.1214/13-STS443; Schaake shuffle: Clark et
// al. 2004, doi:10.1175/1525-7541(2004)005<0243:TSSAMF>2.0.CO;2.
package members
