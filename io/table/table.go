// Package table writes and reads tables as Parquet files. It is the only package
// that imports Arrow, and of Arrow only the packages of Parquet columns: those of Arrow tables
// (pqarrow) link a gRPC server.
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
	"reflect"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// kind is the type of a column.
type kind string

const (
	text      kind = "string"
	boolean   kind = "bool"
	integer   kind = "int64"
	float     kind = "float64"
	timestamp kind = "timestamp" // written in milliseconds, adjusted to UTC: pandas, R and DuckDB read times with a zone
)

// column is one exported field of a row type. Fields of embedded structs have an index
// of several steps.
type column struct {
	name  string
	index []int // for reflect.Value.FieldByIndex
	kind  kind
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
				out = append(out, column{c.name, append([]int{i}, c.index...), c.kind})
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
		var of kind
		switch k := f.Type.Kind(); {
		case f.Type == reflect.TypeFor[time.Time]():
			of = timestamp
		case k == reflect.String:
			of = text
		case k == reflect.Bool:
			of = boolean
		case k >= reflect.Int && k <= reflect.Int64:
			of = integer
		case k == reflect.Float32 || k == reflect.Float64:
			of = float
		default:
			return nil, fmt.Errorf("table: field %s of %s has type %s, which has no column type", f.Name, row, f.Type)
		}
		out = append(out, column{name, []int{i}, of})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("table: %s has no columns", row)
	}
	return out, nil
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
	for i, c := range cols {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := 0
		err := readColumn(pf, c, func(set func(v reflect.Value)) {
			if i == 0 {
				rows = append(rows, *new(T))
			}
			if n < len(rows) {
				set(reflect.ValueOf(&rows[n]).Elem().FieldByIndex(c.index))
			}
			n++
		})
		if err != nil {
			return nil, bad(err.Error())
		}
		if n != len(rows) {
			return nil, bad(fmt.Sprintf("column %q has %d rows, %q has %d", c.name, n, cols[0].name, len(rows)))
		}
	}
	return rows, nil
}
