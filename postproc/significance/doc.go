// Package significance computes the sampling uncertainty of scores: confidence intervals over dates and over seeds, the
// memory of a series of dates, tests of differences between two systems, and the control of false discoveries among
// many tests.
//
// A score is a function of sums over dates. [Bootstrap] has the options of its interval, [MemoryOf] measures how many
// independent dates a series is worth, and [DieboldMariano] tests whether two systems are equally good.
package significance
