package tcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// maxHello is the size of a greeting in bytes, except that of the list of addresses.
const maxHello = 1 << 10

// hello is the first message on a connection, a line.
type hello struct {
	Format string // helloFormat
	Token  string
	Size   int
	Rank   int
	Port   int // at which the process listens; 0 unless it greets the coordinator
}

// helloFormat names the protocol, its version and the byte order of payloads.
var helloFormat = "ensemble-tcp 3 " + byteOrder()

// byteOrder names the byte order of this machine.
func byteOrder() string {
	if memoryOf([]int64{1})[0] == 1 {
		return "little-endian"
	}
	return "big-endian"
}

// welcome is the answer to a greeting, a line.
type welcome struct {
	Refused   string   // why the process is not accepted; empty if it is
	Damaged   string   // why the greeting could not be read; empty if it could
	Addresses []string // of all ranks but 0, by rank; the coordinator's answer only
}

// accepts reports whether the process that greeted is accepted.
func (w welcome) accepts() bool { return w.Refused == "" && w.Damaged == "" }

// writeLine writes a message as a line: JSON, a blank, and its checksum.
func writeLine(c *connection, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = c.Write(append(append(text, lineSum(text)...), '\n'))
	return err
}

// lineSum is the end of a line: a blank and the CRC-32C of the JSON before it, of eight hexadecimal digits.
func lineSum(text []byte) []byte {
	return fmt.Appendf(nil, " %08x", crc32.Checksum(text, castagnoli))
}

// readLine reads a message that is a line of at most limit bytes, as writeLine writes it.
//
// Errors: *damagedError for a line with another checksum or none; those of reading.
func readLine(in *bufio.Reader, message any, limit int) error {
	var line []byte
	for len(line) <= limit {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return parseLine(line[:len(line)-1], message)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	return fmt.Errorf("a greeting of more than %d bytes", limit)
}

// parseLine reads a message of a line without its end.
func parseLine(line []byte, message any) error {
	text := line[:max(bytes.LastIndexByte(line, ' '), 0)]
	if got, want := line[len(text):], lineSum(text); !bytes.Equal(got, want) {
		return &damagedError{fmt.Sprintf("a greeting that ends with %.20q, computed checksum%s", got, want)}
	}
	return json.Unmarshal(text, message)
}
