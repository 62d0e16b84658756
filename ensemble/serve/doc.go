// Package serve implements `ensemble serve`, a service that watches its input, publishes products
// of each new initialisation, and serves them over HTTP, read-only.
//
// One goroutine publishes (issuer.go), with a [predict.Service] that keeps the model loaded. It
// stores all that requests need in a state (state.go). HTTP connections are limited
// (connlimiter.go), requests validated and routed (http.go). Responses come from finished products
// (products.go, listing.go), Prometheus metrics (metrics.go), the page of package desk (page.go) and
// that of scores (scorespage.go), with
// limits of time and rate (response.go).
package serve
