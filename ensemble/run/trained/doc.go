// Package trained reads what a finished training left in its run directory: the record, the scores, the
// checksum of the model. Predictions, reports and tools that look at a run use it; none of them reads its files by name:
//
//	manifest, err := trained.Finished("runs/gcm") // 66 for a training that is not finished
package trained
