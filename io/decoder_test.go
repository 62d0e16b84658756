package fio

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/grib"
)

// Metadata read from octets equal those of ecCodes, for every field of every valid
// file whose time and member are read from octets. (Steps beyond 1e9 s are lengths
// of intervals that are marked as missing.)
func TestOctetsAgreeWithTheDecoder(t *testing.T) {
	compared := 0
	for _, pattern := range []string{"formats/grib1/*", "formats/grib2/*", "gcm/gcm_fc_198201.grib2", "era5-eda/*.grib"} {
		set, glob, _ := strings.Cut(pattern, "/")
		paths, err := filepath.Glob(filepath.Join(testdata.Dir(t, set), glob))
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, p := range paths {
			in := open(t, Options{SkipBad: true}, p)
			f := in.files[0]
			var part []describeRequest
			fields := indexOf(t, f).Fields
			for i := range fields {
				if i%7 == 0 || i < 12 {
					part = append(part, describeRequest{&fields[i], new(grib.Description)})
				}
			}
			if err := in.describe(context.Background(), f, part); err != nil {
				t.Fatal(err)
			}
			for _, a := range part {
				fd, d := a.field, a.out
				if !fd.Time.Known || fd.Time.Reason != "" || d.Error != "" || d.Date == 0 {
					continue
				}
				compared++
				init := fd.Time.Init
				if day := int64(init.Year()*10000 + int(init.Month())*100 + init.Day()); day != d.Date {
					t.Errorf("%s message %d: date %d, ecCodes %d", filepath.Base(p), fd.Message, day, d.Date)
				}
				if clock := int64(init.Hour()*3600 + init.Minute()*60 + init.Second()); clock != d.Seconds {
					t.Errorf("%s message %d: %d s of the day, ecCodes %d", filepath.Base(p), fd.Message, clock, d.Seconds)
				}
				if d.StepKnown && d.End < 1e9 && int64(fd.Time.Lead/time.Second) != d.End {
					t.Errorf("%s message %d: lead %s, ecCodes %d s", filepath.Base(p), fd.Message, fd.Time.Lead, d.End)
				}
				if fd.Member.Known && fd.Member.InEnsemble && d.NumberKnown && fd.Member.ID != d.Number {
					t.Errorf("%s message %d: member %d, ecCodes %d", filepath.Base(p), fd.Message, fd.Member.ID, d.Number)
				}
			}
		}
	}
	if compared < 300 {
		t.Errorf("only %d fields compared", compared)
	}
}

// TestKeep: of excluded fields the catalogue has one of each kind, whatever the
// order of the files. Kept fields are complete and have the same values.
func TestKeep(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(testdata.Dir(t, "gcm"), "gcm_fc_19820[1-3].grib2"))
	if err != nil || len(paths) != 3 {
		t.Fatal(paths, err)
	}
	keep := func(e ensemble.Entry) bool { return e.Variable == "t" && e.Level == ensemble.PressureLevel(850) }
	all := open(t, Options{}, paths...).Catalogue()
	part := open(t, Options{Keep: keep}, paths...)
	cat := part.Catalogue()
	slices.Reverse(paths)
	if again := open(t, Options{Keep: keep}, paths...).Catalogue(); !slices.EqualFunc(again.Entries, cat.Entries, func(a, b ensemble.Entry) bool { return a.Compare(b) == 0 }) {
		t.Error("the catalogue depends on the order of the files")
	}
	if got, want := cat.Select(keep), all.Select(keep); len(got) == 0 || !slices.EqualFunc(got, want, func(a, b ensemble.Entry) bool { return a.Compare(b) == 0 }) {
		t.Errorf("%d fields are kept, want %d", len(got), len(want))
	}
	// One of each variable, level, lead and member: gh at two levels and t at one.
	if n, want := len(cat.Entries)-len(cat.Select(keep)), 3*len(all.Leads())*len(all.Members()); n != want {
		t.Errorf("%d fields stand for the others, want %d", n, want)
	}
	if !slices.Equal(cat.Members(), all.Members()) || !slices.Equal(cat.Variables(), all.Variables()) || !slices.Equal(cat.Levels(), all.Levels()) || cat.Messages != all.Messages {
		t.Errorf("%v, %v, %v, %d messages", cat.Members(), cat.Variables(), cat.Levels(), cat.Messages)
	}
	for _, e := range []ensemble.Entry{cat.Entries[0], cat.Entries[len(cat.Entries)-1]} {
		if f, err := part.ReadOne(context.Background(), e); err != nil || f.Key != e.Key {
			t.Errorf("%v: %v", e.Key, err)
		}
	}
}

// wrapper is an ensemble-decode that fails on its first requests: a shell script
// that counts its starts and runs the real program from the second one.
func wrapper(t *testing.T, misbehave string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "ensemble-decode")
	text := "#!/bin/sh\nif [ ! -e " + dir + "/started ]; then touch " + dir + "/started; " + misbehave + "; fi\nexec " + testdecoder.Path(t) + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// A child that crashes after its handshake costs a retry.
func TestDeadChildIsReplaced(t *testing.T) {
	const greet = `printf '\016\000\000\000{"protocol":2}'; head -c 4 >/dev/null; kill -SEGV $$`
	pool, err := decode.NewPool(decode.Options{Program: wrapper(t, greet), Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	in, err := Open(context.Background(), []string{filepath.Join(testdata.Dir(t, "formats"), "grib2", "same_field_simple.grib2")}, Options{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.ReadOne(context.Background(), in.Catalogue().Entries[0]); err != nil {
		t.Error(err)
	}
}

// A message that crashes the decoder does not affect the others of its batch.
func TestKillerMessageIsNamed(t *testing.T) {
	sound, err := os.ReadFile(filepath.Join(testdata.Dir(t, "formats"), "grib2", "same_field_complex.grib2"))
	if err != nil {
		t.Fatal(err)
	}
	killer, err := os.ReadFile(filepath.Join(testdata.Dir(t, "broken"), "derived", "grib2", "complex_last_group_longer.grib2"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mixed.grib2")
	if err := os.WriteFile(path, append(append(append([]byte(nil), sound...), killer...), sound...), 0o644); err != nil {
		t.Fatal(err)
	}
	in := open(t, Options{}, path)
	entries := in.Catalogue().Entries
	var read []int
	err = in.Read(context.Background(), entries, func(i int, _ *ensemble.Field) error { read = append(read, entries[i].Message); return nil })
	if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "message 2,") {
		t.Errorf("got %v, want exit 65 naming message 2", err)
	}
	for _, e := range entries {
		if _, err := in.ReadOne(context.Background(), e); (err != nil) != (e.Message == 2) {
			t.Errorf("message %d: %v", e.Message, err)
		}
	}
}

func TestNoDecoderInstalled(t *testing.T) {
	t.Setenv(decode.ProgramEnv, filepath.Join(t.TempDir(), "nothing"))
	_, err := Open(context.Background(), []string{filepath.Join(testdata.Dir(t, "formats"), "grib2", "same_field_simple.grib2")}, Options{})
	if exit.CodeOf(err) != exit.NoDevice {
		t.Errorf("got %v, want exit 69", err)
	}
}

// Different packings of one field agree within half a step of the coarsest packing.
func TestSameFieldInAllPackings(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(testdata.Dir(t, "formats"), "grib2", "same_field_*.grib2"))
	if err != nil || len(paths) < 6 {
		t.Fatal(paths, err)
	}
	var first *ensemble.Field
	for _, p := range paths {
		in := open(t, Options{}, p)
		f, err := in.ReadOne(context.Background(), in.Catalogue().Entries[0])
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = f
			continue
		}
		for i := range f.Values {
			if d := f.Values[i] - first.Values[i]; d > 0.06 || d < -0.06 {
				t.Fatalf("%s: point %d is %v, elsewhere %v", filepath.Base(p), i, f.Values[i], first.Values[i])
			}
		}
	}
}

func TestReadStopsWhenVisitFails(t *testing.T) {
	in := open(t, Options{}, filepath.Join(testdata.Dir(t, "gcm"), "gcm_fc_198201.grib2"))
	seen := 0
	err := in.Read(context.Background(), in.Catalogue().Entries, func(i int, f *ensemble.Field) error {
		if i != seen || f.Key != in.Catalogue().Entries[i].Key {
			t.Fatalf("visit %d got %d, %s", seen, i, f.Key)
		}
		if seen++; seen == 300 {
			return os.ErrClosed
		}
		return nil
	})
	if err != os.ErrClosed || seen != 300 {
		t.Errorf("%d fields, error %v", seen, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := in.Read(ctx, in.Catalogue().Entries, func(int, *ensemble.Field) error { return nil }); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

// BenchmarkRead opens and reads small messages, as of the demo and the global
// model.
func BenchmarkRead(b *testing.B) {
	paths, err := filepath.Glob(filepath.Join(testdata.Dir(b, "gcm"), "gcm_fc_1982*.grib2"))
	if err != nil || len(paths) == 0 {
		b.Fatal(err)
	}
	pool := children(b)
	n := 0
	for b.Loop() {
		in, err := Open(context.Background(), paths, Options{Pool: pool})
		if err != nil {
			b.Fatal(err)
		}
		if err := in.Read(context.Background(), in.Catalogue().Entries, func(int, *ensemble.Field) error { n++; return nil }); err != nil {
			b.Fatal(err)
		}
		in.Close()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "messages/s")
}

// Descriptions made without ecCodes equal those of ecCodes.
func TestKnownFieldsAgreeWithTheDecoder(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"formats/grib2/*", "gcm/gcm_fc_198201.grib2"} {
		set, glob, _ := strings.Cut(pattern, "/")
		found, err := filepath.Glob(filepath.Join(testdata.Dir(t, set), glob))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		paths = append(paths, found...)
	}
	var crafted []byte
	values := make([]float32, testgrib.Rows*testgrib.Columns)
	for _, of := range []struct{ centre, status byte }{{98, 0}, {7, 0}, {74, 0}, {85, 1}, {98, 1}, {98, 2}, {7, 2}, {74, 2}, {85, 2}, {255, 0}, {255, 1}, {255, 2}} {
		all := of.centre == 98 && of.status == 0 || of.centre == 255 && of.status == 2
		for _, v := range [][2]byte{{0, 0}, {1, 0}, {1, 1}, {2, 2}, {2, 3}, {2, 8}, {2, 12}, {2, 13}, {3, 4}, {3, 5}} {
			for kind, single := range []bool{false, true} {
				for _, hPa := range []int{850, 1} {
					if !all && (single || hPa == 1) {
						continue
					}
					m := testgrib.Message{Variable: v, HPa: hPa, Member: kind, Init: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), Step: 6, Unit: 1, Centre: of.centre, Single: single, Packed: true, Values: values}
					for dataType := range byte(6) {
						if !all && dataType != 4 {
							continue
						}
						b := m.Bytes()
						b[16+19], b[16+20] = of.status, dataType
						crafted = append(crafted, b...)
					}
				}
			}
		}
	}
	path := filepath.Join(t.TempDir(), "known.grib2")
	if err := os.WriteFile(path, crafted, 0o644); err != nil {
		t.Fatal(err)
	}
	compared, made := 0, 0
	for _, p := range append(paths, path) {
		in := open(t, Options{SkipBad: true}, p)
		fields := indexOf(t, in.files[0]).Fields
		var part []describeRequest
		for i := range fields {
			if _, ok := fields[i].Description(); ok && (len(fields) < 1000 || i%7 == 0 || p == path) {
				part = append(part, describeRequest{&fields[i], new(grib.Description)})
			}
		}
		if err := in.describe(context.Background(), in.files[0], part); err != nil {
			t.Fatal(err)
		}
		for _, a := range part {
			got, _ := a.field.Description()
			want := *a.out
			want = grib.Description{Name: want.Name, LongName: want.LongName, Unit: want.Unit, LevelType: want.LevelType, DataType: want.DataType, Packing: want.Packing, Statistic: want.Statistic}
			if got != want {
				t.Errorf("%s, message %d: %+v, ecCodes %+v", filepath.Base(p), a.field.Message, got, want)
			}
			compared++
		}
		made = len(part)
	}
	if made != 2*10*2*2*6+10*10 || compared == made {
		t.Errorf("%d fields compared, %d of them made for it", compared, made)
	}
}
