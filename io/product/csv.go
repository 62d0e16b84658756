package product

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// csvHeader lists the columns of a table of stations.
var csvHeader = []string{"station_id", "station_name", "latitude", "longitude", "altitude_m", "init", "lead_h", "valid", "variable", "level", "statistic", "value", "unit", "members_used"}

// WriteCSV writes a product at stations as CSV, one line per station and field.
//
// Unit: SI, in each line.
// Missing: an empty value.
// Errors: exit 70 for a product on a grid; 73 and 74.
func WriteCSV(path string, p *Product) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.Locations == nil {
		return layoutError(path, fmt.Errorf("CSV requires stations"))
	}
	var b bytes.Buffer
	if err := p.writeCSV(&b); err != nil {
		return err
	}
	return exit.CreateError(path, atomicfile.WriteFile(path, b.Bytes()))
}

// writeCSV writes the rows. They are sorted as the fields of other formats (compare),
// then by station. Numbers have the fewest digits that identify their float32 or
// float64.
//
// Source: RFC 4180, with newlines in place of CR LF.
func (p *Product) writeCSV(to io.Writer) error {
	w := csv.NewWriter(to)
	rows := [][]string{csvHeader}
	number := func(v float64) string {
		if v != v {
			return ""
		}
		return decimal(v)
	}
	for _, f := range slices.SortedFunc(slices.Values(p.Fields), compare) {
		s, _ := statisticOf(f.Kind)
		for i, at := range p.Locations {
			value := ""
			if v := f.Values[i]; v == v {
				value = strconv.FormatFloat(float64(v), 'g', -1, 32)
			}
			rows = append(rows, []string{at.ID, at.Name, decimal(at.Lat), decimal(at.Lon), number(at.Altitude),
				p.Init.UTC().Format(time.RFC3339), decimal(f.Lead.Hours()), p.Init.Valid(f.Lead).UTC().Format(time.RFC3339),
				f.Variable, f.Level.String(), f.Statistic(), value, f.unit(s, f.variable()), strconv.Itoa(p.members(f))})
		}
	}
	return w.WriteAll(rows)
}
