package samples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/store"
)

// TestArchiveSums checks that checksums of unchanged files are reused, changed files are read again, and
// files that change meanwhile are refused.
func TestArchiveSums(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	past := time.Now().Add(-time.Hour)
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, past, past); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		put(name, strings.Repeat(name, 20_000))
		paths = append(paths, filepath.Join(dir, name))
	}
	rest := racyInterval
	defer func() { racyInterval = rest }()
	racyInterval = time.Hour
	first, err := checksumFiles(context.Background(), paths, nil, nil)
	if err != nil || len(first.reusable) != 0 { // they were touched just now
		t.Fatalf("%v, %+v", err, first)
	}
	racyInterval = 0
	if first, err = checksumFiles(context.Background(), paths, nil, nil); err != nil || len(first.reusable) != 3 {
		t.Fatalf("%v, %+v", err, first)
	}
	known := map[string]store.InputChecksum{}
	for _, k := range first.reusable {
		k.SHA256 = "of the record"
		known[k.Path] = k
	}
	time.Sleep(20 * time.Millisecond) // more than the clock of the file system takes to tick
	put("b", strings.Repeat("b", 10_000)+"x"+strings.Repeat("b", 9_999))
	second, err := checksumFiles(context.Background(), paths, known, nil)
	if err != nil || second.files[0].SHA256 != "of the record" || second.files[2] != (manifest.File{Path: paths[2], Size: 20_000, SHA256: "of the record"}) {
		t.Errorf("an untouched file was read again: %v, %+v", err, second.files)
	}
	if x := second.files[1].SHA256; x == "of the record" || x == first.files[1].SHA256 {
		t.Errorf("a byte that was changed at the old time is not seen: %s", x)
	}
	if err := second.verify(); err != nil {
		t.Error(err)
	}
	put("c", "c")
	var e *exit.Error
	if err := second.verify(); !errors.As(err, &e) || e.Code != exit.NotYet || e.At != paths[2] || !strings.Contains(e.Fix, "--overwrite always") {
		t.Errorf("another size: %v", err)
	}
}

// TestPrepareAgain checks that an existing store is found without reading its input, by the stored checksums,
// and that values with faults make no store.
func TestPrepareAgain(t *testing.T) {
	f := demotest.Files(t)
	rest := racyInterval
	defer func() { racyInterval = rest }()
	racyInterval = 0
	dir := filepath.Join(t.TempDir(), "store")
	o := PrepareOptions{Config: demotest.Config(t, f), Out: dir, Storage: "f32", ShardSize: 1 << 20, Memory: 16 << 20, Version: "test"}
	if _, err := Prepare(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	known, err := store.ReadInputChecksums(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(known) != len(f.GRIB2)+len(f.Analyses) {
		t.Fatalf("%d files are known, want %d", len(known), len(f.GRIB2)+len(f.Analyses))
	}
	r, err := Prepare(context.Background(), o)
	if err != nil || !r.Complete {
		t.Errorf("again: %+v, %v", r, err)
	}
	// What is in the record counts: with another checksum there the store is another one.
	name := filepath.Join(dir, "inputs.json")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	one := known[f.GRIB2[0]].SHA256
	put := func(text []byte) {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	changed := bytes.ReplaceAll(text, []byte(one), []byte(strings.Repeat("0", len(one))))
	put(changed)
	if _, err := Prepare(context.Background(), o); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "--overwrite always") {
		t.Errorf("a damaged record: %v", err)
	}
	if _, err := manifest.Seal(changed); err != nil {
		t.Fatal(err)
	}
	put(changed)
	if _, err := Prepare(context.Background(), o); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("the record was not used: %v", err)
	}
	o.Overwrite = true // reads everything
	_, err = Prepare(context.Background(), o)
	if again, e := store.ReadInputChecksums(dir); err != nil || e != nil || again[f.GRIB2[0]].SHA256 != one {
		t.Errorf("all anew: %v, %v", err, e)
	}
}

// TestStatsReader checks that statistics are collected while fields are read, so that faults of their values
// are found.
func TestStatsReader(t *testing.T) {
	init := ensemble.InitAt(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	var entries []ensemble.Entry
	for m := range 6 {
		entries = append(entries, ensemble.Entry{Key: ensemble.Key{Variable: "t", Level: ensemble.PressureLevel(850), Member: ensemble.Member(m), Init: init}, Kind: &ensemble.Kind{Unit: "K"},
			File: fmt.Sprint("f", m%2), Message: 1 + m/4, Sub: 1 + m/2%2})
	}
	a := store.FieldSource{Entries: entries, Reader: readerFunc(func(i int) []float32 { return []float32{250 + float32(i), 280, 270} })}
	w := newStatsReader(&a)
	for _, part := range [][]ensemble.Entry{entries[3:], entries[:3]} {
		if err := a.Reader.Read(context.Background(), part, func(int, *ensemble.Field) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range w.stats.Entries {
		if got, want := w.stats.Fields[i].Min, 250+float64(e.Member); got != want {
			t.Errorf("member %s: least value %g, want %g", e.Member, got, want)
		}
	}
	if f := w.stats.Faults(); len(f) != 0 {
		t.Errorf("faults of sound values: %+v", f)
	}
	w.stats.Fields[4] = input.NewFieldStats([]float32{float32(math.Inf(1)), 270})
	if f := w.stats.Faults(); len(f) == 0 || f[0].Kind != input.FaultNotFinite || f[0].Code != exit.BadData {
		t.Errorf("faults %+v", f)
	}
}

// readerFunc reads a field of each member.
type readerFunc func(member int) []float32

func (r readerFunc) Read(_ context.Context, entries []ensemble.Entry, visit func(i int, f *ensemble.Field) error) error {
	for i, e := range entries {
		if err := visit(i, &ensemble.Field{Key: e.Key, Values: r(int(e.Member))}); err != nil {
			return err
		}
	}
	return nil
}
