package wire_test

import (
	"bytes"
	"fmt"

	"github.com/ensemble-weather/ensemble/io/decode/wire"
)

func ExampleReadFrame() {
	var pipe bytes.Buffer
	if err := wire.WriteFrame(&pipe, wire.Request{ID: 1, Kind: "versions", CPUSeconds: 5}); err != nil {
		fmt.Println(err)
		return
	}
	var r wire.Request
	if err := wire.ReadFrame(&pipe, &r); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.ID, r.Kind, r.CPUSeconds)
	fmt.Println(wire.ReadFrame(&pipe, &r))
	// Output:
	// 1 versions 5
	// EOF
}
