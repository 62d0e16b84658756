package table

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// batch is the number of values that are read at a time.
const batch = 4096

// readColumn reads all values of a column, and passes for each a function that sets the field of a row to it, the inverse of
// writeColumn. Columns are matched by name.
//
// Missing: null is NaN or the zero time; null of another type is its zero value.
// Errors: the column is not there, nested or of another type; a damaged file, on which the library may panic too.
func readColumn(pf *file.Reader, c column, row func(set func(reflect.Value))) error {
	at := -1
	for i := range pf.MetaData().Schema.NumColumns() {
		if pf.MetaData().Schema.Column(i).Path() != c.name {
			continue
		}
		if at >= 0 {
			return fmt.Errorf("several columns are named %q", c.name)
		}
		at = i
	}
	if at < 0 {
		return fmt.Errorf("no column is named %q", c.name)
	}
	of := pf.MetaData().Schema.Column(at)
	if k := kindOf(of); k != c.kind {
		return fmt.Errorf("column %q is %s, want %s", c.name, k, c.kind)
	}
	for g := range pf.NumRowGroups() {
		r, err := pf.RowGroup(g).Column(at)
		if err != nil {
			return err
		}
		if err := readChunk(r, of, row); err != nil {
			return fmt.Errorf("column %q: %w", c.name, err)
		}
	}
	return nil
}

// kindOf returns the kind of a column of a file. Of another type, it returns the type's name.
func kindOf(c *schema.Column) kind {
	if c.MaxRepetitionLevel() > 0 || c.MaxDefinitionLevel() > 1 {
		return "nested"
	}
	switch l := c.LogicalType().(type) {
	case schema.StringLogicalType:
		return text
	case *schema.TimestampLogicalType:
		if c.PhysicalType() == parquet.Types.Int64 {
			return timestamp
		}
	case *schema.IntLogicalType:
		if l.BitWidth() == 64 && l.IsSigned() {
			return integer
		}
	case schema.NoLogicalType, schema.UnknownLogicalType:
		switch c.PhysicalType() {
		case parquet.Types.Boolean:
			return boolean
		case parquet.Types.Int64:
			return integer
		case parquet.Types.Double:
			return float
		}
	}
	return kind(fmt.Sprintf("%s %s", c.PhysicalType(), c.LogicalType()))
}

// readChunk reads the values of a column in one group of rows.
func readChunk(r file.ColumnChunkReader, c *schema.Column, row func(set func(reflect.Value))) error {
	switch r := r.(type) {
	case *file.ByteArrayColumnChunkReader:
		return readValues(r, c, row, func(v reflect.Value, s parquet.ByteArray) { v.SetString(string(s)) }, func(reflect.Value) {})
	case *file.BooleanColumnChunkReader:
		return readValues(r, c, row, reflect.Value.SetBool, func(reflect.Value) {})
	case *file.Float64ColumnChunkReader:
		return readValues(r, c, row, reflect.Value.SetFloat, func(v reflect.Value) { v.SetFloat(math.NaN()) })
	case *file.Int64ColumnChunkReader:
		set := reflect.Value.SetInt
		if l, ok := c.LogicalType().(*schema.TimestampLogicalType); ok {
			set = func(v reflect.Value, x int64) { v.Set(reflect.ValueOf(instant(x, l.TimeUnit()))) }
		}
		return readValues(r, c, row, set, func(reflect.Value) {})
	}
	return fmt.Errorf("a reader of type %T", r)
}

// instant returns the time of a timestamp in UTC.
func instant(x int64, unit schema.TimeUnitType) time.Time {
	switch unit {
	case schema.TimeUnitNanos:
		return time.Unix(0, x).UTC()
	case schema.TimeUnitMicros:
		return time.UnixMicro(x).UTC()
	default:
		return time.UnixMilli(x).UTC()
	}
}

// valueReader is a reader of columns with values of type V.
type valueReader[V any] interface {
	HasNext() bool
	ReadBatch(batchSize int64, values []V, defLevels, repLevels []int16) (rows int64, read int, err error)
}

// readValues reads a column in batches. set sets a field to a value, null to null.
func readValues[V any](r valueReader[V], c *schema.Column, row func(func(reflect.Value)), set func(reflect.Value, V), null func(reflect.Value)) error {
	values, present := make([]V, batch), make([]int16, batch)
	for r.HasNext() {
		n, got, err := r.ReadBatch(batch, values, present, nil)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("ends early")
		}
		k := 0
		for i := range int(n) {
			if present[i] < c.MaxDefinitionLevel() {
				row(null)
				continue
			}
			if k == got {
				return fmt.Errorf("%d values in %d rows, although more are not null", got, n)
			}
			x := values[k]
			row(func(v reflect.Value) { set(v, x) })
			k++
		}
	}
	return nil
}
