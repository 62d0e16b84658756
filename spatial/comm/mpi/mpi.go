// Package mpi opens an MPI library at run time, so that one program works with Open
// MPI, with MPICH, and without either.
package mpi

import "strings"

// Implementation is an MPI library that the program can work with.
type Implementation struct {
	Name  string
	Files []string // names that the loader is asked for
}

// Implementations lists them.
var Implementations = []Implementation{
	{"Open MPI", []string{"libmpi.so.40"}},
	{"MPICH", []string{"libmpich.so.12"}},
}

// Library is an MPI library of this machine.
type Library struct {
	Version string // "Open MPI v4.1.4"
	Path    string
}

// shortVersion is the part of a library's own description that names and numbers it.
func shortVersion(description string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	line, _, _ = strings.Cut(line, ",")
	line = strings.NewReplacer("Version:", "", "\t", " ", "\x00", "").Replace(line)
	return strings.Join(strings.Fields(line), " ")
}
