// Command hardened checks that programs are built with the protections of the compiler and the linker.
//
//	hardened [-lazy] FILE...
//
// With -lazy functions of libraries may be bound when they are first called.
//
// Exit: 0 all programs have all protections; 1 some lacks one, which is named, or cannot be read.
package main

import (
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	lazy := flag.Bool("lazy", false, "functions of libraries may be bound when they are first called")
	flag.Parse()
	code := 0
	for _, path := range flag.Args() {
		lacking, err := check(path)
		if *lazy {
			lacking = slices.DeleteFunc(lacking, func(name string) bool { return name == boundAtStart })
		}
		switch {
		case err != nil:
			fmt.Fprintf(os.Stderr, "hardened: %s: %v\n", path, err)
			code = 1
		case len(lacking) > 0:
			fmt.Fprintf(os.Stderr, "hardened: %s lacks: %s\n", path, strings.Join(lacking, "; "))
			code = 1
		default:
			fmt.Printf("%s: has its protections\n", path)
		}
	}
	os.Exit(code)
}

// program is what the protections are read from.
type program struct {
	*elf.File
	imported []string // names of functions and variables of shared libraries
}

const boundAtStart = "functions of libraries bound at start (BIND_NOW)"

// protections lists what a program must have.
//
// Source: System V ABI, chapter 5; glibc, elf.h (DF_1_NOW, DF_1_PIE); GCC, Instrumentation Options.
var protections = []struct {
	name string
	has  func(p program) bool
}{
	{"position independent (PIE), with an interpreter", func(p program) bool {
		return p.Type == elf.ET_DYN && p.segment(elf.PT_INTERP) != nil && p.flag(elf.DT_FLAGS_1, uint64(elf.DF_1_PIE))
	}},
	{"relocations read-only (GNU_RELRO)", func(p program) bool { return p.segment(elf.PT_GNU_RELRO) != nil }},
	{boundAtStart, func(p program) bool {
		return p.flag(elf.DT_FLAGS, uint64(elf.DF_BIND_NOW)) || p.flag(elf.DT_FLAGS_1, uint64(elf.DF_1_NOW))
	}},
	{"stack not executable (GNU_STACK)", func(p program) bool {
		s := p.segment(elf.PT_GNU_STACK)
		return s != nil && s.Flags&elf.PF_X == 0
	}},
	{"no memory both writable and executable", func(p program) bool {
		return !slices.ContainsFunc(p.Progs, func(s *elf.Prog) bool {
			return s.Type == elf.PT_LOAD && s.Flags&(elf.PF_W|elf.PF_X) == elf.PF_W|elf.PF_X
		})
	}},
	{"no relocations in code (TEXTREL)", func(p program) bool {
		v, err := p.DynValue(elf.DT_TEXTREL)
		return err == nil && len(v) == 0 && !p.flag(elf.DT_FLAGS, uint64(elf.DF_TEXTREL))
	}},
	{"no search path of libraries (RPATH, RUNPATH)", func(p program) bool {
		rpath, err := p.DynString(elf.DT_RPATH)
		runpath, err2 := p.DynString(elf.DT_RUNPATH)
		return err == nil && err2 == nil && len(rpath)+len(runpath) == 0
	}},
	{"stack protector (__stack_chk_fail)", func(p program) bool { return slices.Contains(p.imported, "__stack_chk_fail") }},
	{"checked functions of libc (FORTIFY: __*_chk)", func(p program) bool {
		return slices.ContainsFunc(p.imported, func(s string) bool { return strings.HasPrefix(s, "__") && strings.HasSuffix(s, "_chk") })
	}},
}

// check returns the protections that a program lacks.
//
// Errors: a file that is no ELF program, or has no table of imported symbols.
func check(path string) (lacking []string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return nil, err
	}
	p := program{File: f}
	for _, s := range symbols {
		p.imported = append(p.imported, s.Name)
	}
	for _, c := range protections {
		if !c.has(p) {
			lacking = append(lacking, c.name)
		}
	}
	return lacking, nil
}

// segment returns the first segment of a type, or nil.
func (p program) segment(t elf.ProgType) *elf.Prog {
	if i := slices.IndexFunc(p.Progs, func(s *elf.Prog) bool { return s.Type == t }); i >= 0 {
		return p.Progs[i]
	}
	return nil
}

// flag reports whether an entry of the dynamic section has a flag.
func (p program) flag(tag elf.DynTag, flag uint64) bool {
	values, err := p.DynValue(tag)
	return err == nil && slices.ContainsFunc(values, func(v uint64) bool { return v&flag != 0 })
}
