// Package report draws the results of a run: maps, scores and loss curves on one HTML page
// that loads no other files, and maps as PNG.
//
// A map passes through these steps. A [Panel] computes one colour scale for its maps
// (scale.go, colour.go). A view projects the grid onto a plane, with Greenwich in the middle
// (view.go; inverse.go inverts map projections). A picture selects graticule, coastlines and
// extremes (picture.go). raster.go interpolates the field, and mapsvg.go and png.go draw the
// map. Charts and diagrams are in chart.go and diagrams.go, the page in write.go and
// page.html.
package report
