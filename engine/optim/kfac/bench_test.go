package kfac

import (
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/pass"
)

// benchLayer is a 3×3×3 convolution from 32 to 16 channels with a bias, with factors of random vectors.
func benchLayer() *layer {
	const rows, cols = 16, 865
	r := rand.New(rand.NewPCG(1, 2))
	l := &layer{LayerFactors: pass.LayerFactors{Form: pass.ExactFactors, Rows: rows, Cols: cols, Taps: 27}, gradient: make([]float32, rows*cols), half: make([]float32, rows*cols),
		now: version{average: [2][]float32{1: make([]float32, cols*(cols+1)/2)}, inverse: [2][]float32{make([]float32, rows*rows), make([]float32, cols*cols)}}}
	for _, x := range [][]float32{l.gradient, l.now.inverse[0], l.now.inverse[1]} {
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
	}
	for i := range cols {
		for j := range i {
			l.now.average[1][i*(i+1)/2+j] = float32(r.NormFloat64())
		}
		l.now.average[1][i*(i+3)/2] = 2 * cols
	}
	return l
}

// BenchmarkApply measures the products of a step.
func BenchmarkApply(b *testing.B) {
	l := benchLayer()
	for b.Loop() {
		l.multiply()
	}
	b.ReportMetric(2*float64(l.Rows*l.Cols*(l.Rows+l.Cols))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// BenchmarkInverse measures the inversion of a factor.
func BenchmarkInverse(b *testing.B) {
	l := benchLayer()
	for b.Loop() {
		inverse(l.now.inverse[1], l.now.average[1], l.Cols, 1)
	}
}
