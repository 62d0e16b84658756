// Package casestudy scores a model on one event: in a box, along a storm track, or where the extreme forecast
// index was largest:
//
//	r, err := casestudy.Run(ctx, casestudy.Options{Verify: products, Dir: "runs/study", Box: "NAME=30:60:0:40"})
package casestudy
