// Package answer prints the results of commands.
//
// As JSON a result is one object on one line. Its first fields, the Envelope, are
// the same for all commands; the others are the command's own. Within a major
// version fields are added but never renamed. For display a result is a list of
// Sections, printed as text, Markdown or HTML.
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

// Envelope holds the fields that every JSON result starts with.
type Envelope struct {
	Schema   string   `json:"schema"` // such as "ensemble.COMMAND/1"
	Command  string   `json:"command"`
	Version  string   `json:"version"`
	Status   string   `json:"status"`    // ok, degraded, failed or interrupted
	ExitCode int      `json:"exit_code"` // exit code of the process
	Outputs  []string `json:"outputs"`
	Warnings []string `json:"warnings"`
	Error    *Fault   `json:"error,omitempty"`
}

// Fault is an error in JSON.
type Fault struct {
	Code string   `json:"code"` // such as "E065"
	What string   `json:"what"`
	At   string   `json:"at,omitempty"`
	Why  string   `json:"why,omitempty"`
	Fix  string   `json:"fix,omitempty"`
	More []*Fault `json:"more,omitempty"` // further errors found in the same pass
}

// New returns the frame of a command that ended with err, nil for success.
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

// Error returns the exit.Error in the chain of err. An error without an exit code
// is a bug of this program and is reported as one.
func Error(err error) *exit.Error {
	var e *exit.Error
	if errors.As(err, &e) {
		return e
	}
	return &exit.Error{Code: exit.Bug, What: err.Error(), Why: "an error without an explanation is a bug of this program",
		Fix: "report it with this text and the command line", Err: err}
}

// faultOf converts an error for JSON.
func faultOf(e *exit.Error) *Fault {
	f := &Fault{Code: fmt.Sprintf("E%03d", int(e.Code)), What: e.What, At: e.At, Why: e.Why, Fix: e.Fix}
	for _, m := range e.More {
		f.More = append(f.More, faultOf(m))
	}
	return f
}

// Write prints the frame and the fields of data as one object on one line. data is
// a struct, a map or nil. Fields of data with the name of a field of the frame are
// omitted, so that names are unique.
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
			return fmt.Errorf("result of type %T is not a JSON object", data)
		}
		if out, err = join(out, fields); err != nil {
			return err
		}
	}
	_, err = w.Write(append(out, '\n'))
	return err
}

// join appends the fields of the second object to the first, except those that the
// first has.
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
		if _, exists := taken[name.(string)]; exists { // names in JSON are strings
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

// encode marshals v without escaping HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
