package ckpt

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A packed tensor stores a tensor with many zeros as two tensors: name#bitmap and name#values. The
// bitmap has one bit for each element, eight to a byte, the lowest bit first. A bit is set if the
// element is not 0. The values are these elements in order. The metadata have the shape under
// "shape of name". Readers in this package unpack such tensors.
//
// A rounded tensor also has name#scales, one float32 for each index of the first axis. Its values
// are bytes b, which stand for (b − 128)·scale.
const (
	bitmapSuffix  = "#bitmap"
	valuesSuffix  = "#values"
	scalesSuffix  = "#scales"   // of a rounded tensor
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
	return WriteRounded(path, tensors, func(string) bool { return false })
}

// WriteRounded is WritePacked, and rounds the F32 tensors that rounded names to eight bits: to
// multiples of the largest absolute value of each index of the first axis, divided by 127. Zeros
// stay zeros. Tensors without elements or with values that are not finite are not rounded.
//
// Errors: as WriteFile.
// Source: Jacob et al. 2018, arXiv:1712.05877, section 3 (symmetric, one scale for each output channel).
func WriteRounded(path string, tensors []Tensor, rounded func(name string) bool) error {
	var out []Tensor
	metadata := map[string]string{}
	for _, t := range tensors {
		x, ok := t.Data.([]float32)
		if ok && rounded(t.Name) {
			if codes, scales, ok := round(x, t.Shape); ok {
				if err := describe(metadata, t); err != nil {
					return err
				}
				bitmap, values := packCodes(codes)
				out = append(out, Tensor{t.Name + bitmapSuffix, []int{len(bitmap)}, bitmap}, Tensor{t.Name + valuesSuffix, []int{len(values)}, values},
					Tensor{t.Name + scalesSuffix, []int{len(scales)}, scales})
				continue
			}
		}
		bitmap, values := pack(x)
		if !ok || len(bitmap)+4*len(values) >= 4*len(x) {
			out = append(out, t)
			continue
		}
		if err := describe(metadata, t); err != nil {
			return err
		}
		out = append(out, Tensor{t.Name + bitmapSuffix, []int{len(bitmap)}, bitmap}, Tensor{t.Name + valuesSuffix, []int{len(values)}, values})
	}
	if len(metadata) == 0 {
		metadata = nil
	}
	return WriteFile(path, out, metadata)
}

// describe adds the shape of a packed tensor to the metadata.
func describe(metadata map[string]string, t Tensor) error {
	shape, err := json.Marshal(t.Shape)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	metadata[shapeMetadata+t.Name] = string(shape)
	return nil
}

// round rounds a tensor to multiples −127 … 127 of a scale for each index of its first axis. ok is
// false for a tensor that cannot be rounded.
func round(x []float32, shape []int) (codes []int8, scales []float32, ok bool) {
	if len(x) == 0 || len(shape) == 0 {
		return nil, nil, false
	}
	codes, scales = make([]int8, len(x)), make([]float32, shape[0])
	n := len(x) / shape[0]
	for i := range scales {
		row := x[i*n : (i+1)*n]
		largest := float32(0)
		for _, v := range row {
			if v-v != 0 {
				return nil, nil, false
			}
			largest = max(largest, v, -v)
		}
		if scales[i] = largest / 127; scales[i] == 0 {
			continue // all are zero, or too small for a scale
		}
		for k, v := range row {
			codes[i*n+k] = int8(min(max(math.RoundToEven(float64(v)/float64(scales[i])), -127), 127))
		}
	}
	return codes, scales, true
}

// packCodes splits codes into their bitmap and the codes that are not 0, plus 128.
func packCodes(codes []int8) (bitmap, values []uint8) {
	bitmap = make([]uint8, (len(codes)+7)/8)
	for i, c := range codes {
		if c != 0 {
			bitmap[i/8] |= 1 << (i % 8)
			values = append(values, uint8(int(c)+128))
		}
	}
	return bitmap, values
}

// packedValues returns the values of a packed tensor of n elements as float32. scales is nil for
// one that is not rounded.
//
// Errors: other types or sizes than those of WriteRounded.
func packedValues(n int, bitmap []uint8, values, scales any) ([]float32, error) {
	if x, ok := values.([]float32); ok && scales == nil {
		return x, nil
	}
	codes, ok := values.([]uint8)
	s, scaled := scales.([]float32)
	if !ok || !scaled || len(s) == 0 || n%len(s) != 0 || len(bitmap) != (n+7)/8 {
		return nil, fmt.Errorf("the values are not of type F32, nor of type U8 with a scale for each index of the first axis")
	}
	x := make([]float32, 0, len(codes))
	for i := 0; i < n && len(x) < len(codes); i++ {
		if bitmap[i/8]>>(i%8)&1 == 1 {
			x = append(x, float32(int(codes[len(x)])-128)*s[i/(n/len(s))])
		}
	}
	if len(x) != len(codes) {
		return nil, fmt.Errorf("%d values for a bitmap of %d bits set", len(codes), len(x))
	}
	return x, nil
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
		if name, ok := packedPart(t.Name, metadata); ok {
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
	var scales any
	if k, ok := at[name+scalesSuffix]; ok {
		scales = tensors[k].Data
	}
	n, err := countElements(shape)
	if err != nil {
		return Tensor{}, err
	}
	values, err := packedValues(int(n), set, tensors[i].Data, scales)
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

// packedPart returns the name of the packed tensor of which part is the values or the scales.
func packedPart(part string, metadata map[string]string) (name string, ok bool) {
	if name, ok = packedName(part, valuesSuffix, metadata); !ok {
		name, ok = packedName(part, scalesSuffix, metadata)
	}
	return name, ok
}
