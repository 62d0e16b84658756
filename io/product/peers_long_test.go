//go:build long

package product_test

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product"
)

// TestLongVocabularyInOtherReaders: CDO, GDAL and, if it is installed, wgrib2 read every variable of the vocabulary, as
// mean, spread and member, as it was written.
func TestLongVocabularyInOtherReaders(t *testing.T) {
	for _, v := range ensemble.Variables {
		for _, kind := range []product.Kind{product.Mean, product.Spread, product.Member} {
			checkInOtherReaders(t, v, kind)
		}
	}
}
