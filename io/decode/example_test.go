package decode_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/io/decode"
)

// Print the versions of the libraries that decoding children link. Two children run at most, each with 2 GiB.
func ExamplePool_Libraries() {
	p, err := decode.NewPool(decode.Options{Children: 2, Memory: 2 << 30})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	versions, err := p.Libraries(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ecCodes", versions["eccodes"], "netCDF-C", versions["netcdf"])
}
