package published

import (
	"context"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// maxOpened is the number of initialisations that stay open between uses.
const maxOpened = 8

// Files returns the path of an output that the manifest of an initialisation lists: a file, or the directory of a store.
//
// Errors: a file that is missing, is reached by a link, or differs from the manifest in its size.
type Files func(of *Init, output string) (path string, err error)

// Reader opens the product files of initialisations, and keeps those that were used last. Its methods may be called
// from several goroutines.
type Reader struct {
	files   Files
	options decode.Options

	mu     sync.Mutex
	pool   *decode.Pool // nil until the first use
	opened []*Forecast  // the most recently used first
}

// NewReader makes a reader. It starts no child process before the first use.
func NewReader(files Files, o decode.Options) *Reader { return &Reader{files: files, options: o} }

// Close ends the child processes and closes the files. It must not be called during a use.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.opened {
		f.discard()
	}
	r.opened = nil
	if r.pool != nil {
		r.pool.Close()
	}
}

// Pool returns the child processes that decode and encode.
//
// Errors: exit 69 if the program is not installed.
func (r *Reader) Pool() (*decode.Pool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool == nil {
		pool, err := decode.NewPool(r.options)
		if err != nil {
			return nil, err
		}
		r.pool = pool
	}
	return r.pool, nil
}

// Open returns an initialisation with its files open. The caller calls Release.
//
// Errors: ErrNoFields; exit 65 for a file that Files refuses; those of Pool, Files and fio.Open.
func (r *Reader) Open(ctx context.Context, of *Init) (*Forecast, error) {
	if f := r.take(of); f != nil {
		return f, nil
	}
	var paths []string
	for _, output := range FieldOutputs(of.Manifest) {
		at, err := r.files(of, output)
		if err != nil {
			return nil, &exit.Error{Code: exit.BadData, What: "a product file is damaged or missing", At: path.Join(of.Name, output), Why: err.Error(), Fix: "make the products again: `ensemble predict --overwrite always`", Err: err}
		}
		paths = append(paths, at)
	}
	if len(paths) == 0 {
		return nil, ErrNoFields
	}
	pool, err := r.Pool()
	if err != nil {
		return nil, err
	}
	// A child that may read the folder of all initialisations need not be replaced for the next one, nor after products were.
	if err := pool.Announce([]string{filepath.Dir(paths[0])}); err != nil {
		return nil, err
	}
	in, err := fio.Open(ctx, paths, fio.Options{Pool: pool})
	if err != nil {
		return nil, err
	}
	f := &Forecast{Init: of, reader: r, input: in, users: 1, indexes: map[reflect.Type]any{}}
	r.keep(f)
	return f, nil
}

// Cached returns the first open forecast that match accepts, the most recently used first; nil without one. The caller
// calls Release.
func (r *Reader) Cached(match func(*Init) bool) *Forecast {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.opened {
		if match(f.Init) {
			f.users++
			return f
		}
	}
	return nil
}

// take returns an open initialisation, and counts a user; nil if it is not open in this revision.
func (r *Reader) take(of *Init) *Forecast {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.opened, func(f *Forecast) bool { return f.Init.Name == of.Name })
	if i < 0 {
		return nil
	}
	f := r.opened[i]
	r.opened = slices.Delete(r.opened, i, i+1)
	if f.Init.Revision != of.Revision {
		f.discard()
		return nil
	}
	r.opened = slices.Insert(r.opened, 0, f)
	f.users++
	return f
}

// keep adds an open initialisation, in place of one of the same name or of the least recently used one.
func (r *Reader) keep(f *Forecast) {
	r.mu.Lock()
	defer r.mu.Unlock()
	drop := slices.IndexFunc(r.opened, func(o *Forecast) bool { return o.Init.Name == f.Init.Name })
	if drop < 0 && len(r.opened) == maxOpened {
		drop = maxOpened - 1
	}
	if drop >= 0 {
		r.opened[drop].discard()
		r.opened = slices.Delete(r.opened, drop, drop+1)
	}
	r.opened = slices.Insert(r.opened, 0, f)
}

// Forget closes what is open of an initialisation, so that it is read again.
func (r *Reader) Forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.opened, func(o *Forecast) bool { return o.Init.Name == name }); i >= 0 {
		r.opened[i].discard()
		r.opened = slices.Delete(r.opened, i, i+1)
	}
}
