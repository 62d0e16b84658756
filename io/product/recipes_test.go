package product_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testnetcdf"
	"github.com/ensemble-weather/ensemble/io/product"
)

// recipe writes a script of docs/netcdf.md to a folder, runs it there with R, and returns what it printed.
func recipe(t *testing.T, dir, name string) string {
	t.Helper()
	r := tool(t, "Rscript")
	page, err := os.ReadFile("../../docs/netcdf.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)\ncat > ` + regexp.QuoteMeta(name) + ` <<'END'\n(.*?\n)END\n`).FindSubmatch(page)
	if m == nil {
		t.Fatalf("docs/netcdf.md has no script %s", name)
	}
	if err := os.WriteFile(filepath.Join(dir, name), m[1], 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(r, name)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "there is no package called") {
		t.Skip("skipped: R has no package ncdf4")
	}
	if err != nil || strings.Contains(string(out), "Warning") {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// TestRecipeOfRWrites: what R writes by the recipe has the fields of the file from which R took them, with name, unit, lead,
// members and initialisations.
func TestRecipeOfRWrites(t *testing.T) {
	const inits, members, ny, nx = 3, 4, 5, 6
	dir := t.TempDir()
	values := testnetcdf.Range(0, 0.5, inits*members*ny*nx)
	testnetcdf.Write(t, filepath.Join(dir, "forecasts.nc"), append(testnetcdf.Coordinates(inits, ny, nx, 24), testnetcdf.Variable{
		Name: "T2M_ens", Dimensions: []string{"init:3", "member:4", "lat:5", "lon:6"}, Attributes: map[string]string{"units": "degC"}, Values: values,
	})...)
	recipe(t, dir, "names.R")
	got := readBack(t, filepath.Join(dir, "own.nc"))
	if len(got) != inits*members {
		t.Errorf("%d fields, want %d", len(got), inits*members)
	}
	for i := range inits {
		for m := range members {
			k := ensemble.Key{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Member: ensemble.Member(m + 1),
				Init: ensemble.Init{Time: time.Date(2024, 1, 1+i, 0, 0, 0, 0, time.UTC)}, Lead: ensemble.Lead(24 * time.Hour)}
			f := got[k]
			if f == nil || f.Unit != "K" {
				t.Fatalf("no field %s in K: %v", k, f)
			}
			at := (i*members + m) * ny * nx
			for p, x := range f.Values {
				if want := 273.15 + values[at+p]; !near(float64(x), want) {
					t.Fatalf("%s at point %d is %g, want %g", k, p, x, want)
				}
			}
		}
	}
}

// TestRecipeOfRReads: R finds initialisation, lead, name, unit, axes and values of a product.
func TestRecipeOfRReads(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "products", "2026010100")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := product.WriteNetCDF(context.Background(), encoder(t), filepath.Join(folder, "2026010100_048h.nc"), testProduct(globe(orders[0].src)), product.Options{}); err != nil {
		t.Fatal(err)
	}
	const want = "2026-01-01T00:00Z + 48 h\n2 metre temperature, post-processed ensemble mean in K \npoints 36 13 from 280 330.6902 \n"
	if got := recipe(t, dir, "products.R"); got != want {
		t.Errorf("R printed\n%s\nwant\n%s", got, want)
	}
}
