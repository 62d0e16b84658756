package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// described returns store.json of the small store.
func described(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	p, _ := plan(Int16, 4)
	if _, err := Write(context.Background(), dir, p, sizes(p)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, metaName))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestFormats: a store with another format is rejected with a remedy, and so is one
// that contradicts itself.
func TestFormats(t *testing.T) {
	text := described(t)
	set := func(change func(map[string]any)) []byte {
		var doc map[string]any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		change(doc)
		out, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, c := range []struct {
		name, want string
		text       []byte
	}{
		{"another format", "prepare the store again", set(func(d map[string]any) { d["format"] = Format + 1 })},
		{"no format", "its format is 0, this program reads 1", set(func(d map[string]any) { delete(d, "format") })},
		{"another document", "not a store", set(func(d map[string]any) { d["schema"] = "ensemble.run/1" })},
		{"another shard", "want \"shards/00000.bin\"", set(func(d map[string]any) { d["shards"].([]any)[0].(map[string]any)["path"] = "../x" })},
		{"shard size", "contradicts", set(func(d map[string]any) { d["shards"].([]any)[1].(map[string]any)["size"] = 1 })},
		{"huge grid", "1099511627776 columns", set(func(d map[string]any) { d["grid"].(map[string]any)["nx"] = 1 << 40 })},
		{"a level twice", "twice", set(func(d map[string]any) { d["levels"] = []string{"850hPa", "500hPa", "850hPa"} })},
		{"no members", "0 members", set(func(d map[string]any) { d["members"] = []int{} })},
		{"cut", "damaged", text[:len(text)/2]},
	} {
		if _, err := decodeMeta(c.text, "x"); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want exit 65 and %q", c.name, err, c.want)
		}
	}
}

// TestLayout: parts and bands are consecutive without overlap, at the offsets of
// the index, and at multiples of the sizes that docs/formats/store.md states; also with
// one forecast only, which is larger than the analyses.
func TestLayout(t *testing.T) {
	m, err := decodeMeta(described(t), "x")
	if err != nil {
		t.Fatal(err)
	}
	checkLayout(t, m)
	m.Members, m.Leads = m.Members[:1], m.Leads[:1]
	checkLayout(t, m)
}

func checkLayout(t *testing.T, m *Meta) {
	t.Helper()
	l, err := m.layout()
	if err != nil {
		t.Fatal(err)
	}
	if l.head%64 != 0 {
		t.Errorf("a head of %d bytes", l.head)
	}
	at := int64(0)
	for b := range l.bands {
		if l.bandOffset(b) != at || at%4096 != 0 {
			t.Errorf("band %d at %d, want %d", b, l.bandOffset(b), at)
		}
		lo, hi := l.rows(b)
		end := l.head
		for p := range l.parts {
			if from := l.partOffset(p, hi-lo); from < end || from >= end+64 || from%64 != 0 {
				t.Errorf("band %d part %d at %d, the one before ends at %d", b, p, from, end)
			}
			end = l.partOffset(p, hi-lo) + l.partBytes(p, hi-lo)
		}
		if n := l.bandBytes(b); n < end || n >= end+4096 {
			t.Errorf("band %d has %d bytes, its parts end at %d", b, n, end)
		}
		at += l.bandBytes(b)
	}
	if at != l.initBytes {
		t.Errorf("bands end at %d, a start has %d bytes", at, l.initBytes)
	}
}

// TestStatistics: the statistics of the store are those of all values.
func TestStatistics(t *testing.T) {
	p, src := plan(Float32, 7)
	m := write(t, t.TempDir(), p, sizes(p)).Meta
	var n, missing, sum, sq float64
	lo, hi := math.Inf(1), math.Inf(-1)
	var all []float64
	for _, e := range p.Forecasts.Entries {
		if e.Variable != "gh" || e.Level != p.Axes.Levels[2] || e.Lead != p.Axes.Leads[1] {
			continue
		}
		for _, x := range src.values(e.Key) {
			if x != x {
				missing++
				continue
			}
			all = append(all, float64(x))
			lo, hi = min(lo, float64(x)), max(hi, float64(x))
			sum += float64(x)
			n++
		}
	}
	for _, x := range all {
		sq += (x - sum/n) * (x - sum/n)
	}
	// leads × variables × levels: the second lead, second variable, third level
	got := m.Statistics[(1*2+1)*3+2]
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) } // sums of 1e3 values in another order
	if got.Kind != KindForecast || got.Lead != 36*3600 || got.Variable != "gh" || got.Level != p.Axes.Levels[2] || got.Count != int64(n) || got.Missing != int64(missing) ||
		got.Min != lo || got.Max != hi || !near(got.Mean, sum/n) || !near(got.SD, math.Sqrt(sq/n)) {
		t.Errorf("%+v, want count %v missing %v min %v max %v mean %v sd %v", got, n, missing, lo, hi, sum/n, math.Sqrt(sq/n))
	}
	if missing == 0 {
		t.Error("no value is missing, so that nothing was tested")
	}
}

// FuzzDescription: every error is exit 65, and accepted metadata have offsets
// inside of their shards.
func FuzzDescription(f *testing.F) {
	text := described(f)
	f.Add(text)
	f.Add([]byte(`{"schema":"ensemble.store","format":1}`))
	f.Add(bytes.Replace(text, []byte(`"band_rows": 4`), []byte(`"band_rows": 400`), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		m := &Meta{}
		if json.Unmarshal(text, m) == nil { // what is checked does not end at the checksum
			if sealed, err := manifest.SealedJSON(m, &m.Checksum, " "); err == nil {
				text = sealed
			}
		}
		m, err := decodeMeta(text, "x")
		if err != nil {
			if exit.CodeOf(err) != exit.BadData {
				t.Fatal(err)
			}
			return
		}
		l, err := m.layout()
		if err != nil {
			t.Fatal(err)
		}
		last := len(l.parts) - 1
		lo, hi := l.rows(l.bands - 1)
		k, at := l.locate(l.inits - 1)
		if end := at + l.bandOffset(l.bands-1) + l.partOffset(last, hi-lo) + l.partBytes(last, hi-lo); end > m.Shards[k].Size {
			t.Errorf("the last part ends at %d of %d", end, m.Shards[k].Size)
		}
		again, err := manifest.SealedJSON(m, &m.Checksum, " ")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := decodeMeta(again, "x"); err != nil || !reflect.DeepEqual(m, n) {
			t.Errorf("written and read again: %v\n%+v\n%+v", err, m, n)
		}
	})
}

// TestDescriptionOfOtherFiles: a sealed description whose files are not those that follow from its axes is refused.
func TestDescriptionOfOtherFiles(t *testing.T) {
	for want, change := range map[string]func(m *Meta){
		"0 shards, want 2 for 4 initialisations": func(m *Meta) { m.Shards = nil },
		"3 shards, want 2":                       func(m *Meta) { m.Shards = append(m.Shards, m.Shards[0]) },
		`shard 0 is "a" of`:                      func(m *Meta) { m.Shards[0].Path = "a" },
		" bytes, want ":                          func(m *Meta) { m.Shards[0].Size++ },
		`the index is "a"`:                       func(m *Meta) { m.Index.Path = "a" },
		"unknown storage":                        func(m *Meta) { m.Storage = "f8" },
		"no grid":                                func(m *Meta) { m.Grid = nil },
		"not ascending":                          func(m *Meta) { m.InitTimes[1] = m.InitTimes[0] },
		"0 rows of a band":                       func(m *Meta) { m.BandRows = 0 },
	} {
		m, err := decodeMeta(described(t), "x")
		if err != nil {
			t.Fatal(err)
		}
		change(m)
		text, err := manifest.SealedJSON(m, &m.Checksum, " ")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeMeta(text, "x"); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want exit 65 and %q", err, want)
		}
	}
}

// Every flipped bit of store.json is refused, and so are those of a sample in the list of inputs, and in plan and shards of the
// journal, with the file. Of the journal of a shard this means that the shard is written again.
func TestFault03StoreMetadata(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	refused := func(name string, whole []byte, step int, read func(text []byte) error) {
		t.Helper()
		if err := read(whole); err != nil {
			t.Fatal(err)
		}
		for bit := r.IntN(step); bit < 8*len(whole); bit += 1 + r.IntN(2*step-1) {
			text := bytes.Clone(whole)
			text[bit/8] ^= 1 << (bit % 8)
			var e *exit.Error
			if err := read(text); !errors.As(err, &e) || e.Code != exit.BadData || e.At != name || e.Fix == "" {
				t.Fatalf("%s, bit %d of byte %d, of %q: %v", name, bit%8, bit/8, whole[max(0, bit/8-20):min(len(whole), bit/8+20)], err)
			}
		}
	}
	refused("x", described(t), 1, func(text []byte) error {
		_, err := decodeMeta(text, "x")
		return err
	})
	p, _ := plan(Int16, 4)
	p.InputChecksums = []InputChecksum{{Path: "a.grib2", SHA256: strings.Repeat("0a", 32)}}
	w := begun(t, p)
	file := func(name string) (path string, whole []byte) {
		path = filepath.Join(w.dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return path, whole
	}
	// The functions below read the file: a process that was killed has left it.
	each := func(name string, read func() error) {
		path, whole := file(name)
		refused(path, whole, max(1, 8*len(whole)/100), func(text []byte) error { return errors.Join(os.WriteFile(path, text, 0o644), read()) })
	}
	each(inputsName, func() error {
		known, err := ReadInputChecksums(w.dir)
		if err == nil && len(known) != 1 {
			t.Errorf("%d inputs", len(known))
		}
		return err
	})
	each(filepath.Join(journalDir, planName), w.begin)
	each(journalName(0), func() error {
		_, err := w.readJournal(0)
		if w.isFinished(0) != (err == nil) {
			t.Error("a shard with a damaged journal counts as finished")
		}
		return err
	})
}

// begun returns the writer of a store of which one shard is finished.
func begun(t *testing.T, p Plan) *writer {
	t.Helper()
	o, dir := sizes(p), t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	o.Workers, o.Progress = 1, func(int, int) { cancel() }
	if _, err := Write(ctx, dir, p, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w, err := newWriter(dir, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// FuzzHead: a band header is decoded or rejected, and a decoded one is encoded to
// the same bytes.
func FuzzHead(f *testing.F) {
	m, err := decodeMeta(described(f), "x")
	if err != nil {
		f.Fatal(err)
	}
	l, err := m.layout()
	if err != nil {
		f.Fatal(err)
	}
	h := bandHeader{band: 1, row: 4, rows: 4, init: 5, checksums: make([]uint32, len(l.parts)), records: make([]fieldRecord, l.fields)}
	h.records[3] = fieldRecord{offset: 1, scale: 2, mean: 3, sd: 4, min: 5, max: 6, missing: 7}
	f.Add(h.append(nil, l.head))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := l.decodeHeader(text, 1, 5)
		if err != nil {
			return
		}
		n, err := l.decodeHeader(h.append(nil, l.head), 1, 5)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := h.append(nil, l.head), n.append(nil, l.head); !bytes.Equal(a, b) {
			t.Error("written and read again, the head differs")
		}
	})
}
