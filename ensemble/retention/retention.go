// Package retention removes old products: `ensemble products prune`.
//
// An initialisation is removed as a whole: recorded as pruned (pruned.go), renamed into the hidden folder .trash of the
// product directory, then deleted. A reader sees all of its products or none. After a kill in between, the next run
// deletes the rest.
package retention

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/io/product"
)

// trashDir is the folder of the product directory with initialisations that are being deleted.
const trashDir = ".trash"

// Options configures Prune. MaxAge, KeepLast or both must be set; an initialisation that either keeps stays.
type Options struct {
	Out      string
	MaxAge   time.Duration     // since the initialisation; 0: KeepLast alone decides
	KeepLast int               // newest initialisations that stay, at least 1
	Held     map[string]string // initialisations that stay, by name, with the reason
	Remove   bool              // false: only report what would be removed
	Now      time.Time         // zero: the clock of the machine
}

// Result is what was or would be removed. Initialisations are in ascending order.
type Result struct {
	Out     string `json:"out"`
	Removed bool   `json:"removed"` // false: nothing was removed
	Pruned  []Init `json:"pruned"`
	Held    []Init `json:"held"` // old enough, but they stay, with the reason
	Kept    int    `json:"kept"` // number of initialisations that stay, Held among them
	Bytes   int64  `json:"bytes"`
}

// Init is an initialisation with products.
type Init struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why,omitempty"` // reason for which it stays
}

// Prune removes the products of old initialisations, or reports which ones it would remove. These stay: the newest
// initialisation that is not in the future, initialisations in the future, those that a symbolic link in the product
// directory leads to, those that another process is writing, unfinished ones, and Options.Held.
//
// Errors: exit 64 without a limit; 66 if the directory does not exist; 73 if another process prunes it, or what is to be
// removed cannot be; 74 for errors of reading. What was removed before an error stays removed.
func Prune(o Options) (r *Result, err error) {
	if o.MaxAge <= 0 && o.KeepLast <= 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "no limit of age or number", Fix: "add --keep 30d, --keep-last 60 or both"}
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if st, err := filesystem.Stat(o.Out); err != nil || !st.IsDir() {
		return nil, &exit.Error{Code: exit.NotYet, What: "no product directory", At: o.Out, Fix: "give the --out of `ensemble predict` or `ensemble serve`", Err: err}
	}
	r = &Result{Out: o.Out, Removed: o.Remove, Pruned: []Init{}, Held: []Init{}}
	if !o.Remove {
		return r, o.report(r)
	}
	state := filepath.Join(o.Out, product.StateDir)
	if err := filesystem.MkdirAll(state, 0o777); err != nil {
		return nil, exit.CreateError(state, err)
	}
	lock, err := lock(o.Out)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := filesystem.RemoveAll(filepath.Join(o.Out, trashDir)); err != nil { // of a run that was killed
		return nil, exit.CreateError(filepath.Join(o.Out, trashDir), err)
	}
	if err := o.report(r); err != nil {
		return nil, err
	}
	return r, o.removeAll(r)
}

// report finds what is to be removed.
func (o Options) report(r *Result) error {
	names, err := o.names()
	if err != nil {
		return err
	}
	links, err := linked(o.Out)
	if err != nil {
		return err
	}
	past := 0 // newer initialisations with products that are not in the future
	for _, name := range slices.Backward(names) {
		init, _ := product.ParseInitName(name)
		_, merr := product.ReadManifest(filepath.Join(o.Out, name))
		isPast := !init.After(o.Now)
		keeps := !isPast || o.MaxAge > 0 && o.Now.Sub(init.Time) <= o.MaxAge || merr == nil && past < max(o.KeepLast, 1)
		if merr == nil && isPast {
			past++
		}
		if keeps {
			r.Kept++
			continue
		}
		one := Init{Name: name}
		if one.Bytes, err = sizeBelow(filepath.Join(o.Out, name)); err != nil {
			return err
		}
		if one.Why = o.whyHeld(name, links, merr); one.Why != "" {
			r.Kept++
			r.Held = append(r.Held, one)
			continue
		}
		r.Pruned, r.Bytes = append(r.Pruned, one), r.Bytes+one.Bytes
	}
	slices.Reverse(r.Pruned)
	slices.Reverse(r.Held)
	return nil
}

// whyHeld states why an initialisation stays although it is old; "": it does not. unfinished is the error of reading its
// manifest.
func (o Options) whyHeld(name string, links map[string]string, unfinished error) string {
	init, _ := product.ParseInitName(name)
	lock := filepath.Join(o.Out, product.LockName(init))
	_, locked := filesystem.Lstat(lock)
	switch why := o.Held[name]; {
	case why != "":
		return why
	case links[name] != "":
		return "the link " + links[name] + " leads to it"
	case locked == nil && !lease.IsAbandoned(lock):
		return "another process is writing it"
	case errors.Is(unfinished, fs.ErrNotExist):
		return "it has no manifest, so its products are not finished or not of this program"
	case unfinished != nil:
		return exit.OneLine(unfinished)
	}
	return ""
}

// names lists the folders with the name of an initialisation, in ascending order of time. Links are not among them.
func (o Options) names() (names []string, err error) {
	all, err := filesystem.ReadDir(o.Out)
	if err != nil {
		return nil, exit.ReadError(o.Out, err)
	}
	for _, e := range all {
		if _, ok := product.ParseInitName(e.Name()); ok && e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, _ := product.ParseInitName(a)
		y, _ := product.ParseInitName(b)
		return x.Compare(y.Time)
	})
	return names, nil
}

// linked returns the initialisations that symbolic links below a product directory lead to, each with one link. Folders of
// initialisations and hidden ones are not searched.
func linked(out string) (map[string]string, error) {
	root, err := filesystem.RealPath(out)
	if err != nil {
		return nil, exit.ReadError(out, err)
	}
	links := map[string]string{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return exit.ReadError(path, err)
		}
		if _, isInit := product.ParseInitName(d.Name()); d.IsDir() && path != root && (isInit && filepath.Dir(path) == root || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if d.Type()&fs.ModeSymlink == 0 {
			return nil
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil // leads nowhere
		}
		if rel, err := filepath.Rel(root, target); err == nil {
			name, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
			if _, isInit := product.ParseInitName(name); isInit {
				links[name], _ = filepath.Rel(root, path)
			}
		}
		return nil
	})
	return links, err
}

// sizeBelow returns the number of bytes of all files below a folder.
func sizeBelow(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return exit.ReadError(path, err)
		}
		if st, err := d.Info(); err == nil && st.Mode().IsRegular() {
			n += st.Size()
		}
		return nil
	})
	return n, err
}

// removeAll removes what was found. What has changed since then stays, with the reason.
func (o Options) removeAll(r *Result) error {
	trash := filepath.Join(o.Out, trashDir)
	if len(r.Pruned) == 0 {
		return nil
	}
	if err := filesystem.Mkdir(trash, 0o777); err != nil {
		return exit.CreateError(trash, err)
	}
	found := r.Pruned
	r.Pruned = nil
	for _, one := range found {
		why, err := o.remove(one.Name)
		if err != nil {
			return err
		}
		if one.Why = why; why != "" {
			r.Held, r.Kept, r.Bytes = append(r.Held, one), r.Kept+1, r.Bytes-one.Bytes
			continue
		}
		r.Pruned = append(r.Pruned, one)
	}
	return exit.CreateError(trash, filesystem.Remove(trash))
}

// remove removes an initialisation. why states why it stays; "": it was removed.
func (o Options) remove(name string) (why string, err error) {
	init, _ := product.ParseInitName(name)
	lock, err := product.Lock(o.Out, init)
	if errors.Is(err, lease.ErrHeld) {
		return "another process is writing it", nil
	} else if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	links, err := linked(o.Out)
	if err != nil || links[name] != "" {
		return "the link " + links[name] + " leads to it", err
	}
	if err := recordPruned(o.Out, name, o.Now); err != nil { // before the removal: a service must not make it again
		return "", err
	}
	if err := discard(o.Out, init); err != nil {
		return "", &exit.Error{Code: exit.CodeOf(exit.CreateError(o.Out, err)), What: "cannot remove initialisation " + name, At: o.Out, Why: err.Error(), Fix: "correct the permissions or the disk; run the same command again", Err: err}
	}
	return "", nil
}

// discard renames an initialisation into the trash and deletes it.
func discard(out string, init ensemble.Init) error {
	dir := product.InitDir(out, init)
	gone := filepath.Join(out, trashDir, filepath.Base(dir))
	if err := filesystem.Rename(dir, gone); err != nil {
		return err
	}
	if err := filesystem.SyncDir(out); err != nil {
		return err
	}
	if err := filesystem.RemoveAll(gone); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}
