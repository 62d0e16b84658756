// Package score verifies forecasts against analyses or observations.
//
// A score is one row of Table. It is built from a few quantities per grid point,
// whose area-weighted means over points and dates become one number:
//
//	value = Value( Σ_t Σ_p w_p Point(t,p) / Σ_t Σ_p w_p )
//
// An Accumulator takes the forecasts of all systems date by date and keeps only the
// sums of each date. Confidence intervals come from a moving-block bootstrap over
// dates. All systems and all scores use the same resampled dates, so differences
// between systems are paired. The notation <·> in formulas is the weighted mean over
// points and dates, m the mean, s the spread and x₁…x_M the members of a forecast,
// and y the observation.
//
// Missing: a point at which the observation or any value of any system is missing is
// left out for all systems of that date, and counted.
package score
