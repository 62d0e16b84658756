// Package verify scores published products against analyses: once ([Run]), from partial sums (JoinSums), or
// daily on new products (Rolling), which raises alarms and compares two models:
//
//	r, err := verify.Run(ctx, verify.Options{Forecast: products, Analysis: analyses, RunDir: "runs/gcm"})
package verify
