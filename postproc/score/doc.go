// Package score judges forecasts against analyses or observations.
//
// A score is one row of Table: a few quantities per grid point, whose
// area-weighted means over points and dates become one number. An Accumulator
// takes the forecasts of all systems date by date and keeps only the sums of
// each date, so that a moving-block bootstrap over dates costs nothing: the same
// resampled dates serve every system and every score, which makes differences
// between systems paired.
//
// Missing values: a point at which the observation or anything of any system is
// missing is dropped for all systems of that date alike, and counted.
package score
