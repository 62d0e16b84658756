package rundir

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Value is a named value of an event.
type Value struct {
	Name  string
	Value any // a number, text, bool or anything that JSON has
}

// Events writes events.jsonl and, of what is a number, the TensorBoard file. Both
// are opened at the first event. It may be used from several goroutines.
type Events struct {
	mu          sync.Mutex
	dir         string
	begin       time.Time // monotonic
	file        *os.File  // nil until the first event
	tensorBoard *tensorBoard
}

func newEvents(dir string) *Events { return &Events{dir: dir, begin: time.Now()} }

// open opens the log for appending. A line that a killed process left without its
// end is ended.
func (e *Events) open() error {
	if e.file != nil {
		return nil
	}
	path := filepath.Join(e.dir, "events.jsonl")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return exit.CreateError(path, err)
	}
	if err := endLine(f); err != nil {
		return errors.Join(exit.CreateError(path, err), f.Close())
	}
	b, err := openTensorBoard(filepath.Join(e.dir, "tensorboard"))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	e.file, e.tensorBoard = f, b
	return nil
}

func endLine(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, end-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.Write([]byte("\n"))
	return err
}

// Write appends one event: time, seconds since the start, kind, step, epoch and
// rank, then the values in the given order. Values that are numbers also go to
// TensorBoard under "kind/name". NaN and the infinities are written as the strings
// "nan", "inf" and "-inf", since JSON has none.
func (e *Events) Write(kind string, step uint64, epoch int, values ...Value) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.write(kind, step, epoch, values...)
}

func (e *Events) write(kind string, step uint64, epoch int, values ...Value) error {
	if err := e.open(); err != nil {
		return err
	}
	now := time.Now()
	line := []byte(fmt.Sprintf(`{"t":%q,"mono":%.3f,"kind":%s,"step":%d,"epoch":%d,"rank":0`,
		now.UTC().Format("2006-01-02T15:04:05.000Z"), now.Sub(e.begin).Seconds(), quote(kind), step, epoch))
	for _, v := range values {
		text, err := encode(v.Value)
		if err != nil {
			return fmt.Errorf("event %s, value %s: %w", kind, v.Name, err)
		}
		line = append(line, ',')
		line = append(line, quote(v.Name)...)
		line = append(line, ':')
		line = append(line, text...)
		if x, ok := number(v.Value); ok {
			if err := e.tensorBoard.scalar(now, step, kind+"/"+v.Name, x); err != nil {
				return exit.CreateError(e.tensorBoard.path, err)
			}
		}
	}
	if _, err := e.file.Write(append(line, "}\n"...)); err != nil {
		return exit.CreateError(e.file.Name(), err)
	}
	return nil
}

// Resumed notes that the run goes on from the checkpoint of a step. Readers forget
// earlier events of later steps.
func (e *Events) Resumed(step uint64, epoch int) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.open(); err != nil {
		return err
	}
	if err := e.tensorBoard.resumed(time.Now(), step); err != nil {
		return exit.CreateError(e.tensorBoard.path, err)
	}
	return e.write("resumed", step, epoch)
}

func (e *Events) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file == nil {
		return nil
	}
	return errors.Join(e.file.Close(), e.tensorBoard.close())
}

func quote(s string) []byte {
	out, err := json.Marshal(s)
	if err != nil {
		return []byte(strconv.Quote(s))
	}
	return out
}

func encode(v any) ([]byte, error) {
	if x, ok := number(v); ok {
		switch {
		case math.IsNaN(x):
			return []byte(`"nan"`), nil
		case math.IsInf(x, 1):
			return []byte(`"inf"`), nil
		case math.IsInf(x, -1):
			return []byte(`"-inf"`), nil
		}
	}
	return json.Marshal(v)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	}
	return 0, false
}

// Event is one line of events.jsonl as it is read back.
type Event struct {
	Time   time.Time
	Mono   float64
	Kind   string
	Step   uint64
	Epoch  int
	Values map[string]any // float64 for numbers, "nan" included
}

// Number is a value as a number, false if it is not there or is none.
func (e Event) Number(name string) (float64, bool) {
	x, ok := e.Values[name].(float64)
	return x, ok
}

// Text is a value that is text.
func (e Event) Text(name string) (string, bool) {
	x, ok := e.Values[name].(string)
	return x, ok
}

// ReadEvents reads the events of a run as they count: where it was resumed from a
// step, earlier events of later steps are left out. A last line without its end is
// what a killed process left and is left out too.
//
// Errors: 66 if there is no log, 65 naming the line that is none.
func ReadEvents(dir string) ([]Event, error) {
	path := filepath.Join(dir, "events.jsonl")
	f, err := os.Open(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	defer f.Close()
	var events []Event
	var bad error // a line that is torn is legal only where a killed process ended
	in := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return events, bad
		}
		if err != nil {
			return nil, exit.ReadError(path, err)
		}
		e, err := parseEvent(line)
		if err != nil {
			bad = &exit.Error{Code: exit.BadData, What: "not an event", At: fmt.Sprintf("%s:%d", path, n), Why: err.Error(), Fix: "remove the line", Err: err}
			continue
		}
		if e.Kind == "resumed" {
			bad = nil
			kept := events[:0]
			for _, old := range events {
				if old.Step <= e.Step {
					kept = append(kept, old)
				}
			}
			events = kept
		} else if bad != nil {
			return nil, bad
		}
		events = append(events, e)
	}
}

func parseEvent(line []byte) (Event, error) {
	var e Event
	all := map[string]any{}
	if err := json.Unmarshal(bytes.TrimSpace(line), &all); err != nil {
		return e, err
	}
	var ok bool
	if e.Kind, ok = all["kind"].(string); !ok {
		return e, errors.New("it has no kind")
	}
	when, _ := all["t"].(string)
	t, err := time.Parse(time.RFC3339, when)
	if err != nil {
		return e, err
	}
	e.Time = t
	e.Mono, _ = all["mono"].(float64)
	step, _ := all["step"].(float64)
	epoch, _ := all["epoch"].(float64)
	if step < 0 || step > 1<<53 || math.Abs(epoch) > 1<<31 {
		return e, errors.New("its step or epoch is out of range")
	}
	e.Step, e.Epoch = uint64(step), int(epoch)
	for _, name := range []string{"t", "mono", "kind", "step", "epoch", "rank"} {
		delete(all, name)
	}
	for name, v := range all {
		switch v {
		case "nan":
			all[name] = math.NaN()
		case "inf":
			all[name] = math.Inf(1)
		case "-inf":
			all[name] = math.Inf(-1)
		}
	}
	e.Values = all
	return e, nil
}
