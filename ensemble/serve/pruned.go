package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/retention"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Undecided returns the initialisations below a product directory that must not be removed, by name with the reason: their
// input changed and no operator has decided, or the service has not followed a decision yet.
//
// Errors: exit 65 for a damaged list of initialisations; those of reading it and the decisions.
func Undecided(out string) (map[string]string, error) {
	list, err := readInits(out)
	if errors.Is(err, fs.ErrNotExist) { // no service has run with this directory
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	decisions, err := readDecisions(out)
	if err != nil {
		return nil, exit.ReadError(decisionsDir(out), err)
	}
	held := map[string]string{}
	for _, i := range list {
		switch d := decisions[i.Name]; {
		case (d.Action == Accept || d.Action == Retry) && d.Revision == i.Revision:
			held[i.Name] = fmt.Sprintf("the service has not followed the decision %q yet", d.Action)
		case i.InputChanged:
			held[i.Name] = "its input changed after it was issued: `ensemble products accept` or `dismiss`"
		}
	}
	return held, nil
}

// readInits reads the list of initialisations that a service wrote.
//
// Errors: fs.ErrNotExist without one; exit 65 for a damaged one; those of reading.
func readInits(out string) ([]InitStatus, error) {
	path := initsFile(out)
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	} else if err != nil {
		return nil, exit.ReadError(path, err)
	}
	var known knownInits
	if err = json.Unmarshal(text, &known); err == nil && known.Schema != initsSchema {
		err = fmt.Errorf("its schema is %q", known.Schema)
	}
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "not a list of initialisations", At: path, Why: err.Error(), Fix: "remove it; the service writes it again", Err: err}
	}
	return known.Inits, nil
}

// prunedFor is the least time for which a pruned initialisation stays in the list.
const prunedFor = 30 * 24 * time.Hour

// updatePruned reads the list of pruned initialisations, and shortens it. A damaged one leaves the last state, with a message.
func (u *issuer) updatePruned(starts []predict.Candidate) {
	all, err := retention.ReadPruned(u.o.Predict.Out)
	read := err == nil
	if names := u.forgettable(all, starts); read && names != nil {
		err = retention.Forget(u.o.Predict.Out, names)
	}
	text := ""
	if err != nil {
		text = exit.OneLine(err)
	}
	if text != "" && text != u.reported.pruned {
		u.log.Warn("cannot read or shorten the list of pruned initialisations", "error", text)
	}
	if u.reported.pruned = text; read && !maps.EqualFunc(all, u.pruned, time.Time.Equal) {
		u.change(func() { u.pruned = all })
	}
}

// forgettable lists the pruned initialisations that the list need not name: pruned long ago, and none that the service would make.
// Input of which a part or all is missing may come back; what serve.max_age skips is not made then either.
func (u *issuer) forgettable(pruned map[string]time.Time, starts []predict.Candidate) (names []string) {
	mayReturn, age := u.resident.MissingInput() != "" || len(starts) == 0, u.o.Service.MaxAge
	read := map[string]bool{}
	for _, c := range starts {
		read[product.InitName(c.Init)] = true
	}
	for name, at := range pruned {
		if mayReturn && (age <= 0 || u.now().Sub(initOf(name)) <= age) {
			continue
		}
		if !read[name] && u.now().Sub(at) > prunedFor {
			names = append(names, name)
		}
	}
	return names
}

// isPruned reports whether the products of an initialisation were removed, and it has no others.
func (s *state) isPruned(name string) bool {
	_, ok := s.prunedAt(name)
	return ok && !s.isPublished(name)
}

// prunedAt returns when the products of an initialisation were removed.
func (s *state) prunedAt(name string) (at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok = s.pruned[name]
	return at, ok
}

// prunedStatus completes the status of a pruned initialisation.
func (s *state) prunedStatus(i InitStatus) InitStatus {
	at, _ := s.prunedAt(i.Name)
	i.State, i.Why = skipped, "pruned "+formatMinute(at)+"; `ensemble predict --init "+i.Name+"` makes it again"
	return i
}
