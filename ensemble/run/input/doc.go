// Package input turns data files into forecasts and analyses on one grid, and describes every fault of them.
// Jobs give the axes and members that they need; the package selects, reads, interpolates and combines lagged
// members:
//
//	chosen, err := input.SelectForecasts(files, required, to, of)
//	forecasts, warnings, err := chosen.Read(ctx, chosen.Inits, nil)
package input
