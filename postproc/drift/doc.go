// Package drift says how far the input of a forecast is from the inputs that a network was
// trained on: a new cycle of the forecast model, a unit, a level or a map that is another one,
// members that are too much alike. Such input gives a forecast that looks as any other.
//
// Of every field of a start three numbers are kept, of the mean m and the spread s over its
// members: the level, which is the mean of m over the area; the pattern, which is the means of m
// over some hundred boxes; and the spread, which is the logarithm of the root mean square of s.
// Each has a mean, a season and a standard deviation over the training starts, found on starts
// that were left out in turn, and the distance of a start is in those standard deviations. A bias is
// found by the level, which varies least; a map that is turned, shifted or of another field by the
// pattern; and members that lost or gained spread by the spread.
package drift
