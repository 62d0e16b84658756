// Package reports writes HTML pages with charts and tables: the report of a run directory ([Write]) and
// results of experiments (SaveFindings). Other packages lay out their panels and charts with it:
//
//	page, err := reports.Write(reports.Options{Dir: "runs/gcm"})
package reports
