// Package samples provides pairs of forecasts and analyses, split by date into training, validation and test
// samples. They come from data files, or from a sample store, which Prepare writes:
//
//	d, err := samples.ReadData(ctx, c, forecasts, analyses, ranks)
//	err = d.Train.Each(ctx, ranks, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error { … })
package samples
