package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// Tests of faulty input: each writes a file with one fault and passes it to the commands that read it.

// firstDay is the first init that the model of the tests is trained on; lastDay is after all of them.
var (
	firstDay = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	lastDay  = firstDay.AddDate(0, 0, 20*14)
)

// join returns consecutive messages as bytes.
func join(messages ...testgrib.Message) []byte {
	var out []byte
	for _, m := range messages {
		out = append(out, m.Bytes()...)
	}
	return out
}

// weather returns a field of smooth waves with realistic values. Each key has another field.
func weather(m testgrib.Message) []float32 {
	base, size := 290-12*float64(m.Step)/1000, 25.0
	switch {
	case m.Variable == testgrib.Height && m.HPa == 850:
		base, size = 1450, 90
	case m.Variable == testgrib.Height:
		base, size = 5550, 220
	case m.Variable == testgrib.Rain:
		base, size = 6, 5
	case m.HPa == 500:
		base = 258
	}
	day := float64(m.Init.Unix()) / 86400
	seed := float64(m.Member)*1.7 + float64(m.HPa)/300
	out := make([]float32, testgrib.Rows*testgrib.Columns)
	for j := range testgrib.Rows {
		for i := range testgrib.Columns {
			lat, lon := 1.22-0.349*float64(j), 2*math.Pi*float64(i)/testgrib.Columns
			wave := math.Sin(2*lon+day/3+float64(m.Step)/30)*math.Cos(lat) + 0.02*float64(1+m.Step/24)*math.Sin(3*lon+seed*5+day)*math.Cos(2*lat+seed)
			out[j*testgrib.Columns+i] = float32(base + size*(math.Cos(lat)-0.6+0.3*wave))
		}
	}
	return out
}

// cycle returns one complete init of four members: by lead, member, variable and level.
func cycle(init time.Time) []testgrib.Message { return cycleOf(init, 4) }

func cycleOf(init time.Time, members int) []testgrib.Message {
	var out []testgrib.Message
	for _, step := range []int{0, 24, 48} {
		for m := range members {
			for _, v := range [][2]byte{testgrib.Temperature, testgrib.Height} {
				for _, hPa := range []int{850, 500} {
					x := testgrib.Message{Variable: v, HPa: hPa, Member: m, Init: init, Step: step, Unit: 1}
					x.Values = weather(x)
					out = append(out, x)
				}
			}
		}
	}
	return out
}

// perLead and perMember count the messages of a cycle at one lead, and of one member at one lead.
const perLead, perMember = 16, 4

// trainedOnce is a run trained on twenty inits, and its configuration.
var trainedOnce = sync.OnceValues(func() (run [2]string, err error) {
	dir := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "faults")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return run, err
	}
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("fc_%02d.grib2", i)), join(cycle(firstDay.AddDate(0, 0, 14*i))...), 0o644); err != nil {
			return run, err
		}
	}
	text := fmt.Sprintf(`version: 1
data:
  forecasts: [%s/fc_*.grib2]
  members: {use: 3, minimum: 2, full: 4}
  leads: [0h, 24h, 48h]
  target_lead: 48h
  levels: [850hPa, 500hPa]
  variables: [t, gh]
  targets: [{variable: t, levels: [850hPa]}]
model: {base: 2, stages: 1, head: spread}
train: {epochs: 1, batch_size: 4, threads: 1, networks: 1, loss: {kind: mse}}
`, dir)
	run = [2]string{filepath.Join(dir, "run"), filepath.Join(dir, "train.yaml")}
	if err := os.WriteFile(run[1], []byte(text), 0o644); err != nil {
		return run, err
	}
	var stdout, stderr bytes.Buffer
	if code := execute([]string{"train", "-c", run[1], "--run-dir", run[0], "--progress", "none"}, &stdout, &stderr); code != exit.OK {
		err = fmt.Errorf("training for the fault tests: exit %d: %s", code, stderr.String())
	}
	return run, err
})

// trial is a folder for faulty files, and the commands that read them.
type trial struct {
	*testing.T
	dir         string
	run, config string
}

func faulty(t *testing.T) *trial {
	t.Helper()
	testdecoder.Path(t)
	run, err := trainedOnce()
	if err != nil {
		t.Fatal(err)
	}
	return &trial{t, t.TempDir(), run[0], run[1]}
}

// put writes a file.
func (t *trial) put(name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.dir, name)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// expect runs a command line, and compares its exit code and words of its output.
func (t *trial) expect(code exit.Code, words []string, args ...string) string {
	t.Helper()
	got, stdout, stderr := call(t.T, args...)
	if got != code {
		t.Errorf("%q: exit %d, want %d: %s%s", args, got, code, stdout, stderr)
	}
	for _, w := range words {
		if !strings.Contains(stdout+stderr, w) {
			t.Errorf("%q: no %q in\n%s%s", args, w, stdout, stderr)
		}
	}
	return stdout
}

// check and predict run these commands. A prediction that fails must leave no product.
func (t *trial) check(code exit.Code, words []string, args ...string) string {
	t.Helper()
	return t.expect(code, words, append([]string{"check"}, args...)...)
}

func (t *trial) predict(code exit.Code, words []string, args ...string) (products string) {
	t.Helper()
	out, err := os.MkdirTemp(t.dir, "products")
	if err != nil {
		t.Fatal(err)
	}
	at := 0 // files follow the flags, each of which has one value
	for at+1 < len(args) && strings.HasPrefix(args[at], "--") {
		at += 2
	}
	line := append([]string{"predict", "--run-dir", t.run, "--out", out, "--threads", "1", "--progress", "none"}, args[:at]...)
	t.expect(code, words, append(append(line, "--input"), args[at:]...)...)
	if left, _ := filepath.Glob(filepath.Join(out, "2*", "*")); code != exit.OK && left != nil {
		t.Errorf("%q: rejected, but left %q", args, left)
	}
	return out
}

// both runs both commands: predict must reject the fault that check reports.
func (t *trial) both(code exit.Code, words []string, files ...string) {
	t.Helper()
	found := exit.No
	if code == exit.OK {
		found = exit.OK
	}
	t.check(found, words, files...)
	t.predict(code, words, files...)
}

// degrade is the policy that continues with fewer members.
var degrade = []string{"--set", "members.on_missing=degrade"}

// made checks the manifest and the NetCDF file of the only cycle in a folder: the status, the members used, and a
// missing member with its reason. No value may be NaN.
func (t *trial) made(out, status, members, missing string) {
	t.Helper()
	var got struct {
		Status  string
		Used    []int `json:"members_used"`
		Missing []struct {
			Member int
			Reason string
		} `json:"members_missing"`
	}
	names, _ := filepath.Glob(filepath.Join(out, "2*", "manifest.json"))
	files, _ := filepath.Glob(filepath.Join(out, "2*", "*.nc"))
	if len(names) != 1 || len(files) != 1 {
		t.Errorf("manifests %q and files %q, want one of each", names, files)
		return
	}
	text, err := os.ReadFile(names[0])
	if err != nil || json.Unmarshal(text, &got) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	reasons := ""
	for _, m := range got.Missing {
		reasons += fmt.Sprintf("member %d: %s\n", m.Member, m.Reason)
	}
	if got.Status != status || strings.Trim(fmt.Sprint(got.Used), "[]") != members || !strings.Contains(reasons, missing) || missing == "" && reasons != "" {
		t.Errorf("status %s, members %v, missing %q; want %s, %s, %q", got.Status, got.Used, reasons, status, members, missing)
	}
	product, err := os.ReadFile(files[0])
	if err != nil || !bytes.Contains(product, []byte(members)) { // the attribute ensemble_members
		t.Errorf("%s does not list members %s: %v", files[0], members, err)
	}
	if v := t.values(filepath.Join(out, "2*", "*.nc")); strings.Contains(v, "NaN") || t.missingIn(files[0]) > 0 {
		t.Errorf("values are missing: %s", v)
	}
}

// missingIn counts the missing values of a file.
func (t *trial) missingIn(path string) (n int) {
	t.Helper()
	var got struct{ Fields []struct{ Missing int } }
	if err := json.Unmarshal([]byte(t.expect(exit.OK, nil, "inspect", "--stats", "--json", path)), &got); err != nil {
		t.Fatal(err)
	}
	for _, f := range got.Fields {
		n += f.Missing
	}
	return n
}

// values returns the statistics of the fields of one file, as inspect prints them.
func (t *trial) values(pattern string) string {
	t.Helper()
	files, _ := filepath.Glob(pattern)
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	var got struct {
		Fields []struct {
			Variable, Product string
			Min, Mean, Max    float64
		}
	}
	if err := json.Unmarshal([]byte(t.expect(exit.OK, nil, "inspect", "--stats", "--json", files[0])), &got); err != nil || len(got.Fields) == 0 {
		t.Fatalf("%v: %+v", err, got)
	}
	var text string
	for _, x := range got.Fields {
		text += fmt.Sprintf("%s %s %.6g %.6g %.6g\n", x.Variable, x.Product, x.Min, x.Mean, x.Max)
	}
	return text
}

func TestFault00SoundInput(t *testing.T) {
	f := faulty(t)
	path := f.put("sound.grib2", join(cycle(lastDay)...))
	f.check(exit.OK, []string{"no fault found", "48 fields"}, path, "--expect", "members=3+control,steps=0:48:24,variables=t,gh,levels=850hPa,500hPa")
	f.check(exit.OK, []string{"no fault found", "960 fields"}, "-c", f.config)
	f.predict(exit.OK, nil, path)
}

// listed is a fault in the JSON output of check.
type listed struct {
	Kind, File, What, Why, Fix string
	Message                    int
	Byte                       *int64
	Code                       int `json:"exit_code"`
}

// faults returns the faults that check reports for files.
func (t *trial) faults(code exit.Code, files ...string) []listed {
	t.Helper()
	var got struct{ Faults []listed }
	out := t.check(code, nil, append(files, "--json")...)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got.Faults
}

// TestFault01 cuts a file inside a message, at the edges of its sections.
func TestFault01(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	whole := join(c[:2]...)
	first := len(c[0].Bytes())
	cut := []int{first + 4, first + 15, first + 16, first + 17}
	at := first + 16
	for _, s := range c[1].Sections() {
		at += len(s)
		cut = append(cut, at-1, at, at+1)
	}
	var files []string
	for _, n := range cut {
		files = append(files, f.put(fmt.Sprintf("cut%d.grib2", n), whole[:n]))
	}
	found := f.faults(exit.No, files...)
	for i, path := range files {
		at := slices.IndexFunc(found, func(x listed) bool { return x.File == path })
		if at < 0 {
			t.Errorf("the cut at %d is not detected", cut[i])
			continue
		}
		x := found[at]
		declared := fmt.Sprint(len(whole) - first)
		if x.Kind != "damage" || x.Message != 2 || x.Byte == nil || *x.Byte != int64(first) || cut[i] >= first+16 && !strings.Contains(x.Why+x.What, declared) {
			t.Errorf("the cut at %d: %+v, want message 2, byte %d, %s bytes declared", cut[i], x, first, declared)
		}
	}
	path := f.put("cut.grib2", join(cycle(lastDay)...)[:48*len(c[0].Bytes())-200])
	f.predict(exit.BadData, []string{"message 48", "declares"}, path)
	// The policy may skip a damaged message, and its fields are then missing; here no used field is affected.
	f.made(f.predict(exit.OK, []string{"message 48", "left out"}, "--set", "bad_messages=skip", path), "degraded", "0 1 2", "")
	lost := f.put("lost.grib2", join(cycle(lastDay)...)[:44*len(c[0].Bytes())-200])
	f.predict(exit.NotYet, []string{"member 2 is missing at lead 48h"}, "--set", "bad_messages=skip", lost)
	f.made(f.predict(exit.OK, []string{"message 44", "left out"}, append(slices.Clone(degrade), "--set", "bad_messages=skip", lost)...), "degraded", "0 1", "member 2: 1 of its 12 fields")
}

// TestUndecodableField: a field whose values cannot be decoded counts as missing if the policy allows missing
// fields.
func TestUndecodableField(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	size := len(c[0].Bytes())
	text := join(c...)
	at := 5*size + 16 // the second field of member 1 at the first lead
	for _, s := range c[5].Sections() {
		if s[4] == 5 {
			text[at+11] = 3 // numbers of 128 bits
		}
		at += len(s)
	}
	path := f.put("fc.grib2", text)
	f.both(exit.BadData, []string{path + ", message 6", "values cannot be decoded"}, path)
	skip := append(slices.Clone(degrade), "--set", "bad_messages=skip")
	f.made(f.predict(exit.OK, []string{"message 6", "values cannot be decoded, left out"}, append(skip, path)...), "degraded", "0 2 3", "member 1: 1 of its 12 fields are missing: member 1 at 0h")
	f.predict(exit.NotYet, []string{"member 1 is missing at lead 0h"}, "--set", "bad_messages=skip", path)
}

// TestFault02: a file that is cut between messages is detected by comparison with the expected members and leads.
func TestFault02(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	for _, lost := range []int{perMember + 1, perLead / 2, perLead} {
		path := f.put("cut.grib2", join(c[:len(c)-lost]...))
		words := []string{"lead 48h"}
		if lost < perLead { // else no file has the lead
			words = append(words, "the file ends between two messages", fmt.Sprintf("message %d", len(c)-lost))
			f.check(exit.No, []string{"missing at lead 48h", "exit with 65"}, path)
		}
		f.predict(exit.BadData, words, path)
		f.check(exit.No, []string{"48h"}, path, "--expect", "members=3+control,steps=0:48:24")
	}
	// With one file per lead the other leads show that members are missing.
	var files []string
	for i := range 3 {
		files = append(files, f.put(fmt.Sprintf("lead%d.grib2", i), join(c[i*perLead:(i+1)*perLead]...)))
	}
	f.put("lead1.grib2", join(c[perLead:2*perLead-2*perMember]...))
	f.both(exit.BadData, []string{"missing at lead 24h", "lead1.grib2, message 8", "the file ends between two messages"}, files...)
	// Fields that are missing before the end of a file may still arrive in another file.
	f.put("lead1.grib2", join(slices.Delete(slices.Clone(c[perLead:2*perLead]), perMember, 2*perMember)...))
	f.both(exit.NotYet, []string{"member 1 is missing at lead 24h"}, files...)
}

// Flipped bits must not crash the program or cause an internal error.
func TestFault03(t *testing.T) { flipBits(t, 97, 200) }

// flipBits flips every step-th bit of the headers of a message, and some of its data.
func flipBits(t *testing.T, step, data int) {
	f := faulty(t)
	c := cycle(lastDay)[:2]
	sound := join(c...)
	message := len(c[0].Bytes())
	header := message - 4*testgrib.Rows*testgrib.Columns - 4
	r := rand.New(rand.NewPCG(1, 2))
	var at []int
	for bit := 0; bit < 8*header; bit += step {
		at = append(at, bit)
	}
	for range data {
		at = append(at, 8*header+r.IntN(8*4*testgrib.Rows*testgrib.Columns))
	}
	found := 0
	for some := range slices.Chunk(at, 250) {
		var files []string
		for _, bit := range some {
			text := bytes.Clone(sound)
			text[bit/8] ^= 0x80 >> (bit % 8)
			files = append(files, f.put(fmt.Sprintf("flipped%d.grib2", bit), text))
		}
		named := map[string]bool{}
		for _, x := range f.faults(exit.No, files...) {
			named[x.File] = true
			if x.Code != int(exit.BadData) && x.Code != int(exit.NotYet) {
				t.Errorf("%+v", x)
			}
		}
		found += len(named)
	}
	t.Logf("%d of %d files with a flipped bit are named", found, len(at))
	// A flipped bit in the exponent of a value is detected by the limits of the variable.
	text := bytes.Clone(sound)
	text[header] ^= 0x40
	f.check(exit.No, []string{"values of t at 850hPa are outside 100 to 350 K"}, f.put("exponent.grib2", text))
}

// TestFault04: no memory is reserved for a declared size that the file does not have.
func TestFault04(t *testing.T) {
	f := faulty(t)
	sound := cycle(lastDay)[0].Bytes()
	set := func(at int, v uint64, n int) []byte {
		text := bytes.Clone(sound)
		for i := range n {
			text[at+i] = byte(v >> (8 * (n - 1 - i)))
		}
		return text
	}
	const points, ni, nj = 16 + 21 + 6, 16 + 21 + 30, 16 + 21 + 34
	var files [][]byte
	for _, v := range []uint64{0, 1, 1 << 31, 1 << 32, 1 << 63, math.MaxUint64} {
		files = append(files, set(8, v, 8))
	}
	for _, at := range []int{16, 37, points, ni, nj} {
		for _, v := range []uint64{0, 1, 1 << 31, math.MaxUint32} {
			if v == math.MaxUint32 && (at == ni || at == nj) {
				continue // a reduced grid, which is not supported
			}
			files = append(files, set(at, v, 4))
		}
	}
	both := set(ni, 65535, 4)
	binary.BigEndian.PutUint32(both[nj:], 65537) // their product is -1 in 32 bits
	files = append(files, both)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var paths []string
	for i, text := range files {
		paths = append(paths, f.put(fmt.Sprintf("bomb%d.grib2", i), text))
	}
	found := f.faults(exit.No, append(paths, f.put("sound.grib2", sound))...)
	for i, path := range paths {
		if !slices.ContainsFunc(found, func(x listed) bool { return x.Kind == "damage" && x.File == path }) {
			t.Errorf("file %d is not rejected", i)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d bytes were reserved", grown)
	}
}

// TestFault05 reads messages beyond 2 GiB.
func TestFault05(t *testing.T) { farMessages(t, 1<<31+3) }

func farMessages(t *testing.T, offset int64) {
	f := faulty(t)
	c := cycle(lastDay)
	path := f.put("far.grib2", join(c[:47]...))
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(c[47].Bytes(), offset); err != nil {
		t.Skipf("skipped: no sparse files here: %v", err)
	}
	f.check(exit.OK, []string{"48 fields", "bytes in 1 ranges are outside of messages"}, path)
}

// TestFault06: the error for a file of another format names the format.
func TestFault06(t *testing.T) {
	f := faulty(t)
	fifo := filepath.Join(f.dir, "pipe")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{
		f.put("page.grib2", []byte("<!DOCTYPE html><html>404</html>")): "HTML",
		f.put("a.grib2.gz", []byte("\x1f\x8b\x08\x00 bytes")):          "gzip",
		f.put("empty.grib2", nil):                                      "empty",
		fifo:                                                           "regular file", "/dev/null": "regular file",
	}
	all := []string{f.put("sound.grib2", join(cycle(lastDay)...))}
	words := []string{"48 fields", "damage: 5"}
	for path, word := range kinds {
		all, words = append(all, path), append(words, path, word)
		f.check(exit.BadData, []string{path, word}, path)
		f.predict(exit.BadData, []string{path, word}, path)
	}
	f.check(exit.No, words, all...)                             // the sound file is checked too
	f.check(exit.No, []string{"48 fields", "damage: 2"}, f.dir) // files with extensions of data; not the archive and the pipe
	f.check(exit.NotYet, []string{"not found"}, filepath.Join(f.dir, "absent.grib2"))
}

// TestFault07: index files next to the data are not trusted. Those of a known format that do not match are
// reported.
func TestFault07(t *testing.T) {
	f := faulty(t)
	path := f.put("fc.grib2", join(cycle(lastDay)...))
	for _, end := range []string{".idx", ".index", ".gbx9"} {
		f.put("fc.grib2"+end, []byte(`{"_offset": 1, "_length": 3}`+"\n1:0:d=2001010100:TMP:850 mb:24 hour fcst:\n"))
	}
	f.both(exit.OK, []string{"fc.grib2.idx lists a message at byte 1, but none begins there", "fc.grib2.index lists a message at byte 1, but none begins there"}, path)
}

// TestFault08: identical duplicates count once, different ones are rejected.
func TestFault08(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	f.both(exit.OK, []string{"fields in the input twice with equal values"}, f.put("twice.grib2", join(append(c, c...)...)))
	other := c[5]
	other.Values = slices.Clone(other.Values)
	other.Values[3]++
	path := f.put("differ.grib2", join(append(c, other)...))
	f.both(exit.BadData, []string{"two messages describe the same field and differ", "message 6 and", "message 49"}, path)
	usual := f.values(filepath.Join(f.predict(exit.OK, nil, f.put("fc.grib2", join(c...))), "2*", "*.nc"))
	for _, which := range []string{"first", "last"} {
		out := f.predict(exit.OK, []string{"two messages describe the same field and differ", "the " + which + " one is used"}, "--set", "duplicates="+which, path)
		f.made(out, "degraded", "0 1 2", "")
		if same := f.values(filepath.Join(out, "2*", "*.nc")) == usual; same != (which == "first") {
			t.Errorf("%s: the product is that of the first: %v", which, same)
		}
	}
}

// without removes the messages that a predicate selects.
func without(c []testgrib.Message, drop func(m testgrib.Message) bool) []testgrib.Message {
	return slices.DeleteFunc(slices.Clone(c), drop)
}

// TestFault09: a member is missing at all leads.
func TestFault09(t *testing.T) {
	f := faulty(t)
	path := f.put("fc.grib2", join(without(cycle(lastDay), func(m testgrib.Message) bool { return m.Member == 2 })...))
	f.predict(exit.NotYet, []string{"member 2 is in none", "members 0-1, 3"}, path)
	f.check(exit.No, []string{"member 2 is in none"}, path, "--expect", "members=0-3")
	f.check(exit.No, []string{"the input has 3 members, expected are 4"}, path, "--expect", "members=4")
	f.check(exit.OK, []string{"member 2 is missing everywhere"}, path) // without --expect only a warning
	// Another member replaces it, if the policy allows it.
	out := f.predict(exit.OK, []string{"member 3 replaces", "1 degraded"}, append(slices.Clone(degrade), path)...)
	f.made(out, "degraded", "0 1 3", "member 2: all of its fields are missing")
}

// TestFault10: a member is missing at one lead.
func TestFault10(t *testing.T) {
	f := faulty(t)
	path := f.put("fc.grib2", join(without(cycle(lastDay), func(m testgrib.Message) bool { return m.Member == 1 && m.Step == 24 })...))
	f.both(exit.NotYet, []string{"member 1 is missing at lead 24h", "fields are present, 4 are missing: member 1 at 24h",
		"members          0h    24h    48h", "1                 4      0      4"}, path)
	two := f.put("two.grib2", join(without(cycle(lastDay), func(m testgrib.Message) bool { return m.Member == 1 && m.Step == 24 || m.Member == 3 && m.Step == 0 })...))
	f.made(f.predict(exit.OK, nil, append(slices.Clone(degrade), two)...), "degraded", "0 2", "member 1: 4 of its 12 fields are missing: member 1 at 24h")
	f.predict(exit.NotYet, []string{"2 members are complete, at least 3 are required", "member 1: 4 of its 12 fields"}, append(slices.Clone(degrade), "--set", "members.minimum=3", two)...)
	f.predict(exit.NotYet, []string{"1 members are complete, the model was trained for 2 to 3"}, append(slices.Clone(degrade),
		f.put("one.grib2", join(without(cycle(lastDay), func(m testgrib.Message) bool { return m.Member > 0 && m.Step == 24 })...)))...)
	out := f.check(exit.No, nil, path, "--json")
	var got struct {
		Schema  string
		Leads   []string
		Members []struct {
			Members string
			Fields  []int
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Schema != "ensemble.check/1" || len(got.Members) != 2 || !slices.Equal(got.Members[1].Fields, []int{4, 0, 4}) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestFault11: the control is absent, or of an older cycle.
func TestFault11(t *testing.T) {
	f := faulty(t)
	control := func(m testgrib.Message) bool { return m.Member == 0 }
	perturbed := func(m testgrib.Message) bool { return m.Member != 0 }
	rest := without(cycle(lastDay), control)
	path := f.put("fc.grib2", join(rest...))
	f.predict(exit.BadData, []string{"control member absent", "members 1-3"}, path)
	f.check(exit.No, []string{"control member absent", "members 1-3"}, path, "--expect", "members=3+control")
	old := f.put("old.grib2", join(without(cycle(lastDay.AddDate(0, 0, -1)), perturbed)...))
	f.both(exit.BadData, []string{"the control is of another initialisation", old}, path, old)
	// Degraded products need the control too, unless the policy allows its absence.
	f.predict(exit.BadData, []string{"control member absent"}, append(slices.Clone(degrade), path)...)
	f.predict(exit.BadData, []string{"the control is of another initialisation"}, append(slices.Clone(degrade), path, old)...)
	f.made(f.predict(exit.OK, nil, append(slices.Clone(degrade), "--set", "members.required=[none]", path)...), "degraded", "1 2 3", "member 0: all of its fields are missing")
	f.made(f.predict(exit.OK, []string{"member 3 replaces"}, "--set", "members.control=none", path), "ok", "1 2 3", "")
}

// TestFault12: the order of members does not change the output; duplicate numbers are rejected.
func TestFault12(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	sound := f.predict(exit.OK, nil, "--format", "grib2", f.put("fc.grib2", join(c...)))
	shuffled := slices.Clone(c)
	r := rand.New(rand.NewPCG(3, 4))
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	a, b := f.put("a.grib2", join(shuffled[:20]...)), f.put("b.grib2", join(shuffled[20:]...))
	f.check(exit.OK, nil, b, a)
	other := f.predict(exit.OK, nil, "--format", "grib2", b, a) // NetCDF contains names and checksums of the input
	files, _ := filepath.Glob(filepath.Join(sound, "2*", "*.grib2"))
	if len(files) == 0 {
		t.Fatal("no product")
	}
	for _, path := range files {
		x, err := os.ReadFile(path)
		y, other := os.ReadFile(strings.Replace(path, sound, other, 1))
		if err != nil || other != nil || !bytes.Equal(x, y) {
			t.Errorf("%s: %v, %v, or other bytes", path, err, other)
		}
	}
	reused := slices.Clone(c)
	for i := range reused {
		if reused[i].Member == 3 {
			reused[i].Member = 2
		}
	}
	path := f.put("reused.grib2", join(reused...))
	f.check(exit.No, []string{"two messages describe the same field and differ"}, path)
	f.predict(exit.BadData, []string{"two messages describe the same field and differ"}, path)
}

// TestFault13: files of several cycles are mixed.
func TestFault13(t *testing.T) {
	f := faulty(t)
	c, old := cycle(lastDay), cycle(lastDay.AddDate(0, 0, -1))
	ofTwo := func(m testgrib.Message) bool { return m.Member == 2 }
	a := f.put("a.grib2", join(without(c, ofTwo)...))
	b := f.put("b.grib2", join(without(old, func(m testgrib.Message) bool { return !ofTwo(m) })...))
	f.both(exit.BadData, []string{"initialisations are mixed", "2001-10-08T00:00Z", "2001-10-07T00:00Z", a, b}, a, b)
}

// TestFault14: grids of the same points in another order give the same field; other grids are rejected.
func TestFault14(t *testing.T) {
	f := faulty(t)
	turned := func(lon0 int, scan byte, share int) []byte {
		c := cycle(lastDay)
		for i := range c[:len(c)/share] {
			c[i].Lon0, c[i].Scan = lon0, scan
		}
		return join(c...)
	}
	var same []string
	for _, lon0 := range []int{0, testgrib.Columns / 2} {
		for scan := 0; scan < 0x100; scan += 0x20 {
			same = append(same, f.put(fmt.Sprintf("%d_%02x.grib2", lon0, scan), turned(lon0, byte(scan), 1)))
		}
	}
	// All files give the same values.
	f.check(exit.OK, []string{"720 fields in the input twice with equal values", "differ in scan order", "no fault found"}, same...)
	usual := f.values(filepath.Join(f.predict(exit.OK, nil, same[0]), "2*", "*.nc"))
	for _, path := range []string{same[15], f.put("mixed.grib2", turned(testgrib.Columns/2, 0x60, 2))} {
		if got := f.values(filepath.Join(f.predict(exit.OK, nil, "--longitude", "0_360", path), "2*", "*.nc")); got != usual {
			t.Errorf("%s: a product of other values:\n%s\nwant\n%s", path, got, usual)
		}
	}
	c := cycle(lastDay)
	for i := range c[:perMember] {
		c[i].Shift = 1
	}
	f.both(exit.BadData, []string{"grids differ", "70 to -70 N", "69 to -71 N"}, f.put("shifted.grib2", join(c...)))
}

// scaled multiplies the values of some messages by a wrong factor and adds an offset.
func scaled(c []testgrib.Message, factor, offset float32, pick func(m testgrib.Message) bool) []testgrib.Message {
	out := slices.Clone(c)
	for i, m := range out {
		if !pick(m) {
			continue
		}
		out[i].Values = slices.Clone(m.Values)
		for k := range out[i].Values {
			out[i].Values[k] = m.Values[k]*factor + offset
		}
	}
	return out
}

// TestFault15: the values contradict the units.
func TestFault15(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	of := func(v [2]byte, member int) func(m testgrib.Message) bool {
		return func(m testgrib.Message) bool { return m.Variable == v && m.Member == member }
	}
	for _, w := range []struct {
		name   string
		text   []testgrib.Message
		factor string
	}{
		{"Celsius", scaled(c, 1, -273.15, of(testgrib.Temperature, 1)), "they look like degC"},
		{"decametres", scaled(without(c, func(m testgrib.Message) bool { return m.HPa == 850 && m.Variable == testgrib.Height && m.Member == 1 }), 0.1, 0, of(testgrib.Height, 1)), "they look like dam"},
		{"geopotential", scaled(c, 9.80665, 0, of(testgrib.Height, 1)), "they look like m2 s-2 (geopotential)"},
		{"thousandfold", scaled(c, 1000, 0, of(testgrib.Temperature, 1)), "outside 100 to 350 K"},
	} {
		path := f.put(w.name+".grib2", join(w.text...))
		f.check(exit.No, []string{"values of ", w.factor}, path)
		if w.name != "decametres" {
			f.predict(exit.BadData, []string{"values of ", w.factor}, path)
		}
	}
	// Precipitation has no lower limits of this kind: a jump of its magnitude is a warning.
	var wet []testgrib.Message
	for m := range 4 {
		for _, step := range []int{24, 48} {
			x := testgrib.Message{Variable: testgrib.Rain, Member: m, Init: lastDay, Step: step, Unit: 1}
			x.Values = weather(x)
			wet = append(wet, x)
		}
	}
	f.check(exit.OK, []string{"no fault found"}, f.put("rain.grib2", join(wet...)))
	f.check(exit.OK, []string{"jumps in 2 of 8 fields"}, f.put("rain.grib2", join(scaled(wet, 1e-3, 0, of(testgrib.Rain, 1))...)))
	f.check(exit.No, []string{"thousandths of kg m-2"}, f.put("rain.grib2", join(scaled(wet, 1e4, 0, of(testgrib.Rain, 1))...)))
}

// TestFault16: NaN, infinity, and fields without any value.
func TestFault16(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	with := func(i int, values func(k int, v float32) float32) []testgrib.Message {
		out := slices.Clone(c)
		out[i].Values = slices.Clone(out[i].Values)
		for k, v := range out[i].Values {
			out[i].Values[k] = values(k, v)
		}
		return out
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	f.both(exit.BadData, nil, f.put("inf.grib2", join(with(7, func(k int, v float32) float32 {
		if k == 5 {
			return inf
		}
		return v
	})...)))
	f.both(exit.BadData, nil, f.put("nan.grib2", join(with(7, func(int, float32) float32 { return nan })...)))
	masked := func(bits byte) string {
		out := slices.Clone(c)
		out[7].Bitmap = bytes.Repeat([]byte{bits}, testgrib.Rows*testgrib.Columns/8)
		return f.put("masked.grib2", join(out...))
	}
	f.both(exit.BadData, []string{"fields without any value in 1 field of gh at 500hPa", "message 8"}, masked(0))
	path := masked(0xfe)
	f.both(exit.OK, []string{"missing values in 1 field of gh at 500hPa", "16 of 128 values"}, path)
	var got struct {
		NotFinite []struct {
			Member, Lead, Variable string
			Missing                int
		} `json:"not_finite"`
	}
	if err := json.Unmarshal([]byte(f.check(exit.OK, nil, path, "--json")), &got); err != nil || len(got.NotFinite) != 1 || got.NotFinite[0].Missing != 16 || got.NotFinite[0].Member != "1" {
		t.Errorf("%v: %+v", err, got)
	}
}

// TestFault17: constant fields are read, with a warning.
func TestFault17(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	c[7].Packed = true
	f.both(exit.OK, []string{"1 field of gh at 500hPa with the same value at all points"}, f.put("constant.grib2", join(c...)))
}

// TestFault18: a value that other formats use as fill value is kept.
func TestFault18(t *testing.T) {
	f := faulty(t)
	x := testgrib.Message{Variable: testgrib.Height, HPa: 250, Init: lastDay, Unit: 1}
	for i := range testgrib.Rows * testgrib.Columns {
		x.Values = append(x.Values, float32(9990+i%10))
	}
	f.check(exit.OK, []string{"9999", "no fault found"}, f.put("high.grib2", x.Bytes()))
	var got struct {
		Variables []struct{ Missing, Max float64 }
	}
	if err := json.Unmarshal([]byte(f.check(exit.OK, nil, f.put("high.grib2", x.Bytes()), "--json")), &got); err != nil || got.Variables[0].Max != 9999 || got.Variables[0].Missing != 0 {
		t.Errorf("%v: %+v", err, got)
	}
}

// TestFault19: leads in all units are exact, or rejected.
func TestFault19(t *testing.T) {
	f := faulty(t)
	var exact, refused []testgrib.Message
	for _, u := range []struct {
		unit byte
		step int
		to   *[]testgrib.Message
	}{{0, 90, &exact}, {1, 6, &exact}, {2, 2, &exact}, {10, 3, &exact}, {11, 3, &exact}, {12, 1, &exact}, {13, 90, &exact},
		{14, 2, &refused}, {77, 6, &refused}, {192, 1, &refused}, {254, 6, &refused}, {255, 6, &refused}} {
		m := cycle(lastDay)[0]
		m.Unit, m.Step = u.unit, u.step
		*u.to = append(*u.to, m)
	}
	for i := range exact { // identical values at several leads would be a fault
		exact[i].Values = weather(testgrib.Message{Variable: testgrib.Temperature, HPa: 850, Init: lastDay, Step: i})
	}
	var got struct{ Leads []string }
	want := []string{"1m30s", "1h30m0s", "6h", "9h", "12h", "18h", "48h"}
	if err := json.Unmarshal([]byte(f.check(exit.OK, nil, f.put("exact.grib2", join(exact...)), "--json")), &got); err != nil || !slices.Equal(got.Leads, want) {
		t.Errorf("%v, leads %q, want %q", err, got.Leads, want)
	}
	f.check(exit.BadData, []string{"the forecast step is in unit 14, which code table 4.4 of edition 2 does not define"}, f.put("refused.grib2", join(refused...)))
	f.check(exit.OK, []string{"1 message not used", "unit 77, which code table 4.4 of edition 2 does not define"}, f.put("both.grib2", append(join(refused...), exact[0].Bytes()...)))
}

// zarr writes the messages of a cycle as a Zarr store of version 2: one array per variable, with chunks of half of
// the columns of a field.
func (t *trial) zarr(name string, messages []testgrib.Message) string {
	t.Helper()
	dir := filepath.Join(t.dir, name)
	write := func(key string, content []byte) {
		path := filepath.Join(dir, key)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	little := func(values ...float32) (b []byte) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return b
	}
	array := func(name, dims, shape, chunks string, attributes string) {
		write(name+"/.zarray", fmt.Appendf(nil, `{"zarr_format": 2, "shape": [%s], "chunks": [%s], "dtype": "<f4", "compressor": null, "fill_value": "NaN", "order": "C", "filters": null}`, shape, chunks))
		write(name+"/.zattrs", fmt.Appendf(nil, `{"_ARRAY_DIMENSIONS": [%s], %s}`, dims, attributes))
	}
	coordinate := func(name, attributes string, values ...float32) {
		n := fmt.Sprint(len(values))
		array(name, `"`+name+`"`, n, n, attributes)
		write(name+"/0", little(values...))
	}
	write(".zgroup", []byte(`{"zarr_format": 2}`))
	coordinate("number", `"standard_name": "realization"`, 0, 1, 2, 3)
	coordinate("time", `"units": "days since `+messages[0].Init.Format("2006-01-02")+`"`, 0)
	coordinate("prediction_timedelta", `"units": "hours"`, 0, 24, 48)
	coordinate("level", `"units": "hPa"`, 850, 500)
	var lat, lon []float32
	for j := range testgrib.Rows {
		lat = append(lat, 70-20*float32(j))
	}
	for i := range testgrib.Columns {
		lon = append(lon, 360*float32(i)/testgrib.Columns)
	}
	coordinate("latitude", `"units": "degrees_north"`, lat...)
	coordinate("longitude", `"units": "degrees_east"`, lon...)
	const half = testgrib.Columns / 2
	for name, unit := range map[string]string{"temperature": "K", "geopotential_height": "m"} {
		array(name, `"number", "time", "prediction_timedelta", "level", "latitude", "longitude"`, fmt.Sprintf("4, 1, 3, 2, %d, %d", testgrib.Rows, testgrib.Columns),
			fmt.Sprintf("1, 1, 1, 1, %d, %d", testgrib.Rows, half), `"units": "`+unit+`"`)
	}
	for _, m := range messages {
		name := map[[2]byte]string{testgrib.Temperature: "temperature", testgrib.Height: "geopotential_height"}[m.Variable]
		for part := range 2 {
			var b []byte
			for j := range testgrib.Rows {
				b = append(b, little(m.Values[j*testgrib.Columns+part*half:][:half]...)...)
			}
			write(fmt.Sprintf("%s/%d.0.%d.%d.0.%d", name, m.Member, m.Step/24, map[int]int{850: 0, 500: 1}[m.HPa], part), b)
		}
	}
	return dir
}

// TestFault20: chunks of Zarr are absent: a single one that was deleted, or all of an array that was created but
// not written. In a sparse store they are missing values.
func TestFault20(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	products := func(path string) string { return f.values(filepath.Join(f.predict(exit.OK, nil, path), "2*", "*.nc")) }
	if a, b := products(f.zarr("sound.zarr", c)), products(f.put("sound.grib2", join(c...))); a != b {
		t.Errorf("products of Zarr and GRIB differ:\n%s\n%s", a, b)
	}
	path := f.zarr("deleted.zarr", c)
	const chunk = "temperature/2.0.1.0.0.1"
	if err := os.Remove(filepath.Join(path, chunk)); err != nil {
		t.Fatal(err)
	}
	named := []string{"a chunk is absent", "array temperature, chunk " + chunk}
	f.both(exit.BadData, named, path)
	f.check(exit.No, named, "-c", f.config, path)
	f.expect(exit.BadData, named, "inspect", "--stats", path)
	f.check(exit.OK, []string{"missing values in 1 field of t at 850hPa", "64 of 128 values"}, path, "--allow-missing-chunks")
	f.check(exit.OK, []string{"64 of 128 values"}, "-c", f.config, "--set", "data.allow_missing_chunks=true", path)
	f.predict(exit.OK, nil, "--set", "allow_missing_chunks=true", path)
	empty := f.zarr("empty.zarr", c)
	chunks, err := filepath.Glob(filepath.Join(empty, "temperature", "[0-9]*"))
	if err != nil || len(chunks) != 48 {
		t.Fatal(len(chunks), err)
	}
	for _, p := range chunks {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
	f.both(exit.BadData, []string{"a chunk is absent", "array temperature"}, empty)
}

// TestFaultCopies: a member, an init or a lead has the values of another one.
func TestFaultCopies(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	member := slices.Clone(c)
	for i := range member {
		if member[i].Member == 2 {
			member[i].Values = member[i-perMember].Values
		}
	}
	f.both(exit.BadData, []string{"members 1-2 of initialisation 2001-10-08T00:00Z are copies of each other"}, f.put("member.grib2", join(member...)))
	lead := slices.Clone(c)
	for i := 2 * perLead; i < len(lead); i++ {
		lead[i].Values = lead[i-perLead].Values
	}
	f.both(exit.BadData, []string{"lead 48h of member 0, initialisation 2001-10-08T00:00Z, has the values of lead 24h"}, f.put("lead.grib2", join(lead...)))
	stale := cycle(lastDay)
	for i, m := range cycle(lastDay.AddDate(0, 0, -1)) {
		stale[i].Values = m.Values
	}
	a, b := f.put("a.grib2", join(cycle(lastDay.AddDate(0, 0, -1))...)), f.put("b.grib2", join(stale...))
	f.check(exit.No, []string{"initialisation 2001-10-08T00:00Z of member 0 has the values of initialisation 2001-10-07T00:00Z"}, a, b)
}

// TestCheckListsAll: one pass lists all faults of several files, abbreviated in text and complete in JSON.
func TestCheckListsAll(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	bad := scaled(without(c, func(m testgrib.Message) bool { return m.Member == 3 && m.Step == 48 }), 1000, 0, func(m testgrib.Message) bool { return m.Variable == testgrib.Temperature && m.Member == 1 })
	text := join(bad...)
	path := f.put("several.grib2", append(append(text, "junk between"...), c[0].Bytes()[:100]...))
	page := f.put("page.html", []byte("<html>"))
	f.check(exit.No, []string{"damage: 2", "missing: 1", "implausible: 2", "train and predict would exit with 65 (bad data", "or 66 (input missing", "HTML"}, path, page)
	out := f.check(exit.No, nil, path, page, "--json")
	var got struct {
		ExitCode   int `json:"exit_code"`
		FaultCount int `json:"fault_count"`
		Faults     []listed
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.ExitCode != 1 || got.FaultCount != 5 || len(got.Faults) != 5 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, x := range got.Faults {
		if x.File == "" || x.What == "" || x.Fix == "" || x.Code != 65 && x.Code != 66 {
			t.Errorf("a fault without file, text, remedy or code: %+v", x)
		}
	}
	if !slices.ContainsFunc(got.Faults, func(d listed) bool {
		return d.Kind == "damage" && d.File == path && d.Message == 45 && d.Byte != nil && *d.Byte == int64(len(text)+len("junk between"))
	}) {
		t.Errorf("the cut message is not detected: %+v", got.Faults)
	}
}

func TestCheckUsage(t *testing.T) {
	f := faulty(t)
	for _, expect := range []string{"members", "members=", "members=x", "steps=0:48", "steps=48:0:24", "colour=red", "members=2,members=3", "levels=tropopause", "members=9-2", "steps=-6"} {
		f.check(exit.Usage, []string{"error[E064]", "--expect"}, "f", "--expect", expect)
	}
	f.check(exit.Usage, []string{"missing files"})
	f.check(exit.Usage, []string{"mutually exclusive"}, "-c", f.config, "--expect", "members=4")
}

// TestFault50: input changes while it is read. New values must not be used with the index of the old file.
func TestFault50(t *testing.T) {
	f := faulty(t)
	text := join(cycle(lastDay)...)
	for name, change := range map[string]func(path string, n int) error{
		"written again": func(path string, n int) error {
			now := lastDay.Add(time.Duration(n) * time.Second)
			return os.Chtimes(path, now, now)
		},
		"growing": func(path string, _ int) error {
			w, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = w.Write([]byte{0})
				w.Close()
			}
			return err
		},
		"replaced": func(path string, _ int) error {
			if err := os.WriteFile(path+".new", text, 0o644); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
	} {
		path := f.put("fc.grib2", text)
		stop, done := make(chan bool), make(chan error)
		go func() {
			var err error
			for n := 0; err == nil; n++ {
				select {
				case <-stop:
					done <- nil
					return
				case <-time.After(50 * time.Microsecond): // well within one read
					err = change(path, n)
				}
			}
			<-stop
			done <- err
		}()
		out := filepath.Join(f.dir, "out")
		for _, args := range [][]string{{"check", path}, {"predict", "--run-dir", f.run, "--out", out, "--threads", "1", "--progress", "none", "--input", path}} {
			for try := 1; ; try++ {
				if err := os.RemoveAll(out); err != nil {
					t.Fatal(err)
				}
				code, stdout, stderr := call(t, args...)
				if code == exit.OK && try < 8 {
					continue // on a busy machine the writers may pause, so that the file is unchanged during one read
				}
				if output := stdout + stderr; code != exit.NotYet || !strings.Contains(output, "an input file changed while it was read") || !strings.Contains(output, path) {
					t.Errorf("%s: %q: exit %d: %s", name, args, code, output)
				}
				break
			}
			if left, _ := filepath.Glob(filepath.Join(out, "2*", "*")); left != nil {
				t.Errorf("%s: rejected, but left %q", name, left)
			}
		}
		close(stop)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
