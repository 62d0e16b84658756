package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// manual writes the manual pages of a folder as HTML in Markdown, by mandoc.
func (s *sources) manual(dir string) error {
	if dir == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "man*", "*"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	names := map[string]bool{}
	for _, f := range files {
		names[filepath.Base(f)] = true
	}
	var pages []string
	for _, f := range files {
		html, err := exec.Command("mandoc", "-T", "html", "-O", "fragment", f).Output()
		if err != nil {
			return fmt.Errorf("mandoc %s: %w", f, err)
		}
		base := filepath.Base(f)
		ext := filepath.Ext(base)
		title := strings.TrimSuffix(base, ext)
		if ext == ".1" {
			title = strings.ReplaceAll(title, "-", " ")
		}
		body := reference.ReplaceAllStringFunc(string(html), func(m string) string {
			g := reference.FindStringSubmatch(m)
			if to := g[1] + "." + g[2]; names[to] {
				return fmt.Sprintf(`<a href="%s.html">%s</a>`, to, g[1])
			}
			return m
		})
		page := "man/" + base + ".md"
		if err := s.put(page, []byte("# "+title+"\n\n<div class=\"man\">\n"+body+"</div>\n")); err != nil {
			return err
		}
		pages = append(pages, page)
	}
	s.added = append(s.added, section{"Commands", pages})
	return nil
}

// reference is a reference to another manual page.
var reference = regexp.MustCompile(`<b>([a-z][a-z.-]*)</b>\(([15])\)`)
