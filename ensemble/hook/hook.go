package hook

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/backoff"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// maxDelay is the longest delay between attempts, unless the receiver asks for a longer one.
const maxDelay = time.Hour

// Options configures a Hook.
type Options struct {
	Out        string        // product directory
	File       string        // file of the records; its directory is created
	Call       config.Hook   // what is called; the zero value: nothing
	RetryDelay time.Duration // after the first failed attempt, doubled after each further one, up to an hour
	Version    string        // of the program
	Log        *slog.Logger
	OnFailure  func()        // called after each failed attempt
	Pauses     backoff.Clock // of pauses between attempts
}

// Hook delivers descriptions of issued products. Its methods may be called from any goroutine; none waits for a delivery.
type Hook struct {
	out, file string
	log       *slog.Logger
	version   string
	onFailure func()
	wake      chan struct{} // buffered, capacity 1
	pauses    backoff.Clock

	mu      sync.Mutex
	call    config.Hook
	delay   time.Duration
	to      receiver // nil: no hook
	records map[string]*record
	unread  []string          // names of records that are to be compared with the products
	started map[string]bool   // names for which Issuing was called
	closed  map[string]string // of Acknowledge
}

// receiver is what is called.
type receiver interface {
	// send makes one attempt. The time of ctx bounds it.
	send(ctx context.Context, e message) error
}

// message is a delivery.
type message struct {
	Issued
	attempt int    // from 1
	body    []byte // the event as JSON
}

// failure is a failed attempt with a wish of the receiver.
type failure struct {
	error
	after time.Duration // no attempt before; 0: no wish
	final bool          // no further attempt
}

// Open opens a hook, with the records of earlier processes.
//
// Errors: those of Configure.
func Open(o Options) (*Hook, error) {
	h := &Hook{out: o.Out, file: o.File, log: o.Log, version: o.Version, onFailure: o.OnFailure, pauses: o.Pauses, wake: make(chan struct{}, 1), started: map[string]bool{}}
	return h, h.Configure(o.Call, o.RetryDelay)
}

// Configure changes what is called. Deliveries that were given up are attempted again. Without a hook the records are
// removed, so that one that is configured later does not deliver the products of the time between.
//
// Errors: exit 64 for a command that cannot be executed and for a file of secrets that cannot be used; exit 73 for records
// that cannot be removed. The previous configuration remains then.
func (h *Hook) Configure(call config.Hook, delay time.Duration) error {
	to, err := newReceiver(call, h.version)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if to == nil {
		if err := filesystem.Remove(h.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return exit.CreateError(h.file, err)
		}
		h.to, h.records = nil, nil
		return nil
	}
	if h.records == nil {
		if h.records, err = readRecords(h.file); err != nil {
			h.log.Error("the records of the hook cannot be read: products that were not delivered until now are not delivered", "error", exit.OneLine(err))
			h.records = map[string]*record{}
		}
	}
	h.call, h.delay, h.to = call, delay, to
	for name, r := range h.records {
		if r.State == Abandoned {
			r.begin(h.pauses.Now())
		}
		if r.begun.IsZero() { // of an earlier process
			r.begun = r.Since
		}
		r.next = time.Time{}
		h.unread = append(h.unread, name) // it may have been published just before the service was killed
	}
	h.wakeUp()
	return nil
}

// newReceiver returns what a configuration calls; nil for nothing.
//
// Errors: exit 64.
func newReceiver(call config.Hook, version string) (receiver, error) {
	switch {
	case call.Command != nil:
		return newCommand(call)
	case call.URL != "":
		return newWebhook(call, version)
	}
	return nil, nil
}

// Issuing must be called before products of an initialisation are published. The products that it has already, if any, are
// not delivered; others are, also if the service is killed before it calls Issued.
func (h *Hook) Issuing(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.to == nil {
		return
	}
	h.started[name] = true
	if h.records[name] != nil {
		return
	}
	r := &record{State: known, Since: h.pauses.Now().UTC().Round(0)}
	if p, err := readProducts(h.out, name); err == nil {
		r.ID = p.id
	}
	h.records[name] = r
	h.write()
}

// Issued states that an initialisation has products, which may be new.
func (h *Hook) Issued(name string) {
	p, err := readProducts(h.out, name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.to == nil {
		return
	}
	if h.compare(name, p, err) {
		h.write()
		h.wakeUp()
	}
}

// wakeUp makes Run look for deliveries.
func (h *Hook) wakeUp() {
	select {
	case h.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Run delivers until ctx ends, which also ends a running attempt. That delivery is made after the next start.
func (h *Hook) Run(ctx context.Context) {
	for ctx.Err() == nil {
		h.findNew()
		name, wait := h.nextDue()
		if name != "" {
			h.deliver(ctx, name)
			continue
		}
		select {
		case <-ctx.Done():
		case <-h.wake:
		case <-h.pauses.After(wait):
		}
	}
}

// findNew compares the records of earlier processes with the products that exist.
func (h *Hook) findNew() {
	h.mu.Lock()
	names := h.unread
	h.unread = nil
	h.mu.Unlock()
	changed := false
	for _, name := range names {
		p, err := readProducts(h.out, name) // without the lock: Status does not wait for a slow disk
		h.mu.Lock()
		changed = h.compare(name, p, err) || changed
		h.mu.Unlock()
	}
	if changed {
		h.save()
	}
}

// compare updates the record of an initialisation with its present products, and reports whether that changed it.
func (h *Hook) compare(name string, p *products, err error) bool {
	r := h.records[name]
	switch {
	case h.records == nil: // no hook any more
		return false
	case err != nil:
		return r != nil && isGone(h.out, name) && h.forget(name, r)
	case r == nil || r.ID == p.id: // without a record it was not published by this service
		return false
	}
	now := &record{ID: p.id}
	now.begin(h.pauses.Now())
	switch {
	case r.isOpen():
		now.Replaces = r.Replaces // the last products that the receiver has
	case r.State == delivered:
		now.Replaces = r.ID
	}
	h.records[name] = now
	return true
}

// forget drops what is known of an initialisation whose products are gone, and reports whether that changes its record. One
// that is being published keeps an empty record.
func (h *Hook) forget(name string, r *record) bool {
	switch {
	case !h.started[name]:
		delete(h.records, name)
	case r.ID == "":
		return false
	default:
		*r = record{State: known, Since: r.Since}
	}
	return true
}

// nextDue returns the newest initialisation whose delivery is due, or the time until one is.
func (h *Hook) nextDue() (name string, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wait = maxDelay
	now := h.pauses.Now()
	for n, r := range h.records {
		if r.State != Pending {
			continue
		}
		if d := r.next.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		if isNewer(n, name) {
			name = n
		}
	}
	return name, wait
}

// isNewer reports whether an initialisation is later than another, by their names; "" is the earliest.
func isNewer(name, than string) bool {
	return strings.Compare((name + "00")[:min(12, len(name)+2)], (than + "00")[:min(12, len(than)+2)]) > 0
}

// deliver makes one attempt for an initialisation, and records its outcome.
func (h *Hook) deliver(ctx context.Context, name string) {
	p, err := readProducts(h.out, name)
	h.mu.Lock()
	changed := h.compare(name, p, err)
	r, to, call := h.records[name], h.to, h.call
	if err != nil && r != nil { // being replaced: no attempt
		r.next = h.pauses.Now().Add(h.delay)
	}
	if r == nil || to == nil || err != nil {
		h.mu.Unlock()
		if changed {
			h.save()
		}
		return
	}
	tried := *r
	h.mu.Unlock()
	begun := time.Now()
	err = h.attempt(ctx, to, call.Timeout, tried, p)
	if ctx.Err() != nil {
		return // interrupted: repeated after the next start
	}
	h.finish(name, tried.ID, err, begun)
}

// attempt sends the event of the products.
func (h *Hook) attempt(ctx context.Context, to receiver, timeout time.Duration, r record, p *products) error {
	d, err := p.issued(r.Replaces)
	if err != nil {
		return err
	}
	body, err := json.Marshal(Event{eventType, p.manifest.End.UTC(), d})
	if err != nil {
		return err
	}
	e := message{Issued: d, attempt: r.Attempts + 1, body: body}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return to.send(ctx, e)
}

// finish records the outcome of an attempt for products with an identifier.
func (h *Hook) finish(name, id string, err error, begun time.Time) {
	log := h.log.With("init", name, "id", id, "seconds", time.Since(begun).Seconds())
	h.mu.Lock()
	r := h.records[name]
	if r == nil || r.ID != id { // other products meanwhile
		h.mu.Unlock()
		return
	}
	if err == nil {
		*r = record{ID: id, State: delivered, Replaces: r.Replaces, Since: h.pauses.Now().UTC().Round(0)}
		h.mu.Unlock()
		log.Info("the hook was called")
		h.save()
		return
	}
	r.Attempts++
	r.Why = err.Error()
	now, wish := h.pauses.Now(), failure{}
	errors.As(err, &wish)
	r.next = now.Add(max(backoff.Delay(h.delay, maxDelay, r.Attempts), wish.after))
	if wish.final || r.next.Sub(r.begun) > h.call.RetryFor {
		r.State = Abandoned
	}
	log = log.With("attempt", r.Attempts, "error", r.Why)
	state, next := r.State, r.next
	h.mu.Unlock()
	h.onFailure()
	if state == Abandoned {
		log.Error("the hook was given up for an initialisation", "fix", "mend the command or the receiver, then reload or restart the service: it is called again")
	} else {
		log.Warn("the hook failed", "next_attempt", next.UTC().Format(time.RFC3339))
	}
	h.save()
}

// save writes the records.
func (h *Hook) save() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.write()
}

// write writes the records; h.mu is held. If that fails, a restart may deliver again what was delivered.
func (h *Hook) write() {
	if h.records == nil {
		return
	}
	if err := writeRecords(h.file, h.records); err != nil {
		h.log.Warn("cannot save the records of the hook", "error", exit.OneLine(err))
	}
}

// Acknowledge sets the deliveries whose end without success operators have acknowledged: identifiers of products by names of
// initialisations. They remain given up, but do not count.
func (h *Hook) Acknowledge(ids map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = ids
}

// Status describes the open deliveries of a hook.
type Status struct {
	Calls     string     `json:"calls"`     // "command" or "webhook"
	Pending   int        `json:"pending"`   // deliveries that are attempted again
	Abandoned int        `json:"abandoned"` // deliveries that were given up, which no operator has acknowledged
	Open      []Delivery `json:"open"`      // these and acknowledged ones, the newest initialisations first; at most maxOpen
}

// maxOpen is the largest number of deliveries that a Status lists.
const maxOpen = 100

// Delivery is a delivery that the receiver has not accepted.
type Delivery struct {
	Name        string     `json:"name"` // of the initialisation
	ID          string     `json:"id"`
	State       string     `json:"state"` // Pending, Abandoned or Acknowledged
	Since       time.Time  `json:"since"`
	Attempts    int        `json:"attempts"`               // failed ones
	NextAttempt *time.Time `json:"next_attempt,omitempty"` // nil: at once, or none
	Why         string     `json:"why,omitempty"`          // reason of the last failure
}

// Status returns the status of the hook; nil without one, and of a nil Hook.
func (h *Hook) Status() *Status {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.to == nil {
		return nil
	}
	s := &Status{Calls: "webhook", Open: []Delivery{}}
	if h.call.Command != nil {
		s.Calls = "command"
	}
	for name, r := range h.records {
		if !r.isOpen() || isGone(h.out, name) {
			continue
		}
		d := Delivery{Name: name, ID: r.ID, State: r.State, Since: r.Since, Attempts: r.Attempts, Why: r.Why}
		switch {
		case r.State == Abandoned && h.closed[name] == r.ID:
			d.State = Acknowledged
		case r.State == Abandoned:
			s.Abandoned++
		default:
			s.Pending++
			if !r.next.IsZero() {
				next := r.next.UTC()
				d.NextAttempt = &next
			}
		}
		s.Open = append(s.Open, d)
	}
	slices.SortFunc(s.Open, func(a, b Delivery) int {
		if isNewer(a.Name, b.Name) {
			return -1
		}
		return 1
	})
	s.Open = s.Open[:min(len(s.Open), maxOpen)]
	return s
}
