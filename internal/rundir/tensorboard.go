package rundir

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// tensorBoard writes a TensorBoard event file: records of
//
//	uint64 length | masked CRC-32C of it | payload | masked CRC-32C of it
//
// in little-endian order. The payload is the protocol buffer tensorflow.Event.
//
// Source: TensorFlow, core/lib/io/record_writer.h and core/util/event.proto.
type tensorBoard struct {
	path    string
	file    filesystem.File
	records []byte // not yet written
}

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog.
const (
	eventWallTime    = 1 // double
	eventStep        = 2 // int64
	eventFileVersion = 3 // string
	eventSummary     = 5 // Summary
	eventSessionLog  = 7 // SessionLog
	summaryValue     = 1 // repeated Value
	valueTag         = 1 // string
	valueSimple      = 2 // float
	sessionStatus    = 1 // enum
	sessionStart     = 1 // SessionLog.START
)

// openTensorBoard starts a new event file; TensorBoard merges the files of one folder.
// The name has the form that TensorBoard searches for:
// events.out.tfevents.SECONDS.HOST.PID.NUMBER. The first record states the version of
// the format.
//
// Errors: exit 73 or 74.
func openTensorBoard(dir string) (*tensorBoard, error) {
	if err := atomicfile.MkdirAll(dir, 0o755); err != nil {
		return nil, exit.CreateError(dir, err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	now := time.Now()
	path := filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%d", now.Unix(), host, os.Getpid(), now.Nanosecond()))
	f, err := filesystem.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, exit.CreateError(path, err)
	}
	b := &tensorBoard{path: path, file: f}
	e := wallTime(now)
	e = protowire.AppendTag(e, eventFileVersion, protowire.BytesType)
	e = protowire.AppendString(e, "brain.Event:2")
	b.add(e)
	if err := b.flush(); err != nil {
		f.Close()
		return nil, err
	}
	return b, nil
}

// scalar adds one number of a step, for flush. It is rounded to float32, the type of
// Summary.Value.simple_value.
func (b *tensorBoard) scalar(at time.Time, step uint64, tag string, x float64) {
	var value []byte
	value = protowire.AppendTag(value, valueTag, protowire.BytesType)
	value = protowire.AppendString(value, tag)
	value = protowire.AppendTag(value, valueSimple, protowire.Fixed32Type)
	value = protowire.AppendFixed32(value, math.Float32bits(float32(x)))
	var summary []byte
	summary = protowire.AppendTag(summary, summaryValue, protowire.BytesType)
	summary = protowire.AppendBytes(summary, value)
	e := wallTime(at)
	e = protowire.AppendTag(e, eventStep, protowire.VarintType)
	e = protowire.AppendVarint(e, step)
	e = protowire.AppendTag(e, eventSummary, protowire.BytesType)
	e = protowire.AppendBytes(e, summary)
	b.add(e)
}

// resumed makes TensorBoard drop later steps of earlier files. TensorBoard purges events
// whose step is not below that of a SessionLog with status START.
func (b *tensorBoard) resumed(at time.Time, step uint64) error {
	var session []byte
	session = protowire.AppendTag(session, sessionStatus, protowire.VarintType)
	session = protowire.AppendVarint(session, sessionStart)
	e := wallTime(at)
	e = protowire.AppendTag(e, eventStep, protowire.VarintType)
	e = protowire.AppendVarint(e, step+1) // first step that is written again
	e = protowire.AppendTag(e, eventSessionLog, protowire.BytesType)
	e = protowire.AppendBytes(e, session)
	b.add(e)
	return b.flush()
}

func (b *tensorBoard) close() error { return b.file.Close() }

// wallTime encodes the time of an event.
//
// Unit: seconds since 1970 as float64.
func wallTime(at time.Time) []byte {
	e := protowire.AppendTag(nil, eventWallTime, protowire.Fixed64Type)
	return protowire.AppendFixed64(e, math.Float64bits(float64(at.UnixMicro())/1e6))
}

// add adds one record, for flush.
func (b *tensorBoard) add(payload []byte) {
	le := binary.LittleEndian
	out := le.AppendUint64(nil, uint64(len(payload)))
	out = le.AppendUint32(out, masked(out))
	out = append(out, payload...)
	b.records = append(b.records, le.AppendUint32(out, masked(payload))...)
}

// flush writes the records that were added. It is one write, so that a reader that follows the file sees whole records.
//
// Errors: exit 73 or 74.
func (b *tensorBoard) flush() error {
	if len(b.records) == 0 {
		return nil
	}
	_, err := b.file.Write(b.records)
	b.records = b.records[:0]
	return exit.CreateError(b.path, err)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked returns the CRC-32C of p, rotated and shifted, so that checksums of data
// that contain checksums are not degenerate.
//
// Source: TensorFlow, core/lib/hash/crc32c.h (kMaskDelta).
func masked(p []byte) uint32 {
	c := crc32.Checksum(p, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
