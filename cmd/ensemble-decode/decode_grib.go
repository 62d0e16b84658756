package main

import (
	"encoding/json"
	"os"
	"unsafe"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/grib/eccodes"
)

// message is the buffer that ecCodes reads a message from. It is reused, and
// large enough allocations of Go do not move.
var message []byte

// eachGrib calls do with every field of a batch, open; a field that cannot be
// read or opened goes to bad.
func eachGrib(args json.RawMessage, do func(i int, ref grib.Ref, m eccodes.Message), bad func(i int, why string)) (int, error) {
	var b grib.Batch
	if err := json.Unmarshal(args, &b); err != nil {
		return 0, err
	}
	f, err := os.Open(b.Path)
	if err != nil {
		return 0, &exit.Error{Code: exit.NotYet, What: "file cannot be opened", At: b.Path, Why: err.Error(), Fix: "check name and permissions"}
	}
	defer f.Close()
	for i, ref := range b.Fields {
		if message, err = ref.Extract(message, f); err != nil {
			bad(i, err.Error())
			continue
		}
		m, err := eccodes.Open(message)
		if err != nil {
			bad(i, err.Error())
			continue
		}
		do(i, ref, m)
		m.Close()
	}
	return len(b.Fields), nil
}

// gribDescribe answers names, units and times of some fields.
func gribDescribe(args json.RawMessage, _ []byte, _ *wire.Payload) (any, error) {
	out := map[int]grib.Description{}
	n, err := eachGrib(args, func(i int, _ grib.Ref, m eccodes.Message) { out[i] = m.Describe() },
		func(i int, why string) { out[i] = grib.Description{Error: why} })
	if err != nil {
		return nil, err
	}
	list := make([]grib.Description, n)
	for i := range list {
		list[i] = out[i]
	}
	return list, nil
}

// gribValues decodes some fields into the output payload.
func gribValues(args json.RawMessage, _ []byte, out *wire.Payload) (any, error) {
	var list []wire.Values
	put := func(d wire.Values) { list = append(list, d) }
	_, err := eachGrib(args, func(_ int, ref grib.Ref, m eccodes.Message) {
		n := ref.Points
		if n == 0 {
			var err error
			if n, err = m.Size(); err != nil || n > grib.MaxPoints {
				put(wire.Values{Error: "the number of values is not known"})
				return
			}
		}
		at, b, err := out.Grow(4 * n)
		if err != nil {
			put(wire.Values{Error: err.Error()})
			return
		}
		if err := values(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n), m); err != nil {
			put(wire.Values{Error: err.Error()})
			return
		}
		put(wire.Values{At: at, Count: n})
	}, func(_ int, why string) { put(wire.Values{Error: why}) })
	return list, err
}

// values decodes the message at hand: ours first where ecCodes is not to be used.
func values(dst []float32, m eccodes.Message) error {
	if rare(message) {
		s, err := grib.Walk(message)
		if err != nil {
			return err
		}
		if ok, err := grib.Unpack(message, s, dst); ok || err != nil {
			return err
		}
	}
	_, err := m.Values(dst)
	return err
}

// rare says whether a message of edition 2 has a packing that grib.Unpack is for,
// by a walk along the section lengths.
func rare(message []byte) bool {
	if len(message) < 16 || message[7] != 2 {
		return false
	}
	for at := 16; at+11 <= len(message); {
		n := int(grib.Octets(message[at:]).U4(1))
		if message[at+4] == 5 {
			t := grib.Octets(message[at:]).U2(10)
			return t == 4 || t == 200
		}
		if n < 5 {
			return false
		}
		at += n
	}
	return false
}
