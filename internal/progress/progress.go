// Package progress shows the progress of a job: as a bar on a terminal, or as a
// line at intervals in a log.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
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

// DefaultInterval is the time between two lines in mode Plain.
const DefaultInterval = 60 * time.Second

// Reporter shows the tasks of one job. A nil Reporter shows nothing.
type Reporter struct {
	mode     Mode
	w        io.Writer
	interval time.Duration
	bars     *mpb.Progress
	live     func(task int, text string)
	tasks    int // number of tasks started
	now      func() time.Time
}

// New returns a Reporter that writes to w, usually standard error. interval 0 means
// DefaultInterval.
func New(w io.Writer, mode Mode, interval time.Duration) *Reporter {
	if interval == 0 {
		interval = DefaultInterval
	}
	if mode == Auto {
		mode = Plain
		if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			mode = Bar
		}
	}
	r := &Reporter{mode: mode, w: w, interval: interval, now: time.Now}
	if mode == Bar {
		// AutoRefresh draws bars even if the writer is not a terminal, for mode
		// Bar.
		r.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40), mpb.WithAutoRefresh())
	}
	return r
}

// liveInterval is the time between two updates of a live Reporter.
const liveInterval = 300 * time.Millisecond

// NewLive returns a Reporter that calls show with a new text for a task whenever it
// progresses, for notebooks. Tasks are numbered from 0. A task that ends before its
// first update has no text.
func NewLive(show func(task int, text string)) *Reporter {
	return &Reporter{mode: Plain, interval: liveInterval, live: show, now: time.Now}
}

// Task is work that progresses from 0 to a total. A nil Task shows nothing.
type Task struct {
	r     *Reporter
	name  string
	total int64
	place int // index of the task
	bar   *mpb.Bar

	mu    sync.Mutex
	note  string
	done  int64
	begin time.Time
	last  time.Time // time of the last line
	end   bool
}

// Start starts a task, for example "train" with a total of 6000 steps. A total of 0
// is unknown: then only the count is shown.
func (r *Reporter) Start(name string, total int64) *Task {
	if r == nil || r.mode == None {
		return nil
	}
	t := &Task{r: r, name: name, total: total, place: r.tasks, begin: r.now()}
	t.last = t.begin
	r.tasks++
	if r.bars != nil {
		t.bar = r.bars.AddBar(total,
			mpb.PrependDecorators(decor.Name(name+" "), decor.CountersNoUnit("%d/%d ")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
				t.mu.Lock()
				defer t.mu.Unlock()
				return " " + t.note
			}), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 8}), "")))
	}
	return t
}

// Set updates how much is done, and a note such as "loss 0.312".
func (t *Task) Set(done int64, note string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.done, t.note = done, note
	now := t.r.now()
	due := t.r.mode == Plain && now.Sub(t.last) >= t.r.interval
	var line string
	if due {
		t.last = now
		line = t.line(now)
	}
	t.mu.Unlock()
	if t.bar != nil {
		t.bar.SetCurrent(done)
	}
	if due {
		t.print(line)
	}
}

// print writes a line to the Reporter's output.
func (t *Task) print(line string) {
	if t.r.live != nil {
		t.r.live(t.place, line)
		return
	}
	fmt.Fprintln(t.r.w, line)
}

// line formats the progress, such as "train 120/600 20 % loss 0.31, 3m10s left".
func (t *Task) line(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d", t.name, t.done)
	if t.total > 0 {
		fmt.Fprintf(&b, "/%d %d %%", t.total, 100*t.done/t.total)
	}
	if t.note != "" {
		b.WriteString(" " + t.note)
	}
	if t.done > 0 && t.done < t.total {
		left := time.Duration(float64(now.Sub(t.begin)) / float64(t.done) * float64(t.total-t.done))
		fmt.Fprintf(&b, ", %s left", left.Round(time.Second))
	}
	return b.String()
}

// Done ends the task, complete or not, with a last line that contains the elapsed
// time. It may be called twice.
func (t *Task) Done() {
	if t == nil {
		return
	}
	t.mu.Lock()
	if t.end {
		t.mu.Unlock()
		return
	}
	t.end = true
	now := t.r.now()
	line := fmt.Sprintf("%s, %s", strings.TrimSuffix(t.line(now), ","), now.Sub(t.begin).Round(100*time.Millisecond))
	done, total := t.done, t.total
	silent := t.r.live != nil && t.last.Equal(t.begin)
	t.mu.Unlock()
	if silent {
		return
	}
	if t.bar == nil {
		t.print(line)
		return
	}
	if done < total {
		t.bar.Abort(false)
		return
	}
	t.bar.SetTotal(total, true)
}

// Close waits until all bars are drawn. All tasks must have ended.
func (r *Reporter) Close() {
	if r != nil && r.bars != nil {
		r.bars.Wait()
	}
}
