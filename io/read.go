package fio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/grib/simplepack"
	"github.com/ensemble-weather/ensemble/io/order"
)

// Limits of a batch: large enough to hide the cost of a request, small enough to
// distribute work and bound memory.
const (
	batchFields = 256
	batchPoints = 1 << 20
)

// batch is a run of requested fields of one file.
type batch struct {
	file   *file
	window ensemble.Window
	fields []*field
	first  int                            // index of its first field in the caller's list
	into   func(i int) ([]float32, error) // memory for entry i from the caller; nil allocates
	values [][]float32                    // in normal order and SI
	done   chan struct{}
	err    error
}

// outputBuffer returns the memory for the values of field k.
//
// Errors: that of into; memory of another length than the window.
func (b *batch) outputBuffer(in *Input, k int) ([]float32, error) {
	n := b.fields[k].entry.Grid.SizeOf(b.window)
	if b.into == nil {
		return in.buffer(n), nil
	}
	x, err := b.into(b.first + k)
	if err == nil && len(x) != n {
		return nil, fmt.Errorf("%s: got memory for %d values, want %d", b.fields[k].entry.Key, len(x), n)
	}
	return x, err
}

// Read decodes fields in parallel and passes them to visit one after the other, in
// the order of entries, from one goroutine. visit owns the field. It may return its
// values with Recycle.
//
// Memory: at most two batches per child, each of a million points or one field.
// Errors: exit 65 with file, message and cause for a field that cannot be decoded; exit
// 66 for an entry that is not part of this input or a file that has changed; the error
// of visit; ctx.Err().
// Cost: entries in the order of the catalogue give the longest batches; a new batch
// begins at each change of file.
func (in *Input) Read(ctx context.Context, entries []ensemble.Entry, visit func(i int, f *ensemble.Field) error) error {
	return in.ReadWindow(ctx, entries, ensemble.Window{}, visit)
}

// ReadWindow is Read for a window of every field. Of NetCDF and Zarr only the
// window is read, in units of chunks. GRIB messages are decoded completely, and the
// window is kept.
//
// Errors: as Read.
func (in *Input) ReadWindow(ctx context.Context, entries []ensemble.Entry, w ensemble.Window, visit func(i int, f *ensemble.Field) error) error {
	if slices.ContainsFunc(entries, isDerived) {
		return in.readWithDerived(ctx, entries, w, visit)
	}
	batches, err := in.plan(entries, w)
	if err != nil {
		return err
	}
	task := progress.Start(ctx, "read fields", int64(len(entries)))
	defer task.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, gctx := errgroup.WithContext(ctx)
	ahead := make(chan struct{}, 2*in.pool.Size())
	g.Go(func() error {
		for _, b := range batches {
			select {
			case ahead <- struct{}{}:
			case <-gctx.Done():
				return gctx.Err()
			}
			g.Go(func() error {
				b.err = b.file.format.read(gctx, in, b)
				close(b.done)
				return nil
			})
		}
		return nil
	})
	parts := map[*ensemble.Grid]*ensemble.Grid{}
	read := func() error {
		for _, b := range batches {
			select {
			case <-b.done:
			case <-gctx.Done():
				return gctx.Err()
			}
			// Children open files by name, and would read old positions in a new
			// file. The change may also be the cause of a decoding error, so it is
			// reported first.
			if err := b.file.verifyUnchanged(); err != nil {
				return err
			}
			if b.err != nil {
				return b.err
			}
			for k, fd := range b.fields {
				if parts[fd.entry.Grid] == nil {
					parts[fd.entry.Grid] = fd.entry.Grid.Subgrid(w)
				}
				f := &ensemble.Field{Key: fd.entry.Key, Unit: fd.entry.Unit, Grid: parts[fd.entry.Grid], Values: b.values[k]}
				b.values[k] = nil
				if err := visit(b.first+k, f); err != nil {
					return err
				}
			}
			task.Add(int64(len(b.fields)))
			<-ahead
		}
		return nil
	}
	err = read()
	cancel()
	if waited := g.Wait(); err == nil && waited != nil {
		err = waited
	}
	return err
}

// ReadInto decodes a window of each field in parallel, into memory of the caller.
// into returns the memory for entry i when it is needed; done is called when it is
// set. Both are called from several goroutines, in any order. into may be called
// twice for an entry before done.
//
// Shape: into [window].
// Errors: as Read; those of into and done.
func (in *Input) ReadInto(ctx context.Context, entries []ensemble.Entry, w ensemble.Window, into func(i int) ([]float32, error), done func(i int) error) error {
	if slices.ContainsFunc(entries, isDerived) {
		return in.readIntoWithDerived(ctx, entries, w, into, done)
	}
	batches, err := in.plan(entries, w)
	if err != nil {
		return err
	}
	for _, b := range batches {
		b.into = into
	}
	task := progress.Start(ctx, "read fields", int64(len(entries)))
	defer task.Done()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(in.pool.Size() + 1) // one goroutine decodes in this process while all children work
	for _, b := range batches {
		g.Go(func() error {
			err := b.file.format.read(gctx, in, b)
			if changed := b.file.verifyUnchanged(); changed != nil { // as in ReadWindow
				return changed
			}
			for k := range b.fields {
				if err == nil {
					err = done(b.first + k)
				}
			}
			task.Add(int64(len(b.fields)))
			return err
		})
	}
	return g.Wait()
}

// Recycle returns the values of a field that is no longer in use. Later fields reuse the
// memory, which saves page faults. The caller must not use values afterwards. Buffers
// beyond maxFree are left to the garbage collector.
func (in *Input) Recycle(values []float32) {
	in.freeMu.Lock()
	defer in.freeMu.Unlock()
	if len(in.free) < maxFree {
		in.free = append(in.free, values)
	}
}

// maxFree bounds the recycled buffers.
const maxFree = 64

// buffer returns memory for n values with any content. The last one returned that is
// large enough is taken, since it is most likely in a cache.
func (in *Input) buffer(n int) []float32 {
	in.freeMu.Lock()
	defer in.freeMu.Unlock()
	for i := len(in.free) - 1; i >= 0; i-- {
		if x := in.free[i]; cap(x) >= n {
			in.free = slices.Delete(in.free, i, i+1)
			return x[:n]
		}
	}
	return make([]float32, n)
}

// ReadOne decodes one field.
//
// Errors: as Read.
func (in *Input) ReadOne(ctx context.Context, e ensemble.Entry) (*ensemble.Field, error) {
	var out *ensemble.Field
	err := in.Read(ctx, []ensemble.Entry{e}, func(_ int, f *ensemble.Field) error {
		out = f
		return nil
	})
	return out, err
}

// Message returns a field as a GRIB message of its own, packed as in the file. A
// field that shares its message with others is extracted.
//
// Errors: exit 66 for an entry that is not part of this input; 65 for a file in
// another format; 74 if reading fails.
func (in *Input) Message(e ensemble.Entry) ([]byte, error) {
	fd, err := in.find(e)
	if err != nil {
		return nil, err
	}
	if fd.slab != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "field is not a GRIB message", At: e.File, Why: e.Key.String() + " is in a file of another format", Fix: "give GRIB files"}
	}
	message, err := fd.ref.Extract(nil, fd.file.f)
	if err != nil {
		return nil, &exit.Error{Code: exit.IO, What: "cannot read a message again", At: fmt.Sprintf("%s, message %d", e.File, e.Message), Why: err.Error(),
			Fix: "do not change the input while it is in use", Err: err}
	}
	return message, nil
}

// plan divides the requested fields into batches. A batch ends at a change of file, at
// batchFields fields, or before batchPoints points are exceeded; a field of more points
// has a batch of its own. The order of entries is kept, so first identifies all of a
// batch.
//
// Errors: exit 66 for an entry of another input.
func (in *Input) plan(entries []ensemble.Entry, w ensemble.Window) ([]*batch, error) {
	var out []*batch
	points := 0
	for i, e := range entries {
		fd, err := in.find(e)
		if err != nil {
			return nil, err
		}
		n := fd.entry.Grid.Size()
		last := len(out) - 1
		if last < 0 || out[last].file != fd.file || len(out[last].fields) >= batchFields || points+n > batchPoints {
			out = append(out, &batch{file: fd.file, window: w, first: i, done: make(chan struct{})})
			last, points = last+1, 0
		}
		out[last].fields = append(out[last].fields, fd)
		points += n
	}
	return out, nil
}

// readGRIB reads the values of a batch of messages. If the child crashes on several
// fields, each is tried alone, so that the error names the one that causes it. Fields
// that were decoded before the crash are decoded again, which is rare enough.
func readGRIB(ctx context.Context, in *Input, b *batch) error {
	b.values = make([][]float32, len(b.fields))
	err := in.decodeGRIB(ctx, b, 0, len(b.fields))
	var died *decode.DiedError
	if !errors.As(err, &died) {
		return err
	}
	for k := range b.fields {
		err := in.decodeGRIB(ctx, b, k, k+1)
		if errors.As(err, &died) {
			return decodeError(b.fields[k], died.Error())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeError returns the error for a field that cannot be decoded. Messages of GRIB
// have a position in bytes, fields of other formats do not.
func decodeError(fd *field, why string) *exit.Error {
	e := fd.entry
	at := fmt.Sprintf("%s, field %d", e.File, e.Message)
	if e.Length > 0 {
		at = fmt.Sprintf("%s, message %d, byte %d", e.File, e.Message, e.Offset)
	}
	return &exit.Error{Code: exit.BadData, What: "values cannot be decoded", At: at + " (" + e.Key.String() + ")", Why: why, Fix: "transfer the file again, or exclude the field"}
}

// libraryError returns the error for values that need a library that is not
// installed.
func libraryError(at string, e *wire.LibraryError) error {
	return &exit.Error{Code: exit.NoDevice, What: "values need a library that is not installed", At: at, Why: e.Why, Fix: e.Install, Err: e}
}

// decodeGRIB decodes the fields from to before end of a batch: simple packing in
// this process, all others in a child. A request with several fields is not
// repeated.
func (in *Input) decodeGRIB(ctx context.Context, b *batch, from, end int) error {
	req := grib.Batch{Path: b.file.path}
	var rest []int
	for k := from; k < end; k++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		here, err := in.unpack(b, k)
		if err != nil {
			return err
		}
		if !here {
			rest, req.Fields = append(rest, k), append(req.Fields, b.fields[k].ref)
		}
	}
	if rest == nil {
		return nil
	}
	return in.decodeValues(ctx, decode.Call{Kind: grib.ValuesKind, File: req.Path, Args: req, NoRetry: len(rest) > 1}, len(rest), func(i int) (*field, int, func([]byte) error) {
		k := rest[i]
		fd := b.fields[k]
		return fd, fd.entry.Grid.Size(), func(raw []byte) (err error) {
			if b.values[k], err = b.outputBuffer(in, k); err != nil {
				return err
			}
			return toNormalOrder(b.values[k], wire.Floats(raw), fd, b.window)
		}
	})
}

// simplePacking is ecCodes' name of the packing that needs no library.
//
// Source: WMO-No. 306, FM 92 GRIB2, template 5.0.
const simplePacking = "grid_simple"

// NeedsDecoder reports whether the values of an entry are decoded in a child.
func (in *Input) NeedsDecoder(e ensemble.Entry) bool {
	f := in.byName[e.File]
	return f != nil && f.zarr == nil && (e.Length == 0 || e.Packing != simplePacking)
}

// unpack decodes field k of a batch in this process if it has uncompressed simple
// packing. The values are written directly to their destination. done is false for
// packings of ecCodes (second order, JPEG, PNG, CCSDS) and for messages of unusual form,
// which the child decodes.
//
// Values are Y = (R + X·2ᴱ)/10ᴰ with reference R, scales E and D and packed X. Each
// goroutine has a buffer for the message, from a pool.
//
// Source: WMO-No. 306, FM 92 GRIB, template 5.0 and regulation 92.9.4; edition 1:
// section 4.
func (in *Input) unpack(b *batch, k int) (done bool, err error) {
	fd := b.fields[k]
	g := fd.entry.Grid
	if fd.entry.Packing != simplePacking {
		return false, nil
	}
	message, _ := in.messages.Get().(*[]byte)
	if message == nil {
		message = new([]byte)
	}
	defer in.messages.Put(message)
	text, err := fd.ref.Extract(*message, fd.file.f)
	var system *fs.PathError
	switch {
	case errors.As(err, &system): // the disk or the network, not the bytes
		return false, unreadable(fd.file.path, err)
	case err != nil:
		return false, decodeError(fd, err.Error())
	}
	*message = text
	p, ok, err := grib.ParseSimplePacking(text, g.Size())
	if err != nil {
		return false, decodeError(fd, err.Error())
	}
	if !ok || p.CCSDS != nil {
		return false, nil
	}
	if b.values[k], err = b.outputBuffer(in, k); err != nil {
		return false, err
	}
	if direct, err := unpackDirect(b.values[k], &p, g, b.window); direct || err != nil {
		if err != nil {
			return false, decodeError(fd, err.Error())
		}
		fd.conv.Apply(b.values[k])
		return true, nil
	}
	stored := in.buffer(g.Size())
	defer in.Recycle(stored)
	if err = simplepack.Unpack(stored, &p, simplepack.AllValues(&p)); err == nil {
		err = p.ApplyBitmap(stored)
	}
	if err != nil {
		return false, decodeError(fd, err.Error())
	}
	return true, toNormalOrder(b.values[k], stored, fd, b.window)
}

// unpackDirect decodes the values of a window directly to normal order. ok is false if
// rows are not stored from west to east and aligned to bytes, or if points are missing.
// It saves a pass over the field. Scanning modes are those of WMO-No. 306, flag table
// 3.4.
func unpackDirect(out []float32, p *grib.SimplePacking, g *ensemble.Grid, w ensemble.Window) (ok bool, err error) {
	if p.Count != g.Size() || !p.HasAllPoints() {
		return false, nil
	}
	rects, err := order.WindowRects(g, w)
	if err != nil {
		return false, nil // alternating or unequal rows
	}
	var list []simplepack.Rect
	for _, r := range rects {
		to, step, rows := r.RowLayout(g, w)
		n := simplepack.Rect{Rows: r.Rows, Columns: r.Cols, First: r.Row*g.NX + r.Col, Stride: g.NX, To: to, Step: step}
		if !rows || !n.IsAligned(p.Bits) {
			return false, nil
		}
		list = append(list, n)
	}
	for _, n := range list {
		if err := simplepack.Unpack(out, p, n); err != nil {
			return false, err
		}
	}
	return true, nil
}

// decodeValues executes a call with n results in a child and passes each to its
// consumer: of returns the field of result k, its number of values, and the consumer.
// raw is float32 in little-endian order, in memory shared with the child, and valid
// during take only.
//
// Errors: exit 65 with the field for values that the library cannot decode or whose
// number is wrong; exit 69 for a missing library; *decode.DiedError.
func (in *Input) decodeValues(ctx context.Context, call decode.Call, n int, of func(k int) (fd *field, count int, take func(raw []byte) error)) error {
	var list []wire.Values
	call.Result = &list
	call.ReadOutput = func(payload []byte) error {
		if len(list) != n {
			fd, _, _ := of(0)
			return fmt.Errorf("%s: %w: %d results for %d fields", fd.file.path, wire.ErrImpossible, len(list), n)
		}
		for k := range list {
			fd, count, take := of(k)
			raw, err := list[k].Bytes(payload, 4)
			var library *wire.LibraryError
			if errors.As(err, &library) {
				e := fd.entry
				return libraryError(fmt.Sprintf("%s, field %d (%s)", e.File, e.Message, e.Key), library)
			}
			if err != nil {
				e := decodeError(fd, err.Error())
				e.Err = err
				return e
			}
			if list[k].Count != count {
				return decodeError(fd, fmt.Sprintf("%d values for %d points", list[k].Count, count))
			}
			if err := take(raw); err != nil {
				return err
			}
		}
		return nil
	}
	return in.pool.Do(ctx, call)
}

// toNormalOrder converts stored values to a window in normal order and SI. Normal order
// is from north to south and from west to east. Grids with alternating or unequal rows
// are converted as a whole and then cropped.
//
// Shape: out [window], stored [point].
func toNormalOrder(out, stored []float32, fd *field, w ensemble.Window) error {
	g := fd.entry.Grid
	if g.IsWhole(w) {
		if err := order.ToNormal(out, stored, g); err != nil {
			return err
		}
	} else if rects, err := order.WindowRects(g, w); err == nil {
		for _, r := range rects {
			r.CopyFieldToWindow(out, stored, g, w)
		}
	} else {
		whole := make([]float32, g.Size())
		if err := order.ToNormal(whole, stored, g); err != nil {
			return err
		}
		copy(out, ensemble.CropField(whole, g, w))
	}
	fd.conv.Apply(out)
	return nil
}
