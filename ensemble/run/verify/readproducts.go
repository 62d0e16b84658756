package verify

import (
	"context"

	"github.com/ensemble-weather/ensemble/ensemble"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// ProductField is a field of a published product.
type ProductField struct {
	*ensemble.Field
	Kind product.Kind
}

// ReadProducts reads the means, spreads, quantiles and probabilities of published files that keep accepts, in
// the order of their keys.
//
// Errors: as fio.Open; exit 65 for a field that cannot be decoded.
func ReadProducts(ctx context.Context, files []string, keep func(k ensemble.Key, kind product.Kind) bool) ([]ProductField, error) {
	in, err := fio.Open(ctx, files, fio.Options{})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var kinds []product.Kind
	entries := in.Catalogue().Select(func(e ensemble.Entry) bool {
		kind := publishedKind(e)
		accepted := kind != "" && keep(e.Key, kind)
		if accepted {
			kinds = append(kinds, kind)
		}
		return accepted
	})
	out := make([]ProductField, 0, len(entries))
	err = in.Read(ctx, entries, func(i int, f *ensemble.Field) error {
		out = append(out, ProductField{f, kinds[i]})
		return nil
	})
	return out, err
}

// publishedKind is KindOf, extended by quantiles and probabilities.
func publishedKind(e ensemble.Entry) product.Kind {
	switch kind := product.KindOf(e); kind {
	case product.Quantile, product.Probability:
		return kind
	}
	return KindOf(e)
}
