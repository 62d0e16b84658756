package main

import (
	"strings"
	"testing"
)

// stream is output of govulncheck with one vulnerability of the standard library and one of a module that are called, and one
// of a module that is not.
const stream = `{"config":{"db":"file:///db"}}
{"osv":{"id":"GO-1","summary":"first"}} {"osv":{"id":"GO-2","summary":"second"}} {"osv":{"id":"GO-3","summary":"third"}}
{"finding":{"osv":"GO-1","fixed_version":"v1.26.11","trace":[{"module":"stdlib","version":"v1.26.10"}]}}
{"finding":{"osv":"GO-1","fixed_version":"v1.26.11","trace":[{"module":"stdlib","version":"v1.26.10","package":"os","function":"Open"},{"module":"x","package":"x","function":"main"}]}}
{"finding":{"osv":"GO-2","fixed_version":"v1.2.0","trace":[{"module":"example.org/m","version":"v1.0.0","package":"m","function":"F"}]}}
{"finding":{"osv":"GO-3","fixed_version":"v2.0.0","trace":[{"module":"example.org/n","version":"v1.0.0"}]}}
`

func TestReport(t *testing.T) {
	r, err := parse(strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	// A module cannot be known: its version can be raised.
	if r.write(&b, map[string]string{"GO-1": "Windows only", "GO-2": "never"}) {
		t.Error("a module with a vulnerability that is called is clean")
	}
	want := `known  GO-1 stdlib v1.26.10, fixed in v1.26.11: Windows only
NEW    GO-2 example.org/m v1.0.0, fixed in v1.2.0: second
vulnerabilities: 1 new, 1 known, 1 in modules whose vulnerable functions are not called; database file:///db
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	delete(r.found, "GO-2 example.org/m")
	if !r.write(&b, map[string]string{"GO-1": "Windows only"}) || r.write(&b, nil) {
		t.Error("clean without the reason, or not clean with it")
	}
	if _, err := parse(strings.NewReader("")); err == nil {
		t.Error("no output is a report")
	}
}

func TestKnown(t *testing.T) {
	if known, err := parseKnown(knownText); err != nil {
		t.Errorf("%d: %v", len(known), err)
	}
	if known, err := parseKnown("# comment\n\nGO-1 Windows only\n"); err != nil || len(known) != 1 || known["GO-1"] != "Windows only" {
		t.Errorf("%v: %v", known, err)
	}
	for _, bad := range []string{"GO-1", "GO-1 a\nGO-1 b"} {
		if _, err := parseKnown(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
