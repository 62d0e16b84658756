// Package trained reads what a finished training left in its run directory: manifest, scores, checksum of the
// model. Predictions, reports and tools use it instead of file names:
//
//	manifest, err := trained.ReadFinished("runs/gcm") // exit 66 for a training that is not finished
package trained
