package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// TestFault44: small files that need much memory or time.
func TestFault44(t *testing.T) {
	f := faulty(t)
	loop := filepath.Join(f.dir, "loop.grib2")
	if err := os.Symlink("loop.grib2", loop); err != nil {
		t.Fatal(err)
	}
	bombs := map[string]string{
		loop: "cycle of symbolic links",
		// Constant fields of 0 bits on 2¹⁵×2¹⁵ points, and on the largest number of points that the program reads.
		f.put("constant.grib2", constant(1<<15, 1<<15)):                         "invalid grid",
		f.put("most.grib2", constant(1<<14, 1<<14)):                             "invalid grid",
		f.put("attributes.nc", attributes(1<<18)):                               "attributes.nc",
		f.put("nested.zip", []byte("PK\x03\x04 in which there is another one")): "zip archive",
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	for path, word := range bombs {
		f.check(exit.BadData, []string{path, word}, path)
	}
	runtime.ReadMemStats(&after)
	if d := time.Since(begin); d > 5*time.Minute {
		t.Errorf("the commands took %s", d)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<20 {
		t.Errorf("%d bytes were reserved", grown)
	}
	f.expect(exit.Usage, []string{"anchors and aliases"}, "predict", "-c", f.put("bomb.yaml", []byte("members: &a {minimum: 3}\ninput: [*a, *a, *a]\n")))
}

// constant is a message of a field with one value, which needs no bits per point.
func constant(columns, rows int) []byte {
	m := testgrib.Message{Variable: testgrib.Temperature, HPa: 850, Init: lastDay, Unit: 1, Packed: true, Values: make([]float32, testgrib.Rows*testgrib.Columns)}
	text := m.Bytes()
	at := 16
	for _, s := range m.Sections() {
		switch s[4] {
		case 3:
			binary.BigEndian.PutUint32(text[at+6:], uint32(columns*rows))
			binary.BigEndian.PutUint32(text[at+30:], uint32(columns))
			binary.BigEndian.PutUint32(text[at+34:], uint32(rows))
		case 5:
			binary.BigEndian.PutUint32(text[at+5:], uint32(columns*rows))
		}
		at += len(s)
	}
	return text
}

// attributes is a classic NetCDF file with n attributes and no variable.
func attributes(n int) []byte {
	var b bytes.Buffer
	word := func(v ...uint32) {
		for _, x := range v {
			b.Write(binary.BigEndian.AppendUint32(nil, x))
		}
	}
	b.WriteString("CDF\x01")
	word(0, 0, 0, 12, uint32(n)) // no records, no dimensions, a list of attributes
	for i := range n {
		word(4)
		b.Write([]byte{byte('a' + i>>15&7), byte('a' + i>>10&31), byte('A' + i>>5&31), byte('A' + i&31)})
		word(4, 1, uint32(i)) // one int
	}
	word(0, 0) // no variables
	return b.Bytes()
}

// TestFault45: if a decoder crashes or returns invalid data, only the file it reads is lost, and the error names
// it. Infinite loops are tested in package io, where the time limit of a decoder can be set.
func TestFault45(t *testing.T) {
	f := faulty(t)
	path := f.put("fc.grib2", join(cycle(lastDay)[:1]...))
	hello := `{"protocol":2}`
	frame := string(binary.LittleEndian.AppendUint32(nil, uint32(len(hello)))) + hello
	for name, act := range map[string]string{"abort": "kill -ABRT $$", "crash": "kill -SEGV $$", "end": "exit 3", "nonsense": `printf '\377\377\377\177 and more'`} {
		greeting := f.put(name+".hello", []byte(frame))
		program := f.put(name, []byte("#!/bin/sh\ncat '"+greeting+"'\nhead -c 4 >/dev/null\n"+act+"\n"))
		if err := os.Chmod(program, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("ENSEMBLE_DECODE", program)
		got, stdout, stderr := call(t, "check", path)
		if got != exit.BadData || !strings.Contains(stderr, path) {
			t.Errorf("%s: exit %d, want 65 with the file: %s%s", name, got, stdout, stderr)
		}
	}
}
