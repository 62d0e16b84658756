// Package promote points model names at trained models. It keeps every model that a name pointed at, for
// rollback, and the alarms and verdicts on the model in use. Suites predict with the name instead of a run
// directory:
//
//	p, err := promote.Promote(promote.Options{Name: "models/t850", RunDir: "runs/gcm"})
package promote
