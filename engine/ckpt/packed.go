package ckpt

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A packed tensor stores a tensor with many zeros as two tensors: name#bitmap and name#values. The
// bitmap has one bit for each element, eight to a byte, the lowest bit first. A bit is set if the
// element is not 0. The values are these elements in order. The metadata have the shape under
// "shape of name". Readers in this package unpack such tensors.
const (
	bitmapSuffix  = "#bitmap"
	valuesSuffix  = "#values"
	shapeMetadata = "shape of " // followed by the name of the tensor
)

// WritePacked writes a file as WriteFile does, and packs each F32 tensor for which this saves
// space. A file without packed tensors is identical to that of WriteFile.
//
// The condition is (n+7)/8 + 4·nonzeros < 4·n bytes: more than about 3 % of zeros. Other element
// types are never packed.
//
// Errors: as WriteFile.
func WritePacked(path string, tensors []Tensor) error {
	var out []Tensor
	var metadata map[string]string
	for _, t := range tensors {
		x, ok := t.Data.([]float32)
		bitmap, values := pack(x)
		if !ok || len(bitmap)+4*len(values) >= 4*len(x) {
			out = append(out, t)
			continue
		}
		shape, err := json.Marshal(t.Shape)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[shapeMetadata+t.Name] = string(shape)
		out = append(out, Tensor{t.Name + bitmapSuffix, []int{len(bitmap)}, bitmap}, Tensor{t.Name + valuesSuffix, []int{len(values)}, values})
	}
	return WriteFile(path, out, metadata)
}

// pack splits elements into their bitmap and the elements that are not 0. −0 counts as not 0, so
// that unpacking restores its bits. NaN is not 0 either.
func pack(x []float32) (bitmap []uint8, values []float32) {
	bitmap = make([]uint8, (len(x)+7)/8)
	for i, v := range x {
		if v != 0 || 1/v < 0 {
			bitmap[i/8] |= 1 << (i % 8)
			values = append(values, v)
		}
	}
	return bitmap, values
}

// unpackInto unpacks bitmap and values into dst. It is the inverse of pack.
//
// Bits behind the last element must be 0, so that each tensor has one packed form only.
//
// Errors: bitmap, values and dst do not match in size.
func unpackInto(dst []float32, bitmap []uint8, values []float32) error {
	n := 0
	for _, b := range bitmap {
		n += bits.OnesCount8(b)
	}
	if len(bitmap) != (len(dst)+7)/8 || n != len(values) || len(dst)%8 > 0 && bitmap[len(bitmap)-1]>>(len(dst)%8) != 0 {
		return fmt.Errorf("bitmap of %d bytes with %d bits set, want one bit for each of %d elements and %d bits set", len(bitmap), n, len(dst), len(values))
	}
	clear(dst)
	at := 0
	for i := range dst {
		if bitmap[i/8]>>(i%8)&1 == 1 {
			dst[i] = values[at]
			at++
		}
	}
	return nil
}

// packedShape reads the shape of a packed tensor from the metadata, and compares it with the size
// of its bitmap in bytes.
//
// Errors: no shape, invalid JSON, a negative dimension, or a bitmap of another size.
func packedShape(metadata map[string]string, name string, bitmap int64) ([]int, error) {
	var shape []int
	if err := json.Unmarshal([]byte(metadata[shapeMetadata+name]), &shape); err != nil {
		return nil, fmt.Errorf("metadata without the shape of %s: %w", name, err)
	}
	n, err := countElements(shape)
	if err == nil && (n+7)/8 != bitmap {
		err = fmt.Errorf("bitmap of %d bytes does not match shape %v", bitmap, shape)
	}
	return shape, err
}

// joinPacked replaces the bitmap of each packed tensor with the unpacked tensor, and drops its
// values. The order of the other tensors stays.
//
// Errors: exit 65 for a bitmap without values, values of another type, or sizes that do not match.
func joinPacked(path string, tensors []Tensor, metadata map[string]string) ([]Tensor, error) {
	at := map[string]int{}
	for i, t := range tensors {
		at[t.Name] = i
	}
	var out []Tensor
	for _, t := range tensors {
		if name, ok := packedName(t.Name, valuesSuffix, metadata); ok {
			if _, ok := at[name+bitmapSuffix]; ok {
				continue
			}
		}
		name, ok := packedName(t.Name, bitmapSuffix, metadata)
		if !ok {
			out = append(out, t)
			continue
		}
		whole, err := joinTensor(name, t, tensors, at, metadata)
		if err != nil {
			return nil, &exit.Error{Code: exit.BadData, What: "a packed tensor is damaged", At: path + ", tensor " + name, Why: err.Error(), Fix: "download or write the file again", Err: err}
		}
		out = append(out, whole)
	}
	return out, nil
}

// joinTensor unpacks one tensor. at holds the positions of tensors by name.
func joinTensor(name string, bitmap Tensor, tensors []Tensor, at map[string]int, metadata map[string]string) (Tensor, error) {
	set, _ := bitmap.Data.([]uint8)
	shape, err := packedShape(metadata, name, int64(len(set)))
	if err != nil {
		return Tensor{}, err
	}
	i, ok := at[name+valuesSuffix]
	if !ok {
		return Tensor{}, fmt.Errorf("bitmap without %s%s", name, valuesSuffix)
	}
	values, ok := tensors[i].Data.([]float32)
	if !ok {
		return Tensor{}, fmt.Errorf("%s is not of type F32", tensors[i].Name)
	}
	n, err := countElements(shape)
	if err != nil {
		return Tensor{}, err
	}
	x := make([]float32, n)
	return Tensor{name, shape, x}, unpackInto(x, set, values)
}

// packedName returns the name of the packed tensor of which part is the bitmap or the values. A name
// that ends with the suffix by chance has no shape in the metadata, and is not packed.
func packedName(part, suffix string, metadata map[string]string) (name string, ok bool) {
	if name, ok = strings.CutSuffix(part, suffix); ok {
		_, ok = metadata[shapeMetadata+name]
	}
	return name, ok
}
