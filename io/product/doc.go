// Package product writes what the program publishes: mean, spread, quantiles, probabilities
// and members of a forecast as CF NetCDF, as GRIB2 and as Zarr, and at stations as CF time
// series and CSV; the ensembles and analyses that the demo makes; and the manifest that
// says which files belong together.
//
// A statistic is described once (kind.go), and every format takes it from there. The
// conventions are here (names, attributes, codes, order of points); the
// libraries are in the encoding child, which gets each file as a description of
// package encode; stores of Zarr, which need none, are written here. Every file appears whole or not at all, and the same product
// with the same metadata gives the same bytes.
package product

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
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

// payload collects the functions that write the numbers of a file for the child.
type payload struct {
	size int
	fill []func(all []byte)
}

// block reserves n bytes, eight-byte aligned, that fill writes.
func (p *payload) block(n int, fill func(dst []byte)) encode.Block {
	at := (p.size + 7) &^ 7
	p.size = at + n
	p.fill = append(p.fill, func(all []byte) { fill(all[at : at+n]) })
	return encode.Block{Offset: at, Length: n}
}

// write lets the child make path, atomically; args describes the file under the
// name of the moment.
//
// Errors: the child's; exit 74 for a full disk, 73 if the file cannot be put in
// place, 70 if the child died; ctx.Err().
func (p *payload) write(ctx context.Context, enc Encoder, path, kind string, args func(tmp string) any) error {
	fill := func(all []byte) {
		for _, f := range p.fill {
			f(all)
		}
	}
	err := atomicfile.Replace(path, func(tmp string) error {
		var w encode.FileResult
		return enc.Do(ctx, decode.Call{Kind: kind, Args: args(tmp), InputBytes: p.size, WriteInput: fill, Result: &w, Deadline: encodeDeadline})
	})
	var known *exit.Error
	var died *decode.DiedError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &known):
		known.At = path // rather than the temporary file, which is gone
		return known
	case errors.As(err, &died):
		return &exit.Error{Code: exit.Bug, What: "the encoding program failed", At: path, Why: died.Error(),
			Fix: "report it with the command and the first input file; nothing was published", Err: err}
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return &exit.Error{Code: exit.IO, What: "no space left", At: path, Why: err.Error(), Fix: "free space; rerun the same command", Err: err}
	}
	return exit.CreateError(path, err)
}
