package demo

import (
	"context"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Encoder implements Writer with io/product.
type Encoder struct{ Pool *decode.Pool }

// Metadata is written into the files.
func Metadata() product.Metadata {
	return product.Metadata{Title: "Imperfect twin experiment with a quasi-geostrophic atmosphere", Source: "ensemble demo: synthetic data", ForecastType: "ensemble"}
}

// WriteEnsembleGRIB2 implements Writer.
func (e Encoder) WriteEnsembleGRIB2(ctx context.Context, path string, f *ensemble.Forecast) error {
	return product.WriteEnsembleGRIB2(ctx, e.Pool, path, f, product.Options{})
}

// WriteEnsembleNetCDF implements Writer.
func (e Encoder) WriteEnsembleNetCDF(ctx context.Context, path string, f *ensemble.Forecast) error {
	return product.WriteEnsembleNetCDF(ctx, e.Pool, path, f, Metadata(), product.Options{})
}

// WriteAnalyses implements Writer.
func (e Encoder) WriteAnalyses(ctx context.Context, path string, as []*ensemble.Analysis) error {
	return product.WriteAnalysesNetCDF(ctx, e.Pool, path, as, Metadata(), product.Options{})
}
