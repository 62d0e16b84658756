package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// source has an array on its stack and copies to it, which the compiler protects if told to.
const source = `#include <stdio.h>
#include <string.h>
#ifdef WRITABLE_CODE
__asm__(".section both,\"awx\",@progbits\n.byte 0\n.previous");
#endif
#ifdef RELOCATED_CODE
__asm__(".text\n.quad main");
#endif
int main(int argc, char **argv) {
  char text[16];
  strcpy(text, argv[argc - 1]);
  return puts(text) < 0;
}
`

// flags of a program with all protections.
var flags = []string{"-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong", "-fPIE", "-pie", "-Wl,-z,relro,-z,now,-z,noexecstack"}

// TestCheck compiles a program with all protections, and for each one without it.
func TestCheck(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("skipped: no compiler: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.c"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		more    []string // flags after the others
		lacking []string // beginnings of names
	}{
		{nil, nil},
		{[]string{"-no-pie"}, []string{"position independent"}},
		{[]string{"-Wl,-z,norelro"}, []string{"relocations read-only"}},
		{[]string{"-Wl,-z,lazy"}, []string{"functions of libraries"}},
		{[]string{"-Wl,-z,execstack"}, []string{"stack not executable"}},
		{[]string{"-DWRITABLE_CODE"}, []string{"no memory both"}},
		{[]string{"-DRELOCATED_CODE", "-Wl,-z,notext"}, []string{"no relocations in code"}},
		{[]string{"-Wl,-rpath,/opt/lib"}, []string{"no search path"}},
		{[]string{"-fno-stack-protector"}, []string{"stack protector"}},
		{[]string{"-U_FORTIFY_SOURCE"}, []string{"checked functions"}},
		{[]string{"-U_FORTIFY_SOURCE", "-fno-stack-protector"}, []string{"stack protector", "checked functions"}},
	} {
		name := filepath.Join(dir, strings.Repeat("x", i+1))
		if out, err := exec.Command("gcc", slices.Concat(flags, c.more, []string{"-o", name, filepath.Join(dir, "x.c")})...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.more, err, out)
		}
		got, err := check(name)
		if err != nil {
			t.Errorf("%v: %v", c.more, err)
		}
		for _, want := range c.lacking {
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
				t.Errorf("%v: lacking %q, want %q", c.more, got, want)
			}
		}
		if len(c.lacking) == 0 && len(got) > 0 {
			t.Errorf("with all flags it lacks %q", got)
		}
	}
	if _, err := check(filepath.Join(dir, "x.c")); err == nil {
		t.Error("a text is a program")
	}
}
