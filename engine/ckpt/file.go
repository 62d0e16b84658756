package ckpt

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// File is an open safetensors file, whose tensors are read when they are needed. Its
// methods may be called from several goroutines.
type File struct {
	path    string
	file    *os.File
	header  *Header
	entries map[string]Entry
}

// Open reads the header of a file.
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

// Find gives the entry of a tensor.
func (f *File) Find(name string) (e Entry, ok bool) {
	e, ok = f.entries[name]
	return e, ok
}

// Float64 reads a tensor of F64 into dst, with raw as scratch; both are grown if short and
// returned.
//
// Errors: a tensor that is absent or of another type; exit 66 or 74 if the file cannot be
// read.
func (f *File) Float64(dst []float64, raw []byte, name string) ([]float64, []byte, error) {
	e, ok := f.entries[name]
	if !ok || e.DType != F64 {
		return dst, raw, fmt.Errorf("%s has no tensor %s of type %s", f.path, name, F64)
	}
	size := int(e.end - e.begin)
	if cap(raw) < size {
		raw = make([]byte, size)
	}
	raw = raw[:size]
	if _, err := f.file.ReadAt(raw, f.header.data+e.begin); err != nil {
		return dst, raw, exit.Read(f.path, fmt.Errorf("tensor %s: %w", name, err))
	}
	if cap(dst) < size/8 {
		dst = make([]float64, size/8)
	}
	dst = dst[:size/8]
	_, err := binary.Decode(raw, binary.LittleEndian, dst)
	return dst, raw, err
}

// Tensor reads a tensor.
//
// Errors: as Float64.
func (f *File) Tensor(name string) (Tensor, error) {
	e, ok := f.entries[name]
	if !ok {
		return Tensor{}, fmt.Errorf("%s has no tensor %s", f.path, name)
	}
	raw := make([]byte, e.end-e.begin)
	if _, err := f.file.ReadAt(raw, f.header.data+e.begin); err != nil {
		return Tensor{}, exit.Read(f.path, fmt.Errorf("tensor %s: %w", name, err))
	}
	return Tensor{Name: name, Shape: e.Shape, Data: decode(e.DType, raw)}, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
