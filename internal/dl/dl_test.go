package dl

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// The error names every file tried, and wraps ErrNotFound.
func TestOpenMissing(t *testing.T) {
	_, err := Open("libnowhere-a.so.7", "libnowhere-b.so.6")
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("Open of missing names: got %v, want ErrNotFound", err)
	}
	for _, want := range []string{"libnowhere-a.so.7", "libnowhere-b.so.6", "searched"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}

// The C library is present on every machine with a dynamic loader.
func TestOpenSymbol(t *testing.T) {
	l, err := Open("libnowhere.so.7", "libm.so.6")
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	if !strings.Contains(l.Path(), "libm") {
		t.Errorf("Path: got %q, want a path of libm", l.Path())
	}
	if p, err := l.Symbol("cos"); err != nil || p == nil {
		t.Errorf("Symbol(cos): got %v, %v", p, err)
	}
	if _, err := l.Symbol("no_such_function"); !errors.Is(err, ErrNoSymbol) {
		t.Errorf("Symbol(no_such_function): got %v, want ErrNoSymbol", err)
	}
}

// A table gets each function in its place; otherwise the error names all missing
// functions.
func TestBind(t *testing.T) {
	l, err := Open("libm.so.6")
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	table := make([]unsafe.Pointer, 2)
	if err := l.Bind("sin cos ", table); err != nil {
		t.Fatal(err)
	}
	if sin, err := l.Symbol("sin"); err != nil || table[0] != sin || table[1] == sin || table[1] == nil {
		t.Errorf("got %v, %v", table, err)
	}
	if err := l.Bind("nosine cos", table); !errors.Is(err, ErrNoSymbol) || !strings.Contains(err.Error(), "lacks nosine:") {
		t.Errorf("a missing one: got %v", err)
	}
	if err := l.Bind("sin", table); err == nil {
		t.Error("one name for two functions: no error")
	}
}

// The user's own setting stays.
func TestSetenvKeeps(t *testing.T) {
	t.Setenv("ENSEMBLE_DL_TEST", "mine")
	set, err := Setenv("ENSEMBLE_DL_TEST", "ours")
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	if set {
		t.Error("Setenv replaced a value that the user had set")
	}
	t.Setenv("ENSEMBLE_DL_TEST_UNSET", "") // so that it is as it was after the test
	os.Unsetenv("ENSEMBLE_DL_TEST_UNSET")
	if set, err := Setenv("ENSEMBLE_DL_TEST_UNSET", "ours"); err != nil || !set {
		t.Errorf("Setenv of an unset variable: got %v, %v, want true", set, err)
	}
	if _, err := Setenv("A=B", "x"); err == nil {
		t.Error("Setenv(A=B): got no error")
	}
}
