// Package serve is the resident program: it watches an input, issues the products of each new
// start with a model that stays ready, and shows over HTTP what was issued, without a way to
// change anything.
//
// One goroutine issues (issue.go), by a [predict.Resident]; all that requests need is in a state that
// it leaves behind (state.go). Requests are bounded (limits.go), routed (http.go) and answered
// from finished products alone (products.go), as metrics (metrics.go) and as a page (page.go).
package serve
