package mutation

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Survivors is what a file of testdata/survivors records of a package: how many of the mutants that were drawn the tests noticed, and
// the others by name, as Mutant.String. After " # " stands why a mutant may survive; one that "is equivalent" differs from the program
// in nothing that a caller or reader can see, and does not count.
//
//	seed 20785: 57 of 60 mutants noticed (97 %), 1 equivalent
//	efi.go EFIENS10: 20: becomes 21 # is equivalent: the last quantile reached has the value of none
type Survivors struct {
	Seed            uint64
	Mutants, Killed int
	Names           []string
	Why             map[string]string // name → reason
}

// ReadSurvivors reads a file of survivors; none if there is no file.
//
// Errors: those of reading; a first line of another form.
func ReadSurvivors(path string) (Survivors, error) {
	s := Survivors{Why: map[string]string{}}
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if _, err := fmt.Sscanf(lines[0], "seed %d: %d of %d mutants", &s.Seed, &s.Killed, &s.Mutants); err != nil {
		return s, fmt.Errorf("%s: %q: %w", path, lines[0], err)
	}
	for _, line := range lines[1:] {
		name, why, explained := strings.Cut(line, " # ")
		s.Names = append(s.Names, name)
		if explained {
			s.Why[name] = why
		}
	}
	return s, nil
}

// Equivalent counts the survivors that differ from the program in nothing.
func (s Survivors) Equivalent() (n int) {
	for _, name := range s.Names {
		if strings.HasPrefix(s.Why[name], "is equivalent") {
			n++
		}
	}
	return n
}

// Rate is the share of mutants that were noticed, without equivalent ones.
func (s Survivors) Rate() float64 {
	return float64(s.Killed) / float64(max(1, s.Mutants-s.Equivalent()))
}

// String is the content of the file.
func (s Survivors) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d of %d mutants noticed (%.0f %%), %d equivalent\n", s.Seed, s.Killed, s.Mutants, 100*s.Rate(), s.Equivalent())
	for _, name := range s.Names {
		b.WriteString(name)
		if why := s.Why[name]; why != "" {
			b.WriteString(" # " + why)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// With returns the record of a new draw, with the reasons that are known.
func (s Survivors) With(seed uint64, r Report) Survivors {
	out := Survivors{Seed: seed, Mutants: r.Mutants, Killed: r.Killed, Why: s.Why}
	for _, m := range r.Survived {
		out.Names = append(out.Names, m.String())
	}
	return out
}

// Again returns the record after its survivors alone were tested again: those that were noticed now count as noticed, and those whose
// code is gone do not count. Mutants of one function with the same name are noticed if all of them are.
func (s Survivors) Again(r Report) Survivors {
	out := Survivors{Seed: s.Seed, Mutants: s.Mutants, Killed: s.Killed, Why: s.Why}
	for _, name := range s.Names {
		switch is := func(m Mutant) bool { return m.String() == name }; {
		case slices.ContainsFunc(r.Survived, is):
			out.Names = append(out.Names, name)
		case slices.ContainsFunc(r.Noticed, is):
			out.Killed++
		default:
			out.Mutants--
		}
	}
	return out
}
