package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Action is what an operator decides about an initialisation.
type Action string

// The actions.
const (
	Accept      Action = "accept"      // make kept products again from the new input, and replace the old ones
	Dismiss     Action = "dismiss"     // leave kept products as they are, whatever the new input
	Retry       Action = "retry"       // attempt a failed initialisation at once
	Acknowledge Action = "acknowledge" // end the alerts on a failed, degraded or late initialisation

	AcknowledgeDelivery Action = "acknowledge-delivery" // end the alerts on a delivery that was given up
)

// Decision is the decision of an operator about an initialisation, in the file DIR/.serve/decisions/NAME.json, or about a
// delivery of its products, in NAME.delivery.json: neither replaces the other. A service
// reads it at its next scan, and after a restart. It applies as long as the initialisation has this revision; for a delivery
// that is the identifier of its products.
type Decision struct {
	Schema   string    `json:"schema"` // decisionSchema
	Init     string    `json:"init"`   // name of the initialisation
	Action   Action    `json:"action"`
	Revision string    `json:"revision"` // InitStatus.Revision
	Time     time.Time `json:"time"`
}

// Schemas of the files in stateDir.
const (
	decisionSchema = "ensemble.decision/1"
	initsSchema    = "ensemble.inits/1"
)

// knownInits is the content of initsFile: the initialisations that a service knows, for Decide.
type knownInits struct {
	Schema string       `json:"schema"` // initsSchema
	Inits  []InitStatus `json:"inits"`
}

// deliverySuffix follows the name of an initialisation in the name of a decision about its delivery.
const deliverySuffix = ".delivery"

// record returns the name of the decision, without the extension of its file.
func (d *Decision) record() string {
	if d.Action == AcknowledgeDelivery {
		return d.Init + deliverySuffix
	}
	return d.Init
}

// decisionsDir is the folder of decisions below a product directory.
func decisionsDir(out string) string { return filepath.Join(out, stateDir, "decisions") }

// initsFile is the file of knownInits below a product directory.
func initsFile(out string) string { return filepath.Join(out, stateDir, "inits.json") }

// Decide records a decision about an initialisation, or its delivery, for the service with the product directory out. It
// replaces an earlier one about the same, which it returns (nil: none). The service need not run.
//
// Errors: exit 66 if no service knows the initialisation; exit 1 if its state has nothing to decide in this way; exit 73
// if the directory cannot be written, or another process decides at the same moment.
func Decide(out string, init time.Time, action Action) (made, earlier *Decision, err error) {
	status, err := knownInit(out, product.InitName(ensemble.InitAt(init)))
	if err != nil {
		return nil, nil, err
	}
	if why := status.undecidable(action); why != "" {
		return nil, nil, &exit.Error{Code: exit.No, What: "nothing to " + string(action), At: "initialisation " + status.Name + " in " + out, Why: why, Fix: "`/status` of the service has the state of each initialisation"}
	}
	dir := decisionsDir(out)
	if err := filesystem.MkdirAll(dir, 0o777); err != nil {
		return nil, nil, exit.CreateError(dir, err)
	}
	lock, err := lease.Take(filepath.Join(dir, "."+status.Name+".lock"), "the decision about initialisation "+status.Name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	made = &Decision{Schema: decisionSchema, Init: status.Name, Action: action, Revision: status.Revision, Time: time.Now().UTC().Round(0)}
	if action == AcknowledgeDelivery {
		made.Revision = status.Undelivered
	}
	path := filepath.Join(dir, made.record()+".json")
	if err := atomicfile.RemoveTemporary(dir, filepath.Base(path)); err != nil { // of a killed command
		return nil, nil, exit.CreateError(dir, err)
	}
	earlier, _ = readDecision(path) // a damaged one is replaced
	return made, earlier, jsonfile.Write(path, made)
}

// undecidable is why an action does not apply to an initialisation; "" if it does.
func (i *InitStatus) undecidable(action Action) string {
	switch {
	case action == Accept && i.CanAccept:
		return ""
	case action == Accept && i.State == kept:
		return "its new input cannot be used: " + i.Why
	case action == Accept:
		return "it is " + i.State + ", and no other input has come since it was issued"
	case action == AcknowledgeDelivery && i.Undelivered == "":
		return "no delivery of it was given up, or it was acknowledged"
	case action == AcknowledgeDelivery:
		return ""
	}
	states := map[Action][]string{Dismiss: {kept}, Retry: {failed}, Acknowledge: acknowledgeable}[action]
	other := "it is " + i.State + ", not " + strings.Join(states, " or ")
	switch fits := slices.Contains(states, i.State); {
	case !fits && action == Acknowledge && i.Undelivered != "":
		return other + "; end the alerts on its delivery with " + string(AcknowledgeDelivery)
	case !fits:
		return other
	case action == Acknowledge && i.Acknowledged != nil:
		return "it was acknowledged at " + i.Acknowledged.Format(time.RFC3339)
	}
	return ""
}

// knownInit returns the status of an initialisation that a service knows.
//
// Errors: exit 66, exit 65 for a damaged file, those of reading it.
func knownInit(out, name string) (*InitStatus, error) {
	list, err := readInits(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &exit.Error{Code: exit.NotYet, What: "no service has run with this product directory", At: out, Why: initsFile(out) + " does not exist", Fix: "give the --out of `ensemble serve`"}
	} else if err != nil {
		return nil, err
	}
	var names []string
	for i := range list {
		if list[i].Name == name {
			return &list[i], nil
		}
		names = append(names, list[i].Name)
	}
	e := &exit.Error{Code: exit.NotYet, What: "unknown initialisation " + name, At: out, Why: "the service knows none", Fix: "`/status` of the service lists those that it knows"}
	if names != nil {
		e.Why = "the service knows " + humanise.List(names)
	}
	return nil, e
}

// readDecision reads the file of a decision.
func readDecision(path string) (*Decision, error) {
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &Decision{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if d.Schema != decisionSchema {
		return nil, fmt.Errorf("%s: its schema is %q, not %s", path, d.Schema, decisionSchema)
	}
	return d, nil
}

// readDecisions reads all decisions below a product directory, by Decision.record, and the errors of those that cannot be
// read.
func readDecisions(out string) (map[string]Decision, error) {
	files, err := filesystem.ReadDir(decisionsDir(out))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	all := map[string]Decision{}
	for _, f := range files {
		name, isDecision := strings.CutSuffix(f.Name(), ".json")
		if !isDecision || !initNamePattern.MatchString(strings.TrimSuffix(name, deliverySuffix)) {
			continue // leases, temporary files
		}
		d, rerr := readDecision(filepath.Join(decisionsDir(out), f.Name()))
		if rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		all[name] = *d
	}
	return all, err
}

// decision returns the decision about an initialisation with a revision; the zero Decision: none.
func (s *state) decision(name, revision string) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.decisions[name]; d.Revision == revision && revision != "" {
		return d
	}
	return Decision{}
}

// updateDecisions reads the decisions of operators. Those that the disk does not return stay as they were.
func (u *issuer) updateDecisions() {
	all, err := readDecisions(u.o.Predict.Out)
	text := ""
	if err != nil {
		text = exit.OneLine(err)
	}
	if text != "" && text != u.reported.decisions {
		u.log.Warn("cannot read decisions", "error", text)
	}
	u.reported.decisions = text
	var unread *fs.PathError
	if errors.As(err, &unread) {
		for name, d := range u.decisions {
			if _, ok := all[name]; !ok {
				all[name] = d
			}
		}
	}
	if maps.Equal(all, u.decisions) {
		return
	}
	for name, d := range all {
		if d != u.decisions[name] {
			u.log.Info("decided", "init", d.Init, "action", string(d.Action), "at", d.Time.Format(time.RFC3339))
		}
	}
	u.change(func() { u.decisions = all })
	closed := map[string]string{}
	for _, d := range all {
		if d.Action == AcknowledgeDelivery {
			closed[d.Init] = d.Revision
		}
	}
	u.hook.Acknowledge(closed)
}

// removeDecisions removes old decisions about initialisations that are neither in the input nor in the schedule and have
// no products.
func (u *issuer) removeDecisions() {
	known := map[string]bool{}
	for _, i := range u.statuses() {
		known[i.Name] = true
	}
	age := max(u.o.Service.MaxAge, statusHistory)
	for name, d := range u.decisions {
		if known[d.Init] || u.isPublished(d.Init) || u.now().Sub(d.Time) < age {
			continue
		}
		if err := filesystem.Remove(filepath.Join(decisionsDir(u.o.Predict.Out), name+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			u.log.Warn("cannot remove an old decision", "error", exit.OneLine(err))
		}
	}
}

// saveInits writes the list of initialisations for Decide, if their states or revisions changed.
func (u *issuer) saveInits() {
	list := append([]InitStatus{}, u.statuses()...) // not nil: an empty one is written once
	key := func(i InitStatus) [5]string {
		return [5]string{i.Name, i.State, i.Revision, fmt.Sprint(i.Acknowledged != nil), i.Undelivered}
	}
	if u.savedInits != nil && slices.EqualFunc(list, u.savedInits, func(a, b InitStatus) bool { return key(a) == key(b) }) {
		return
	}
	path := initsFile(u.o.Predict.Out)
	err := exit.CreateError(filepath.Dir(path), filesystem.MkdirAll(decisionsDir(u.o.Predict.Out), 0o777)) // of the user of the service
	if err == nil {
		err = jsonfile.Write(path, knownInits{initsSchema, list})
	}
	if err != nil {
		u.log.Warn("cannot save the list of initialisations, which decisions need", "error", exit.OneLine(err))
		return
	}
	u.savedInits = list
}
