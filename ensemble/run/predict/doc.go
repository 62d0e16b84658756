// Package predict turns a forecast into products, once (Run) or again and again with a loaded model
// (OpenResident). It decides what incomplete input allows, waits for files, and falls back where the network may not be
// trusted:
//
//	r, err := predict.Run(ctx, predict.Options{RunDir: "runs/gcm", Input: []string{"fc.grib2"}, Out: "products"})
package predict
