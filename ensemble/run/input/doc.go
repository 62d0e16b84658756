// Package input turns files into forecasts and analyses on one grid, and states every fault that they can
// have. Jobs give it the axes and members that they need; it selects, reads, regrids and joins lagged members:
//
//	chosen, err := input.SelectForecasts(files, axes, members, to)
//	forecasts, warnings, err := chosen.Read(ctx, chosen.Inits, nil)
package input
