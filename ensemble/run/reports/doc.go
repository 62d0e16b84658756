// Package reports writes pages with their pictures and tables: that of a run directory (Write), and those of
// experiments (SaveFindings). Other packages lay out their panels and charts by it:
//
//	page, err := reports.Write(reports.Options{Dir: "runs/gcm"})
package reports
