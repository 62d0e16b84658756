// Package samples holds forecasts beside their analyses, divided by dates into training, validation and test,
// read from files or from a sample store that it also makes:
//
//	d, err := samples.ReadData(ctx, c, forecasts, analyses, ranks)
//	err = d.Train.Each(ctx, ranks, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error { … })
package samples
