// Command licences prints, in the form of a Debian copyright file, whose work is in
// programs: ours, Go's, and that of every module that they link, with the texts of
// their licences.
//
//	licences ./cmd/...
//
// Exit: 0 printed; 1 a module has no licence, or go list failed.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := write(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// source is a module, or Go itself, that is in a program.
type source struct {
	name, version, dir string
	texts              []string
}

// licenceName matches the files with the licence of a module.
var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|unlicense)([-._].*)?$`)

func write(w io.Writer, packages []string) error {
	sources, err := linked(packages)
	if err != nil {
		return err
	}
	fmt.Fprint(w, header)
	for _, s := range sources {
		fmt.Fprintf(w, "\n%s\n%s\n", strings.Repeat("-", 78), strings.TrimSpace(s.name+" "+s.version))
		for _, t := range s.texts {
			fmt.Fprintf(w, "\n%s\n", short(t))
		}
	}
	return nil
}

const header = `ensemble: a few members of an ensemble forecast become a calibrated distribution

Copyright: the authors of ensemble
License: Apache-2.0. On Debian systems its text is in
/usr/share/common-licenses/Apache-2.0.

Coastlines: Natural Earth, public domain.

The programs are linked with the following modules, each under the terms that
stand below its name.
`

// linked lists what the packages and all that they import come from, by name.
func linked(packages []string) ([]source, error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Module"}, packages...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	root, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	goroot, goversion, _ := strings.Cut(strings.TrimSpace(string(root)), "\n")
	golang := source{name: "The Go programming language, its run time and standard library", version: goversion, dir: goroot}
	byName := map[string]*source{golang.name: &golang}
	if err := golang.read(goroot); err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir    string
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		s := byName[p.Module.Path]
		if s == nil {
			s = &source{name: p.Module.Path, version: p.Module.Version, dir: p.Module.Dir}
			byName[s.name] = s
		}
		// A folder within a module may have terms of its own.
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			if err := s.read(dir); err != nil {
				return nil, err
			}
			if dir == s.dir || len(dir) <= len(s.dir) {
				break
			}
		}
	}
	var all []source
	for _, s := range byName {
		if len(s.texts) == 0 {
			s.readme()
		}
		if len(s.texts) == 0 {
			return nil, fmt.Errorf("%s %s has no licence in %s", s.name, s.version, s.dir)
		}
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b source) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// read adds the licences of a folder that s does not have yet.
func (s *source) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !licenceName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		if t := strings.TrimSpace(strings.ReplaceAll(string(text), "\r", "")); !slices.Contains(s.texts, t) {
			s.texts = append(s.texts, t)
		}
	}
	slices.Sort(s.texts) // packages are listed in the order in which they are built
	return nil
}

// inReadme matches a licence that stands at the end of a README.
var inReadme = regexp.MustCompile(`(?ms)^#* *(MIT|BSD|ISC|Apache)[^\n]* Licen[cs]e$.*`)

// readme takes the licence from the README of a module that has no file for it.
func (s *source) readme() {
	text, err := os.ReadFile(filepath.Join(s.dir, "README.md"))
	if err != nil {
		return
	}
	if t := inReadme.Find(text); t != nil {
		s.texts = append(s.texts, strings.TrimSpace(string(t)))
	}
}

var (
	apache  = regexp.MustCompile(`(?s)Apache License\s+Version 2\.0, January 2004.*?of\s+your\s+accepting\s+any\s+such\s+warranty\s+or\s+additional\s+liability\.(\s+END OF TERMS AND CONDITIONS)?`)
	howTo   = regexp.MustCompile(`(?s)\s*APPENDIX: How to apply the Apache License to your work\..*?identification within third-party archives\.`)
	granted = regexp.MustCompile(`(?s)Licensed under the Apache License, Version 2\.0.*?limitations under the License\.`)
)

// short gives a licence with the terms of Apache's replaced by where Debian has them.
func short(text string) string {
	const where = "Apache License, Version 2.0: see /usr/share/common-licenses/Apache-2.0"
	if !apache.MatchString(text) {
		return text
	}
	text = apache.ReplaceAllString(text, where)
	text = howTo.ReplaceAllString(text, "")
	text = granted.ReplaceAllString(text, "")
	return strings.TrimSpace(regexp.MustCompile(`\n\s*\n\s*\n+`).ReplaceAllString(text, "\n\n"))
}
