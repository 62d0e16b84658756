package dl

import (
	"errors"
	"strings"
	"testing"
)

// The error names every file tried, and the caller can tell it by ErrNotFound.
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

// The C library itself is there on every machine with a dynamic loader.
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
	if set, err := Setenv("ENSEMBLE_DL_TEST_UNSET", "ours"); err != nil || !set {
		t.Errorf("Setenv of an unset variable: got %v, %v, want true", set, err)
	}
	if _, err := Setenv("A=B", "x"); err == nil {
		t.Error("Setenv(A=B): got no error")
	}
}
