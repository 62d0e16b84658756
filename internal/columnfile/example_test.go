package columnfile_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/columnfile"
)

func Example() {
	type header struct {
		Variable string `json:"variable"`
		N        int    `json:"n"`
	}
	text, err := columnfile.Encode("example/1", header{"2t", 3}, columnfile.Append(nil, 271.5, 273, 275))
	if err != nil {
		panic(err)
	}
	var h header
	columns, err := columnfile.Decode(text, "example/1", &h)
	if err != nil {
		panic(err)
	}
	fmt.Println(h.Variable, columnfile.Next[float64](columns, h.N), columns.CheckEnd())
	// Output: 2t [271.5 273 275] <nil>
}
