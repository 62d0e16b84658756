// Package verify scores products, or what a run predicts, against analyses: once (Run), by joining sums of
// parts (JoinSums), or every day on what is new (Rolling), which gives alarms and a verdict between two models:
//
//	r, err := verify.Run(ctx, verify.Options{Forecast: products, Analysis: analyses, RunDir: "runs/gcm"})
package verify
