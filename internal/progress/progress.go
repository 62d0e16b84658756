// Package progress shows the progress of a job: as one line that is updated on a
// terminal, or as a line at intervals in a log.
package progress

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/internal/terminal"
)

// Mode selects how progress is shown.
type Mode string

// The modes.
const (
	Auto  Mode = "auto" // Bar on a terminal, Plain elsewhere
	Bar   Mode = "bar"
	Plain Mode = "plain"
	None  Mode = "none"
)

// DefaultInterval is the time between two lines in mode Plain, and between two records.
const DefaultInterval = 60 * time.Second

// redraw is the time between two updates of the line on a terminal. It is updated even
// if nothing was reported meanwhile: the elapsed time shows that the job works.
const redraw = 200 * time.Millisecond

// leastShown is the least duration of a task that leaves a line or a record.
const leastShown = time.Second

// Reporter shows the tasks of one job. Tasks may be nested: a task that is started before
// another ended is part of it. A nil Reporter shows nothing.
type Reporter struct {
	mode     Mode
	screen   *terminal.Screen
	interval time.Duration
	live     func(task int, text string)
	record   func(Event)
	now      func() time.Time

	mu     sync.Mutex
	open   []*Task // the innermost last
	tasks  int     // number of tasks started
	ticker chan struct{}
	ended  sync.WaitGroup
}

// New returns a Reporter that writes to w, usually standard error. interval 0 means
// DefaultInterval.
func New(w io.Writer, mode Mode, interval time.Duration) *Reporter {
	if interval == 0 {
		interval = DefaultInterval
	}
	if mode == Auto {
		mode = Plain
		if terminal.Is(w) {
			mode = Bar
		}
	}
	screen, is := w.(*terminal.Screen)
	if !is {
		screen = terminal.NewScreen(w)
	}
	return &Reporter{mode: mode, screen: screen, interval: interval, now: time.Now}
}

// Screen returns a writer for text that is printed above the line of progress. New takes
// it for w.
func Screen(w io.Writer) io.Writer { return terminal.NewScreen(w) }

// Record calls record whenever mode Plain prints a line, whatever the mode. It is called
// before the first task.
func (r *Reporter) Record(record func(Event)) { r.record = record }

// liveInterval is the time between two updates of a live Reporter.
const liveInterval = 300 * time.Millisecond

// NewLive returns a Reporter that calls show with a new text for a task whenever it
// progresses, for notebooks. Tasks are numbered from 0. A task that ends before its
// first update has no text.
func NewLive(show func(task int, text string)) *Reporter {
	return &Reporter{mode: Plain, interval: liveInterval, live: show, now: time.Now}
}

// contextKey is the key of a Reporter in a context.
type contextKey struct{}

// With returns a context that carries a Reporter to the stages of a job.
func With(ctx context.Context, r *Reporter) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// Start starts a task of the Reporter that a context carries; without one the task shows nothing.
func Start(ctx context.Context, name string, total int64) *Task {
	r, _ := ctx.Value(contextKey{}).(*Reporter)
	return r.Start(name, total)
}

// Task is work that progresses from 0 to a total. A nil Task shows nothing.
type Task struct {
	r      *Reporter
	name   string
	total  int64
	place  int // index of the task
	nested bool

	note  string
	done  int64
	begin time.Time
	last  time.Time // time of the last line or record
	end   bool
}

// Start starts a task, for example "train" with a total of 6000 steps. A total of 0
// is unknown: then the count is shown, if there is one, and the elapsed time.
func (r *Reporter) Start(name string, total int64) *Task {
	if r == nil || r.mode == None && r.record == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &Task{r: r, name: name, total: total, place: r.tasks, begin: r.now(), nested: len(r.open) > 0}
	t.last = t.begin
	r.tasks++
	r.open = append(r.open, t)
	if r.ticker == nil && r.live == nil {
		r.ticker = make(chan struct{})
		r.ended.Add(1)
		go r.tick(r.ticker)
	}
	return t
}

// tick updates the line, or prints one when it is due, until stop is closed.
func (r *Reporter) tick(stop chan struct{}) {
	defer r.ended.Done()
	clock := time.NewTicker(redraw)
	defer clock.Stop()
	for {
		select {
		case <-stop:
			return
		case <-clock.C:
			r.mu.Lock()
			r.draw()
			if len(r.open) > 0 {
				r.open[len(r.open)-1].report()
			}
			r.mu.Unlock()
		}
	}
}

// draw updates the line on a terminal. The caller holds the lock.
func (r *Reporter) draw() {
	if r.mode != Bar {
		return
	}
	if len(r.open) == 0 {
		r.screen.Show("")
		return
	}
	outer := ""
	for _, t := range r.open[:len(r.open)-1] {
		outer += t.name + " "
		if t.total > 0 {
			outer += fmt.Sprintf("%d %% ", 100*t.done/t.total)
		}
		outer += "> "
	}
	t := r.open[len(r.open)-1]
	name := t.name
	line := terminal.Truncate(outer+name+t.bar()+t.event(r.now()).status(), terminal.Width(r.screen)-1)
	if head := outer + name; strings.HasPrefix(line, head) {
		line = outer + terminal.Paint(r.screen, terminal.Bold, name) + line[len(head):]
	}
	r.screen.Show(line)
}

// bar draws the share that is done; "" without total.
func (t *Task) bar() string {
	const width = 16
	if t.total <= 0 {
		return ""
	}
	full := int(min(width, width*t.done/t.total))
	return " [" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

// Set updates how much is done, and a note such as "loss 0.312".
func (t *Task) Set(done int64, note string) {
	if t == nil {
		return
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.done, t.note = done, note
	t.report()
}

// Note updates the note.
func (t *Task) Note(note string) {
	if t == nil {
		return
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.note = note
	t.report()
}

// Add adds to how much is done. It may be called concurrently.
func (t *Task) Add(n int64) {
	if t == nil {
		return
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.done += n
	t.report()
}

// report prints and records the progress if an interval has passed. The caller holds the lock.
func (t *Task) report() {
	r := t.r
	now := r.now()
	if now.Sub(t.last) < r.interval {
		return
	}
	t.last = now
	e := t.event(now)
	if r.record != nil {
		r.record(e)
	}
	if r.mode == Plain {
		t.print(e.String())
	}
}

// print writes a line to the Reporter's output.
func (t *Task) print(line string) {
	if t.r.live != nil {
		t.r.live(t.place, line)
		return
	}
	fmt.Fprintln(t.r.screen, line)
}

// Done ends the task, complete or not. If it took a second and is not part of another
// task, it leaves a last line that contains the elapsed time. It may be called twice.
func (t *Task) Done() {
	if t == nil {
		return
	}
	r := t.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.end {
		return
	}
	t.end = true
	r.open = slices.DeleteFunc(r.open, func(o *Task) bool { return o == t })
	now := r.now()
	e := t.event(now)
	e.Final = true
	if r.live != nil {
		if !t.last.Equal(t.begin) {
			t.print(e.String())
		}
		return
	}
	if !t.nested && e.Elapsed >= leastShown {
		if r.mode != None {
			t.print(e.String())
		}
		if r.record != nil {
			r.record(e)
		}
	}
	if len(r.open) == 0 {
		r.draw()
	}
}

// Close removes the line. Tasks that have not ended are abandoned.
func (r *Reporter) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.open = nil
	r.draw()
	ticker := r.ticker
	r.ticker = nil
	r.mu.Unlock()
	if ticker != nil {
		close(ticker)
	}
	r.ended.Wait()
}

// Event is the progress of a task at one time.
type Event struct {
	Task    string
	Done    int64
	Total   int64 // 0: unknown
	Note    string
	Elapsed time.Duration
	Rate    float64       // a second; 0: unknown
	Left    time.Duration // estimate; 0: unknown
	Final   bool          // the task has ended
}

// event returns the progress of the task.
func (t *Task) event(now time.Time) Event {
	e := Event{Task: t.name, Done: t.done, Total: t.total, Note: t.note, Elapsed: now.Sub(t.begin)}
	if t.done > 0 && e.Elapsed > 0 {
		e.Rate = float64(t.done) / e.Elapsed.Seconds()
	}
	if t.done > 0 && t.done < t.total {
		e.Left = time.Duration(float64(e.Elapsed) / float64(t.done) * float64(t.total-t.done))
	}
	return e
}

// String formats the progress, such as "train 120/600 20 % loss 0.31, 2.5/s, 3m10s left".
func (e Event) String() string { return e.Task + e.status() }

// status is the progress without the name of the task.
func (e Event) status() string {
	var b strings.Builder
	if e.Total > 0 {
		fmt.Fprintf(&b, " %d/%d %d %%", e.Done, e.Total, 100*e.Done/e.Total)
	} else if e.Done > 0 {
		fmt.Fprintf(&b, " %d", e.Done)
	}
	if e.Note != "" {
		b.WriteString(" " + e.Note)
	}
	if e.Rate > 0 && e.Elapsed >= leastShown {
		b.WriteString(", " + rateText(e.Rate))
	}
	switch {
	case e.Final:
		fmt.Fprintf(&b, ", %s", e.Elapsed.Round(100*time.Millisecond))
	case e.Left > 0:
		fmt.Fprintf(&b, ", %s left", e.Left.Round(time.Second))
	default:
		fmt.Fprintf(&b, ", %s", e.Elapsed.Round(time.Second))
	}
	return b.String()
}

// rateText formats a rate, slow ones as the time of each.
func rateText(perSecond float64) string {
	if perSecond < 0.5 {
		return time.Duration(float64(time.Second)/perSecond).Round(100*time.Millisecond).String() + " each"
	}
	return fmt.Sprintf("%.3g/s", perSecond)
}
