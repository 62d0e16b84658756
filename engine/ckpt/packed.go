package ckpt

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A tensor with many zeros may lie in a file as two: a bitmap, in which the bit of an element that
// is not 0 is set, eight of them to a byte, the lowest first; and these elements in their order.
// The metadata have its shape. Readers of this package give the tensor.
const (
	bitmapSuffix  = "#bitmap"
	valuesSuffix  = "#values"
	shapeMetadata = "shape of " // before the name
)

// WritePacked is WriteFile with tensors of F32 packed that are smaller so. A file without any is
// that of WriteFile.
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

// pack parts elements into their bitmap and those that are not 0. That of −0 is set, so that its
// bits return.
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

// unpackInto is the inverse of pack, into dst.
//
// Errors: parts that do not belong together.
func unpackInto(dst []float32, bitmap []uint8, values []float32) error {
	n := 0
	for _, b := range bitmap {
		n += bits.OnesCount8(b)
	}
	if len(bitmap) != (len(dst)+7)/8 || n != len(values) || len(dst)%8 > 0 && bitmap[len(bitmap)-1]>>(len(dst)%8) != 0 {
		return fmt.Errorf("a bitmap of %d bytes, %d of its bits set, for %d elements and %d values", len(bitmap), n, len(dst), len(values))
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

// packedShape is the shape of a packed tensor, of which the metadata speak and whose bitmap has so
// many bytes.
func packedShape(metadata map[string]string, name string, bitmap int64) ([]int, error) {
	var shape []int
	if err := json.Unmarshal([]byte(metadata[shapeMetadata+name]), &shape); err != nil {
		return nil, fmt.Errorf("the metadata have no shape of %s: %w", name, err)
	}
	n, err := countElements(shape)
	if err == nil && (n+7)/8 != bitmap {
		err = fmt.Errorf("shape %v has a bitmap of %d bytes", shape, bitmap)
	}
	return shape, err
}

// joinPacked puts packed tensors of a file together, where their bitmaps lie.
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
			return nil, &exit.Error{Code: exit.BadData, What: "a packed tensor is damaged", At: path + ", tensor " + name, Why: err.Error(), Fix: "fetch or make the file again", Err: err}
		}
		out = append(out, whole)
	}
	return out, nil
}

// joinTensor puts one tensor together.
func joinTensor(name string, bitmap Tensor, tensors []Tensor, at map[string]int, metadata map[string]string) (Tensor, error) {
	set, _ := bitmap.Data.([]uint8)
	shape, err := packedShape(metadata, name, int64(len(set)))
	if err != nil {
		return Tensor{}, err
	}
	i, ok := at[name+valuesSuffix]
	if !ok {
		return Tensor{}, fmt.Errorf("there is a bitmap and no %s%s", name, valuesSuffix)
	}
	values, ok := tensors[i].Data.([]float32)
	if !ok {
		return Tensor{}, fmt.Errorf("%s is no F32", tensors[i].Name)
	}
	n, err := countElements(shape)
	if err != nil {
		return Tensor{}, err
	}
	x := make([]float32, n)
	return Tensor{name, shape, x}, unpackInto(x, set, values)
}

// packedName gives the name of the packed tensor of which a part has that name.
func packedName(part, suffix string, metadata map[string]string) (name string, ok bool) {
	if name, ok = strings.CutSuffix(part, suffix); ok {
		_, ok = metadata[shapeMetadata+name]
	}
	return name, ok
}
