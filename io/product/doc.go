// Package product writes what the program publishes: fields of mean and spread
// as CF NetCDF and as GRIB2, the ensembles and analyses that the demo makes, and
// the manifest that says which files belong together.
//
// The conventions are here (names, attributes, codes, order of points); the
// libraries are in the encoding child, which gets each file as a description of
// package encode. Every file appears whole or not at all, and the same product
// with the same metadata gives the same bytes.
package product

import (
	"context"
	"time"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// Encoder runs one job in a child; a *decode.Pool is one.
type Encoder interface {
	Do(ctx context.Context, c decode.Call) error
}

// encodeDeadline bounds the writing of one file. A gigabyte deflates in about a
// minute; a child that takes this long hangs.
const encodeDeadline = 15 * time.Minute

// write lets the child make path, atomically.
func write(ctx context.Context, enc Encoder, path, kind string, size int, fill func([]byte), args func(tmp string) any) error {
	return atomicfile.Replace(path, func(tmp string) error {
		var w encode.Written
		return enc.Do(ctx, decode.Call{Kind: kind, Args: args(tmp), In: size, Fill: fill, Result: &w, Deadline: encodeDeadline})
	})
}
