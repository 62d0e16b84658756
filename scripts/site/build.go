package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// options of a build; empty man and report leave their sections out.
type options struct{ root, out, python, man, report, version string }

//go:embed mkdocs.yml
var config string

//go:embed extra.css
var style []byte

// build writes the sources of the site beside out and runs MkDocs, which reports links and anchors without target.
func build(o options) error {
	src := o.out + "-src"
	if err := os.RemoveAll(src); err != nil {
		return err
	}
	s := &sources{root: o.root, dir: filepath.Join(src, "docs"), pages: map[string]bool{}}
	for _, stage := range []func() error{
		s.markdown,
		s.packages,
		func() error { return s.manual(o.man) },
		func() error { return s.gallery(o.report) },
		s.copyLinked,
	} {
		if err := stage(); err != nil {
			return err
		}
	}
	if err := s.put("extra.css", style); err != nil {
		return err
	}
	out, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	text := config + "\nsite_dir: " + out + "\ncopyright: \"Apache License 2.0. Version " + o.version + "\"\nnav:\n" + s.nav()
	if err := os.WriteFile(filepath.Join(src, "mkdocs.yml"), []byte(text), 0o666); err != nil {
		return err
	}
	var log bytes.Buffer
	cmd := exec.Command(o.python, "-m", "mkdocs", "build", "--strict", "--config-file", filepath.Join(src, "mkdocs.yml"))
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = append(os.Environ(), "NO_MKDOCS_2_WARNING=1", "PYTHONDONTWRITEBYTECODE=1")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mkdocs build: %w\n%s", err, complaints(log.String()))
	}
	return nil
}

// complaints are the warnings and errors of a log, or all of it without any.
func complaints(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "WARNING") || strings.HasPrefix(line, "ERROR") {
			b.WriteString(line)
		}
	}
	return cmp.Or(strings.TrimSpace(b.String()), strings.TrimSpace(log))
}
