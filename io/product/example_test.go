package product_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// File names of one initialisation.
func ExampleGRIB2Name() {
	init := ensemble.InitAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	lead := ensemble.Lead(48 * time.Hour)
	fmt.Println(product.InitDir("products", init))
	fmt.Println(product.NetCDFName(init, lead))
	fmt.Println(product.GRIB2Name(init, product.Field{Variable: "t", Lead: lead, Kind: product.Spread}))
	// Output:
	// products/2026010100
	// 2026010100_048h.nc
	// 2026010100_048h_t_spread.grib2
}

// Writes a mean field as a Zarr store, which needs no encoding process.
func ExampleWriteZarr() {
	dir, err := os.MkdirTemp("", "product-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	grid := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 2, NY: 2, Lat: []float64{50, 40}, Lon: []float64{0, 10}}
	p := &product.Product{
		Init: ensemble.InitAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), Grid: grid,
		Fields: []product.Field{{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Lead: ensemble.Lead(24 * time.Hour),
			Kind: product.Mean, Members: 10, Values: []float32{270, 271, 272, 273}}},
	}
	path := filepath.Join(dir, product.ZarrName(p.Init, p.Fields[0].Lead, product.Zarr))
	if err := product.WriteZarr(path, p, 2, product.Options{}); err != nil {
		fmt.Println(err)
		return
	}
	s, err := zarr.Open(path, zarr.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	for _, a := range s.Arrays {
		if len(a.Dims) > 1 {
			fmt.Println(filepath.Base(path), a.Path, a.Dims)
		}
	}
	// Output: 2026010100_024h.zarr t2m_mean [time latitude longitude]
}

// Parses a manifest.
func ExampleParseManifest() {
	m, err := product.ParseManifest([]byte(`{
  "schema": "ensemble.product/1",
  "checksum": "sha256:8668f6145d0b542bfd47d4381341c821e0a77f718a87470beef0fbd01000518d",
  "status": "degraded", "init": "2026-01-01T00:00:00Z",
  "members_used": [0, 1, 2], "members_expected": 4,
  "outputs": [{"path": "2026010100_024h.zarr/.zattrs"}, {"path": "2026010100_024h.nc"}]
}`), "manifest.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Init, m.Status, len(m.MembersUsed), "of", m.MembersExpected, m.TopLevelOutputs())
	// Output: 2026-01-01T00:00:00Z degraded 3 of 4 [2026010100_024h.zarr 2026010100_024h.nc]
}
