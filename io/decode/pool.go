// Package decode runs the child processes that decode untrusted input and encode
// products: a pool of long-lived ensemble-decode processes with limits on memory,
// processor time and wall time. A child that crashes or hangs is replaced. Only the
// request that it was executing fails.
package decode

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Options configures a Pool. The zero value is the default.
type Options struct {
	Program  string        // path of ensemble-decode; "" searches it (FindProgram)
	Children int           // maximum number of children; 0 means one per processor, at most 8
	Memory   int64         // address space of each child in bytes; 0 means 6 GiB
	Deadline time.Duration // wall time of one attempt at a request; 0 means one minute
	Records  *slog.Logger  // receives what restricts the first child; nil is silent
}

// check returns the options with their defaults.
//
// The address space of 6 GiB includes the libraries and is not memory in use; it bounds
// what a damaged header can request.
//
// Errors: exit 64 for negative limits; exit 69 if the program is not found.
func (o Options) check() (Options, error) {
	if o.Children < 0 || o.Memory < 0 || o.Deadline < 0 {
		return o, &exit.Error{Code: exit.Usage, What: "negative limit for decoding children", Fix: "leave it 0 for the default"}
	}
	if o.Children == 0 {
		o.Children = min(runtime.GOMAXPROCS(0), 8)
	}
	if o.Memory == 0 {
		o.Memory = 6 << 30
	}
	if o.Deadline == 0 {
		o.Deadline = time.Minute
	}
	if o.Program == "" {
		var err error
		if o.Program, err = FindProgram(); err != nil {
			return o, err
		}
	}
	return o, nil
}

// Pool distributes requests over children. Children start when they are first
// needed. All methods may be called from several goroutines.
type Pool struct {
	opt      Options
	children chan *child // one slot per child that may run; nil if it has not been started
	once     sync.Once
	logged   sync.Once // what restricts the first child
	mu       sync.Mutex
	read     []string // folders of the files of all calls, at most maxFolders, which new readers may open; replaced, never changed
}

// NewPool makes a pool without starting a child. The channel of slots is its only lock:
// a slot is either in the channel or owned by one call, so a child never has two
// requests.
//
// Errors: exit 69 if the child program is not installed.
func NewPool(o Options) (*Pool, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	p := &Pool{opt: o, children: make(chan *child, o.Children)}
	for range o.Children {
		p.children <- nil
	}
	return p, nil
}

// Start starts a child for each processor in the background, so that they are ready to read files when they
// are first needed. If a child cannot be started, the request that needs it returns the
// error. It hides the start of processes behind the listing of files. It does not wait.
//
// Errors: those of folderOf.
func (p *Pool) Start(files []string) error {
	if err := p.Announce(files); err != nil {
		return err
	}
	for range p.opt.Children {
		go p.start()
	}
	return nil
}

// Announce names files that will be read, so that one child can read all of them: otherwise each new folder costs the start of another.
//
// Errors: those of folderOf.
func (p *Pool) Announce(files []string) error {
	seen := map[string]bool{}
	for _, f := range files { // one of each folder: a link to elsewhere costs another start
		if dir := filepath.Dir(f); !seen[dir] {
			seen[dir] = true
			folder, err := folderOf(f)
			if err != nil {
				return err
			}
			p.folders(folder)
		}
	}
	return nil
}

// startChild starts a child that may read some folders, and records what restricts the first one.
func (p *Pool) startChild(ctx context.Context, read []string) (*child, error) {
	c, err := startChild(ctx, p.opt, read)
	if err == nil && p.opt.Records != nil {
		p.logged.Do(func() { p.opt.Records.Info("decoding program started", "sandbox", c.sandbox) })
	}
	return c, err
}

// start starts the child of a free slot, if it has none.
func (p *Pool) start() {
	slot := <-p.children
	defer func() { p.children <- slot }()
	if slot == nil {
		slot, _ = p.startChild(context.Background(), p.folders(""))
	}
}

// folders returns the folders that children may read, with one more; "" adds none.
func (p *Pool) folders(more string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if more != "" && !withinAny(more, p.read) {
		p.read = bounded(append(slices.Clone(p.read), more))
	}
	return p.read
}

// maxFolders bounds the folders of a child: each is a rule of the kernel, and all are one environment variable.
const maxFolders = 64

// bounded replaces the deepest folders by their parents while there are more than maxFolders: archives have a folder for each initialisation.
func bounded(folders []string) []string {
	depth := func(f string) int { return strings.Count(f, "/") }
	for len(folders) > maxFolders {
		deepest := depth(slices.MaxFunc(folders, func(a, b string) int { return depth(a) - depth(b) }))
		for i, f := range folders {
			if depth(f) == deepest {
				folders[i] = filepath.Dir(f)
			}
		}
		slices.Sort(folders)
		folders = slices.Compact(folders)
	}
	return folders
}

// within reports whether a folder is another one or lies in it.
func within(folder, other string) bool {
	rel, err := filepath.Rel(other, folder)
	return err == nil && filepath.IsLocal(rel)
}

// withinAny reports whether a folder is one of others or lies in one.
func withinAny(folder string, others []string) bool {
	return slices.ContainsFunc(others, func(o string) bool { return within(folder, o) })
}

// granted is a folder whose files a child may read. The kernel grants the folder that had this name, not one that has replaced it.
type granted struct {
	path string
	of   fs.FileInfo // nil: it did not exist
}

// grantedOf looks folders up.
func grantedOf(folders []string) []granted {
	out := make([]granted, len(folders))
	for i, f := range folders {
		out[i].path = f
		out[i].of, _ = filesystem.Stat(f)
	}
	return out
}

// mayRead reports whether a child may read the files of a folder.
func (c *child) mayRead(folder string) bool {
	return slices.ContainsFunc(c.folders, func(g granted) bool {
		if !within(folder, g.path) {
			return false
		}
		now, err := filesystem.Stat(g.path)
		return err != nil || g.of != nil && os.SameFile(now, g.of) // without it the child reports its absence
	})
}

// folderOf returns the folder in which a file lies, without links; "" for no file. The folder of a file that does not exist is that of its name: the child
// reports its absence.
func folderOf(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	if real, err := filesystem.RealPath(file); err == nil {
		file = real
	}
	return filesystem.Absolute("", filepath.Dir(file))
}

// Size returns the number of requests that can run concurrently.
func (p *Pool) Size() int { return p.opt.Children }

// Call is one request. The zero value of all fields but Kind is a request without input,
// output and result.
type Call struct {
	Kind string // name in the child's table of requests
	Args any    // encoded as JSON
	File string // file that the child reads; "": none
	// WriteInput, if not nil, writes the input payload of InputBytes bytes into
	// memory shared with the child.
	InputBytes int
	WriteInput func(dst []byte)
	Result     any // Result, if not nil, receives the JSON result.
	// ReadOutput, if not nil, is called with the output payload. The memory is
	// reused after it returns. An error that wraps wire.ErrImpossible ends the child.
	ReadOutput func(payload []byte) error
	// ReadFile, if not nil, is called with the file that the request encoded, from its begin.
	ReadFile func(f io.Reader) error
	Deadline time.Duration // Deadline of one attempt; 0 means that of the pool.
	NoRetry  bool          // NoRetry disables the second attempt in a new child after a crash or a deadline.
}

// DiedError reports a child that crashed or exceeded its deadline. The caller adds the
// file and the message that were decoded, which this package does not see.
type DiedError struct {
	Kind   string
	Reason string // "no reply within 1m0s", "signal: segmentation fault"
	Stderr string // last lines of its stderr
	Killed bool   // by SIGKILL of another process or of the kernel
}

// Error formats request, reason and stderr.
func (e *DiedError) Error() string {
	s := fmt.Sprintf("%s failed on %s: %s", ProgramName, e.Kind, e.Reason)
	if e.Stderr != "" {
		s += " (" + e.Stderr + ")"
	}
	return s
}

// Do executes one call in a free child, and waits for one if necessary. A second attempt
// in a new child separates a damaged message, which crashes both, from a child that an
// earlier request had harmed. WriteInput is then called twice and must write the same
// both times.
//
// A child reads only the folders that were known when it was started: one that lacks the folder of Call.File is replaced.
//
// Errors: the child's own *exit.Error; *DiedError if the child crashed or exceeded the
// deadline twice (once with Call.NoRetry); exit 74 if the second one was killed, as for
// want of memory; exit 69 if children cannot be started; ctx.Err().
// Cost: without waiting, two frames through pipes; payloads are not copied.
func (p *Pool) Do(ctx context.Context, c Call) error {
	args, err := json.Marshal(c.Args)
	if err != nil {
		return fmt.Errorf("%s: arguments: %w", c.Kind, err)
	}
	folder, err := folderOf(c.File)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Kind, err)
	}
	read := p.folders(folder)
	var slot *child
	select {
	case slot = <-p.children:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.children <- slot }()
	if err := ctx.Err(); err != nil { // select chooses at random if both are ready
		return err
	}
	if slot != nil && folder != "" && !slot.mayRead(folder) {
		slot.close()
		slot = nil
	}
	for attempt := 0; ; attempt++ {
		if slot == nil {
			if slot, err = p.startChild(ctx, read); err != nil {
				return err
			}
		}
		err = slot.do(ctx, c, args, p.opt)
		if slot.dead {
			slot.close()
			slot = nil
		}
		died, _ := err.(*DiedError)
		if died == nil || c.NoRetry || ctx.Err() != nil {
			return err
		}
		if attempt == 1 {
			return died.asError()
		}
	}
}

// asError returns the error of a second death. A child that was killed is no fault of its input: the error then has
// exit code 74 and is no DiedError.
func (e *DiedError) asError() error {
	if !e.Killed {
		return e
	}
	return &exit.Error{Code: exit.IO, What: "the decoding program was killed", At: ProgramName, Why: e.Error(),
		Fix: "free memory, or raise the memory limit of the service or container; rerun the same command"}
}

// Libraries returns the versions of the libraries that the child program links, by
// name.
//
// Errors: those of Do.
func (p *Pool) Libraries(ctx context.Context) (map[string]string, error) {
	var v map[string]string
	err := p.Do(ctx, Call{Kind: "versions", Result: &v})
	return v, err
}

// Sandbox returns what restricts a child: "Landlock 7, seccomp", or "none" where the kernel has neither and where the user disabled them.
//
// Errors: those of startChild.
func (p *Pool) Sandbox(ctx context.Context) (string, error) {
	slot := <-p.children
	defer func() { p.children <- slot }()
	if slot == nil {
		var err error
		if slot, err = p.startChild(ctx, p.folders("")); err != nil {
			return "", err
		}
	}
	return slot.sandbox, nil
}

// Close waits for running requests and ends all children. The pool cannot be used
// afterwards. It takes all slots and does not return them: a Do after Close would wait
// until its context ends. A second call returns at once.
func (p *Pool) Close() {
	p.once.Do(func() {
		for range p.opt.Children {
			if c := <-p.children; c != nil {
				c.close()
			}
		}
	})
}
