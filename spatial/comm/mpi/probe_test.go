package mpi

import (
	"errors"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/dl"
)

func TestShort(t *testing.T) {
	for in, want := range map[string]string{
		"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022\x00": "Open MPI v4.1.4",
		"MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n":                 "MPICH 4.0.2",
	} {
		if got := shortVersion(in); got != want {
			t.Errorf("short(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestProbe: an installed library reports its version; for a missing one Probe
// returns ErrNotFound.
func TestProbe(t *testing.T) {
	for _, i := range Implementations {
		f, err := Probe(i)
		if errors.Is(err, dl.ErrNotFound) {
			continue
		}
		if err != nil || !strings.HasPrefix(f.Version, i.Name) || f.Path == "" {
			t.Errorf("%s: %+v, %v", i.Name, f, err)
		}
	}
	if _, err := Probe(Implementation{"none", []string{"libnowhere-mpi.so.1"}}); !errors.Is(err, dl.ErrNotFound) {
		t.Errorf("absent library: %v", err)
	}
}
