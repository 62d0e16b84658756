// Package predict turns ensemble forecasts into calibrated products, once ([Run]) or as a service with a
// loaded model (OpenService). It applies the input policy to incomplete input, waits for files, and uses the
// fallback forecast where the network cannot be trusted:
//
//	r, err := predict.Run(ctx, predict.Options{RunDir: "runs/gcm", Input: []string{"fc.grib2"}, Out: "products"})
//
// A prediction loads the model (load.go), finds the input files (find.go, watcher.go, filescanner.go), opens
// them, and selects fields to read (open.go, inputpolicy.go) and to publish (choose.go). Then, for each
// initialisation, it reads the members into the network's batch (read.go, batch.go), forecasts with the
// network or the fallback (forecast.go, trust.go), fills the product with calibrated values and coupled
// members (fill.go), writes it (write.go) and records it (record.go).
package predict
