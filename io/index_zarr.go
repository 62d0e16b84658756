package fio

import (
	"context"
	"errors"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// indexZarr reads metadata and coordinates of a store and finds its fields. Nothing runs
// in a child, since all codecs are Go. Damage is stored in f.faults; any other error is
// returned. Arrays with a codec or data type that is not read are f.unused.
//
// The attributes are those of CF as in NetCDF. xarray writes them with dimension names:
// _ARRAY_DIMENSIONS in version 2, dimension_names in version 3.
//
// Source: Zarr specification, versions 2 and 3; xarray, "Zarr encoding specification".
func indexZarr(ctx context.Context, in *Input, f *file) error {
	damaged := func(err error) error {
		var bad *exit.Error
		if !errors.As(err, &bad) || bad.Code != exit.BadData {
			return err
		}
		f.messages = 1
		f.faults = append(f.faults, bad)
		f.unused = append(f.unused, ensemble.Unused{File: f.path, Reason: "damaged: " + bad.What + ": " + bad.Why})
		return nil
	}
	s, err := zarr.Open(f.path, zarr.Options{Sparse: in.opt.Sparse})
	if err != nil {
		return damaged(err)
	}
	f.zarr = s
	values := func(slabs []cf.Slab) ([][]float64, error) {
		out := make([][]float64, len(slabs))
		for i, slab := range slabs {
			var err error
			if out[i], err = s.ReadCoordinate(ctx, slab); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	if err := in.addCFEntries(f, s.Header(), values); err != nil {
		return damaged(err)
	}
	for _, u := range s.Unused {
		f.messages++
		f.unused = append(f.unused, ensemble.Unused{File: f.path, Message: f.messages, Name: u.Name, Reason: u.Reason})
	}
	f.warnings = append(f.warnings, s.Warnings...)
	return nil
}

// readZarr reads the values of a batch in this process: for each field the
// rectangles that cover its window, and each chunk once.
//
// Missing: values that _FillValue or missing_value mark become NaN (CF conventions 1.8, section 2.5.1),
// in version 2 also the fill value of the array, where xarray stores _FillValue, except an unpacked 0.
// An absent chunk is an error unless Options.Sparse accepts it.
// Source: Zarr specification, versions 2 and 3.
func readZarr(ctx context.Context, in *Input, b *batch) error {
	rects, err := fieldRects(b)
	if err != nil {
		return err
	}
	parts := make([]*zarr.Request, len(rects))
	for k, p := range rects {
		parts[k] = &zarr.Request{Slab: p.slab}
	}
	if err := b.file.zarr.Read(ctx, parts, in.buffer); err != nil {
		return err
	}
	if err := b.allocateOutputs(in); err != nil {
		return err
	}
	for k := range rects {
		b.placeRect(rects, k, parts[k].Values)
		in.Recycle(parts[k].Values)
	}
	return nil
}
