package eccodes_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/io/grib/eccodes"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// Encodes a message from a sample of ecCodes, and reads its names.
func ExampleOpen() {
	const points = 16 * 31 // of the sample
	var payload []byte
	for i := range points {
		payload = binary.LittleEndian.AppendUint32(payload, math.Float32bits(270+float32(i)/100))
	}
	var file bytes.Buffer
	err := eccodes.Write(&file, &encode.GRIB{
		Bases: []encode.Base{{Sample: "regular_ll_pl_grib2"}},
		Messages: []encode.Message{{Keys: []encode.Key{encode.TextKey("shortName", "t"), encode.LongKey("level", 850)},
			Values: encode.Block{Length: len(payload)}, Packing: "grid_simple", Bits: 16}},
	}, payload)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := eccodes.Open(file.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	d := m.Describe()
	n, err := m.Size()
	fmt.Println(d.Name, d.Unit, d.LevelType, d.Level, d.Packing, n, err)
	// Output: t K isobaricInhPa 850 grid_simple 496 <nil>
}
