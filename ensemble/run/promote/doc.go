// Package promote lets a name stand for a trained model, remembers every model that it stood for, and keeps the
// alarms and verdicts on the one in use. Suites predict with the name:
//
//	p, err := promote.Promote(promote.Options{Name: "models/t850", RunDir: "runs/gcm"})
package promote
