// Package gonb shows images, tables and text in a notebook of the Go kernel GoNB.
// It implements the part of the kernel's protocol that showing needs. A cell is a
// program of its own. The kernel gives it two named pipes, over which both sides
// send encoding/gob values.
//
// Source: github.com/janpfeifer/gonb v0.11.3, gonbui/protocol. docs/decisions
// states why that package is not imported.
package gonb

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Environment variables with the names of the kernel's pipes.
const (
	pipeTo   = "GONB_PIPE"      // program to kernel
	pipeFrom = "GONB_PIPE_BACK" // kernel to program
)

// MIME types of outputs.
const (
	HTML = "text/html"
	Text = "text/plain"
	PNG  = "image/png"
	SVG  = "image/svg+xml"
)

// Data is an output in one or several formats, by MIME type: a string, or the bytes
// of a PNG. The notebook shows the richest format that it supports.
type Data map[string]any

// message is DisplayData of the protocol. gob matches fields by name.
type message struct {
	Data      map[string]any
	Metadata  map[string]any
	DisplayID string
}

// value is CommValue of the protocol.
type value struct {
	Address string
	Request bool
	Value   any
}

const (
	valueName = "github.com/janpfeifer/gonb/gonbui/protocol.CommValue" // name of the type in gob
	valueType = "gonb/comm_value"
	syncTo    = "#gonbui/sync"
	syncFrom  = "#gonbui/sync_ack"
)

var (
	mu     sync.Mutex
	out    *gob.Encoder
	in     *gob.Decoder
	broken error // first error of a pipe; permanent
	number int   // of the last synchronisation request
)

// IsCell reports whether the program runs as a notebook cell and may write to the
// kernel's pipe. A program that links gonbui may not: gonbui writes to the pipe.
func IsCell() bool { return os.Getenv(pipeTo) != "" && registered() == nil }

// registered registers the protocol's type with gob. The name is taken if the
// program links gonbui; two encoders on one pipe would corrupt each other's
// messages.
var registered = sync.OnceValue(func() (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the program uses gonbui for its output")
		}
	}()
	gob.RegisterName(valueName, value{})
	return nil
})

// Show adds an output to the cell and returns when the kernel has received it.
//
// Errors: no kernel; a broken pipe.
func Show(d Data) error {
	mu.Lock()
	defer mu.Unlock()
	if err := send(message{Data: d}); err != nil {
		return err
	}
	return roundTrip()
}

// Update replaces the output with the same id. Ids are unique within a notebook.
//
// Errors: those of Show.
func Update(id string, d Data) error {
	mu.Lock()
	defer mu.Unlock()
	return send(message{Data: d, DisplayID: id})
}

// Flush waits until the kernel has received everything. Call it before the program
// ends.
//
// Errors: those of Show.
func Flush() error {
	mu.Lock()
	defer mu.Unlock()
	if out == nil {
		return broken
	}
	return roundTrip()
}

// send sends a message; the first one opens the pipes.
func send(m message) error {
	if broken != nil {
		return broken
	}
	if out == nil {
		if broken = open(); broken != nil {
			return broken
		}
	}
	if err := out.Encode(m); err != nil {
		broken = fmt.Errorf("send to the notebook: %w", err)
	}
	return broken
}

// open opens both pipes. The kernel waits for both.
func open() error {
	if err := registered(); err != nil {
		return err
	}
	to, err := os.OpenFile(os.Getenv(pipeTo), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open the notebook's pipe: %w", err)
	}
	from, err := os.OpenFile(os.Getenv(pipeFrom), os.O_RDONLY, 0)
	if err != nil {
		return errors.Join(fmt.Errorf("open the notebook's pipe: %w", err), to.Close())
	}
	out, in = gob.NewEncoder(to), gob.NewDecoder(from)
	return nil
}

// roundTrip sends a synchronisation request and waits for its acknowledgement,
// which the kernel sends after it has processed all earlier messages.
func roundTrip() error {
	number++
	if err := send(message{Data: map[string]any{valueType: value{Address: syncTo, Value: number}}}); err != nil {
		return err
	}
	for {
		var v value
		if err := in.Decode(&v); err != nil {
			broken = fmt.Errorf("receive from the notebook: %w", err)
			return broken
		}
		if v.Address == syncFrom && v.Value == number {
			return nil
		}
	}
}
