// Package report draws what a run has to show, for people: maps, scores and loss
// curves, on one HTML page that loads nothing and runs nothing, and maps as PNG.
//
// The way of a map: a [Panel] gives its maps one scale (scale.go, colour.go); a view
// lays the grid out in a plane, Greenwich in the middle (view.go, inverse.go for
// projections); a picture chooses graticule, coastlines and extremes (picture.go);
// mapsvg.go and png.go draw it.
package report
