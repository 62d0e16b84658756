package predict

import (
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Fields of one lead over two intervals share no NetCDF file; instants, other leads and GRIB2 do not matter.
func TestCheckPeriods(t *testing.T) {
	day, two := ensemble.Lead(24*time.Hour), ensemble.Lead(48*time.Hour)
	rain := product.Field{Variable: "tp", Lead: day, Period: 6 * time.Hour, Method: "sum"}
	warmest := product.Field{Variable: "2t", Lead: day, Period: 24 * time.Hour, Method: "maximum"}
	later := warmest
	later.Lead = two
	for _, c := range []struct {
		fields  []product.Field
		format  string
		refused bool
	}{
		{[]product.Field{rain, warmest}, "netcdf", true},
		{[]product.Field{rain, warmest}, "zarr", true},
		{[]product.Field{rain, warmest}, "grib2", false},
		{[]product.Field{rain, rain, {Variable: "2t", Lead: day}}, "netcdf", false},
		{[]product.Field{rain, later}, "netcdf", false},
		{[]product.Field{{Variable: "tp", Lead: day}}, "netcdf", false},
	} {
		var p config.Publishing
		p.Output.Formats = []string{c.format}
		err := (&productChoice{fields: c.fields}).checkPeriods(p)
		if c.refused != (err != nil) || c.refused && (exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "--variables tp and --variables 2t")) {
			t.Errorf("%s of %v: %v", c.format, c.fields, err)
		}
	}
	for _, f := range []product.Field{{Variable: "tp", Lead: day}, {Variable: "2t", Lead: day, Method: "mean"}} {
		var p config.Publishing
		p.Output.Formats = []string{"grib2"}
		if err := (&productChoice{fields: []product.Field{f}, model: &model.Model{}}).checkPeriods(p); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "without its interval") {
			t.Errorf("%s without its interval: %v", f.Variable, err)
		}
	}
}
