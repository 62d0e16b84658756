//go:build !cgo

package fieldmath

func meanStd(mean, std []float32, fields [][]float32, divisor float64) {
	plainMeanStd(mean, std, fields, divisor)
}

func standardise(dst, src []float32, mean, scale []float64) { plainStandardise(dst, src, mean, scale) }

func scale(dst, src []float32, r float32) { plainScale(dst, src, r) }

func countStats(t *Stats, l *[lanes]lane, values []float32) { plainStats(t, l, values) }
