package netcdf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

// Tags of the lists in a classic header: NC_DIMENSION, NC_VARIABLE, NC_ATTRIBUTE.
const (
	tagDimension = 10
	tagVariable  = 11
	tagAttribute = 12
)

// classicReader reads the header of a classic file. All numbers are big-endian. Its
// methods keep the first fault and return zeros after it.
type classicReader struct {
	r *bufio.Reader
	// at is the offset of the next byte.
	at int64
	// limit bounds the header: the size of the file or maxHeader.
	limit   int64
	version byte // 1, 2 or 5
	err     error
}

// typeSize returns the bytes of an external type (nc_type), 0 for an unknown one.
// CDF-1 and CDF-2 have types 1 to 6 only.
func typeSize(t uint64, version byte) int64 {
	sizes := []int64{0, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8}
	if t >= uint64(len(sizes)) || version != 5 && t > 6 {
		return 0
	}
	return sizes[t]
}

// fail records the first fault.
func (c *classicReader) fail(what, why string, args ...any) {
	if c.err == nil {
		c.err = faultf(c.at, what, why, args...)
	}
}

// bytes reads n bytes, nil after a fault.
func (c *classicReader) bytes(n int64) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > c.limit-c.at {
		c.fail("file ends inside the header", "%d bytes wanted, %d left", n, c.limit-c.at)
		return nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.r, b); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			c.fail("file ends inside the header", "%v", err)
		} else {
			c.err = err
		}
		return nil
	}
	c.at += n
	return b
}

// u32 reads an unsigned integer of four bytes.
func (c *classicReader) u32() uint64 {
	if b := c.bytes(4); b != nil {
		return uint64(binary.BigEndian.Uint32(b))
	}
	return 0
}

// u64 reads an unsigned integer of eight bytes.
func (c *classicReader) u64() uint64 {
	if b := c.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// count reads NON_NEG: eight bytes in CDF-5, otherwise four.
func (c *classicReader) count() uint64 {
	if c.version == 5 {
		return c.u64()
	}
	return c.u32()
}

// maxList bounds the elements of a list. NetCDF-C searches lists linearly, so that
// its time grows with the square of their number. Earlier versions allowed 8192
// elements.
const maxList = 1 << 16

// list reads tag and length of a list whose elements have at least a number of
// bytes. An absent list is two zeros (ABSENT).
func (c *classicReader) list(tag uint64, least int64, what string) int {
	at := c.at
	t, n := c.u32(), c.count()
	if c.err != nil || t == 0 && n == 0 {
		return 0
	}
	if t != tag {
		c.err = faultf(at, "invalid header", "list of %s has tag %d", what, t)
		return 0
	}
	if n > uint64((c.limit-c.at)/least) {
		c.err = faultf(at, "invalid header", "%d %s in the %d bytes that are left", n, what, c.limit-c.at)
		return 0
	}
	if n > maxList {
		c.err = faultf(at, "invalid header", "%d %s, at most %d are read", n, what, maxList)
		return 0
	}
	return int(n)
}

// maxName is the length of the longest name that netCDF-C reads (NC_MAX_NAME).
const maxName = 256

// name reads a string that is padded to a multiple of four bytes.
func (c *classicReader) name() string {
	n := c.count()
	if n > min(maxName, uint64(c.limit)) {
		c.fail("invalid header", "a name of %d bytes", n)
		return ""
	}
	b := c.bytes(int64(n))
	c.bytes(int64(-n & 3))
	return string(b)
}

// attributes reads and discards a list of attributes. Values are padded to a
// multiple of four bytes.
func (c *classicReader) attributes() {
	for range c.list(tagAttribute, 12, "attributes") {
		name := c.name()
		kind, n := c.u32(), c.count()
		size := typeSize(kind, c.version)
		if c.err != nil {
			return
		}
		if size == 0 {
			c.fail("invalid header", "attribute %q has type %d", name, kind)
			return
		}
		if n > uint64(c.limit-c.at)/uint64(size) {
			c.fail("invalid header", "attribute %q of %d elements in the %d bytes that are left", name, n, c.limit-c.at)
			return
		}
		c.bytes(int64(n) * size)
		c.bytes(-(int64(n) * size) & 3)
	}
}

// variableData is the position of the data of a variable.
type variableData struct {
	name string
	// begin is the byte offset of the data in the file.
	begin uint64
	// size in bytes; of one record for record variables.
	size   uint64
	record bool
}

// scanClassic reads the header of CDF-1, CDF-2 and CDF-5:
//
//	magic numrecs dim_list gatt_list var_list
//	dim  = name length
//	attr = name nc_type nelems values
//	var  = name ndims dimid… attr_list nc_type vsize begin
//
// vsize is redundant, and wrong in files above 4 GiB, so it is not used. numrecs of
// all ones marks a file that was streamed, whose number of records is unknown.
//
// Source: NUG, The NetCDF Classic Format Specification.
func scanClassic(r io.ReaderAt, size int64, version byte) error {
	if version != 1 && version != 2 && version != 5 {
		return faultf(3, "unknown NetCDF version", "CDF version %d", version)
	}
	c := &classicReader{r: bufio.NewReaderSize(io.NewSectionReader(r, 4, size-4), 64<<10), at: 4, limit: min(size, maxHeader), version: version}
	records := c.count()
	// NUMRECS of all ones is STREAMING.
	streaming := records == 1<<32-1 && version != 5 || records == 1<<64-1
	type dim struct {
		name string
		len  uint64
	}
	dims := make([]dim, 0, 16)
	for range c.list(tagDimension, 8, "dimensions") {
		d := dim{c.name(), c.count()}
		if d.len > 1<<62 || version != 5 && d.len >= 1<<31 {
			c.fail("invalid header", "dimension %q of length %d", d.name, int64(d.len))
		}
		if c.err != nil {
			return c.err
		}
		dims = append(dims, d)
	}
	c.attributes()
	var vars []variableData
	for range c.list(tagVariable, 28, "variables") {
		v := variableData{name: c.name()}
		n := c.count()
		if c.err == nil && n > uint64(len(dims))+1024 {
			c.fail("invalid header", "variable %q of %d dimensions", v.name, n)
		}
		if c.err != nil {
			return c.err
		}
		elements := uint64(1)
		for k := range n {
			id := c.count()
			if c.err == nil && id >= uint64(len(dims)) {
				c.fail("invalid header", "variable %q is on dimension %d of %d", v.name, id, len(dims))
			}
			if c.err != nil {
				return c.err
			}
			// Length 0 marks the record dimension, which must be the first of a
			// variable.
			if dims[id].len == 0 {
				if k > 0 {
					c.fail("invalid header", "the record dimension of variable %q is not the first", v.name)
					return c.err
				}
				v.record = true
				continue
			}
			over, product := bits.Mul64(elements, dims[id].len)
			if over != 0 || product > 1<<60 {
				c.fail("invalid header", "variable %q has more than 2^60 values", v.name)
				return c.err
			}
			elements = product
		}
		c.attributes()
		kind := c.u32()
		c.count() // vsize
		if version == 1 {
			v.begin = c.u32()
		} else {
			v.begin = c.u64()
		}
		width := typeSize(kind, version)
		if c.err == nil && width == 0 {
			c.fail("invalid header", "variable %q has type %d", v.name, kind)
		}
		if c.err != nil {
			return c.err
		}
		v.size = elements * uint64(width)
		vars = append(vars, v)
	}
	if c.err != nil {
		return c.err
	}
	return c.checkExtents(vars, records, streaming, size)
}

// checkExtents checks that the data of all variables lie after the header and
// inside the file. Records of all record variables are interleaved, each padded to
// four bytes. The record of a single record variable is not padded.
func (c *classicReader) checkExtents(vars []variableData, records uint64, streaming bool, size int64) error {
	recordSize, recordVars := uint64(0), 0
	for _, v := range vars {
		if v.record {
			recordSize += (v.size + 3) &^ 3
			recordVars++
		}
	}
	for _, v := range vars {
		if v.record && recordVars == 1 {
			recordSize = v.size // a single record variable is not padded
		}
	}
	for _, v := range vars {
		if v.begin < uint64(c.at) || v.begin > uint64(size) {
			return faultf(c.at, "invalid header", "data of variable %q begin at byte %d, outside %d to %d", v.name, v.begin, c.at, size)
		}
		need := v.size
		if v.record {
			if streaming || records == 0 {
				continue
			}
			// The last record begins after records−1 complete ones.
			over, before := bits.Mul64(records-1, recordSize)
			if over != 0 || before > 1<<62 {
				return faultf(4, "invalid header", "%d records of %d bytes", records, recordSize)
			}
			need += before
		}
		if need > uint64(size)-v.begin {
			return faultf(int64(v.begin), "truncated file", "variable %q needs %d bytes from byte %d, the file has %d", v.name, need, v.begin, size)
		}
	}
	return nil
}
