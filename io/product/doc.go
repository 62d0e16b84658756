// Package product writes the published products of a forecast: mean, spread,
// quantiles, probabilities and members as CF NetCDF, GRIB2 and Zarr; time series at
// stations as CF NetCDF and CSV. It also writes ensembles and analyses for the
// demo, and the manifest that lists the files of an initialisation.
//
// A statistic is described once (kind.go), and all formats use this description.
// This package defines names, attributes, codes and the order of points. The
// encoding child links the libraries; it receives each file as a description of
// package encode. Zarr needs no library and is written in this process. Every file
// appears completely or not at all. The same product with the same metadata gives
// the same bytes.
package product

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// Encoder executes a request in a child; *decode.Pool implements it.
type Encoder interface {
	Do(ctx context.Context, c decode.Call) error
}

// encodeDeadline bounds the encoding of one file. Compressing a gigabyte takes
// about a minute; a child that takes this long hangs.
const encodeDeadline = 15 * time.Minute

// payload collects the functions that write the values of a file for the child. The zero
// value is empty. The order of blocks is that of the calls of block.
type payload struct {
	size int
	fill []func(all []byte)
}

// block reserves n bytes, aligned to eight bytes, which fill writes. The alignment
// permits the child to use the bytes as float64 without a copy.
func (p *payload) block(n int, fill func(dst []byte)) encode.Block {
	at := (p.size + 7) &^ 7
	p.size = at + n
	p.fill = append(p.fill, func(all []byte) { fill(all[at : at+n]) })
	return encode.Block{Offset: at, Length: n}
}

// write lets a child encode the file that args describes to memory, and writes it.
//
// Memory: one block for all values of the file, shared with the child, and the encoded file. Of NetCDF the child frees the
// values of a variable when it has encoded them.
// Errors: those of encodeError.
func (p *payload) write(ctx context.Context, enc Encoder, path, kind string, args any) error {
	return encodeError(ctx, path, atomicfile.Write(path, func(to io.Writer) error {
		return enc.Do(ctx, decode.Call{Kind: kind, Args: args, InputBytes: p.size, Deadline: encodeDeadline,
			WriteInput: func(all []byte) {
				for _, f := range p.fill {
					f(all)
				}
			},
			ReadFile: func(from io.Reader) error {
				_, err := io.Copy(to, from)
				return err
			}})
	}))
}

// encodeError gives an error of encoding and writing path its code: that of the child, 74 for a full disk, 73 if the file cannot be renamed,
// 70 if the child crashed; ctx.Err().
func encodeError(ctx context.Context, path string, err error) error {
	var known *exit.Error
	var died *decode.DiedError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &known):
		known.At = path // instead of the temporary file, which was removed
		return known
	case errors.As(err, &died):
		return &exit.Error{Code: exit.Bug, What: "the encoding program failed", At: path, Why: died.Error(),
			Fix: "report it with the command and the first input file; nothing was published", Err: err}
	}
	return exit.CreateError(path, err)
}
