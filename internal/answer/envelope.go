// Package answer is how results are printed. In JSON an answer is one object, whose
// first fields, the Frame, are the same for all commands and the rest the command's own;
// fields are only added, never renamed, within a major version. For people it is Sections,
// which are printed as text, Markdown and HTML.
package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Envelope holds the fields that every answer begins with.
type Envelope struct {
	Schema   string   `json:"schema"` // "ensemble.COMMAND/1"
	Command  string   `json:"command"`
	Version  string   `json:"version"`
	Status   string   `json:"status"` // ok, degraded, failed, interrupted
	ExitCode int      `json:"exit_code"`
	Outputs  []string `json:"outputs"`
	Warnings []string `json:"warnings"`
	Error    *Fault   `json:"error,omitempty"`
}

// Fault is an error as people read it.
type Fault struct {
	Code string   `json:"code"` // "E065"
	What string   `json:"what"`
	At   string   `json:"at,omitempty"`
	Why  string   `json:"why,omitempty"`
	Fix  string   `json:"fix,omitempty"`
	More []*Fault `json:"more,omitempty"` // further faults of the same pass
}

// New makes the frame of a command that ended with err, nil for success.
func New(command, version string, err error) Envelope {
	schema := "ensemble"
	if command != "" {
		schema += "." + strings.ReplaceAll(command, " ", "-")
	}
	f := Envelope{Schema: schema + "/1", Command: command, Version: version,
		Status: "ok", ExitCode: int(exit.CodeOf(err)), Outputs: []string{}, Warnings: []string{}}
	if err != nil {
		f.Error, f.Status = faultOf(Error(err)), "failed"
		if f.ExitCode == int(exit.SaveAndStop) {
			f.Status = "interrupted"
		}
	}
	return f
}

// Error gives every error the shape that users read. One that nobody gave a code to
// is our bug.
func Error(err error) *exit.Error {
	var e *exit.Error
	if errors.As(err, &e) {
		return e
	}
	return &exit.Error{Code: exit.Bug, What: err.Error(), Why: "the program has no better words for this, which is a bug",
		Fix: "report it with this text and the command line", Err: err}
}

func faultOf(e *exit.Error) *Fault {
	f := &Fault{Code: fmt.Sprintf("E%03d", int(e.Code)), What: e.What, At: e.At, Why: e.Why, Fix: e.Fix}
	for _, m := range e.More {
		f.More = append(f.More, faultOf(m))
	}
	return f
}

// Write prints the frame, followed by the fields of data, as one object on one line. Every name is there once: fields of
// data that are named as one of the frame, of files that an answer repeats, are left out. data is a structure or map, or nil.
func (f Envelope) Write(w io.Writer, data any) error {
	out, err := encode(f)
	if err != nil {
		return err
	}
	if data != nil {
		fields, err := encode(data)
		if err != nil {
			return err
		}
		if len(fields) < 2 || fields[0] != '{' {
			return fmt.Errorf("the answer is a %T, which is no JSON object", data)
		}
		if out, err = join(out, fields); err != nil {
			return err
		}
	}
	_, err = w.Write(append(out, '\n'))
	return err
}

// join puts the fields of one object behind those of another, but those that the first has.
func join(first, second []byte) ([]byte, error) {
	var taken map[string]json.RawMessage
	if err := json.Unmarshal(first, &taken); err != nil {
		return nil, err
	}
	out := first[:len(first)-1]
	d := json.NewDecoder(bytes.NewReader(second))
	if _, err := d.Token(); err != nil { // the brace
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if _, there := taken[name.(string)]; there { // a name is a string in JSON
			continue
		}
		quoted, err := encode(name)
		if err != nil {
			return nil, err
		}
		out = append(append(append(append(out, ','), quoted...), ':'), value...)
	}
	return append(out, '}'), nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
