package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestList lists the parts of a program that is built here, with one module and libc.
func TestList(t *testing.T) {
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Skipf("skipped: no packages: %v", err)
	}
	if out, err := exec.Command("go", "env", "CGO_ENABLED").Output(); err != nil || strings.TrimSpace(string(out)) != "1" {
		t.Skip("skipped: no C compiler")
	}
	program := filepath.Join(t.TempDir(), "small")
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nimport (\n\t\"C\"\n\n\t_ \"golang.org/x/time/rate\"\n)\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	at := time.Unix(1700000000, 0)
	text, err := list("1.2.3", at, nil, []string{program})
	if err != nil {
		t.Fatal(err)
	}
	again, err := list("1.2.3", at, nil, []string{program})
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("a second list differs: %v", err)
	}
	var b bom
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		t.Fatal(err)
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
	if b.Metadata.Timestamp != "2023-11-14T22:13:20Z" || b.Metadata.Component.Version != "1.2.3" {
		t.Errorf("metadata %+v", b.Metadata)
	}
	for _, want := range []string{"pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go"), "pkg:golang/golang.org/x/time@v", "pkg:deb/", "program:small"} {
		if !slices.ContainsFunc(b.Components, func(c component) bool { return strings.HasPrefix(c.Ref, want) }) {
			t.Errorf("no part %s in\n%s", want, text)
		}
	}
	if _, err := list("1", at, []string{"libnone.so.1"}, []string{program}); err == nil || !strings.Contains(err.Error(), "libnone.so.1") {
		t.Errorf("a library of no package: %v", err)
	}
}

// TestCheckRefuses breaks each required field of a valid document.
func TestCheckRefuses(t *testing.T) {
	valid := func() *bom {
		b := newBOM("1", time.Unix(0, 0))
		b.add(component{Ref: "pkg:golang/m@v1", Type: "library", Name: "m", Version: "v1", PURL: "pkg:golang/m@v1", Hashes: []hash{{"SHA-256", strings.Repeat("0", 64)}}})
		if _, err := b.encode(); err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, harm := range map[string]func(*bom){
		"bomFormat":    func(b *bom) { b.Format = "" },
		"specVersion":  func(b *bom) { b.Spec = "1" },
		"serialNumber": func(b *bom) { b.Serial = "urn:uuid:1" },
		"version":      func(b *bom) { b.Version = 0 },
		"timestamp":    func(b *bom) { b.Metadata.Timestamp = "now" },
		"bom-ref":      func(b *bom) { b.Components = append(b.Components, b.Components[0]) },
		"name":         func(b *bom) { b.Components[0].Name = "" },
		"type":         func(b *bom) { b.Components[0].Type = "" },
		"purl":         func(b *bom) { b.Components[0].PURL = "m" },
		"scope":        func(b *bom) { b.Components[0].Scope = "some" },
		"hash":         func(b *bom) { b.Components[0].Hashes[0].Content = "0" },
		"ref":          func(b *bom) { b.Dependencies[0].On = []string{"other"} },
	} {
		b := valid()
		harm(b)
		if b.check() == nil {
			t.Errorf("%s: a broken document is valid", name)
		}
	}
}
