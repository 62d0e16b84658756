package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// WriteCSV writes a table as comma-separated values: one line of names, then the
// rows. The file is replaced atomically.
//
// Columns are those of Write, so a table has the same names in both formats. Cells with commas
// or quotes are quoted.
//
// Unit: none; units are in names of columns, such as lead_h.
// Missing: NaN and zero times are empty. Times are RFC 3339.
// Errors: as Write.
// Source: RFC 4180, with newlines in place of CR LF; RFC 3339.
func WriteCSV[T any](path string, rows []T) error {
	cols, err := columns(reflect.TypeFor[T]())
	if err != nil {
		return err
	}
	err = atomicfile.Write(path, func(w io.Writer) error {
		out := csv.NewWriter(w)
		cells := make([]string, len(cols))
		for k, c := range cols {
			cells[k] = c.name
		}
		if err := out.Write(cells); err != nil {
			return err
		}
		for i := range rows {
			v := reflect.ValueOf(&rows[i]).Elem()
			for k, c := range cols {
				cells[k] = cellText(v.FieldByIndex(c.index))
			}
			if err := out.Write(cells); err != nil {
				return err
			}
		}
		out.Flush()
		return out.Error()
	})
	return exit.CreateError(path, err)
}

// cellText formats one value. Floats have the fewest digits that identify them as
// float64.
func cellText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Time:
		if x.IsZero() {
			return ""
		}
		return x.UTC().Format(time.RFC3339)
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if math.IsNaN(v.Float()) {
			return ""
		}
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}
