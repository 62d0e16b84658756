package mutation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOf: the mutants of a file, of every operator.
func TestOf(t *testing.T) {
	src := `package p

const size = 8

type T struct { f [3]int }

func (t *T) f(a, b int) (x int, err error) {
	defer t.g()
	if a < b && true {
		x++
	}
	for {
		break
	}
	x = a + b
	t.g()
	return x, err
}
`
	all, err := Of("p.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.String())
	}
	want := []string{
		"p.go : 8: becomes 9", "p.go T.f: defer t.g(): removed",
		"p.go T.f: a < b && true: never", "p.go T.f: a < b && true: always",
		"p.go T.f: a < b: < becomes <=", "p.go T.f: a < b: < becomes >=", "p.go T.f: a < b && true: && becomes ||", "p.go T.f: true: becomes false",
		"p.go T.f: x++: removed", "p.go T.f: break: removed", "p.go T.f: x = a + b: removed", "p.go T.f: a + b: + becomes -",
		"p.go T.f: t.g(): removed", "p.go T.f: return x, err: err becomes nil",
	}
	if !slices.Equal(got, want) {
		t.Errorf("mutants\n%q\nwant\n%q", got, want)
	}
	if m := all[len(all)-1]; m.Line != 17 || string(m.apply([]byte(src))) != src[:len(src)-len("err\n}\n")]+"nil\n}\n" {
		t.Errorf("line %d:\n%s", m.Line, m.apply([]byte(src)))
	}
}

// TestRun: of a package with four functions only mutants that make no difference, and those that no test reaches, survive.
func TestRun(t *testing.T) {
	r, err := Run(context.Background(), "./testdata/fixture", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range r.Survived {
		got = append(got, m.String())
	}
	want := []string{"fixture.go Larger: a < b: < becomes <=", "fixture.go Unused: a * 7: * becomes /", "fixture.go Unused: 7: becomes 8"}
	if !slices.Equal(got, want) || r.Mutants != 15 || r.Killed != 12 {
		t.Errorf("%d of %d noticed, survivors\n%q\nwant\n%q", r.Killed, r.Mutants, got, want)
	}
	slow, err := Run(context.Background(), "./testdata/fixture", Options{Slow: "TestPositive", Skip: "TestLarger"})
	if err != nil || slow.Killed != 9 || !slices.ContainsFunc(slow.Noticed, func(m Mutant) bool { return m.Function == "Positive" }) {
		t.Errorf("%v: slow tests noticed %d: %v", err, slow.Killed, slow.Noticed)
	}
	r, err = Run(context.Background(), "./testdata/fixture", Options{Limit: 2, Seed: 1})
	if err != nil || r.Mutants > 2 {
		t.Errorf("%d mutants with a limit of 2, %v", r.Mutants, err)
	}
}

// TestInLimits: the tests of a mutant have the limit of memory.
func TestInLimits(t *testing.T) {
	out, err := inLimits(t.Context(), "sh", "-c", "ulimit -v").Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != fmt.Sprint(addressSpace) {
		t.Errorf("a limit of %s KiB, %v, want %d", got, err, addressSpace)
	}
}

// TestSurvivors: a record is read as it is written, keeps its reasons, and counts what was noticed later.
func TestSurvivors(t *testing.T) {
	text := "seed 7: 6 of 11 mutants noticed (60 %), 1 equivalent\na.go F: x: removed\na.go F: y: removed # is equivalent: y is not read\na.go G: z: removed # of a message\na.go H: w: removed\na.go H: v: removed\n"
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSurvivors(path)
	if err != nil || s.String() != text || s.Rate() != 0.6 || len(s.Names) != 5 {
		t.Errorf("%v\n%v", err, s)
	}
	mutant := func(function, what string) Mutant {
		return Mutant{File: "x/a.go", Function: function, What: what + ": removed"}
	}
	got := s.Again(Report{Survived: []Mutant{mutant("F", "y"), mutant("H", "w")}, Noticed: []Mutant{mutant("F", "x"), mutant("H", "w")}})
	if want := "seed 7: 7 of 9 mutants noticed (88 %), 1 equivalent\na.go F: y: removed # is equivalent: y is not read\na.go H: w: removed\n"; got.String() != want {
		t.Errorf("again\n%v\nwant\n%s", got, want)
	}
	got = s.With(8, Report{Mutants: 4, Killed: 3, Survived: []Mutant{mutant("G", "z")}})
	if want := "seed 8: 3 of 4 mutants noticed (75 %), 0 equivalent\na.go G: z: removed # of a message\n"; got.String() != want {
		t.Errorf("new\n%v\nwant\n%s", got, want)
	}
	if s, err := ReadSurvivors(path + "x"); err != nil || len(s.Names) > 0 {
		t.Errorf("no file: %v, %v", s, err)
	}
	if err := os.WriteFile(path, []byte("else\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSurvivors(path); err == nil {
		t.Error("another file was read")
	}
}
