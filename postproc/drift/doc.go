// Package drift measures how far the input of a forecast is from the inputs that a network
// was trained on. Causes of drift are a new cycle of the forecast model, a wrong unit or
// level, a shifted map, or members that are too similar. Such input yields a forecast that
// looks plausible.
//
// For every field of an init three numbers are computed from the mean m and the spread s
// over its members:
//
//	mean     mean of m over the area
//	pattern  means of m over some hundred boxes
//	spread   log √(mean s²)
//
// From the training inits each has a mean, a seasonal cycle and a standard deviation,
// estimated by cross-validation. The drift score of an init is its distance in these
// standard deviations. The mean, which varies least, detects a bias; the pattern a map
// that is turned, shifted or of another field; the spread members that lost or gained
// spread.
package drift
