package main

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// flippedSeed is the seed of the bits that TestFault03Metadata flips.
const flippedSeed = 40

// A flipped bit in the manifest or the model of a run, or in the metadata of a sample store, is refused with 65 by the command
// that reads it, which names the file; or the result has the same bytes.
func TestFault03Metadata(t *testing.T) { flipMetadata(t, 3, 2) }

// flipMetadata flips bits of each file of a run directory that predict reads, and of a store that train reads.
func flipMetadata(t *testing.T, run, store int) {
	f := faulty(t)
	t.Logf("seed %d", flippedSeed)
	r := rand.New(rand.NewPCG(flippedSeed, 0))
	input := f.put("sound.grib2", join(cycle(lastDay)...))
	dir := filepath.Join(f.dir, "run")
	if err := os.CopyFS(dir, os.DirFS(f.run)); err != nil {
		t.Fatal(err)
	}
	f.run = dir
	product := func() []byte {
		out := filepath.Join(t.TempDir(), "out")
		code, _, stderr := call(t, "predict", "--run-dir", f.run, "--out", out, "--threads", "1", "--progress", "none", "--input", input)
		names, _ := filepath.Glob(filepath.Join(out, "2*", "*.nc"))
		if code != exit.OK || len(names) != 1 {
			t.Fatalf("exit %d, products %q: %s", code, names, stderr)
		}
		text, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	want := product()
	files, err := filepath.Glob(filepath.Join(dir, "model", "*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("files %q of the model: %v", files, err)
	}
	flipBitsOf(t, r, run, append(files, filepath.Join(dir, "manifest.json")), func(path string) string {
		out := filepath.Join(t.TempDir(), "out")
		code, stdout, stderr := call(t, "predict", "--run-dir", f.run, "--out", out, "--threads", "1", "--progress", "none", "--input", input)
		if code == exit.OK && !bytes.Equal(product(), want) {
			return "another product"
		}
		return refusal(code, stdout+stderr, path)
	})

	prepared := filepath.Join(f.dir, "store")
	f.expect(exit.OK, nil, "data", "prepare", "-c", f.config, "--out", prepared, "--progress", "none")
	flipBitsOf(t, r, store, []string{filepath.Join(prepared, "store.json"), filepath.Join(prepared, "index.parquet")}, func(path string) string {
		code, stdout, stderr := call(t, "train", "-c", f.config, "--set", "data.store="+prepared, "--run-dir", filepath.Join(t.TempDir(), "run"), "--progress", "none")
		return refusal(code, stdout+stderr, path)
	})
}

// refusal describes an answer that does not refuse a file with 65 and its name; "" for one that does.
func refusal(code exit.Code, output, path string) string {
	if code == exit.BadData && strings.Contains(output, path) {
		return ""
	}
	return output
}

// flipBitsOf flips n random bits of each file, one after the other, and asks what is wrong with the answer; "": nothing.
func flipBitsOf(t *testing.T, r *rand.Rand, n int, files []string, wrong func(path string) string) {
	t.Helper()
	for _, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			bit := r.IntN(8 * len(whole))
			text := slices.Clone(whole)
			text[bit/8] ^= 1 << (bit % 8)
			writeBack(t, path, text, st.Mode())
			if w := wrong(path); w != "" {
				t.Errorf("%s, bit %d of byte %d: %s", filepath.Base(path), bit%8, bit/8, w)
			}
		}
		writeBack(t, path, whole, st.Mode())
	}
}

func writeBack(t *testing.T, path string, text []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
}

// An increment of latitude that contradicts the corners and the number of rows is refused: one of them is wrong.
func TestFault14Increment(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	text := join(c...)
	at := 5*len(c[0].Bytes()) + 16
	for _, s := range c[5].Sections() {
		if s[4] == 3 {
			binary.BigEndian.PutUint32(text[at+67:], binary.BigEndian.Uint32(text[at+67:])/2) // Dj
		}
		at += len(s)
	}
	f.both(exit.BadData, []string{"message 6", "correct it there", "bad_messages: skip", "(Dj)", "8 rows from latitude 70 to -70"}, f.put("dj.grib2", text))
}

// A last message that a faulty copy overwrote with zeros is named, as the end of the file is no padding.
func TestFault03Zeros(t *testing.T) {
	f := faulty(t)
	c := cycle(lastDay)
	c = append(c[1:], c[0]) // a field that is used is last
	text := join(c...)
	last := len(text) - len(c[len(c)-1].Bytes())
	clear(text[last:])
	f.both(exit.BadData, []string{"zeros in place of a message", "message 48"}, f.put("end.grib2", text))
	clear(text[last-100:])
	f.both(exit.BadData, []string{"message 47"}, f.put("more.grib2", text))
	text = join(c...)
	clear(text[len(c[0].Bytes()):][:len(c[1].Bytes())])
	f.both(exit.BadData, []string{"zeros in place of a message", "message 2"}, f.put("inside.grib2", text))
}

// check names an absent control member.
func TestFault11Check(t *testing.T) {
	f := faulty(t)
	c := without(cycle(lastDay), func(m testgrib.Message) bool { return m.Member == 0 })
	path := f.put("nocontrol.grib2", join(c...))
	f.check(exit.No, []string{"control"}, path, "--expect", "members=3+control,steps=0:48:24")
	f.check(exit.OK, []string{"without member 0, the control"}, path)
}

// The log of predict states what restricts the decoding program.
func TestFault46Log(t *testing.T) {
	f := faulty(t)
	log := filepath.Join(f.dir, "log")
	f.predict(exit.OK, nil, "--log-file", log, f.put("sound.grib2", join(cycle(lastDay)...)))
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "decoding program started") || !strings.Contains(string(text), "sandbox=") {
		t.Errorf("%v: %s", err, text)
	}
}
