package input

import (
	"context"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
)

// ReadEach passes each field to visit, which must not keep its values, and fields that cannot be decoded to
// bad.
//
// Errors: all except those of fields that cannot be decoded.
func ReadEach(ctx context.Context, in *fio.Input, entries []ensemble.Entry, visit func(i int, f *ensemble.Field), bad func(i int, err error)) error {
	for from := 0; from < len(entries); {
		at := from
		err := in.Read(ctx, entries[from:], func(i int, f *ensemble.Field) error {
			at = from + i + 1
			visit(from+i, f)
			in.Recycle(f.Values)
			return nil
		})
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if exit.CodeOf(err) != exit.BadData {
			return err
		}
		// Fields before the bad one in its batch are read one by one.
		for at < len(entries) {
			f, err := in.ReadOne(ctx, entries[at])
			at++
			if err != nil {
				if exit.CodeOf(err) != exit.BadData {
					return err
				}
				bad(at-1, err)
				break
			}
			visit(at-1, f)
		}
		from = at
	}
	return nil
}

// UsedMessages counts the messages of which at least one field is used.
func UsedMessages(cat *ensemble.Catalogue) int {
	type message struct {
		file   string
		number int
	}
	used := map[message]bool{}
	for _, e := range cat.Entries {
		used[message{e.File, e.Message}] = true
	}
	return len(used)
}
