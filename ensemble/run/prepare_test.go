package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/store"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// prepared is the store of a configuration.
func prepared(t *testing.T, c *config.TrainConfig, storage string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := Prepare(context.Background(), PrepareOptions{Config: c, Out: dir, Storage: storage, ShardSize: 1 << 20, Memory: 16 << 20, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// TestTrainFromStore: a training from a store in f32 gives the weights, statistics and
// scores that it gives from the files, bit by bit.
func TestTrainFromStore(t *testing.T) {
	f := smallData(t)
	set := []string{"train.networks=1", "train.epochs=2"}
	dir := prepared(t, quick(t, f, set...), "f32")
	var made []map[string][]byte
	for _, more := range []string{"", "data.store=" + dir} {
		s := set
		if more != "" {
			s = append(slices.Clone(set), more)
		}
		run := filepath.Join(t.TempDir(), "run")
		if _, err := Train(context.Background(), TrainOptions{Config: quick(t, f, s...), RunDir: run, Version: "test"}); err != nil {
			t.Fatal(err)
		}
		files := modelFiles(t, run)
		scores, err := os.ReadFile(filepath.Join(run, "scores.json"))
		if err != nil {
			t.Fatal(err)
		}
		files["scores"] = scores
		made = append(made, files)
	}
	for name, want := range made[0] {
		if !bytes.Equal(made[1][name], want) {
			t.Errorf("%s differs", name)
		}
	}
}

// TestRanksReadStoreSlabs: each rank reads its slab of a store, which is its slab of the
// files.
func TestRanksReadStoreSlabs(t *testing.T) {
	f := smallData(t)
	dir := prepared(t, quick(t, f), "f32")
	for _, mesh := range []struct {
		text  string
		ranks int
	}{{"lat:2", 2}, {"lon:3", 3}, {"level:2 lat:2", 4}} {
		files := quick(t, f, "train.mesh="+mesh.text)
		stored := quick(t, f, "train.mesh="+mesh.text, "data.store="+dir)
		err := comm.Run(mesh.ranks, comm.Free, func(g *comm.Comm) error {
			forecasts, analyses, err := archiveFiles(files)
			if err != nil {
				return err
			}
			want, err := readData(context.Background(), files, forecasts, analyses, team.New(g))
			if err != nil {
				return err
			}
			got, err := readData(context.Background(), stored, nil, nil, team.New(g))
			if err != nil {
				return err
			}
			defer got.close()
			for i, p := range []examples{want.train, want.validation, want.test} {
				q := []examples{got.train, got.validation, got.test}[i]
				if len(p.inits) == 0 || len(q.inits) != len(p.inits) || !p.analysed || !q.analysed {
					return fmt.Errorf("%d starts, want %d", len(q.inits), len(p.inits))
				}
				from := q.stream(context.Background(), nil)
				defer from.Close()
				err := p.each(context.Background(), nil, func(_ int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
					f, b, err := from.next()
					if err == nil && (f.Init != fc.Init || b[0].Valid != a[0].Valid || !equalBits(f.Values, fc.Values) || !equalBits(b[0].Values, a[0].Values)) {
						err = fmt.Errorf("start %s differs", fc.Init)
					}
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", mesh.text, err)
		}
	}
}

// TestStoreLacks: what a store does not hold is refused by name.
func TestStoreLacks(t *testing.T) {
	f := smallData(t)
	dir := prepared(t, quick(t, f), "int16")
	for _, c := range []struct {
		set, want string
		code      exit.Code
	}{
		{"data.variables=[t, gh, u]", "variable u", exit.Usage},
		{"data.leads=[0h, 12h, 48h]", "lead 12h", exit.Usage},
		{"data.targets=[{variable: gh, levels: [850hPa]}]", "analysis of gh", exit.Usage},
		{"data.members.full=5", "4 members", exit.NotYet},
		{"data.store=/nowhere", "/nowhere", exit.NotYet},
	} {
		_, err := readData(context.Background(), quick(t, f, "data.store="+dir, c.set), nil, nil, nil)
		if exit.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want exit %d and %q", c.set, err, c.code, c.want)
		}
	}
}

// TestStoreValuesAreJudged: values with which nothing can be computed are refused where
// they come from a store, as where they come from files.
func TestStoreValuesAreJudged(t *testing.T) {
	f := smallData(t)
	c := quick(t, f)
	dir := prepared(t, c, "f32")
	c.Data.Store = config.Path(dir)
	for _, factor := range []float32{1, 1000} {
		d, err := readData(context.Background(), c, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.close()
		err = d.validation.each(context.Background(), nil, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
			for p := range fc.Grid.Size() {
				fc.Field(2, 1, 1, 1)[p] *= factor
			}
			d.judged.add(fc, a)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.judged.faults(nil)
		if factor == 1 && err != nil || factor != 1 && (exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "gh")) {
			t.Errorf("geopotential height times %g: %v", factor, err)
		}
	}
}

// TestInspectStore: the listing names what is in the store, with checksums compared if
// statistics are asked for.
func TestInspectStore(t *testing.T) {
	f := smallData(t)
	dir := prepared(t, quick(t, f), "bf16")
	inspect := func(o InspectOptions) (string, error) {
		var b bytes.Buffer
		o.Files = []string{dir}
		err := Inspect(context.Background(), o, &b)
		return b.String(), err
	}
	for _, c := range []struct {
		o    InspectOptions
		want []string
	}{
		{InspectOptions{}, []string{"bf16", "t (K), gh (m)", "850hPa", "0h", "32"}},
		{InspectOptions{Stats: true}, []string{"all checksums are right", "forecast  48h", "analysis  48h"}},
		{InspectOptions{JSON: true}, []string{`"schema":"ensemble.inspect/1"`, `"band_rows":`}},
	} {
		text, err := inspect(c.o)
		if err != nil {
			t.Error(err)
		}
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in\n%s", w, text)
			}
		}
	}
	if err := flip(filepath.Join(dir, "shards", "00001.bin")); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect(InspectOptions{}); err != nil {
		t.Errorf("a listing without values read them: %v", err)
	}
	if text, err := inspect(InspectOptions{Stats: true}); exit.CodeOf(err) != exit.BadData || strings.Contains(text, "all checksums are right") {
		t.Errorf("a changed byte: %v\n%s", err, text)
	}
}

// TestArchiveSums: an archive that nobody has touched is not read again for its checksums; a
// file that was touched is, and one that changes meanwhile is refused.
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
	rest := racy
	defer func() { racy = rest }()
	racy = time.Hour
	first, err := sums(context.Background(), paths, nil, nil)
	if err != nil || len(first.known) != 0 { // they were touched just now
		t.Fatalf("%v, %+v", err, first)
	}
	racy = 0
	if first, err = sums(context.Background(), paths, nil, nil); err != nil || len(first.known) != 3 {
		t.Fatalf("%v, %+v", err, first)
	}
	known := map[string]store.Known{}
	for _, k := range first.known {
		k.SHA256 = "of the record"
		known[k.Path] = k
	}
	time.Sleep(20 * time.Millisecond) // more than the clock of the file system takes to tick
	put("b", strings.Repeat("b", 10_000)+"x"+strings.Repeat("b", 9_999))
	second, err := sums(context.Background(), paths, known, nil)
	if err != nil || second.files[0].SHA256 != "of the record" || second.files[2] != (manifest.File{Path: paths[2], Size: 20_000, SHA256: "of the record"}) {
		t.Errorf("an untouched file was read again: %v, %+v", err, second.files)
	}
	if x := second.files[1].SHA256; x == "of the record" || x == first.files[1].SHA256 {
		t.Errorf("a byte that was changed at the old time is not seen: %s", x)
	}
	if err := second.unchanged(); err != nil {
		t.Error(err)
	}
	put("c", "c")
	var e *exit.Error
	if err := second.unchanged(); !errors.As(err, &e) || e.Code != exit.NotYet || e.At != paths[2] || !strings.Contains(e.Fix, "--overwrite always") {
		t.Errorf("another size: %v", err)
	}
}

// TestPrepareAgain: a store that is there is found without a reading of its input, whose
// checksums lie beside it; and values that check refuses make no store.
func TestPrepareAgain(t *testing.T) {
	f := smallData(t)
	rest := racy
	defer func() { racy = rest }()
	racy = 0
	dir := filepath.Join(t.TempDir(), "store")
	o := PrepareOptions{Config: quick(t, f), Out: dir, Storage: "f32", ShardSize: 1 << 20, Memory: 16 << 20, Version: "test"}
	if _, err := Prepare(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	known := store.ReadKnown(dir)
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
	if err := os.WriteFile(name, bytes.ReplaceAll(text, []byte(one), []byte(strings.Repeat("0", len(one)))), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(context.Background(), o); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("the record was not used: %v", err)
	}
	o.Overwrite = true // reads everything
	if _, err := Prepare(context.Background(), o); err != nil || store.ReadKnown(dir)[f.GRIB2[0]].SHA256 != one {
		t.Errorf("all anew: %v", err)
	}
}

// TestWitness: fields are tallied as they pass, so that faults of their values are found.
func TestWitness(t *testing.T) {
	init := ensemble.InitAt(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	var entries []ensemble.Entry
	for m := range 6 {
		entries = append(entries, ensemble.Entry{Key: ensemble.Key{Variable: "t", Level: ensemble.PressureLevel(850), Member: ensemble.Member(m), Init: init}, Kind: &ensemble.Kind{Unit: "K"},
			File: fmt.Sprint("f", m%2), Message: 1 + m/4, Sub: 1 + m/2%2})
	}
	a := store.Archive{Entries: entries, Reader: readerFunc(func(i int) []float32 { return []float32{250 + float32(i), 280, 270} })}
	w := newWitness(&a)
	for _, part := range [][]ensemble.Entry{entries[3:], entries[:3]} {
		if err := a.Reader.Read(context.Background(), part, func(int, *ensemble.Field) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range w.tally.entries {
		if got, want := w.tally.fields[i].Min, 250+float64(e.Member); got != want {
			t.Errorf("member %s: least value %g, want %g", e.Member, got, want)
		}
	}
	if f := w.tally.faults(); len(f) != 0 {
		t.Errorf("faults of sound values: %+v", f)
	}
	w.tally.fields[4] = tallyOf([]float32{float32(math.Inf(1)), 270})
	if f := w.tally.faults(); len(f) == 0 || f[0].Kind != FaultNotFinite || f[0].Code != exit.BadData {
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
