package tcp

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// headerBytes is the size of a frame's header.
const headerBytes = 24

// castagnoli is the polynomial of all checksums (CRC-32C), for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header precedes the payload of a frame.
type header struct {
	channel, tag int
	size         uint64 // of the payload in bytes
	payload      uint32 // checksum of the payload
}

// append appends the header of the n-th frame of a connection in one direction, numbered from 0.
func (h header) append(to []byte, n uint64) []byte {
	from := len(to)
	to = binary.LittleEndian.AppendUint32(to, uint32(h.channel))
	to = binary.LittleEndian.AppendUint32(to, uint32(h.tag))
	to = binary.LittleEndian.AppendUint64(to, h.size)
	to = binary.LittleEndian.AppendUint32(to, h.payload)
	return binary.LittleEndian.AppendUint32(to, headerSum(to[from:], n))
}

// parseHeader is the inverse of append.
//
// Errors: a damaged header, or that of another frame.
func parseHeader(raw *[headerBytes]byte, n uint64) (header, error) {
	if got, want := binary.LittleEndian.Uint32(raw[20:]), headerSum(raw[:20], n); got != want {
		return header{}, &damagedError{fmt.Sprintf("header %d of its messages: checksum %08x, computed %08x", n, got, want)}
	}
	return header{int(binary.LittleEndian.Uint32(raw[:])), int(binary.LittleEndian.Uint32(raw[4:])), binary.LittleEndian.Uint64(raw[8:]), binary.LittleEndian.Uint32(raw[16:])}, nil
}

// headerSum returns the checksum of a header's fields and of the frame's number, which is not sent: so a frame that is lost,
// repeated or out of order is found as a damaged one is.
func headerSum(fields []byte, n uint64) uint32 {
	return crc32.Update(crc32.Checksum(binary.LittleEndian.AppendUint64(nil, n), castagnoli), castagnoli, fields)
}

// check compares the payload's checksum with that of the bytes that arrived.
func (h header) check(got uint32) error {
	if got != h.payload {
		return &damagedError{fmt.Sprintf("a message with channel %d, tag %d and %d bytes: checksum %08x, computed %08x", h.channel, h.tag, h.size, h.payload, got)}
	}
	return nil
}

// damagedError means that bytes of a connection changed on their way, which the 16-bit checksum of TCP did not find.
type damagedError struct{ what string }

func (e *damagedError) Error() string { return "damaged on its way: " + e.what }
