// Command sbom writes the list of all parts of programs (software bill of materials) as CycloneDX 1.6: their Go modules, from the
// build information, and the Debian packages of the shared libraries that they are linked with or open.
//
//	sbom -version V -epoch SECONDS [-opened LIBRARY]... FILE...
//
// The same programs on the same system give the same bytes.
//
// Exit: 0 written; 1 a program cannot be read, a library belongs to no package, or the result would not be valid.
package main

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "version of the programs")
	epoch := flag.Int64("epoch", 0, "time of the list, in seconds since 1970")
	var opened []string
	flag.Func("opened", "name of a shared library that is opened if it is there, such as libdnnl.so.2", func(s string) error {
		opened = append(opened, s)
		return nil
	})
	flag.Parse()
	text, err := list(*version, time.Unix(*epoch, 0), opened, flag.Args())
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// list returns the list of the parts of programs.
func list(version string, at time.Time, opened, programs []string) ([]byte, error) {
	if len(programs) == 0 {
		return nil, errors.New("no programs")
	}
	b := newBOM(version, at)
	for _, path := range programs {
		parts, err := goParts(path)
		if err != nil {
			return nil, err
		}
		libraries, err := linked(path)
		if err != nil {
			return nil, err
		}
		for _, name := range libraries {
			p, err := debianPart(name, "required")
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
		}
		if err := b.addProgram(path, version, parts); err != nil {
			return nil, err
		}
	}
	for _, name := range opened {
		p, err := debianPart(name, "optional")
		if err != nil {
			return nil, err
		}
		b.add(p)
	}
	return b.encode()
}

// goParts returns the modules of a program and Go's standard library.
func goParts(path string) ([]component, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	release := strings.TrimPrefix(info.GoVersion, "go")
	parts := []component{{Ref: "pkg:golang/stdlib@" + release, Type: "library", Name: "stdlib", Version: release, PURL: "pkg:golang/stdlib@" + release}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		purl := "pkg:golang/" + m.Path + "@" + escape(m.Version)
		c := component{Ref: purl, Type: "library", Name: m.Path, Version: m.Version, PURL: purl, Scope: "required"}
		if m.Sum != "" {
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		parts = append(parts, c)
	}
	return parts, nil
}

// linked returns the names of the shared libraries that a program is linked with.
func linked(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	names, err := f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, n := range names {
		names[i] = filepath.Base(n)
	}
	return names, nil
}
