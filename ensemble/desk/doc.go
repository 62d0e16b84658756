// Package desk makes the page of `ensemble serve` for forecasters: the state of the service in one line,
// failed and late initialisations, a map of a product that the reader chooses, and a meteogram at a place.
//
// The state follows from products, input and schedule (headline.go). Maps and meteograms are drawn from the product
// files of an initialisation (catalogue.go, fields.go): the reader chooses initialisation, variable, lead and
// statistic (selection.go), a map has them with isolines and a colour scale for all leads (chart.go), and a meteogram
// has all leads at one place (meteogram.go). A click on a map is sent by the browser as a position in
// pixels (click.go). The page has no scripts, and its address names all that it shows.
//
// Drawing is bounded in number, time and memory (renderer.go). A product file that cannot be read causes a
// message in the page.
package desk
