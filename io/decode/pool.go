// Package decode runs the children in which foreign bytes are decoded and
// products are encoded: a pool of long-lived ensemble-decode processes under
// limits of memory, processor time and wall time. A child that dies or hangs
// is replaced and costs the request it was working on, nothing else.
package decode

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Options of a Pool; the zero value is the default.
type Options struct {
	Program  string        // path of ensemble-decode; "" finds it (FindProgram)
	Children int           // at most so many at once; 0 means one per processor, at most 8
	Memory   int64         // address space of each child in bytes; 0 means 6 GiB
	Deadline time.Duration // wall time of one attempt at a request; 0 means one minute
}

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

// Pool hands requests to children. Children start when first needed. All
// methods may be called from several goroutines.
type Pool struct {
	opt   Options
	slots chan *child // one entry per permitted child; nil where none runs yet
	once  sync.Once
}

// NewPool makes a pool; no child runs yet.
//
// Errors: exit 69 if the child program is not installed.
func NewPool(o Options) (*Pool, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	p := &Pool{opt: o, slots: make(chan *child, o.Children)}
	for range o.Children {
		p.slots <- nil
	}
	return p, nil
}

// Start starts so many children, or all if there are fewer, in the background, so that they
// are there when they are first needed. One that does not start gives its error to the
// request that needs it.
func (p *Pool) Start(children int) {
	for range min(children, p.opt.Children) {
		go func() {
			slot := <-p.slots
			defer func() { p.slots <- slot }()
			if slot == nil {
				slot, _ = startChild(context.Background(), p.opt)
			}
		}()
	}
}

// Size is the number of requests that can be under way at once.
func (p *Pool) Size() int { return p.opt.Children }

// Call is one request.
type Call struct {
	Kind string // name in the child's table of kinds
	Args any    // becomes JSON
	// Fill, if not nil, writes the input payload of In bytes into memory shared
	// with the child.
	InputBytes int
	WriteInput func(dst []byte)
	// Result, if not nil, receives the JSON result.
	Result any
	// ReadOutput, if not nil, is shown the output payload. It must copy what it keeps:
	// the memory belongs to the child's next request once Out returns.
	ReadOutput func(payload []byte) error
	// Deadline of one attempt, if not the pool's.
	Deadline time.Duration
	// NoRetry forbids the second attempt in a fresh child after a death or a hang.
	NoRetry bool
}

// DiedError says that a child died or hung on a request.
type DiedError struct {
	Kind   string
	Reason string // "no answer within 1m0s", "signal: segmentation fault"
	Stderr string // last lines it wrote
}

// Error names the request and the reason.
func (e *DiedError) Error() string {
	s := fmt.Sprintf("%s failed on %s: %s", ProgramName, e.Kind, e.Reason)
	if e.Stderr != "" {
		s += " (" + e.Stderr + ")"
	}
	return s
}

// Do runs one call in a child that is free, waiting for one if need be.
//
// Errors: the child's own *exit.Error; *DiedError if the child died or hung
// twice (once with Call.NoRetry); exit 69 if children cannot be started; ctx.Err().
func (p *Pool) Do(ctx context.Context, c Call) error {
	args, err := json.Marshal(c.Args)
	if err != nil {
		return fmt.Errorf("%s: arguments: %w", c.Kind, err)
	}
	var slot *child
	select {
	case slot = <-p.slots:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.slots <- slot }()
	if err := ctx.Err(); err != nil { // a child that is free may be quicker than the news of the end
		return err
	}
	for attempt := 0; ; attempt++ {
		if slot == nil {
			if slot, err = startChild(ctx, p.opt); err != nil {
				return err
			}
		}
		err = slot.do(ctx, c, args, p.opt)
		if slot.dead {
			slot.close()
			slot = nil
		}
		if _, died := err.(*DiedError); !died || c.NoRetry || attempt == 1 || ctx.Err() != nil {
			return err
		}
	}
}

// Libraries says what the child program links, with versions.
func (p *Pool) Libraries(ctx context.Context) (map[string]string, error) {
	var v map[string]string
	err := p.Do(ctx, Call{Kind: "versions", Result: &v})
	return v, err
}

// Close ends all children, waiting for requests under way. The pool cannot be
// used afterwards.
func (p *Pool) Close() {
	p.once.Do(func() {
		for range p.opt.Children {
			if c := <-p.slots; c != nil {
				c.close()
			}
		}
	})
}
