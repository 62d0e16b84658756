package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// The header of a band, little-endian: a fixed part, the CRC-32C of each part, and
// a record for each field.
const (
	headMagic   = "ENSBAND1"
	headFixed   = 64
	sumBytes    = 8 // a CRC-32C padded with zeros, so that records are aligned
	recordBytes = 48
)

// castagnoli is the table of CRC-32C, which CPUs compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bandHeader precedes the parts of a band.
type bandHeader struct {
	band, row, rows int // number of the band, its first row in the grid, and its number of rows
	// init is the initialisation in seconds since 1970.
	init int64
	// checksums holds the CRC-32C (Castagnoli) of each part, without padding.
	checksums []uint32
	// records holds one record per field, in the order of the fields of all parts.
	records []fieldRecord
}

// append encodes the header, padded to n bytes:
//
//	byte  0  "ENSBAND1"
//	byte  8  band, row, rows, number of parts   uint32
//	byte 24  initialisation, seconds since 1970 int64
//	byte 32  number of fields                   uint32
//	byte 64  CRC-32C of each part               uint32, uint32 0
//	then     one record per field               48 bytes
//
// Source: docs/formats/store.md.
func (h *bandHeader) append(dst []byte, n int64) []byte {
	le := binary.LittleEndian
	end := len(dst) + int(n)
	start := len(dst)
	dst = append(dst, headMagic...)
	for _, v := range []int{h.band, h.row, h.rows, len(h.checksums)} {
		dst = le.AppendUint32(dst, uint32(v))
	}
	dst = le.AppendUint64(dst, uint64(h.init))
	dst = le.AppendUint32(dst, uint32(len(h.records)))
	dst = append(dst, make([]byte, start+headFixed-len(dst))...)
	for _, s := range h.checksums {
		dst = le.AppendUint64(dst, uint64(s))
	}
	for _, r := range h.records {
		for _, v := range []float64{r.offset, r.scale, r.mean, r.sd} {
			dst = le.AppendUint64(dst, math.Float64bits(v))
		}
		dst = le.AppendUint32(dst, math.Float32bits(r.min))
		dst = le.AppendUint32(dst, math.Float32bits(r.max))
		dst = le.AppendUint64(dst, uint64(r.missing))
	}
	return append(dst, make([]byte, end-len(dst))...)
}

// decodeHeader decodes the header of a band and compares it with the layout.
//
// Errors: what differs from the layout.
func (l *layout) decodeHeader(text []byte, band int, init int64) (*bandHeader, error) {
	le := binary.LittleEndian
	lo, hi := l.rows(band)
	if int64(len(text)) < l.head || !bytes.HasPrefix(text, []byte(headMagic)) {
		return nil, fmt.Errorf("the band header is missing")
	}
	// A mismatch means that the band was written by another layout, or to a wrong
	// offset.
	for i, want := range []int{band, lo, hi - lo, len(l.parts)} {
		if got := le.Uint32(text[8+4*i:]); got != uint32(want) {
			return nil, fmt.Errorf("word %d of the band header is %d, want %d", i, got, want)
		}
	}
	if got := int64(le.Uint64(text[24:])); got != init {
		return nil, fmt.Errorf("the band has the init %d s since 1970, want %d s", got, init)
	}
	if got := le.Uint32(text[32:]); got != uint32(l.fields) {
		return nil, fmt.Errorf("the band has %d fields, want %d", got, l.fields)
	}
	h := &bandHeader{band: band, row: lo, rows: hi - lo, init: init, checksums: make([]uint32, len(l.parts)), records: make([]fieldRecord, l.fields)}
	// The checksum of the header was verified, so the remaining fields are not
	// checked again.
	at := text[headFixed:]
	for i := range h.checksums {
		h.checksums[i] = le.Uint32(at)
		at = at[sumBytes:]
	}
	for i := range h.records {
		h.records[i] = fieldRecord{
			offset: math.Float64frombits(le.Uint64(at)), scale: math.Float64frombits(le.Uint64(at[8:])),
			mean: math.Float64frombits(le.Uint64(at[16:])), sd: math.Float64frombits(le.Uint64(at[24:])),
			min: math.Float32frombits(le.Uint32(at[32:])), max: math.Float32frombits(le.Uint32(at[36:])),
			missing: le.Uint32(at[40:])}
		at = at[recordBytes:]
	}
	return h, nil
}
