// Package eccodes decodes and encodes GRIB messages with ecCodes, through cgo. Only
// ensemble-decode links it. One goroutine at a time may call it, because the
// ecCodes context and the error text are global.
package eccodes

// #cgo LDFLAGS: -leccodes
// #include <stdlib.h>
// #include "eccodes_ensemble.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/ensemble-weather/ensemble/io/grib"
)

func init() { C.ens_init() }

// Version returns the version of the linked library, such as "2.28.0".
func Version() string {
	v := int(C.codes_get_api_version())
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// Message is an open GRIB message with one field.
//
// Memory: the handle refers to the bytes that it was opened from. They must not
// move until Close.
type Message struct{ h *C.codes_handle }

// Open parses a message. data must not move or change until Close, so it must be C
// memory or a memory mapping.
//
// Errors: the error text of ecCodes.
// Source: ecCodes, C API: codes_handle_new_from_message.
func Open(data []byte) (Message, error) {
	if len(data) == 0 {
		return Message{}, fmt.Errorf("empty message")
	}
	h := C.ens_open(unsafe.Pointer(&data[0]), C.size_t(len(data)))
	if h == nil {
		return Message{}, fmt.Errorf("ecCodes does not recognise the message%s", libraryMessage())
	}
	return Message{h}, nil
}

// Close frees the message. It must be called once.
func (m Message) Close() { C.codes_handle_delete(m.h) }

// libraryMessage returns what ecCodes has logged since Open, with a leading ": ",
// or "".
func libraryMessage() string {
	if s := strings.TrimSpace(C.GoString(C.ens_complaint())); s != "" {
		return ": " + s
	}
	return ""
}

// codeError returns the error for a return code of ecCodes.
func codeError(code C.int) error {
	return fmt.Errorf("ecCodes: %s%s", C.GoString(C.codes_get_error_message(code)), libraryMessage())
}

// text returns a string key; "" if the message does not have it.
func (m Message) text(key string) string {
	k := C.CString(key)
	defer C.free(unsafe.Pointer(k))
	var buf [256]C.char
	n := C.size_t(len(buf))
	if C.codes_get_string(m.h, k, &buf[0], &n) != 0 {
		return ""
	}
	return C.GoString(&buf[0])
}

// long returns an integer key. ok is false if the message does not have it.
func (m Message) long(key string) (int64, bool) {
	k := C.CString(key)
	defer C.free(unsafe.Pointer(k))
	var v C.long
	if C.codes_get_long(m.h, k, &v) != 0 {
		return 0, false
	}
	return int64(v), true
}

// setText sets a string key and reports success.
func (m Message) setText(key, value string) bool {
	k, v := C.CString(key), C.CString(value)
	defer C.free(unsafe.Pointer(k))
	defer C.free(unsafe.Pointer(v))
	n := C.size_t(len(value))
	return C.codes_set_string(m.h, k, v, &n) == 0
}

// Describe returns names, unit, level and time of the message.
//
// Missing: keys that the message does not have stay zero.
func (m Message) Describe() grib.Description {
	d := grib.Description{
		Name: m.text("shortName"), LongName: m.text("name"), Unit: m.text("units"),
		LevelType: m.text("typeOfLevel"), DataType: m.text("dataType"), Stream: m.text("stream"),
		GridType: m.text("gridType"), Packing: m.text("packingType"), Statistic: m.text("stepType"),
	}
	level, _ := m.long("level")
	d.Level = float64(level)
	d.Date, _ = m.long("dataDate")
	hhmm, _ := m.long("dataTime")
	second, _ := m.long("second")
	d.Seconds = (hhmm/100)*3600 + (hhmm%100)*60 + second
	unit, _ := m.long("indicatorOfUnitOfTimeRange") // before stepUnits, which changes it
	d.StepUnit = int(unit)
	// Without stepUnits ecCodes returns steps in hours and rounds shorter ones.
	if m.setText("stepUnits", "s") {
		var a, b bool
		d.Start, a = m.long("startStep")
		d.End, b = m.long("endStep")
		d.StepKnown = a && b
	}
	// Edition 2 and most local definitions have perturbationNumber; MARS keys have
	// number.
	for _, key := range []string{"perturbationNumber", "number"} {
		if n, ok := m.long(key); ok {
			d.Number, d.NumberKnown = int(n), true
			break
		}
	}
	for _, key := range []string{"numberOfForecastsInEnsemble", "totalNumber"} {
		if n, ok := m.long(key); ok {
			d.EnsembleSize = int(n)
			break
		}
	}
	return d
}

// Values decodes the field into dst.
//
// Shape: dst [points], in storage order.
// Missing: NaN; missing is their number.
// Errors: a number of values other than len(dst), or values that are not finite.
func (m Message) Values(dst []float32) (missing int, err error) {
	if len(dst) == 0 {
		return 0, fmt.Errorf("no values expected")
	}
	var found, miss, inf C.size_t
	code := C.ens_values(m.h, C.size_t(len(dst)), (*C.float)(unsafe.Pointer(&dst[0])), &found, &miss, &inf)
	switch {
	case code != 0:
		return 0, codeError(code)
	case int(found) != len(dst):
		return 0, fmt.Errorf("the data hold %d values, the grid %d points", int(found), len(dst))
	case inf > 0:
		return 0, fmt.Errorf("%d of %d values are not finite", int(inf), len(dst))
	}
	return int(miss), nil
}

// Size returns the number of values.
func (m Message) Size() (int, error) {
	k := C.CString("values")
	defer C.free(unsafe.Pointer(k))
	var n C.size_t
	if code := C.codes_get_size(m.h, k, &n); code != 0 {
		return 0, codeError(code)
	}
	return int(n), nil
}
