// Package wire is the protocol between a program and its decoding children: JSON
// frames over pipes, and bulk data through three shared memories. The parent writes
// one of them (requests), the child the others (replies, and files that it encodes).
//
//	parent                         ensemble-decode
//	  ── frame{Request} ── stdin ──▶
//	  ◀── frame{Reply} ── stdout ──
//	  input payload: memfd 3, written by the parent only
//	  output payload: memfd 4, grown and written by the child only
//
// A frame is a little-endian uint32 length and that number of bytes of JSON. The
// first frame of a child is a Hello. A child executes one request at a time.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Protocol is the version of the protocol; both sides must have the same.
const Protocol = 2

// File descriptors in the child.
const (
	InputFD  = 3
	OutputFD = 4
	FileFD   = 5
	EndFD    = 6 // the first one that it does not need
)

// Environment variables by which a child gets its limits.
const (
	MemoryEnv  = "ENSEMBLE_DECODE_MEMORY"  // address space in bytes
	FoldersEnv = "ENSEMBLE_DECODE_FOLDERS" // folders that the child can open besides those of its libraries, as a JSON list
	SandboxEnv = "ENSEMBLE_DECODE_SANDBOX" // "off": no sandbox
)

// MaxFrame bounds a frame, so that a faulty peer cannot cause large allocations.
const MaxFrame = 256 << 20

// Hello is the first frame of a child: its requests and libraries.
type Hello struct {
	Protocol  int               `json:"protocol"`
	Kinds     []string          `json:"kinds"`
	Libraries map[string]string `json:"libraries"` // name → version: eccodes, netcdf, hdf5
	Sandbox   string            `json:"sandbox"`   // what restricts the child: "Landlock 7, seccomp", "none"
}

// Request is one job for the child.
type Request struct {
	ID         uint64          `json:"id"`
	Kind       string          `json:"kind"`
	Args       json.RawMessage `json:"args,omitempty"`
	InputBytes int             `json:"in,omitempty"` // bytes of the input payload
	CPUSeconds int             `json:"cpu_seconds"`  // processor time that the child may use
}

// Reply answers the request with the same ID.
type Reply struct {
	ID          uint64          `json:"id"`
	Result      json.RawMessage `json:"result,omitempty"`
	OutputBytes int             `json:"out,omitempty"` // bytes of the output payload
	Error       *Error          `json:"error,omitempty"`
}

// Error is an exit.Error as JSON.
type Error struct {
	Code int    `json:"code"`
	What string `json:"what"`
	At   string `json:"at,omitempty"`
	Why  string `json:"why,omitempty"`
	Fix  string `json:"fix,omitempty"`
}

// Exit converts the error back to an exit.Error.
func (e *Error) Exit() *exit.Error {
	return &exit.Error{Code: exit.Code(e.Code), What: e.What, At: e.At, Why: e.Why, Fix: e.Fix}
}

// FromExit converts an exit.Error.
func FromExit(e *exit.Error) *Error {
	return &Error{Code: int(e.Code), What: e.What, At: e.At, Why: e.Why, Fix: e.Fix}
}

// WriteFrame writes v as one frame, in one call of Write.
func WriteFrame(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("frame: %w", err)
	}
	if len(body) > MaxFrame {
		return fmt.Errorf("frame of %d bytes exceeds the limit of %d", len(body), MaxFrame)
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// ReadFrame reads one frame into v. It returns io.EOF if the peer closed the pipe
// between frames.
func ReadFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > MaxFrame {
		return fmt.Errorf("frame of %d bytes exceeds the limit of %d", n, MaxFrame)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return fmt.Errorf("truncated frame: %w", err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("frame: %w", err)
	}
	return nil
}
