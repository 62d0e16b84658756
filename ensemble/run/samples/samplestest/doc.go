// Package samplestest gives tests stores and single forecasts:
//
//	c.Data.Store = config.Path(samplestest.PrepareStore(t, c, "f32"))
package samplestest
