package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"unsafe"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/grib/ccsds"
	"github.com/ensemble-weather/ensemble/io/grib/eccodes"
)

// messageBuffer holds the message that ecCodes reads. It is reused. Allocations of
// this size do not move in Go.
var messageBuffer []byte

// eachGrib calls do for every field of a batch, with its message in messageBuffer.
// Fields that cannot be read, or for which do fails, are passed to bad. It returns
// the number of fields.
func eachGrib(args json.RawMessage, do func(i int, ref grib.Ref) error, bad func(i int, why string)) (int, error) {
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
		messageBuffer, err = ref.Extract(messageBuffer, f)
		var system *fs.PathError
		if errors.As(err, &system) { // the disk or the network, not the bytes
			return 0, exit.ReadError(b.Path, err)
		}
		if err == nil {
			err = do(i, ref)
		}
		if exit.CodeOf(err) == exit.IO { // of this process, not of the field
			return 0, err
		}
		if err != nil {
			bad(i, err.Error())
		}
	}
	return len(b.Fields), nil
}

// gribDescribe returns names, units and times of fields.
func gribDescribe(args json.RawMessage, _ []byte, _ *wire.Payload) (any, error) {
	out := map[int]grib.Description{}
	n, err := eachGrib(args, func(i int, _ grib.Ref) error {
		m, err := eccodes.Open(messageBuffer)
		if err == nil {
			out[i] = m.Describe()
			m.Close()
		}
		return err
	}, func(i int, why string) { out[i] = grib.Description{Error: why} })
	if err != nil {
		return nil, err
	}
	list := make([]grib.Description, n)
	for i := range list {
		list[i] = out[i]
	}
	return list, nil
}

// gribValues decodes fields into the output payload.
func gribValues(args json.RawMessage, _ []byte, out *wire.Payload) (any, error) {
	var list []wire.Values
	put := func(d wire.Values) { list = append(list, d) }
	_, err := eachGrib(args, func(_ int, ref grib.Ref) error {
		n := ref.Points
		if n == 0 {
			var err error
			if n, err = countValues(); err != nil {
				return err
			}
		}
		at, b, err := out.Grow(4 * n)
		if err != nil {
			return err
		}
		if err := decodeValues(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n)); err != nil {
			return err
		}
		put(wire.Values{Offset: at, Count: n})
		return nil
	}, func(_ int, why string) { put(wire.Values{Error: why}) })
	return list, err
}

// countValues returns the number of values of the message in messageBuffer, from
// ecCodes.
func countValues() (int, error) {
	m, err := eccodes.Open(messageBuffer)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	n, err := m.Size()
	if err != nil || n > grib.MaxPoints {
		return 0, errors.New("the number of values is unknown")
	}
	return n, nil
}

// decodeValues decodes the message in messageBuffer. Simple packing and the
// packings that ecCodes lacks are decoded here, all others by ecCodes.
func decodeValues(dst []float32) error {
	if p, ok, err := grib.ParseSimplePacking(messageBuffer, len(dst)); err != nil {
		return err
	} else if ok {
		if err := ccsds.Unpack(dst[:p.Count], &p); err != nil {
			return err
		}
		return p.ApplyBitmap(dst)
	}
	if messageBuffer[7] == 2 {
		s, err := grib.ParseSections(messageBuffer)
		if err != nil {
			return err
		}
		if ok, err := grib.Unpack(messageBuffer, s, dst); ok || err != nil {
			return err
		}
	}
	m, err := eccodes.Open(messageBuffer)
	if err != nil {
		return err
	}
	defer m.Close()
	_, err = m.Values(dst)
	return err
}
