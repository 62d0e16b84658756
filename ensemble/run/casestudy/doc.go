// Package casestudy scores a model on one event: in a box, along the track of a storm, or where the extreme
// forecast index was largest:
//
//	r, err := casestudy.Run(ctx, casestudy.Options{Dir: "runs/gcm", Box: box})
package casestudy
