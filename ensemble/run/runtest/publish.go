package runtest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// Publishing parses overrides as --set and the flags of predict do.
func Publishing(t *testing.T, set ...string) config.Publishing {
	t.Helper()
	c, err := config.LoadPredict(config.Sources{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return c.Publishing
}

// FieldsOf reads all fields of files by key.
func FieldsOf(t *testing.T, pattern string) map[ensemble.Key]*ensemble.Field {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	pool, err := decode.NewPool(decode.Options{Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	in, err := fio.Open(context.Background(), paths, fio.Options{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if u := in.Catalogue().Unused; u != nil {
		t.Errorf("unused: %+v", u)
	}
	out := map[ensemble.Key]*ensemble.Field{}
	err = in.Read(context.Background(), in.Catalogue().Entries, func(_ int, f *ensemble.Field) error {
		if out[f.Key] != nil && f.Key.Product != ensemble.Spread { // the two spreads differ by name
			t.Errorf("%s occurs twice", f.Key)
		}
		out[f.Key] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
