// Package gonb shows pictures, tables and text in a notebook of the Go kernel GoNB:
// the part of the kernel's protocol that a program needs which shows something, and
// no more. A cell is a program of its own; the kernel gives it two named pipes, over
// which both send values of encoding/gob.
//
// Source: github.com/janpfeifer/gonb v0.11.3, gonbui/protocol. Why that package is not
// imported is in docs/decisions.
package gonb

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"sync"
)

// The variables in which the kernel names its pipes.
const (
	pipeTo   = "GONB_PIPE"      // of the program to the kernel
	pipeFrom = "GONB_PIPE_BACK" // of the kernel to the program
)

// MIME types of what is shown.
const (
	HTML = "text/html"
	Text = "text/plain"
	PNG  = "image/png"
	SVG  = "image/svg+xml"
)

// Data is one thing in one or several forms, of which the notebook shows the richest
// that it can: by MIME type a string, or bytes of a PNG.
type Data map[string]any

// message is DisplayData of the protocol. Fields are matched by their names.
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
	valueName = "github.com/janpfeifer/gonb/gonbui/protocol.CommValue" // as gob knows it
	valueType = "gonb/comm_value"
	syncTo    = "#gonbui/sync"
	syncFrom  = "#gonbui/sync_ack"
)

var (
	mu     sync.Mutex
	out    *gob.Encoder
	in     *gob.Decoder
	broken error // a pipe that failed stays so
	number int   // of the last request for an answer
)

// IsCell tells whether the program runs as a cell, with the stream of what is shown for
// itself: a program that links gonbui has given it to that.
func IsCell() bool { return os.Getenv(pipeTo) != "" && registered() == nil }

// registered gives the protocol's type its name. The name is taken where gonbui is
// linked too; two encoders on one pipe would then break what either of them sends.
var registered = sync.OnceValue(func() (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the program shows things by gonbui")
		}
	}()
	gob.RegisterName(valueName, value{})
	return nil
})

// Show adds an output to the cell, and returns when the kernel has it.
//
// Errors: if there is no kernel, or a pipe broke.
func Show(d Data) error {
	mu.Lock()
	defer mu.Unlock()
	if err := send(message{Data: d}); err != nil {
		return err
	}
	return roundTrip()
}

// Update shows something in place of what was shown with the same id before. Ids are
// of the whole notebook.
//
// Errors: as Show.
func Update(id string, d Data) error {
	mu.Lock()
	defer mu.Unlock()
	return send(message{Data: d, DisplayID: id})
}

// Flush returns when the kernel has all that was sent: before the program ends.
//
// Errors: as Show.
func Flush() error {
	mu.Lock()
	defer mu.Unlock()
	if out == nil {
		return broken
	}
	return roundTrip()
}

// send opens the pipes at the first message. The kernel waits for both.
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

// roundTrip asks the kernel for an answer, which comes when it has shown what came before.
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
