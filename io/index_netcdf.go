package fio

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/netcdf"
	"github.com/ensemble-weather/ensemble/io/order"
	"github.com/ensemble-weather/ensemble/io/unit"
)

// gridTable interns grids: equal grids share one pointer.
type gridTable struct {
	mu  sync.Mutex
	all []*ensemble.Grid
}

// intern returns the shared pointer of a grid. Points must be equal without tolerance;
// storage order and grid mapping too, since readers and products use them. Maps
// print in the order of their keys. Cost: a comparison with each grid; an archive has few.
func (t *gridTable) intern(g *ensemble.Grid) *ensemble.Grid {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.all {
		if o.Source == g.Source && o.SameAs(g, 0) && fmt.Sprint(o.Mapping) == fmt.Sprint(g.Mapping) {
			return o
		}
	}
	t.all = append(t.all, g)
	return g
}

// indexNetCDF checks the structure of a file, reads header and coordinates through
// a child, and finds the fields.
//
// The scan in this process precedes the child, so that the library does not open a file
// that is truncated or whose header states impossible sizes. Damage is stored in
// f.faults.
//
// Errors: ctx.Err(); exit 69 for missing libraries; exit 66 or 74 for a file that
// cannot be read.
// Source: CF conventions 1.8, as package cf reads them; NUG for the structure.
func indexNetCDF(ctx context.Context, in *Input, f *file) error {
	damaged := func(what, at, why string) {
		f.messages = 1
		f.faults = append(f.faults, &exit.Error{Code: exit.BadData, What: what, At: at, Why: why, Fix: "transfer the file again"})
		f.unused = append(f.unused, ensemble.Unused{File: f.path, Reason: "damaged: " + what + ": " + why})
	}
	if err := netcdf.Scan(f.f, f.size); err != nil {
		var fault *netcdf.Fault
		if !errors.As(err, &fault) {
			return unreadable(f.path, err)
		}
		damaged(fault.What, fmt.Sprintf("%s, byte %d", f.path, fault.Offset), fault.Why)
		return nil
	}
	var h cf.Header
	err := in.pool.Do(ctx, decode.Call{Kind: netcdf.HeaderKind, File: f.path, Args: netcdf.HeaderRequest{Path: f.path}, Result: &h})
	if err == nil {
		err = in.addCFEntries(f, &h, func(slabs []cf.Slab) ([][]float64, error) { return in.coordinates(ctx, f, &h, slabs) })
	}
	var died *decode.DiedError
	var bad *exit.Error
	switch {
	case errors.As(err, &died):
		damaged("NetCDF file cannot be read", f.path, died.Error())
	case errors.As(err, &bad) && bad.Code == exit.BadData:
		damaged(bad.What, bad.At, bad.Why)
	default:
		return err
	}
	return nil
}

// addCFEntries makes entries of the fields of a file. values reads coordinates.
//
// Fields of one variable are consecutive, so f.slabs has one row for each variable. A
// grid of more points than the file could hold is rejected.
//
// Units convert to those of the quantity in ensemble.Variables. A spread and a difference have no
// offset: 1 degC of them is 1 K. A probability has two units, that of its values (per cent or 1) and
// that of the limits of its event.
//
// A variable that package cf cannot interpret is f.unused with the reason, and no fault: files may
// hold anything beside fields.
//
// Errors: those of values; exit 65 for a grid that is implausible.
// Source: CF conventions 1.8, sections 3.1 (units), 3.3 (standard name), 4 and 5 (coordinates),
// 7.3 (cell methods) and 8.1 (packed data, which the child unpacks).
func (in *Input) addCFEntries(f *file, h *cf.Header, values cf.Fetch) error {
	o := cf.Options{Values: values, Share: in.gridTable.intern, Static: in.opt.Static, Naming: in.opt.Naming}
	lead, pattern, stated := in.opt.Naming.LeadOf(f.path)
	if stated {
		o.Lead = &lead
	}
	_, isMember := MemberFromName(f.path, in.opt.Members.FromName)
	o.IsForecast = isMember || in.opt.Naming.Scope == ensemble.ForecastFiles
	found, err := cf.Fields(h, o)
	if err != nil {
		return err
	}
	if found.UsedLead {
		in.naming.use(pattern)
	}
	for i := range h.Vars {
		in.naming.see(in.opt.Naming, h.Vars[i].Path(), h.Vars[i].Name)
	}
	f.messages = len(found.Fields) + len(found.Unused)
	for _, u := range found.Unused {
		f.unused = append(f.unused, ensemble.Unused{File: f.path, Message: u.Number, Name: u.Name, Reason: u.Reason})
	}
	for _, w := range found.Warnings {
		f.warnings = append(f.warnings, f.path+", "+w)
	}
	for _, nf := range found.Fields {
		if n := int64(nf.Grid.Size()); grib.IsImplausible(n, f.size) {
			return &exit.Error{Code: exit.BadData, What: "invalid grid", At: f.path + ", variable " + h.Vars[nf.Slab.Var].Path(),
				Why: fmt.Sprintf("%d points in a file of %d bytes", n, f.size), Fix: "transfer the file again"}
		}
		known, _ := ensemble.VariableNamed(nf.Key.Variable)
		conv := unit.ToSI(nf.NativeUnit, known.Unit)
		switch {
		case nf.Key.Product == ensemble.Spread || nf.Difference:
			conv = conv.Difference()
		case nf.Key.Product == ensemble.Probability:
			nf.Key.Event = eventToSI(nf.Key.Event, unit.ToSI(nf.EventUnit, known.Unit))
			conv = unit.ToSI(nf.NativeUnit, "1") // of the probability, not of its quantity
		}
		if n := len(f.slabs); n == 0 || f.slabs[n-1].slab.Var != nf.Slab.Var {
			v := variableSlabs{first: nf.Number, slab: nf.Slab}
			for _, d := range h.Vars[nf.Slab.Var].Dims {
				v.shape = append(v.shape, h.Dims[d].Len)
			}
			f.slabs = append(f.slabs, v)
		}
		f.entries = append(f.entries, ensemble.Entry{Key: nf.Key, File: f.path, Message: nf.Number, Sub: 1, Kind: in.kinds.intern(ensemble.Kind{
			Unit: conv.SI, NativeUnit: nf.NativeUnit, LongName: nf.LongName, Name: h.Vars[nf.Slab.Var].Path(), Guessed: nf.Guessed, Grid: nf.Grid, LevelType: nf.LevelType, Statistic: nf.Statistic,
			Interval: nf.Interval, Members: nf.Members, Packing: nf.Packing, Basis: basisOf(nf.Key.Product, nf.LongName, f.path)}, conv)})
	}
	return nil
}

// coordinates reads slabs as float64, since seconds since 1970 and longitudes need more digits than
// float32 has. Coordinates have no missing values (CF conventions 1.8, section 2.5.1).
//
// Errors: exit 65 with the variable; exit 69 for a filter without library;
// *decode.DiedError.
func (in *Input) coordinates(ctx context.Context, f *file, h *cf.Header, slabs []cf.Slab) ([][]float64, error) {
	out := make([][]float64, len(slabs))
	var list []wire.Values
	err := in.pool.Do(ctx, decode.Call{Kind: netcdf.ValuesKind, File: f.path, Args: netcdf.ValuesRequest{Path: f.path, Double: true, Slabs: slabs}, Result: &list, ReadOutput: func(payload []byte) error {
		if len(list) != len(slabs) {
			return fmt.Errorf("%s: %w: %d results for %d coordinates", f.path, wire.ErrImpossible, len(list), len(slabs))
		}
		for i, r := range list {
			raw, err := r.Bytes(payload, 8)
			var library *wire.LibraryError
			if errors.As(err, &library) {
				return libraryError(f.path, library)
			}
			if err != nil {
				return &exit.Error{Code: exit.BadData, What: "coordinates cannot be read", At: f.path + ", variable " + h.Vars[slabs[i].Var].Path(), Why: err.Error(), Fix: "transfer the file again", Err: err}
			}
			out[i] = make([]float64, r.Count)
			for k := range out[i] {
				out[i][k] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*k:]))
			}
		}
		return nil
	}})
	return out, err
}

// fieldRect is a rectangle of a field of a batch, and the position of its values in
// the file.
type fieldRect struct {
	field int
	rect  order.Rect
	slab  cf.Slab
}

// fieldRects returns the rectangles that cover the window of all fields of a batch. A
// window that crosses the first column of the file has two rectangles. Rectangles of a
// field are consecutive.
//
// Errors: those of order.WindowRects.
func fieldRects(b *batch) ([]fieldRect, error) {
	var rects []fieldRect
	for k, fd := range b.fields {
		parts, err := order.WindowRects(fd.entry.Grid, b.window)
		if err != nil {
			return nil, err
		}
		for _, r := range parts {
			rects = append(rects, fieldRect{k, r, rectSlab(*fd.slab, fd.entry.Grid, r)})
		}
	}
	return rects, nil
}

// allocateOutputs allocates the values of all fields.
//
// Errors: that of the caller's into.
func (b *batch) allocateOutputs(in *Input) (err error) {
	b.values = make([][]float32, len(b.fields))
	for k := range b.fields {
		if b.values[k], err = b.outputBuffer(in, k); err != nil {
			return err
		}
	}
	return nil
}

// placeRect copies the stored values of rectangle k to its field. After the last
// rectangle of a field it converts the field to SI. The conversion must run once for
// each field, hence after the last rectangle.
func (b *batch) placeRect(rects []fieldRect, k int, stored []float32) {
	p := rects[k]
	fd := b.fields[p.field]
	p.rect.CopyToWindow(b.values[p.field], stored, fd.entry.Grid, b.window)
	if k+1 == len(rects) || rects[k+1].field != p.field {
		fd.conv.Apply(b.values[p.field])
	}
}

// readNetCDF reads the values of a batch: for each field the rectangles that cover its
// window. All rectangles of a batch are one request. If the child dies twice, the error
// names the first field, since the library does not report which one it was reading.
//
// Missing: _FillValue, missing_value and values outside valid_range become NaN in the child.
// Source: CF conventions 1.8, sections 2.5.1 (missing data) and 8.1 (packed data).
func readNetCDF(ctx context.Context, in *Input, b *batch) error {
	rects, err := fieldRects(b)
	if err != nil {
		return err
	}
	req := netcdf.ValuesRequest{Path: b.file.path}
	for _, p := range rects {
		req.Slabs = append(req.Slabs, p.slab)
	}
	if err := b.allocateOutputs(in); err != nil {
		return err
	}
	err = in.decodeValues(ctx, decode.Call{Kind: netcdf.ValuesKind, File: req.Path, Args: req}, len(rects), func(k int) (*field, int, func([]byte) error) {
		p := rects[k]
		return b.fields[p.field], p.rect.Rows * p.rect.Cols, func(raw []byte) error {
			b.placeRect(rects, k, wire.Floats(raw))
			return nil
		}
	})
	var died *decode.DiedError
	if errors.As(err, &died) {
		return decodeError(b.fields[0], died.Error())
	}
	return err
}

// rectSlab restricts the slab of a field to a rectangle. Rows and columns are the
// dimensions with more than one value, in storage order. Both slabs have the same number
// of dimensions. Dimensions of length 1 are passed over on both sides, so that a grid of
// one row or column matches too.
func rectSlab(s cf.Slab, g *ensemble.Grid, r order.Rect) cf.Slab {
	axes := [][3]int{{g.NY, r.Row, r.Rows}, {g.NX, r.Col, r.Cols}}
	if g.Source.ColumnMajor {
		slices.Reverse(axes)
	}
	axes = slices.DeleteFunc(axes, func(a [3]int) bool { return a[0] == 1 })
	out := cf.Slab{Var: s.Var, Start: slices.Clone(s.Start), Count: slices.Clone(s.Count)}
	for p, n := range s.Count {
		if n > 1 {
			out.Start[p], out.Count[p] = s.Start[p]+int64(axes[0][1]), int64(axes[0][2])
			axes = axes[1:]
		}
	}
	return out
}
