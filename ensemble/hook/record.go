package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
)

// recordSchema identifies the file of records.
const recordSchema = "ensemble.hook/1"

// States of a delivery. Acknowledged is no state of a record: it depends on a decision.
const (
	known     = "known"     // not published by a service with this hook, or not published yet: not delivered
	Pending   = "pending"   // to be delivered
	delivered = "delivered" // accepted by the receiver
	Abandoned = "abandoned" // given up

	Acknowledged = "acknowledged" // given up, which an operator has acknowledged
)

// record is what is known of the products of an initialisation.
type record struct {
	ID       string    `json:"id"` // "": there were none
	State    string    `json:"state"`
	Replaces string    `json:"replaces,omitempty"` // id of the products that were delivered before
	Since    time.Time `json:"since"`              // first attempt, or delivery
	Attempts int       `json:"attempts"`           // failed ones
	Why      string    `json:"why,omitempty"`      // reason of the last failure

	begun time.Time // Since, in this process with the monotonic clock: a clock that jumps makes no delivery older
	next  time.Time // of the next attempt; after a restart at once
}

// begin makes a delivery pending, without attempts.
func (r *record) begin(now time.Time) {
	r.begun = now
	r.State, r.Since, r.Attempts = Pending, r.begun.UTC().Round(0), 0
}

// isOpen reports whether the products were not delivered.
func (r *record) isOpen() bool { return r.State == Pending || r.State == Abandoned }

// records is the content of the file of records.
type records struct {
	Schema   string             `json:"schema"`   // recordSchema
	Products map[string]*record `json:"products"` // by name of the initialisation
}

// readRecords reads the file of records; there are none without it.
//
// Errors: those of reading; a damaged file.
func readRecords(path string) (map[string]*record, error) {
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]*record{}, nil
	} else if err != nil {
		return nil, err
	}
	var r records
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Schema != recordSchema || r.Products == nil {
		return nil, fmt.Errorf("%s: its schema is %q, not %s", path, r.Schema, recordSchema)
	}
	for name, x := range r.Products {
		if x == nil {
			return nil, fmt.Errorf("%s: %s has no record", path, name)
		}
	}
	return r.Products, nil
}

// writeRecords writes the file of records.
func writeRecords(path string, all map[string]*record) error {
	if err := filesystem.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return jsonfile.Write(path, records{recordSchema, all})
}

// isGone reports whether an initialisation has no directory any more. One without a manifest is being replaced.
func isGone(out, name string) bool {
	_, err := filesystem.Lstat(filepath.Join(out, name))
	return errors.Is(err, fs.ErrNotExist)
}
