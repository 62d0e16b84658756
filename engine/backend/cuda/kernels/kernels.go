// Package kernels holds the sources of the engine's own CUDA kernels, one file for a
// family of operations. NVRTC compiles them at run time for the GPU that is present.
package kernels

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

//go:embed *.cu *.cuh
var files embed.FS

// Program returns the source of a file of this package, such as "axis.cu", with the
// headers that it includes and the given macros, "NAME=value". The macros are in the
// source and not options of the compiler, because NVRTC includes a header of its own
// first, in which T is a name.
//
// Errors of the compiler name the file and line of the source, because of the #line
// directives.
func Program(file string, defines ...string) device.Program {
	var s strings.Builder
	for _, d := range defines {
		name, value, _ := strings.Cut(d, "=")
		fmt.Fprintf(&s, "#define %s %s\n", name, value)
	}
	fmt.Fprintf(&s, "#line 1 %q\n", file)
	write(&s, file, map[string]bool{})
	return device.Program{Name: file, Source: s.String()}
}

// write writes a file with the headers that it includes, each once. Includes of the form
// <…> are left to the compiler.
func write(s *strings.Builder, file string, seen map[string]bool) {
	if seen[file] {
		return
	}
	seen[file] = true
	text, err := files.ReadFile(file)
	if err != nil {
		panic(fmt.Sprintf("kernels: %v", err)) // names are constants of this program
	}
	for i, line := range strings.SplitAfter(string(text), "\n") {
		if header, ok := strings.CutPrefix(line, "#include \""); ok {
			write(s, strings.TrimRight(header, "\"\n"), seen)
			fmt.Fprintf(s, "#line %d %q\n", i+2, file)
			continue
		}
		s.WriteString(line)
	}
}

// Digest returns a hash of all sources, for the key of timing tables. A changed kernel
// thus invalidates the timings of all kernels of a table. It has 16 hexadecimal digits.
func Digest() string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("kernels: %v", err))
	}
	h := sha256.New()
	for _, e := range entries {
		text, err := files.ReadFile(e.Name())
		if err != nil {
			panic(fmt.Sprintf("kernels: %v", err))
		}
		fmt.Fprintf(h, "%s %d\n%s", e.Name(), len(text), text)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// Files returns the names of the programs.
func Files() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("kernels: %v", err))
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".cu") {
			names = append(names, e.Name())
		}
	}
	return names
}

// kernel matches the kernels of a source.
var kernel = regexp.MustCompile(`(?m)^KERNEL (?:__launch_bounds__\([^)]*\) )?(\w+)\(`)

// Names returns the names of the kernels of a program. They are in the order of the
// source. A kernel is declared by the macro KERNEL at the beginning of a line.
func Names(p device.Program) []string {
	var names []string
	for _, m := range kernel.FindAllStringSubmatch(p.Source, -1) {
		names = append(names, m[1])
	}
	return names
}
