package retention

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/io/product"
)

// prunedSchema identifies the list of pruned initialisations.
const prunedSchema = "ensemble.pruned/1"

// prunedInits is the content of PrunedFile.
type prunedInits struct {
	Schema string               `json:"schema"` // prunedSchema
	Inits  map[string]time.Time `json:"inits"`  // when each was pruned, by name
}

// PrunedFile is the list of pruned initialisations of a product directory. A service does not make them again.
func PrunedFile(out string) string { return filepath.Join(out, product.StateDir, "pruned.json") }

// ReadPruned returns when initialisations were pruned, by name; nil without a list. Products may exist again.
//
// Errors: exit 65 for a damaged list; those of reading.
func ReadPruned(out string) (map[string]time.Time, error) {
	path := PrunedFile(out)
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, exit.ReadError(path, err)
	}
	var p prunedInits
	if err = json.Unmarshal(text, &p); err == nil && p.Schema != prunedSchema {
		err = fmt.Errorf("its schema is %q", p.Schema)
	}
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "not a list of pruned initialisations", At: path, Why: err.Error(), Fix: "remove it; a service then makes pruned initialisations again whose input exists", Err: err}
	}
	return p.Inits, nil
}

// Forget removes initialisations from the list of pruned ones: a service makes them if their input comes.
//
// Errors: lease.ErrHeld while another process prunes the directory; those of ReadPruned; exit 73 and 74 of writing.
func Forget(out string, names []string) (err error) {
	lock, err := lock(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	all, err := ReadPruned(out)
	if err != nil {
		return err
	}
	for _, name := range names {
		delete(all, name)
	}
	return jsonfile.Write(PrunedFile(out), prunedInits{prunedSchema, all})
}

// lock takes the lease under which the list of pruned initialisations changes.
func lock(out string) (*lease.Lease, error) {
	return lease.Take(filepath.Join(out, product.StateDir, ".prune.lock"), "pruning of "+out)
}

// recordPruned adds an initialisation to the list.
func recordPruned(out, name string, at time.Time) error {
	all, err := ReadPruned(out)
	if err != nil {
		return err
	}
	if all == nil {
		all = map[string]time.Time{}
	}
	all[name] = at.UTC().Truncate(time.Second)
	return jsonfile.Write(PrunedFile(out), prunedInits{prunedSchema, all})
}
