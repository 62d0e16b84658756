package mutation

import (
	"context"
	"slices"
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

// TestRun: of a package with three functions only mutants that make no difference, and those that no test reaches, survive.
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
	if !slices.Equal(got, want) || r.Mutants != 11 || r.Killed != 8 {
		t.Errorf("%d of %d noticed, survivors\n%q\nwant\n%q", r.Killed, r.Mutants, got, want)
	}
	r, err = Run(context.Background(), "./testdata/fixture", Options{Limit: 2, Seed: 1})
	if err != nil || r.Mutants > 2 {
		t.Errorf("%d mutants with a limit of 2, %v", r.Mutants, err)
	}
}
