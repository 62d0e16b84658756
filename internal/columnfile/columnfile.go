// Package columnfile encodes files that consist of a JSON header and binary
// columns. The header states all names and types, so that the format does not
// depend on Go. Numbers keep their bits.
//
// Format: two lines with the schema and, in hexadecimal, the SHA-256 of everything
// after them; one line with the JSON header; then the columns, little-endian
// numbers without gaps. The header states their types and numbers.
package columnfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Encode returns the content of a file. Append makes the columns.
func Encode(schema string, head any, columns []byte) ([]byte, error) {
	line, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	line = append(line, '\n')
	sum := sha256.New()
	sum.Write(line)
	sum.Write(columns)
	return append(fmt.Appendf(nil, "%s\n%x\n%s", schema, sum.Sum(nil), line), columns...), nil
}

// Decode parses the header of a file into head and returns the columns, which share
// memory with text.
//
// Errors: another schema; a wrong checksum; a header that does not fit its type.
func Decode(text []byte, schema string, head any) (*Columns, error) {
	const shown = 40 // bytes of an unknown line in the error
	first, rest, _ := bytes.Cut(text, []byte{'\n'})
	if string(first) != schema {
		return nil, fmt.Errorf("want schema %q, got %q", schema, first[:min(len(first), shown)])
	}
	sum, rest, _ := bytes.Cut(rest, []byte{'\n'})
	if fmt.Sprintf("%x", sha256.Sum256(rest)) != string(sum) {
		return nil, errors.New("the file is damaged or truncated: wrong SHA-256")
	}
	line, rest, _ := bytes.Cut(rest, []byte{'\n'})
	if err := json.Unmarshal(line, head); err != nil {
		return nil, err
	}
	return &Columns{rest: rest}, nil
}

// Append appends numbers to columns: floats, integers of fixed size, and structs
// and arrays of them.
func Append[T any](columns []byte, numbers ...T) []byte {
	columns, err := binary.Append(columns, binary.LittleEndian, numbers)
	if err != nil {
		panic(err) // T has no fixed size: a bug of the caller
	}
	return columns
}

// Columns reads the numbers after a header.
type Columns struct {
	rest      []byte
	truncated bool // a read went beyond the end
}

// Next returns the next n numbers, in the order of Append; nil if fewer are left.
//
// Memory: at most the size of the file, whatever n is.
func Next[T any](c *Columns, n int) []T {
	size := binary.Size(*new(T))
	if c.truncated = c.truncated || n < 0 || n > len(c.rest)/size; c.truncated {
		return nil
	}
	out := make([]T, n)
	if _, err := binary.Decode(c.rest, binary.LittleEndian, out); err != nil {
		panic(err) // as in Append; the length is enough
	}
	c.rest = c.rest[n*size:]
	return out
}

// NextValue returns the next number; zero if none is left.
func NextValue[T any](c *Columns) (x T) {
	for _, x = range Next[T](c, 1) {
	}
	return x
}

// CheckEnd returns an error unless exactly all numbers were read.
func (c *Columns) CheckEnd() error {
	switch {
	case c.truncated:
		return errors.New("the file has fewer numbers than its header states")
	case len(c.rest) > 0:
		return fmt.Errorf("%d bytes follow the last number stated in the header", len(c.rest))
	}
	return nil
}
