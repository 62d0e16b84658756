package fio

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// TestFault45Loop: a decoder that does not reply is killed, and the file is
// reported.
func TestFault45Loop(t *testing.T) {
	dir := t.TempDir()
	program, path := filepath.Join(dir, "ensemble-decode"), filepath.Join(dir, "fc.grib2")
	m := testgrib.Message{Variable: testgrib.Temperature, HPa: 850, Init: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), Unit: 1, Values: make([]float32, testgrib.Rows*testgrib.Columns)}
	if err := os.WriteFile(path, m.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	hello := `printf '\016\000\000\000{"protocol":2}'; head -c 4 >/dev/null; `
	for _, act := range []string{"while :; do :; done", "exec sleep 300"} {
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+hello+act+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err := Open(context.Background(), []string{path}, Options{Decode: decode.Options{Program: program, Deadline: 100 * time.Millisecond}})
		if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "no reply within 100ms") {
			t.Errorf("%s: %v", act, err)
		}
		if d := time.Since(begin); d > 2*time.Minute {
			t.Errorf("%s: took %s", act, d)
		}
	}
}
