package table

import (
	"errors"
	"io"
	"math"
	"reflect"
	"time"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Write writes a table. The file is replaced atomically. Columns are compressed
// with zstd at level 1: the library makes an encoder for each column, and encoders
// of higher levels take longer to set up than to compress.
//
// All columns may be null, although only floats and times are: readers of other
// languages expect it. A table without rows has its columns too.
//
// Memory: one column, before and after compression.
// Errors: a row type without a mapping; those of exit.CreateError.
// Source: Apache Parquet, file format and logical types (STRING, INT, TIMESTAMP).
func Write[T any](path string, rows []T) error {
	cols, err := columns(reflect.TypeFor[T]())
	if err != nil {
		return err
	}
	root, err := group(cols)
	if err != nil {
		return err
	}
	err = atomicfile.Write(path, func(w io.Writer) error { return encode(w, root, cols, reflect.ValueOf(rows)) })
	return exit.CreateError(path, err)
}

// firstError keeps the first error of a writer: the library panics where it cannot write the first bytes, and drops some errors.
type firstError struct {
	io.Writer
	err error
}

func (w *firstError) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.Writer.Write(b)
	w.err = err
	return n, err
}

// encode writes all rows, a slice of structs, as a Parquet file.
func encode(w io.Writer, root *schema.GroupNode, cols []column, rows reflect.Value) (err error) {
	out := &firstError{Writer: w} // hides Close, which the library would call
	defer func() {
		if out.err != nil {
			recover()
			err = out.err
		}
	}()
	pw := file.NewParquetWriter(out, root, file.WithWriterProps(
		parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1))))
	return errors.Join(writeRows(pw, cols, rows), pw.Close())
}

// group returns the schema of a file.
func group(cols []column) (*schema.GroupNode, error) {
	fields := make(schema.FieldList, len(cols))
	for i, c := range cols {
		n, err := c.node()
		if err != nil {
			return nil, err
		}
		fields[i] = n
	}
	return schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1)
}

// node returns the column in the schema of a file.
func (c column) node() (schema.Node, error) {
	optional := parquet.Repetitions.Optional
	switch c.kind {
	case text:
		return schema.NewPrimitiveNodeLogical(c.name, optional, schema.StringLogicalType{}, parquet.Types.ByteArray, -1, -1)
	case boolean:
		return schema.NewBooleanNode(c.name, optional, -1), nil
	case integer:
		return schema.NewPrimitiveNodeLogical(c.name, optional, schema.NewIntLogicalType(64, true), parquet.Types.Int64, -1, -1)
	case timestamp:
		return schema.NewPrimitiveNodeLogical(c.name, optional, schema.NewTimestampLogicalType(true, schema.TimeUnitMillis), parquet.Types.Int64, -1, -1)
	default:
		return schema.NewFloat64Node(c.name, optional, -1), nil
	}
}

// writeRows writes all rows, a slice of structs, as one group of rows.
func writeRows(pw *file.Writer, cols []column, rows reflect.Value) error {
	if rows.Len() == 0 {
		return nil
	}
	group := pw.AppendRowGroup()
	for _, c := range cols {
		w, err := group.NextColumn()
		if err != nil {
			return err
		}
		if err := errors.Join(writeColumn(w, c, rows), w.Close()); err != nil {
			return err
		}
	}
	return group.Close()
}

// writeColumn writes the values of one column. Times lose what is below a millisecond.
//
// Missing: NaN and the zero time become null, as WriteCSV leaves their cells empty.
func writeColumn(w file.ColumnChunkWriter, c column, rows reflect.Value) error {
	switch w := w.(type) {
	case *file.ByteArrayColumnChunkWriter:
		return writeValues(w, c, rows, func(v reflect.Value) (parquet.ByteArray, bool) { return parquet.ByteArray(v.String()), true })
	case *file.BooleanColumnChunkWriter:
		return writeValues(w, c, rows, func(v reflect.Value) (bool, bool) { return v.Bool(), true })
	case *file.Float64ColumnChunkWriter:
		return writeValues(w, c, rows, func(v reflect.Value) (float64, bool) { return v.Float(), !math.IsNaN(v.Float()) })
	case *file.Int64ColumnChunkWriter:
		if c.kind == integer {
			return writeValues(w, c, rows, func(v reflect.Value) (int64, bool) { return v.Int(), true })
		}
		return writeValues(w, c, rows, func(v reflect.Value) (int64, bool) {
			t := v.Interface().(time.Time)
			return t.UnixMilli(), !t.IsZero()
		})
	}
	return errors.New("table: a column of another type than its node")
}

// valueWriter is a writer of columns with values of type V.
type valueWriter[V any] interface {
	WriteBatch(values []V, defLevels, repLevels []int16) (int64, error)
}

// writeValues writes the values that of returns for the fields of a column; false is null.
func writeValues[V any](w valueWriter[V], c column, rows reflect.Value, of func(reflect.Value) (V, bool)) error {
	values, present := make([]V, 0, rows.Len()), make([]int16, rows.Len())
	for i := range rows.Len() {
		if v, ok := of(rows.Index(i).FieldByIndex(c.index)); ok {
			values, present[i] = append(values, v), 1
		}
	}
	_, err := w.WriteBatch(values, present, nil)
	return err
}
