package fio

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// remade returns a field whose values increase from point to point and depend on a
// seed.
func remade(seed int) testgrib.Message {
	m := testgrib.Message{Variable: testgrib.Temperature, HPa: 850, Init: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), Step: 24, Unit: 1,
		Values: make([]float32, testgrib.Rows*testgrib.Columns)}
	for i := range m.Values {
		m.Values[i] = float32(250 + i + 1000*seed)
	}
	return m
}

// written writes messages to a file in a directory.
func written(t *testing.T, dir, name string, messages ...testgrib.Message) string {
	t.Helper()
	var all bytes.Buffer
	for _, m := range messages {
		all.Write(m.Bytes())
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, all.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// refusedWith opens files that must be rejected.
func refusedWith(t *testing.T, code exit.Code, part string, o Options, paths ...string) {
	t.Helper()
	o.Pool = children(t)
	in, err := Open(context.Background(), paths, o)
	if err == nil {
		in.Close()
	}
	if exit.CodeOf(err) != code || !strings.Contains(fmt.Sprintf("%+v", err), part) {
		t.Errorf("%v, code %d; want %d with %q", err, exit.CodeOf(err), code, part)
	}
}

func warned(in *Input, part string) bool {
	return slices.ContainsFunc(in.Catalogue().Warnings, func(w string) bool { return strings.Contains(w, part) })
}

// GEFS fields without a member number get that of the file name. Fields with a
// number keep it, unless a pattern is given.
func TestMembersFromFileNames(t *testing.T) {
	dir := t.TempDir()
	single := remade(0)
	single.Single = true
	var paths []string
	for _, name := range []string{"gep03.t00z.pgrb2a.0p50.f024", "gec00.t00z.pgrb2a.0p50.f024", "gep01.t00z.pgrb2a.0p50.f024"} {
		paths = append(paths, written(t, dir, name, single))
	}
	in := open(t, Options{}, paths...)
	if got := fmt.Sprint(in.Catalogue().Members()); got != "[0 1 3]" {
		t.Errorf("members %s", got)
	}
	if !warned(in, "3 fields of 3 files have no member number") {
		t.Errorf("warnings %q", in.Catalogue().Warnings)
	}
	for _, e := range in.Catalogue().Entries {
		if m, ok := MemberFromName(e.File, nil); !ok || m != e.Member {
			t.Errorf("%s is of member %s", e.File, e.Member)
		}
	}
	for name, want := range map[string]bool{"geavg.t00z.f024": false, "gep3.f024": false, "tmp_pres_2000010100_p04.grib2": true, "an_2000010100.grib2": false, "gec00": true} {
		if _, ok := MemberFromName(filepath.Join("gep07", name), nil); ok != want {
			t.Errorf("%s: %v", name, ok)
		}
	}

	second := remade(0)
	second.Member = 2
	numbered := written(t, dir, "gep04.t00z.f024", second)
	if in := open(t, Options{}, numbered); in.Catalogue().Entries[0].Member != 2 || len(in.Catalogue().Warnings) > 0 {
		t.Errorf("a field with a member number has member %s", in.Catalogue().Entries[0].Member)
	}
	believed := open(t, Options{Members: MemberOptions{FromName: regexp.MustCompile(`gep(\d+)`)}}, numbered)
	if believed.Catalogue().Entries[0].Member != 4 || !warned(believed, "another member") {
		t.Errorf("with a pattern: %s, %q", believed.Catalogue().Entries[0].Member, believed.Catalogue().Warnings)
	}
	folder := filepath.Join(dir, "mem007")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	inFolder := open(t, Options{Members: MemberOptions{FromName: regexp.MustCompile(`mem(\d+)/`)}}, written(t, folder, "t.grib2", single))
	if m := inFolder.Catalogue().Entries[0].Member; m != 7 {
		t.Errorf("the folder's member is %s", m)
	}
	refusedWith(t, exit.BadData, "no member number in the file name", Options{Members: MemberOptions{FromName: regexp.MustCompile(`mem(\d+)/`)}}, paths...)
}

// The files of GloSea4 have one member each, lagged over seven initialisations,
// without member 6.
func TestMembersOfGloSea4(t *testing.T) {
	dir := testdata.Dir(t, "glosea4")
	paths, err := filepath.Glob(filepath.Join(dir, "*.nc"))
	if err != nil {
		t.Fatal(err)
	}
	cat := open(t, Options{Members: MemberOptions{FromName: regexp.MustCompile(`member_(\d+)`)}}, paths...).Catalogue()
	if got := ensemble.MemberRanges(cat.Members()); got != "0-5, 7-13" || len(cat.Inits()) != 7 {
		t.Errorf("members %s of %d starts", got, len(cat.Inits()))
	}
}

// Centres number their members alike. Members of one centre are selected, or those
// of several are renumbered.
func TestCentres(t *testing.T) {
	const ncep = 7
	var messages []testgrib.Message
	for _, centre := range []byte{ncep, 0} {
		for member := range 2 {
			m := remade(10*member + int(centre))
			m.Member, m.Centre = member, centre
			messages = append(messages, m)
		}
	}
	path := written(t, t.TempDir(), "tigge.grib2", messages...)
	cat := open(t, Options{}, path).Catalogue()
	if len(cat.Entries) != 4 || cat.Duplicates() != nil || cat.Entries[0].Centre != "ecmf" || cat.Entries[1].Centre != "kwbc" {
		t.Errorf("%d fields, duplicates %v, centres %s %s", len(cat.Entries), cat.Duplicates(), cat.Entries[0].Centre, cat.Entries[1].Centre)
	}
	for _, c := range []struct {
		centres []string
		want    string // members
		first   float32
	}{
		{[]string{"kwbc"}, "[0 1]", 250 + 1000*ncep},
		{[]string{"ecmf"}, "[0 1]", 250},
		{[]string{"kwbc", "ecmf"}, "[0 1 1000 1001]", 250 + 1000*ncep},
		{[]string{"ecmf", "kwbc"}, "[0 1 1000 1001]", 250},
	} {
		in := open(t, Options{Members: MemberOptions{Centres: c.centres}}, path)
		f, err := in.ReadOne(context.Background(), in.Catalogue().Entries[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(in.Catalogue().Members()); got != c.want || f.Values[0] != c.first || len(in.Catalogue().Entries)+len(in.Catalogue().Unused) != 4 {
			t.Errorf("%v: members %s, the first begins with %v", c.centres, got, f.Values[0])
		}
	}
	refusedWith(t, exit.NotYet, "no members of centre egrr", Options{Members: MemberOptions{Centres: []string{"ecmf", "egrr"}}}, path)
}

// Percentiles are members only if this is configured and they are equidistant.
func TestPercentilesAsMembers(t *testing.T) {
	file := func(percent ...byte) string {
		var messages []testgrib.Message
		for i, p := range percent {
			m := remade(i)
			m.Percent = p
			messages = append(messages, m)
		}
		return written(t, t.TempDir(), "p.grib2", messages...)
	}
	asked := Options{Members: MemberOptions{Percentiles: true}}
	tens := file(50, 10, 90, 30, 70)
	if cat := open(t, Options{}, tens).Catalogue(); fmt.Sprint(cat.Members()) != "[-]" || cat.Entries[0].Product != ensemble.Quantile {
		t.Errorf("not requested: members %v, %s", cat.Members(), cat.Entries[0].Product)
	}
	in := open(t, asked, tens)
	for i, want := range []float32{1250, 3250, 250, 4250, 2250} { // by percentile
		e := in.Catalogue().Entries[i]
		f, err := in.ReadOne(context.Background(), e)
		if err != nil {
			t.Fatal(err)
		}
		if e.Member != ensemble.Member(i+1) || e.Members != 5 || e.Product != ensemble.MemberField || f.Values[0] != want {
			t.Errorf("percentile %d: member %s of %d begins with %v", i, e.Member, e.Members, f.Values[0])
		}
	}
	for why, percent := range map[string][]byte{
		"their steps are not equal: 10, 50, 75": {10, 50, 75}, "there is only one": {50}, "not centred on 50: 10, 20, 30": {10, 20, 30},
		"not between half a step and one step: 40, 50, 60": {40, 50, 60},
	} {
		refusedWith(t, exit.BadData, why, asked, file(percent...))
	}
	for _, percent := range [][]byte{{25, 75}, {25, 50, 75}, {20, 40, 60, 80}} {
		if n := len(open(t, asked, file(percent...)).Catalogue().Members()); n != len(percent) {
			t.Errorf("%v are %d members", percent, n)
		}
	}
}

// A field is the same in all sixteen scanning modes, from any first column, and
// with longitudes from 180 to 540 as in ECMWF open data.
func TestScanningModes(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for mode := 0; mode < 256; mode += 16 {
		for _, lon0 := range []int{0, testgrib.Columns / 2, 3} {
			m := remade(0)
			for _, beyond := range []bool{false, true} {
				m.Scan, m.Lon0, m.Beyond = byte(mode), lon0, beyond
				paths = append(paths, written(t, dir, fmt.Sprintf("%d_%d_%v.grib2", mode, lon0, beyond), m))
			}
		}
	}
	want := remade(0).Values
	in := open(t, Options{}, paths...)
	if len(in.Catalogue().Entries) != len(paths) {
		t.Fatalf("%d fields of %d files: %v", len(in.Catalogue().Entries), len(paths), in.Catalogue().Unused)
	}
	err := in.Read(context.Background(), in.Catalogue().Entries, func(i int, f *ensemble.Field) error {
		if !slices.Equal(f.Values, want) {
			t.Errorf("%s: %v…", in.Catalogue().Entries[i].File, f.Values[:8])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An index file that does not match is a warning and changes nothing.
func TestSidecars(t *testing.T) {
	a, b := remade(0), remade(1)
	b.Member = 1
	size := len(a.Bytes())
	row := func(offset, length int) string {
		return fmt.Sprintf(`{"number": "1", "param": "t", "_offset": %d, "_length": %d}`, offset, length)
	}
	right := row(0, size) + "\n" + row(size, size) + "\n"
	for _, c := range []struct{ name, ending, text, warning string }{
		{"right", ".index", right, ""},
		{"of wgrib2", ".idx", fmt.Sprintf("1:0:d=2001010100:TMP:850 mb:24 hour fcst:\n2:%d:d=2001010100:TMP:850 mb:24 hour fcst:\n", size), ""},
		{"shifted", ".index", row(1, size) + "\n" + row(size+1, size-1), "lists a message at byte 1, but none begins there"},
		{"of another file", ".index", row(0, size-8) + "\n" + row(size-8, size), "row 1 of its index"},
		{"of a longer file", ".index", right + row(2*size, size), fmt.Sprintf("ends at byte %d, the file has %d", 3*size, 2*size)},
		{"of a shorter file", ".index", row(0, size), "lists 1 of 2 messages"},
		{"empty", ".index", "\n", "is empty"},
		{"no text", ".idx", "\x80\x04\x95", "row 1"},
		{"stale, of wgrib2", ".idx", "1:0:d=2001\n2:77:d=2001\n", "byte 77, but none begins there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := written(t, dir, "20010101000000-24h-enfo-ef.grib2", a, b)
			without := open(t, Options{}, path).Catalogue()
			for _, name := range []string{path + c.ending, strings.TrimSuffix(path, ".grib2") + c.ending} {
				if err := os.WriteFile(name, []byte(c.text), 0o444); err != nil {
					t.Fatal(err)
				}
				in := open(t, Options{}, path)
				if c.warning == "" && len(in.Catalogue().Warnings) > 0 || c.warning != "" && (!warned(in, c.warning) || len(in.Catalogue().Warnings) != 1) {
					t.Errorf("warnings %q", in.Catalogue().Warnings)
				}
				if !slices.EqualFunc(in.Catalogue().Entries, without.Entries, func(x, y ensemble.Entry) bool { return x.Compare(y) == 0 }) {
					t.Error("the fields are others")
				}
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A cached index gives the same fields, is used only for an unchanged file, and is
// never required.
func TestIndexCache(t *testing.T) {
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "new", "cache")
	a, b := remade(0), remade(1)
	b.Member, b.Scan = 1, 0x40
	path := written(t, dir, "a.grib2", a, b)
	o := Options{Cache: cache}
	fields := func(o Options) (out []string) {
		in := open(t, o, path)
		err := in.Read(context.Background(), in.Catalogue().Entries, func(i int, f *ensemble.Field) error {
			out = append(out, fmt.Sprint(in.Catalogue().Entries[i].Key, f.Unit, f.Grid, f.Values[:3]))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	keptFiles := func() []string {
		names, err := filepath.Glob(filepath.Join(cache, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	want := fields(Options{})
	if got := fields(o); !slices.Equal(got, want) {
		t.Errorf("with an empty cache %q, want %q", got, want)
	}
	names := keptFiles()
	if len(names) != 1 {
		t.Fatalf("kept are %q", names)
	}
	f, err := detect(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.f.Close()
	if (&Input{}).loadIndex(names[0], f) == nil {
		t.Error("the index of the same file is not taken")
	}
	if got := fields(o); !slices.Equal(got, want) {
		t.Errorf("from the cache %q, want %q", got, want)
	}
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{nil, whole[:40], whole[:len(whole)-1], append(slices.Clone(whole[:50]), bytes.Repeat([]byte{7}, len(whole)-50)...)} {
		if err := os.WriteFile(names[0], damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if (&Input{}).loadIndex(names[0], f) != nil {
			t.Errorf("a damaged index of %d bytes is taken", len(damaged))
		}
		if got := fields(o); !slices.Equal(got, want) {
			t.Errorf("next to a damaged index %q, want %q", got, want)
		}
	}

	// Another file with the same size, name and time.
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b.Member = 2
	written(t, dir, "a.grib2", b, a)
	if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got, fresh := fields(o), fields(Options{}); !slices.Equal(got, fresh) || slices.Equal(got, want) {
		t.Errorf("of the new file %q, want %q", got, fresh)
	}

	// A cache path that is not a directory disables the cache.
	if got := fields(Options{Cache: path}); len(got) != 2 {
		t.Errorf("with a file as the cache %q", got)
	}
}

// TestPairs: positive and negative perturbations of one number are two members on
// request. A negative perturbation alone keeps that number.
func TestPairs(t *testing.T) {
	f := &file{path: "f"}
	kind := func(name string) *ensemble.Kind { return &ensemble.Kind{MemberType: name} }
	for _, c := range []struct {
		of     string
		number ensemble.Member
	}{{"unperturbed low-resolution control", 0}, {"positive perturbation", 1}, {"negative perturbation", 1}, {"positive perturbation", 7}, {"negative perturbation", 7}} {
		f.entries = append(f.entries, ensemble.Entry{Key: ensemble.Key{Member: c.number}, Kind: kind(c.of)})
	}
	numberPairs(f)
	var got []ensemble.Member
	for _, e := range f.entries {
		got = append(got, e.Member)
	}
	if want := []ensemble.Member{0, 1, 2, 13, 14}; !slices.Equal(got, want) || len(f.faults) > 0 {
		t.Errorf("members %v, want %v; faults %v", got, want, f.faults)
	}
	f.entries[1].Member = 0
	if numberPairs(f); len(f.faults) != 1 {
		t.Errorf("perturbation 0 is not refused: %v", f.faults)
	}
}

// TestUnnumbered: a field without a member beside members is not used silently, and is
// the control on request.
func TestUnnumbered(t *testing.T) {
	dir := t.TempDir()
	control, one, two := remade(0), remade(1), remade(2)
	control.Single, one.Member, two.Member = true, 1, 2
	paths := []string{written(t, dir, "oper.grib2", control), written(t, dir, "pf.grib2", one, two)}
	in := open(t, Options{}, paths...)
	if !warned(in, "1 fields have no member number beside members") || !warned(in, "members.unnumbered: control") {
		t.Errorf("warnings %q", in.Catalogue().Warnings)
	}
	in = open(t, Options{Members: MemberOptions{Unnumbered: true}}, paths...)
	if got := fmt.Sprint(in.Catalogue().Members()); got != "[0 1 2]" || warned(in, "no member number") {
		t.Errorf("members %s, warnings %q", got, in.Catalogue().Warnings)
	}
}
