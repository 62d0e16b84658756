package ckpt

import (
	"encoding/binary"
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// File is an open safetensors file. It reads tensors on demand, so a file may be larger than the
// memory. Its methods are safe for concurrent use.
type File struct {
	path    string
	file    filesystem.File
	header  *Header
	entries map[string]Entry
}

// Open opens a safetensors file and reads its header. Only the header is in memory afterwards. The
// caller closes the file.
//
// Errors: as ReadFile.
func Open(path string) (*File, error) {
	file, h, err := open(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, file: file, header: h, entries: map[string]Entry{}}
	for _, e := range h.Entries {
		f.entries[e.Name] = e
	}
	return f, nil
}

// Find returns the entry of a tensor. A packed tensor has the entry of the unpacked one. ok is
// false for a tensor that the file lacks, and for a packed one whose metadata are damaged.
func (f *File) Find(name string) (e Entry, ok bool) {
	if e, ok = f.entries[name]; ok {
		return e, ok
	}
	bitmap, ok := f.entries[name+bitmapSuffix]
	if !ok {
		return e, false
	}
	shape, err := packedShape(f.header.Metadata, name, bitmap.end-bitmap.begin)
	return Entry{Name: name, DType: F32, Shape: shape}, err == nil
}

// Entries lists the tensors of the file. Packed tensors are listed as the unpacked ones. The order
// is that of the data. A packed tensor whose metadata are damaged is left out; ReadFile reports
// it.
func (f *File) Entries() []Entry {
	var out []Entry
	for _, e := range f.header.Entries {
		if _, ok := packedPart(e.Name, f.header.Metadata); ok {
			continue
		}
		if name, ok := packedName(e.Name, bitmapSuffix, f.header.Metadata); ok {
			if e, ok = f.Find(name); !ok {
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

// Float64 reads a tensor of type F64.
//
// Memory: dst is grown if it is too short, and returned.
// Errors: the tensor is missing or has another type; exit 66 or 74 if the file cannot be read.
func (f *File) Float64(dst []float64, name string) ([]float64, error) {
	e, ok := f.entries[name]
	if !ok || e.DType != F64 {
		return dst, fmt.Errorf("%s: no tensor %s of type %s", f.path, name, F64)
	}
	n := int(e.end-e.begin) / 8
	if cap(dst) < n {
		dst = make([]float64, n)
	}
	return dst[:n], readInto(f, e, dst[:n])
}

// Float32 reads a tensor of floating-point numbers into dst, and converts it to float32. dst must
// have the size of the tensor.
//
// Errors: as Float64; the tensor holds integers, or has another size.
// Cost: one read without a copy for F32 on a little-endian machine; other types are read whole and
// converted.
func (f *File) Float32(dst []float32, name string) error {
	if e, ok := f.entries[name]; ok && e.DType == F32 && int(e.end-e.begin) == 4*len(dst) {
		return readInto(f, e, dst)
	}
	if _, ok := f.entries[name]; !ok && f.entries[name+bitmapSuffix].Name != "" {
		return f.readPacked(dst, name)
	}
	t, err := f.Tensor(name)
	if err != nil {
		return err
	}
	x, err := t.Float32()
	if err == nil && len(x) != len(dst) {
		err = fmt.Errorf("tensor %s: %d elements, want %d", name, len(x), len(dst))
	}
	copy(dst, x)
	return err
}

// readPacked reads a packed tensor into dst. Bitmap and values of another type count as empty,
// which does not match.
//
// Errors: exit 65 if bitmap, values and dst do not match.
func (f *File) readPacked(dst []float32, name string) error {
	bitmap, err := f.Tensor(name + bitmapSuffix)
	if err != nil {
		return err
	}
	values, err := f.Tensor(name + valuesSuffix)
	if err != nil {
		return err
	}
	var scales any
	if _, ok := f.entries[name+scalesSuffix]; ok {
		t, err := f.Tensor(name + scalesSuffix)
		if err != nil {
			return err
		}
		scales = t.Data
	}
	set, _ := bitmap.Data.([]uint8)
	x, err := packedValues(len(dst), set, values.Data, scales)
	if err == nil {
		err = unpackInto(dst, set, x)
	}
	if err != nil {
		return &exit.Error{Code: exit.BadData, What: "a packed tensor is damaged", At: f.path + ", tensor " + name, Why: err.Error(), Fix: "download or write the file again", Err: err}
	}
	return nil
}

// readInto reads a tensor into dst. On little-endian machines it reads directly into dst, without
// a copy. The caller has compared the length of dst with the entry.
func readInto[T float32 | float64](f *File, e Entry, dst []T) error {
	raw := bigmem.Bytes(dst)
	if !littleEndian {
		raw = make([]byte, len(raw))
	}
	if _, err := f.file.ReadAt(raw, f.header.data+e.begin); err != nil {
		return exit.ReadError(f.path, fmt.Errorf("tensor %s: %w", e.Name, err))
	}
	if littleEndian {
		return nil
	}
	_, err := binary.Decode(raw, binary.LittleEndian, dst)
	return err
}

// littleEndian reports whether this machine stores numbers in the byte order of the file.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Tensor reads a tensor of any type. Packed tensors are not unpacked.
//
// Memory: the data twice while they are decoded.
// Errors: as Float64.
func (f *File) Tensor(name string) (Tensor, error) {
	e, ok := f.entries[name]
	if !ok {
		return Tensor{}, fmt.Errorf("%s: no tensor %s", f.path, name)
	}
	raw := make([]byte, e.end-e.begin)
	if _, err := f.file.ReadAt(raw, f.header.data+e.begin); err != nil {
		return Tensor{}, exit.ReadError(f.path, fmt.Errorf("tensor %s: %w", name, err))
	}
	return Tensor{Name: name, Shape: e.Shape, Data: decode(e.DType, raw)}, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
