package product_test

import (
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product"
)

// The names of the files of one cycle.
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
