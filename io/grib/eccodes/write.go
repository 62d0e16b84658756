package eccodes

/*
#cgo LDFLAGS: -leccodes
#include <math.h>
#include <stdlib.h>
#include <eccodes.h>

// ens_set_values packs n values, NaN being missing. ecCodes 2.28 takes doubles
// only; scratch has room for n of them.
static int ens_set_values(codes_handle *h, const float *x, double *scratch, size_t n, double missing) {
	for (size_t i = 0; i < n; i++) scratch[i] = isnan(x[i]) ? missing : x[i];
	return codes_set_double_array(h, "values", scratch, n);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// missingValue marks a missing point while values are packed. Readers use the
// bitmap, so any number works that is not a value.
const missingValue = 9.999e37

// Write encodes the messages of g in order and writes them to w. payload holds the
// values.
//
// Messages with the same base and the same keys share a handle; only keys that
// differ are set again.
//
// Errors: those of w; a key that ecCodes rejects, with its name and the number of the
// message; a packing that ecCodes replaced silently.
// Cost: setting a key takes up to 0.1 ms, because ecCodes recomputes the layout of the
// message.
// Source: ecCodes, C API: codes_set_*; FM 92 GRIB2 for the meaning of keys (package
// product).
func Write(w io.Writer, g *encode.GRIB, payload []byte) error {
	bases := make([]*writer, len(g.Bases))
	defer func() {
		for _, b := range bases {
			if b != nil {
				b.close()
			}
		}
	}()
	for i, b := range g.Bases {
		h, err := newBase(b, payload)
		if err != nil && b.Template.Length > 0 {
			return &TemplateError{err}
		}
		if err != nil {
			return fmt.Errorf("sample %s: %w", b.Sample, err)
		}
		bases[i] = &writer{base: h}
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
		if err := bases[m.Base].write(w, m, values, scratch); err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	return nil
}

// TemplateError reports that the template message cannot be converted to the
// requested product. The cause is the input, or its combination with the product.
type TemplateError struct{ Err error }

// Error returns the cause.
func (e *TemplateError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TemplateError) Unwrap() error { return e.Err }

// writer encodes the messages of one base.
type writer struct {
	base *C.codes_handle
	open *C.codes_handle // clone of base with the keys of the last message; nil if none is open
	last []encode.Key    // keys of the last message
}

// close frees both handles.
func (b *writer) close() {
	b.discard()
	C.codes_handle_delete(b.base)
}

// discard frees the clone.
func (b *writer) discard() {
	if b.open != nil {
		C.codes_handle_delete(b.open)
		b.open = nil
	}
}

// prepare makes b.open a clone of the base with these keys set, in order. It reuses
// the open clone if that has the same keys.
func (b *writer) prepare(keys []encode.Key) error {
	if b.open != nil && !sameNames(b.last, keys) {
		b.discard()
	}
	if b.open == nil {
		if b.open = C.codes_handle_clone(b.base); b.open == nil {
			return errors.New("ecCodes cannot clone the base")
		}
		b.last = nil
	}
	for i, k := range keys {
		if b.last != nil && sameValue(b.last[i], k) {
			continue
		}
		if err := setKeys(b.open, keys[i:i+1]); err != nil {
			return err
		}
	}
	b.last = keys
	return nil
}

// sameNames reports whether two lists set the same keys in the same order.
func sameNames(a, b []encode.Key) bool {
	return slices.EqualFunc(a, b, func(a, b encode.Key) bool { return a.Name == b.Name })
}

// sameValue reports whether two keys set the same value without a condition.
func sameValue(a, b encode.Key) bool {
	same := func(a, b bool) bool { return a == b }
	if !same(a.Long == nil, b.Long == nil) || !same(a.Float == nil, b.Float == nil) || a.OnlyIf != nil || b.OnlyIf != nil {
		return false
	}
	return (a.Long == nil || *a.Long == *b.Long) && (a.Float == nil || *a.Float == *b.Float) && a.Text == b.Text && a.Missing == b.Missing
}

// newBase makes the handle that messages are cloned from: a copy of the template,
// or a sample of ecCodes.
//
// Errors: *TemplateError from the caller if there is a template; a sample that
// ecCodes does not have.
func newBase(b encode.Base, payload []byte) (*C.codes_handle, error) {
	var h *C.codes_handle
	if b.Template.Length > 0 {
		bytes, err := b.Template.In(payload)
		if err != nil {
			return nil, err
		}
		// The copy makes the handle independent of the payload.
		if h = C.codes_handle_new_from_message_copy(nil, unsafe.Pointer(&bytes[0]), C.size_t(len(bytes))); h == nil {
			return nil, errors.New("ecCodes cannot read the template message")
		}
	} else {
		name := C.CString(b.Sample)
		defer C.free(unsafe.Pointer(name))
		if h = C.codes_handle_new_from_samples(nil, name); h == nil {
			return nil, fmt.Errorf("ecCodes has no sample %s", b.Sample)
		}
	}
	err := checkKeys(h, b.Required)
	if err == nil {
		kept := saveKeys(h, b.Preserve)
		if err = setKeys(h, b.Keys); err == nil {
			err = kept.restore(h)
		}
	}
	if err != nil {
		C.codes_handle_delete(h)
		return nil, err
	}
	return h, nil
}

// savedKeys holds integer keys of a message; a nil value is a missing one.
type savedKeys struct {
	names  []string
	values []*int64
}

// saveKeys reads integer keys that setting other keys might change. Keys that the
// message does not have are skipped.
func saveKeys(h *C.codes_handle, names []string) savedKeys {
	var k savedKeys
	for _, name := range names {
		cname := append([]byte(name), 0)
		v, err := getLong(h, name)
		if err != nil {
			continue
		}
		var value *int64
		var code C.int
		if missing := C.codes_is_missing(h, (*C.char)(unsafe.Pointer(&cname[0])), &code); code == 0 && missing == 0 {
			value = &v
		}
		k.names, k.values = append(k.names, name), append(k.values, value)
	}
	return k
}

// restore sets the saved keys again.
func (k savedKeys) restore(h *C.codes_handle) error {
	for i, name := range k.names {
		key := encode.MissingKey(name)
		if k.values[i] != nil {
			key = encode.LongKey(name, *k.values[i])
		}
		if err := setKey(h, key); err != nil {
			return err
		}
	}
	return nil
}

// checkKeys compares integer keys with their required values.
func checkKeys(h *C.codes_handle, keys []encode.Key) error {
	for _, k := range keys {
		if got, err := getLong(h, k.Name); err != nil {
			return err
		} else if got != *k.Long {
			return fmt.Errorf("the template has %s = %d, the product needs %d", k.Name, got, *k.Long)
		}
	}
	return nil
}

// write encodes one field and writes the message to w. scratch has room for all
// values as doubles.
func (b *writer) write(w io.Writer, m encode.Message, values []float32, scratch []float64) error {
	// Read from the base: setting the packing of a sample resets the number of
	// points to that of its old values.
	points, err := getLong(b.base, "numberOfPoints")
	if err != nil {
		return err
	}
	if points != int64(len(values)) {
		return fmt.Errorf("the grid has %d points, the field %d", points, len(values))
	}
	// A bitmap costs one bit per point, so it is written only if a value is
	// missing.
	missing := slices.ContainsFunc(values, func(v float32) bool { return v != v })
	bitmap := encode.LongKey("bitmapPresent", 0)
	if missing {
		bitmap = encode.LongKey("bitmapPresent", 1)
	}
	keys := append(slices.Clone(m.Keys), encode.TextKey("packingType", m.Packing), encode.LongKey("bitsPerValue", int64(m.Bits)),
		bitmap, encode.FloatKey("missingValue", missingValue))
	if err := b.prepare(keys); err != nil {
		return err
	}
	h := b.open
	code := C.ens_set_values(h, (*C.float)(&values[0]), (*C.double)(&scratch[0]), C.size_t(len(values)), C.double(missingValue))
	if code != 0 {
		return fmt.Errorf("values: %s", errorText(code))
	}
	// ecCodes silently falls back to simple packing if it cannot encode the
	// requested one. A constant field has no packed values, so its packing does not
	// matter.
	packing, err := getText(h, "packingType")
	if err != nil {
		return err
	}
	flat := isConstant(values)
	if packing != m.Packing && !flat {
		return fmt.Errorf("ecCodes encoded packing %s instead of %s", packing, m.Packing)
	}
	var bytes unsafe.Pointer
	var size C.size_t
	if code := C.codes_get_message(h, &bytes, &size); code != 0 {
		return fmt.Errorf("encoded message: %s", errorText(code))
	}
	if _, err := w.Write(unsafe.Slice((*byte)(bytes), int(size))); err != nil {
		return err
	}
	if flat {
		b.discard() // its bitsPerValue is 0 now
	}
	return nil
}

// isConstant reports whether all values except missing ones are equal.
func isConstant(values []float32) bool {
	first, seen := float32(0), false
	for _, v := range values {
		if v != v {
			continue
		}
		if seen && v != first {
			return false
		}
		first, seen = v, true
	}
	return true
}

// setKeys sets keys in order. A key with a condition is skipped unless the
// condition holds.
func setKeys(h *C.codes_handle, keys []encode.Key) error {
	for _, k := range keys {
		if k.OnlyIf != nil {
			// A message without the key does not satisfy the condition.
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

// setKey sets one key. An unknown key is an error unless SkipUnknown.
func setKey(h *C.codes_handle, k encode.Key) error {
	name := append([]byte(k.Name), 0)
	cname := (*C.char)(unsafe.Pointer(&name[0]))
	var code C.int
	var shown any
	switch {
	case k.Missing:
		code, shown = C.codes_set_missing(h, cname), "missing"
	case k.Long != nil:
		code, shown = C.codes_set_long(h, cname, C.long(*k.Long)), *k.Long
	case k.Float != nil:
		code, shown = C.codes_set_double(h, cname, C.double(*k.Float)), *k.Float
	default:
		text := append([]byte(k.Text), 0)
		n := C.size_t(len(text))
		code, shown = C.codes_set_string(h, cname, (*C.char)(unsafe.Pointer(&text[0])), &n), k.Text
	}
	if code != 0 && !(k.SkipUnknown && code == C.CODES_NOT_FOUND) {
		return fmt.Errorf("key %s = %v: %s", k.Name, shown, errorText(code))
	}
	return nil
}

// getLong returns an integer key.
func getLong(h *C.codes_handle, key string) (int64, error) {
	name := append([]byte(key), 0)
	var v C.long
	if code := C.codes_get_long(h, (*C.char)(unsafe.Pointer(&name[0])), &v); code != 0 {
		return 0, fmt.Errorf("key %s: %s", key, errorText(code))
	}
	return int64(v), nil
}

// getText returns a string key.
func getText(h *C.codes_handle, key string) (string, error) {
	name := append([]byte(key), 0)
	var buf [256]byte
	n := C.size_t(len(buf))
	if code := C.codes_get_string(h, (*C.char)(unsafe.Pointer(&name[0])), (*C.char)(unsafe.Pointer(&buf[0])), &n); code != 0 {
		return "", fmt.Errorf("key %s: %s", key, errorText(code))
	}
	return C.GoString((*C.char)(unsafe.Pointer(&buf[0]))), nil
}

// errorText returns the text of an ecCodes return code.
func errorText(code C.int) string { return C.GoString(C.codes_get_error_message(code)) }
