package product_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Neighbourhood probabilities are separate arrays, which our reader does not
// confuse with point probabilities. GRIB2 cannot encode them.
func TestNeighbourhoods(t *testing.T) {
	p := calibrated(globe(orders[1].src))
	points := len(p.Fields)
	for _, f := range p.Fields[:points] {
		if f.Kind != product.Probability {
			continue
		}
		for _, kind := range []product.Kind{product.Neighbourhood, product.NeighbourhoodAny} {
			for _, r := range []float64{50e3, 2500} {
				f.Kind, f.Radius, f.Incomplete = kind, r, 7
				p.Fields = append(p.Fields, f)
			}
		}
	}
	for _, o := range []struct {
		product.Options
		names []string
	}{
		{product.Options{}, []string{"neighbourhood_probability_of_t2m_below_threshold_50km", "neighbourhood_probability_of_t2m_above_threshold_2p5km",
			"probability_of_t2m_between_thresholds_within_50km", "probability_of_t2m_above_threshold_within_2p5km"}},
		{product.Options{Profile: product.CDOProfile}, []string{"neighbourhood_probability_of_t2m_below_273p15_50km", "probability_of_t2m_below_273p15_within_2p5km"}},
	} {
		path := writeNetCDF(t, p, o.Options)
		in, err := fio.Open(context.Background(), []string{path}, fio.Options{Pool: encoder(t)})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(in.Catalogue().Entries); n != points {
			t.Errorf("%d fields of points, want %d", n, points)
		}
		var unused []string
		for _, u := range in.Catalogue().Unused {
			unused = append(unused, u.Name)
			if !strings.Contains(u.Reason, "neighbourhoods of points") {
				t.Errorf("%s is unused as %s", u.Name, u.Reason)
			}
		}
		in.Close()
		for _, name := range o.names {
			if !slices.Contains(unused, name) {
				t.Errorf("no %s among %v", name, unused)
			}
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range []string{"area: mean (of points within 50 km)", "area: maximum (of points within 2.5 km)", "neighbourhood_points_incomplete"} {
			if !bytes.Contains(file, []byte(words)) {
				t.Errorf("the file does not say %q", words)
			}
		}
	}
	last := p.Fields[len(p.Fields)-1]
	one := p.Select(func(f product.Field) bool { return f.Statistic() == last.Statistic() })
	err := product.WriteGRIB2(context.Background(), encoder(t), filepath.Join(t.TempDir(), "a.grib2"), one, product.Options{})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "neighbourhood") {
		t.Errorf("GRIB2: %v", err)
	}
	p.Fields[len(p.Fields)-1].Radius = 0
	if err := product.WriteNetCDF(context.Background(), encoder(t), filepath.Join(t.TempDir(), "a.nc"), p, product.Options{}); exit.CodeOf(err) != exit.Bug {
		t.Errorf("without a radius: %v", err)
	}
}
