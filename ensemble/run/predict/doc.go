// Package predict turns a forecast into products, once (Run) or again and again with a loaded model
// (OpenResident). It decides what incomplete input allows, waits for files, and falls back where the network may not be
// trusted:
//
//	r, err := predict.Run(ctx, predict.Options{RunDir: "runs/gcm", Input: []string{"fc.grib2"}, Out: "products"})
//
// Stages, each in the file of its name: load the model (load.go), find the files (find.go, watch.go, complete.go), open them and
// choose what is read of them (open.go, select.go) and published (choose.go); then for each init read its members into the network's
// batch (read.go, batch.go), forecast by the network or the fallback (forecast.go, trust.go), fill the product with calibrated
// and coupled values (fill.go), write it (write.go) and record it (record.go).
package predict
