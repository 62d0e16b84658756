// Package columnfile encodes files as a head of JSON with columns of numbers behind it. Every name and every
// type in such a file is written down in the head, so that none of Go gets into it, and numbers keep their bits.
//
// A file begins with two lines, its schema and the SHA-256 of all that follows them in hexadecimal. Then come the head, as
// one line, and the columns: numbers in little-endian order without gaps. How many there are, and of what, the head says.
package columnfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Encode makes the text of a file. Columns are made by Append.
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

// Decode reads the head of a file, and gives the columns behind it, which share memory with the text.
//
// Errors: another schema, damage, a head that is not one of its type.
func Decode(text []byte, schema string, head any) (*Columns, error) {
	const shown = 40 // bytes of a line that may be anything
	first, rest, _ := bytes.Cut(text, []byte{'\n'})
	if string(first) != schema {
		return nil, fmt.Errorf("it does not begin with %q but with %q", schema, first[:min(len(first), shown)])
	}
	sum, rest, _ := bytes.Cut(rest, []byte{'\n'})
	if fmt.Sprintf("%x", sha256.Sum256(rest)) != string(sum) {
		return nil, errors.New("it is damaged, or ends early: its SHA-256 is not the one it says")
	}
	line, rest, _ := bytes.Cut(rest, []byte{'\n'})
	if err := json.Unmarshal(line, head); err != nil {
		return nil, err
	}
	return &Columns{rest: rest}, nil
}

// Append adds numbers to columns: floats, integers of a fixed size, and structs and arrays of them.
func Append[T any](columns []byte, numbers ...T) []byte {
	columns, err := binary.Append(columns, binary.LittleEndian, numbers)
	if err != nil {
		panic(err) // T has no fixed size: no value of it can be written
	}
	return columns
}

// Columns are the numbers behind a head.
type Columns struct {
	rest      []byte
	truncated bool
}

// Next gives the next numbers, as they were appended; nil if there are not so many.
//
// Memory: never more than the file has, whatever n is.
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

// NextValue gives the next number; zero if there is none.
func NextValue[T any](c *Columns) (x T) {
	for _, x = range Next[T](c, 1) {
	}
	return x
}

// CheckEnd is called when all was taken.
//
// Errors: fewer or more numbers than were taken.
func (c *Columns) CheckEnd() error {
	switch {
	case c.truncated:
		return errors.New("it has fewer numbers than its head says")
	case len(c.rest) > 0:
		return fmt.Errorf("%d bytes are left behind the numbers of its head", len(c.rest))
	}
	return nil
}
