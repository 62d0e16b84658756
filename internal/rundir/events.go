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

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Value is a named value of an event.
type Value struct {
	Name  string
	Value any // a number, string, bool or any value that JSON can represent
}

// EventsFile is the name of the log of a run in its directory.
const EventsFile = "events.jsonl"

// Events writes events.jsonl, and numbers also to a TensorBoard file. Both are
// opened at the first event.
//
// Concurrency: several goroutines may use it.
type Events struct {
	mu          sync.Mutex
	of          *Dir
	begin       time.Time       // monotonic
	file        filesystem.File // nil until the first event
	tensorBoard *tensorBoard
}

// newEvents returns the log of a run directory. Nothing is created until the first
// event, so that a run that is refused leaves no files.
func newEvents(of *Dir) *Events { return &Events{of: of, begin: time.Now()} }

// open opens the log for appending. It terminates an incomplete last line of a
// killed process. The log of an earlier process becomes a new file, so that what that one writes, if it
// was suspended and continues, is lost.
func (e *Events) open() error {
	if e.file != nil {
		return nil
	}
	return e.of.Publish(e.openOwn)
}

// openOwn is open for a process that holds the lease.
func (e *Events) openOwn() error {
	path := e.of.File(EventsFile)
	if err := renew(path); err != nil {
		return exit.CreateError(path, err)
	}
	f, err := filesystem.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return exit.CreateError(path, err)
	}
	if err := endLine(f); err != nil {
		return errors.Join(exit.CreateError(path, err), f.Close())
	}
	b, err := openTensorBoard(e.of.File("tensorboard"))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	e.file, e.tensorBoard = f, b
	return nil
}

// renew replaces a file by a copy of itself. One that does not exist is no error.
func renew(path string) error {
	old, err := filesystem.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer old.Close()
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := io.Copy(w, old)
		return err
	})
}

// endLine appends a newline if the file does not end with one. The incomplete line
// becomes one that cannot be parsed, which ReadEvents accepts before a resume.
func endLine(f filesystem.File) error {
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
// rank, then the values in the given order. Numbers also go to TensorBoard as
// "kind/name". NaN and infinities are written as the strings "nan", "inf" and
// "-inf", as JSON has no such numbers.
//
// Each line is one write to a file that was opened for appending, so lines are complete
// unless the machine fails. A nil Events drops all.
//
// Errors: exit 73 or 74; a value that JSON cannot represent.
func (e *Events) Write(kind string, step uint64, epoch int, values ...Value) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.write(kind, step, epoch, values...)
}

// write is Write for a caller that holds the lock.
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
			e.tensorBoard.scalar(now, step, kind+"/"+v.Name, x)
		}
	}
	if err := e.tensorBoard.flush(); err != nil {
		return err
	}
	_, err := e.file.Write(append(line, "}\n"...))
	return exit.CreateError(e.file.Name(), err)
}

// Resumed logs that the run continues from the checkpoint of a step. Readers then
// drop earlier events of later steps.
//
// Errors: as Write.
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
		return err
	}
	return e.write("resumed", step, epoch)
}

// Sync makes the events so far survive a power failure. A run calls it before it saves a checkpoint and before its manifest.
//
// Errors: exit 74.
func (e *Events) Sync() error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file == nil {
		return nil
	}
	return exit.CreateError(e.file.Name(), errors.Join(e.file.Sync(), filesystem.SyncDir(e.of.Path)))
}

// close closes both files. Events without any have none.
func (e *Events) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file == nil {
		return nil
	}
	return errors.Join(e.file.Close(), e.tensorBoard.close())
}

// quote returns s as a JSON string.
func quote(s string) []byte {
	out, err := json.Marshal(s)
	if err != nil {
		return []byte(strconv.Quote(s))
	}
	return out
}

// encode returns v as JSON, with strings for NaN and infinities.
func encode(v any) ([]byte, error) {
	switch x, _ := number(v); {
	case math.IsNaN(x):
		return []byte(`"nan"`), nil
	case math.IsInf(x, 1):
		return []byte(`"inf"`), nil
	case math.IsInf(x, -1):
		return []byte(`"-inf"`), nil
	}
	return json.Marshal(v)
}

// number converts numeric types to float64. Integers above 2⁵³ are rounded, for
// TensorBoard only. bool is no number.
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

// Event is one line of events.jsonl.
type Event struct {
	Time   time.Time
	Mono   float64 // seconds since the start of the process
	Kind   string
	Step   uint64
	Epoch  int
	Values map[string]any // numbers are float64, "nan" included
}

// Number returns a value as a number; false if it is missing or not a number.
func (e Event) Number(name string) (float64, bool) {
	x, ok := e.Values[name].(float64)
	return x, ok
}

// Text returns a value as text; false if it is missing or not text.
func (e Event) Text(name string) (string, bool) {
	x, ok := e.Values[name].(string)
	return x, ok
}

// ReadEvents reads the events of a run. After a resume, earlier events of later
// steps are dropped, as is an incomplete last line of a killed process.
//
// Memory: all events.
// Errors: exit 66 if there is no log; 65 with the line that is malformed.
func ReadEvents(dir string) ([]Event, error) {
	path := filepath.Join(dir, EventsFile)
	f, err := filesystem.Open(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	defer f.Close()
	var events []Event
	var bad error // an incomplete line is valid only at the end, or before a resume
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
			bad = &exit.Error{Code: exit.BadData, What: "malformed event", At: fmt.Sprintf("%s:%d", path, n), Why: err.Error(), Fix: "remove the line", Err: err}
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

// parseEvent parses one line.
//
// Errors: invalid JSON; an event without kind or time; a step above 2⁵³, which float64
// would round.
func parseEvent(line []byte) (Event, error) {
	var e Event
	all := map[string]any{}
	if err := json.Unmarshal(bytes.TrimSpace(line), &all); err != nil {
		return e, err
	}
	var ok bool
	if e.Kind, ok = all["kind"].(string); !ok {
		return e, errors.New("the event has no kind")
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
		return e, errors.New("step or epoch is out of range")
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
