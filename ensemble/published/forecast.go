package published

import (
	"context"
	"reflect"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Forecast is an initialisation whose product files are open. Its methods may be called from several goroutines.
type Forecast struct {
	Init   *Init
	reader *Reader
	input  *fio.Input

	users  int  // guarded by Reader.mu
	closed bool // to be closed by its last user

	mu      sync.Mutex
	indexes map[reflect.Type]any
}

// Index returns what build makes of the fields of a forecast. It is built once for each type.
func Index[T any](f *Forecast, build func([]ensemble.Entry) T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := reflect.TypeFor[T]()
	if f.indexes[kind] == nil {
		f.indexes[kind] = build(f.input.Catalogue().Entries)
	}
	return f.indexes[kind].(T)
}

// Read calls visit with the window of each entry; the zero Window is all of the grid. The values belong to visit, which may
// return them with Recycle.
//
// Errors: those of fio.Input.ReadWindow and of visit.
func (f *Forecast) Read(ctx context.Context, entries []ensemble.Entry, w ensemble.Window, visit func(i int, field *ensemble.Field) error) error {
	return f.input.ReadWindow(ctx, entries, w, visit)
}

// Recycle returns values that are no longer in use.
func (f *Forecast) Recycle(values []float32) { f.input.Recycle(values) }

// Release ends the use of a forecast.
func (f *Forecast) Release() {
	f.reader.mu.Lock()
	defer f.reader.mu.Unlock()
	if f.users--; f.closed && f.users == 0 {
		f.input.Close()
	}
}

// discard closes a forecast that is no longer kept, now or by its last user. Reader.mu is held.
func (f *Forecast) discard() {
	if f.closed = true; f.users == 0 {
		f.input.Close()
	}
}
