package eccodes

/*
#cgo LDFLAGS: -leccodes
#include <math.h>
#include <stdlib.h>
#include <eccodes.h>

// Stands for a missing point while values are packed; the bitmap, not this
// number, is what a reader goes by, so it only must not be a value.
#define ENS_MISSING 9.999e37

// ens_set_values packs n values, NaN being missing. ecCodes 2.28 takes doubles
// only; scratch has room for n of them.
static int ens_set_values(codes_handle *h, const float *x, double *scratch, size_t n) {
	size_t missing = 0;
	for (size_t i = 0; i < n; i++) {
		if (isnan(x[i])) {
			scratch[i] = ENS_MISSING;
			missing++;
		} else {
			scratch[i] = x[i];
		}
	}
	int err = codes_set_long(h, "bitmapPresent", missing > 0);
	if (err == 0) err = codes_set_double(h, "missingValue", ENS_MISSING);
	if (err == 0) err = codes_set_double_array(h, "values", scratch, n);
	return err;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"io"
	"math"
	"unsafe"

	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// Write encodes the messages of g in order and writes them to w, their numbers
// from payload.
//
// Errors: those of w; a key that the library refuses, with the name and the
// position of the message; a packing that the library silently replaced.
func Write(w io.Writer, g *encode.GRIB, payload []byte) error {
	bases := make([]*C.codes_handle, len(g.Bases))
	defer func() {
		for _, h := range bases {
			if h != nil {
				C.codes_handle_delete(h)
			}
		}
	}()
	for i, b := range g.Bases {
		var err error
		if bases[i], err = newBase(b, payload); err != nil {
			return fmt.Errorf("base %d: %w", i, err)
		}
	}
	var scratch []float64
	for i, m := range g.Messages {
		if m.Base < 0 || m.Base >= len(bases) {
			return fmt.Errorf("message %d: no base %d", i+1, m.Base)
		}
		b, err := m.Values.In(payload)
		if err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
		n := len(b) / 4
		if n == 0 || len(b)%4 != 0 || m.Values.Offset%4 != 0 {
			return fmt.Errorf("message %d: %d bytes at %d are not values", i+1, len(b), m.Values.Offset)
		}
		if n > len(scratch) {
			scratch = make([]float64, n)
		}
		values := unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n)
		if err := writeMessage(w, bases[m.Base], m, values, scratch); err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	return nil
}

// newBase makes the handle that messages are cloned from.
func newBase(b encode.Base, payload []byte) (*C.codes_handle, error) {
	var h *C.codes_handle
	if b.Template.Length > 0 {
		bytes, err := b.Template.In(payload)
		if err != nil {
			return nil, err
		}
		// The copy makes the handle independent of the payload.
		if h = C.codes_handle_new_from_message_copy(nil, unsafe.Pointer(&bytes[0]), C.size_t(len(bytes))); h == nil {
			return nil, errors.New("the template is not a message that ecCodes can read")
		}
	} else {
		name := C.CString(b.Sample)
		defer C.free(unsafe.Pointer(name))
		if h = C.codes_handle_new_from_samples(nil, name); h == nil {
			return nil, fmt.Errorf("ecCodes has no sample %s", b.Sample)
		}
	}
	err := expect(h, b.Expect)
	if err == nil {
		err = setKeys(h, b.Keys)
	}
	if err != nil {
		C.codes_handle_delete(h)
		return nil, err
	}
	return h, nil
}

// expect compares keys with what they must be.
func expect(h *C.codes_handle, keys []encode.Key) error {
	for _, k := range keys {
		if got, err := getLong(h, k.Name); err != nil {
			return err
		} else if got != *k.Long {
			return fmt.Errorf("the template has %s = %d, the product %d", k.Name, got, *k.Long)
		}
	}
	return nil
}

// writeMessage encodes one field into a clone of base and writes it.
func writeMessage(w io.Writer, base *C.codes_handle, m encode.Message, values []float32, scratch []float64) error {
	h := C.codes_handle_clone(base)
	if h == nil {
		return errors.New("ecCodes cannot clone the base")
	}
	defer C.codes_handle_delete(h)
	if err := setKeys(h, m.Keys); err != nil {
		return err
	}
	points, err := getLong(h, "numberOfPoints")
	if err != nil {
		return err
	}
	if points != int64(len(values)) {
		return fmt.Errorf("the grid has %d points, the field %d", points, len(values))
	}
	if err := setKey(h, encode.TextKey("packingType", m.Packing)); err != nil {
		return err
	}
	if err := setKey(h, encode.LongKey("bitsPerValue", int64(m.Bits))); err != nil {
		return err
	}
	code := C.ens_set_values(h, (*C.float)(&values[0]), (*C.double)(&scratch[0]), C.size_t(len(values)))
	if code != 0 {
		return fmt.Errorf("values: %s", message(code))
	}
	// ecCodes falls back to simple packing where it cannot do what was asked, and
	// says nothing. For a constant field, which has no packed values, that is well.
	packing, err := getText(h, "packingType")
	if err != nil {
		return err
	}
	if packing != m.Packing && !constant(values) {
		return fmt.Errorf("packing %s was asked for, ecCodes made it %s", m.Packing, packing)
	}
	var bytes unsafe.Pointer
	var size C.size_t
	if code := C.codes_get_message(h, &bytes, &size); code != 0 {
		return fmt.Errorf("encoded message: %s", message(code))
	}
	_, err = w.Write(unsafe.Slice((*byte)(bytes), int(size)))
	return err
}

// constant says whether all values that are there are equal.
func constant(values []float32) bool {
	first, seen := float32(0), false
	for _, v := range values {
		if math.IsNaN(float64(v)) {
			continue
		}
		if seen && v != first {
			return false
		}
		first, seen = v, true
	}
	return true
}

func setKeys(h *C.codes_handle, keys []encode.Key) error {
	for _, k := range keys {
		if k.OnlyIf != nil {
			// A key that the message does not have does not hold either.
			if v, err := getText(h, k.OnlyIf.Key); err != nil || v != k.OnlyIf.Text {
				continue
			}
		}
		if err := setKey(h, k); err != nil {
			return err
		}
	}
	return nil
}

func setKey(h *C.codes_handle, k encode.Key) error {
	name := append([]byte(k.Name), 0)
	cname := (*C.char)(unsafe.Pointer(&name[0]))
	var code C.int
	var shown any
	switch {
	case k.Long != nil:
		code, shown = C.codes_set_long(h, cname, C.long(*k.Long)), *k.Long
	case k.Float != nil:
		code, shown = C.codes_set_double(h, cname, C.double(*k.Float)), *k.Float
	default:
		text := append([]byte(k.Text), 0)
		n := C.size_t(len(text))
		code, shown = C.codes_set_string(h, cname, (*C.char)(unsafe.Pointer(&text[0])), &n), k.Text
	}
	if code != 0 {
		return fmt.Errorf("key %s = %v: %s", k.Name, shown, message(code))
	}
	return nil
}

func getLong(h *C.codes_handle, key string) (int64, error) {
	name := append([]byte(key), 0)
	var v C.long
	if code := C.codes_get_long(h, (*C.char)(unsafe.Pointer(&name[0])), &v); code != 0 {
		return 0, fmt.Errorf("key %s: %s", key, message(code))
	}
	return int64(v), nil
}

func getText(h *C.codes_handle, key string) (string, error) {
	name := append([]byte(key), 0)
	var buf [256]byte
	n := C.size_t(len(buf))
	if code := C.codes_get_string(h, (*C.char)(unsafe.Pointer(&name[0])), (*C.char)(unsafe.Pointer(&buf[0])), &n); code != 0 {
		return "", fmt.Errorf("key %s: %s", key, message(code))
	}
	return C.GoString((*C.char)(unsafe.Pointer(&buf[0]))), nil
}

// message is ecCodes' text for a return code.
func message(code C.int) string { return C.GoString(C.codes_get_error_message(code)) }
