package cublaslt

import (
	"fmt"
	"strconv"
	"strings"
)

// settings are the number of an algorithm and how it is set: what CUBLASLT_ALGO_CONFIG_…
// counts from 0.
type settings [9]int64

// words are the names of the settings.
var words = [len(settings{})]string{"algorithm", "tile", "split", "reduction", "swizzle", "option", "stages", "inner", "cluster"}

// String is the name of a plan: "algorithm 21, tile 5, split 1, …". Settings that are 0,
// which is what an algorithm starts with, are left out.
func (s settings) String() string {
	parts := []string{fmt.Sprintf("%s %d", words[0], s[0])}
	for i, v := range s[1:] {
		if v != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", words[i+1], v))
		}
	}
	return strings.Join(parts, ", ")
}

// parse reads a name.
func parse(name string) (settings, error) {
	var s settings
	ok := true
	for _, part := range strings.Split(name, ", ") {
		word, number, _ := strings.Cut(part, " ")
		v, err := strconv.ParseUint(number, 10, 31)
		ok = ok && err == nil
		for i, w := range words {
			if w == word {
				s[i] = int64(v)
			}
		}
	}
	if !ok || s.String() != name {
		return settings{}, fmt.Errorf("cublaslt: %q is no name of a plan, which is like %q", name, "algorithm 21, tile 5, split 1")
	}
	return s, nil
}
