// Package mpi implements comm.Transport over an MPI library that it opens at run
// time. One program thus works with Open MPI, with MPICH and without MPI.
package mpi

import "strings"

// Implementation is a supported MPI library.
type Implementation struct {
	Name  string
	Files []string // file names for the dynamic loader, in order of preference
}

// Implementations lists the supported libraries.
var Implementations = []Implementation{
	{"Open MPI", []string{"libmpi.so.40"}},
	{"MPICH", []string{"libmpich.so.12"}},
}

// Library is an MPI library of this machine.
type Library struct {
	Version string // such as "Open MPI v4.1.4"
	Path    string
}

// shortVersion extracts name and version from the text of MPI_Get_library_version.
func shortVersion(description string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	line, _, _ = strings.Cut(line, ",")
	line = strings.NewReplacer("Version:", "", "\t", " ", "\x00", "").Replace(line)
	return strings.Join(strings.Fields(line), " ")
}
