// Package table writes and reads tables as Parquet files. It is the only package
// that imports Arrow.
//
// A table is a slice of flat structs. Every exported field is a column, named by
// its json tag; fields of embedded structs are columns too. Types: string → UTF8,
// integers → INT64, floats → DOUBLE, bool → BOOLEAN, time.Time → TIMESTAMP (ms,
// UTC). NaN and zero times are stored as null; null is read as NaN or zero time.
package table

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// timestamp is the type of times: milliseconds, adjusted to UTC, which pandas, R and
// DuckDB read as times with a zone.
var timestamp = &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}

// column is one exported field of a row type. Fields of embedded structs have an index
// of several steps.
type column struct {
	name  string
	index []int // for reflect.Value.FieldByIndex
	typ   arrow.DataType
}

// columns lists the columns of a row type. They are in the order of the fields, those of
// an embedded struct in its place.
//
// Unsigned integers, slices, maps and pointers have no column type: a table is flat, and
// INT64 cannot hold every uint64.
//
// Errors: a type that is not a struct; a field whose type has no column type.
func columns(row reflect.Type) ([]column, error) {
	if row.Kind() != reflect.Struct {
		return nil, fmt.Errorf("table: row type %s, want a struct", row)
	}
	var out []column
	for i := range row.NumField() {
		f := row.Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			own, err := columns(f.Type)
			if err != nil {
				return nil, err
			}
			for _, c := range own {
				out = append(out, column{c.name, append([]int{i}, c.index...), c.typ})
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		var t arrow.DataType
		switch k := f.Type.Kind(); {
		case f.Type == reflect.TypeFor[time.Time]():
			t = timestamp
		case k == reflect.String:
			t = arrow.BinaryTypes.String
		case k == reflect.Bool:
			t = arrow.FixedWidthTypes.Boolean
		case k >= reflect.Int && k <= reflect.Int64:
			t = arrow.PrimitiveTypes.Int64
		case k == reflect.Float32 || k == reflect.Float64:
			t = arrow.PrimitiveTypes.Float64
		default:
			return nil, fmt.Errorf("table: field %s of %s has type %s, which has no column type", f.Name, row, f.Type)
		}
		out = append(out, column{name, []int{i}, t})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("table: %s has no columns", row)
	}
	return out, nil
}

// Write writes a table. The file is replaced atomically. Columns are compressed
// with zstd at level 1: the library makes an encoder for each column, and encoders
// of higher levels take longer to set up than to compress.
//
// All columns may be null, although only floats and times are: readers of other
// languages expect it. A table without rows has its columns too.
//
// Memory: all rows in columns, before compression.
// Errors: a row type without a mapping; those of exit.CreateError.
// Source: Apache Parquet, file format and logical types (STRING, TIMESTAMP); Apache
// Arrow, schema mapping.
func Write[T any](path string, rows []T) error {
	cols, err := columns(reflect.TypeFor[T]())
	if err != nil {
		return err
	}
	fields := make([]arrow.Field, len(cols))
	for i, c := range cols {
		fields[i] = arrow.Field{Name: c.name, Type: c.typ, Nullable: true}
	}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range rows {
		v := reflect.ValueOf(&rows[i]).Elem()
		for k, c := range cols {
			appendValue(b.Field(k), v.FieldByIndex(c.index))
		}
	}
	record := b.NewRecord()
	defer record.Release()
	err = atomicfile.Write(path, func(w io.Writer) error {
		// The Parquet writer closes its argument; atomicfile.Write closes the file.
		pw, err := pqarrow.NewFileWriter(schema, struct{ io.Writer }{w},
			parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1)),
			pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
		if err != nil {
			return err
		}
		if err := pw.Write(record); err != nil {
			pw.Close()
			return err
		}
		return pw.Close()
	})
	return exit.CreateError(path, err)
}

// appendValue appends one value to its column. The type of b is that of the column
// (columns), so each case fits. Times lose what is below a millisecond.
//
// Missing: NaN and the zero time become null, as WriteCSV leaves their cells empty.
func appendValue(b array.Builder, v reflect.Value) {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(v.String())
	case *array.BooleanBuilder:
		b.Append(v.Bool())
	case *array.Int64Builder:
		b.Append(v.Int())
	case *array.Float64Builder:
		if f := v.Float(); math.IsNaN(f) {
			b.AppendNull()
		} else {
			b.Append(f)
		}
	case *array.TimestampBuilder:
		if t := v.Interface().(time.Time); t.IsZero() {
			b.AppendNull()
		} else {
			b.Append(arrow.Timestamp(t.UnixMilli()))
		}
	}
}

// Read returns the rows of a table. Columns are matched by name; columns that T
// lacks are ignored.
//
// Missing: null is NaN or the zero time; null of another type is its zero value.
// Errors: *exit.Error: 66 for an absent file; 65 if it is not a Parquet file, lacks a
// column of T, or has it in another type.
func Read[T any](ctx context.Context, path string) ([]T, error) {
	f, err := filesystem.Open(path)
	if err != nil {
		return nil, &exit.Error{Code: exit.NotYet, What: "cannot open the Parquet table", At: path, Why: err.Error(), Fix: "check the name", Err: err}
	}
	defer f.Close()
	return read[T](ctx, path, f)
}

// Decode is Read for the content of a file. path appears in errors.
//
// Memory: Arrow allocates the sizes that the file states. Verify the checksum of the content
// first if there is one.
// Errors: as Read.
func Decode[T any](ctx context.Context, path string, content []byte) ([]T, error) {
	return read[T](ctx, path, bytes.NewReader(content))
}

// read reads a table from f. The library's panics become errors, since a file from
// elsewhere may be damaged.
//
// Errors: as Read.
func read[T any](ctx context.Context, path string, f parquet.ReaderAtSeeker) (rows []T, err error) {
	cols, err := columns(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	bad := func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "cannot read the Parquet table", At: path, Why: why,
			Fix: "recreate the file; it does not hold the expected table"}
	}
	defer func() { // Arrow panics on some damaged files
		if p := recover(); p != nil {
			rows, err = nil, bad(fmt.Sprint(p))
		}
	}()
	pf, err := file.NewParquetReader(f)
	if err != nil {
		return nil, bad(err.Error())
	}
	defer pf.Close()
	r, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return nil, bad(err.Error())
	}
	schema, err := r.Schema()
	if err != nil {
		return nil, bad(err.Error())
	}
	// Columns are read one by one in this goroutine. Arrow reads a complete table
	// in goroutines of its own, where a panic would end the program.
	for i, c := range cols {
		at := schema.FieldIndices(c.name)
		if len(at) != 1 {
			return nil, bad(fmt.Sprintf("%d columns are named %q", len(at), c.name))
		}
		if t := schema.Field(at[0]).Type; t.ID() != c.typ.ID() {
			return nil, bad(fmt.Sprintf("column %q is %s, want %s", c.name, t, c.typ))
		}
		reader, err := r.GetColumn(ctx, at[0])
		if err != nil {
			return nil, bad(err.Error())
		}
		data, err := reader.NextBatch(pf.NumRows())
		reader.Release()
		if err != nil {
			return nil, bad(err.Error())
		}
		if i == 0 {
			rows = make([]T, data.Len())
		}
		if data.Len() != len(rows) {
			data.Release()
			return nil, bad(fmt.Sprintf("column %q has %d rows, %q has %d", c.name, data.Len(), cols[0].name, len(rows)))
		}
		k := 0
		for _, chunk := range data.Chunks() {
			for n := range chunk.Len() {
				setValue(reflect.ValueOf(&rows[k]).Elem().FieldByIndex(c.index), chunk, n)
				k++
			}
		}
		data.Release()
	}
	return rows, nil
}

// setValue sets v to element k of a column. It inverts appendValue. Another unit of time
// is converted.
//
// Null of a string, bool or integer column is "", false or 0.
func setValue(v reflect.Value, a arrow.Array, k int) {
	null := a.IsNull(k)
	switch a := a.(type) {
	case *array.String:
		v.SetString(a.Value(k))
	case *array.Boolean:
		v.SetBool(a.Value(k))
	case *array.Int64:
		v.SetInt(a.Value(k))
	case *array.Float64:
		if null {
			v.SetFloat(math.NaN())
		} else {
			v.SetFloat(a.Value(k))
		}
	case *array.Timestamp:
		if !null {
			unit := a.DataType().(*arrow.TimestampType).Unit
			v.Set(reflect.ValueOf(a.Value(k).ToTime(unit).UTC()))
		}
	}
}
