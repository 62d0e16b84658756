// Package report draws the results of a run: maps, scores and loss curves on one HTML page
// that loads no other files, and maps as PNG.
//
// A map passes through these steps. A [Panel] computes one colour scale for its maps
// (scale.go, colour.go). A view projects the grid onto a plane, with Greenwich in the middle
// (view.go; inverse.go inverts map projections). A picture selects graticule, coastlines and
// extremes (picture.go). raster.go interpolates the field, and mapsvg.go and png.go draw the
// map. Charts and diagrams are in chart.go and diagrams.go, the page in write.go and
// page.html.
//
// Every picture has a text for screen readers in aria-label, made by a function alt beside the
// function that draws it (WCAG 2.2, success criterion 1.1.1). All text from data is escaped before
// it becomes template.HTML. Coordinates in SVG are written by num; lengths are in units of the
// viewBox, which a browser scales to the width of the page.
//
// The size of a page is bounded by the resolution of its maps (mapsvg.go), lines without
// superfluous points (isolines.go) and one copy of the coastlines for all maps.
package report
