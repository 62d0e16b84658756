// Package samplestest gives tests stores and single forecasts:
//
//	c.Data.Store = config.Path(samplestest.Prepared(t, c, "f32"))
package samplestest
