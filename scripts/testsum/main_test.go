package main

import (
	"strings"
	"testing"
)

// TestSum feeds a recorded stream: a pass, a skip with its reason, a failure whose
// output must be shown, and a package that does not build.
func TestSum(t *testing.T) {
	stream := `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: skipped: no data: nothing here\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":0.2}
{"Action":"output","Package":"q","Test":"TestC","Output":"    c_test.go:9: got 1, want 2\n"}
{"Action":"fail","Package":"q","Test":"TestC","Elapsed":0}
{"Action":"fail","Package":"q","Elapsed":0}
{"ImportPath":"r","Action":"build-output","Output":"r.go:1:1: syntax error\n"}
{"Action":"fail","Package":"r","Elapsed":0}
`
	var out strings.Builder
	s, err := sum(strings.NewReader(stream), &out, false)
	if err != nil {
		t.Fatal(err)
	}
	s.print(&out)
	for _, want := range []string{"got 1, want 2", "r.go:1:1: syntax error", "skip  p.TestB: skipped: no data: nothing here\n", "1 passed, 2 failed, 1 skipped\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
}

// A record says what passing tests logged and leaves out packages without any.
func TestRecordKeepsWhatTestsLogged(t *testing.T) {
	stream := `{"Action":"output","Package":"p","Test":"TestLongA","Output":"=== RUN   TestLongA\n"}
{"Action":"output","Package":"p","Test":"TestLongA","Output":"    a_test.go:7: gain 14.0 %\n"}
{"Action":"pass","Package":"p","Test":"TestLongA","Elapsed":1}
{"Action":"pass","Package":"p","Elapsed":1}
{"Action":"output","Package":"q","Output":"ok  \tq\t0.01s [no tests to run]\n"}
{"Action":"pass","Package":"q","Elapsed":0}
`
	for _, logs := range []bool{false, true} {
		var out strings.Builder
		if _, err := sum(strings.NewReader(stream), &out, logs); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "gain 14.0 %"); got != logs {
			t.Errorf("logs %v: %q", logs, out.String())
		}
		if got := strings.Contains(out.String(), "ok    q"); got == logs {
			t.Errorf("logs %v: %q", logs, out.String())
		}
	}
}
