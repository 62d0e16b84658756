package main

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
)

// debianPart returns the package that a shared library belongs to on this system.
//
// Errors: no dpkg, or no package or several packages with a library of the name in a folder of the dynamic linker.
func debianPart(library, scope string) (component, error) {
	out, err := exec.Command("dpkg-query", "-S", "*/"+library).Output()
	if err != nil {
		return component{}, fmt.Errorf("%s belongs to no package: dpkg-query: %w", library, err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		owner, file, _ := strings.Cut(strings.TrimSpace(line), ": ")
		// /lib/TRIPLET, /usr/lib/TRIPLET, /lib64 and /usr/lib; not folders of one program
		if dir := path.Dir(file); strings.HasPrefix(owner, "diversion") || strings.Count(strings.TrimPrefix(dir, "/usr"), "/") > 2 {
			continue
		}
		found[owner] = true
	}
	if len(found) != 1 {
		return component{}, fmt.Errorf("%s belongs to %d packages, want one:\n%s", library, len(found), out)
	}
	var owner string
	for o := range found {
		owner = o
	}
	fields, err := exec.Command("dpkg-query", "-W", "-f", "${binary:Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}", owner).Output()
	if err != nil {
		return component{}, fmt.Errorf("%s: dpkg-query: %w", owner, err)
	}
	f := strings.Split(string(fields), "\t")
	if len(f) != 5 {
		return component{}, fmt.Errorf("%s: dpkg-query printed %q", owner, fields)
	}
	name, _, _ := strings.Cut(f[0], ":")
	purl := fmt.Sprintf("pkg:deb/%s/%s@%s?arch=%s&distro=%s", distribution()["ID"], escape(name), escape(f[1]), f[2],
		escape(distribution()["ID"]+"-"+distribution()["VERSION_ID"]))
	return component{Ref: purl, Type: "library", Name: name, Version: f[1], PURL: purl, Scope: scope, Properties: []property{
		{"library", library}, {"debian:source", f[3] + " " + f[4]}}}, nil
}

// distribution returns the variables of os-release.
//
// Source: os-release(5).
var distribution = sync.OnceValue(func() map[string]string {
	values := map[string]string{}
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return values
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), "=")
		values[key] = strings.Trim(value, `"'`)
	}
	return values
})

// escape encodes a part of a package URL.
func escape(s string) string { return url.QueryEscape(s) }
