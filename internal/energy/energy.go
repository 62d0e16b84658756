// Package energy reads the counters that processors keep of the energy they take (RAPL), where the
// kernel shows them and this process may read them.
package energy

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Root is where Linux lists them.
const Root = "/sys/class/powercap"

// Meter is a reading of the counters of all processor packages.
type Meter struct {
	root   string
	counts map[string]uint64 // microjoules, by folder
}

// Start reads the counters below a folder, Root as a rule. It is nil where none can be read: on most
// machines only root may.
func Start(root string) *Meter {
	m := &Meter{root: root, counts: read(root)}
	if len(m.counts) == 0 {
		return nil
	}
	return m
}

// Joules is the energy since Start of all processor packages, whoever used it; false if it is not known.
//
// A counter that went around once is understood; one that did so twice is not, which takes
// hours.
func (m *Meter) Joules() (float64, bool) {
	if m == nil {
		return 0, false
	}
	now := read(m.root)
	var sum float64
	for dir, before := range m.counts {
		after, ok := now[dir]
		if !ok {
			return 0, false
		}
		if after < before {
			most, ok := number(filepath.Join(dir, "max_energy_range_uj"))
			if !ok {
				return 0, false
			}
			after += most
		}
		sum += float64(after-before) / 1e6
	}
	return sum, true
}

// read gives the counters of packages. Their parts (core, dram) lie in folders whose names have another colon.
func read(root string) map[string]uint64 {
	dirs, _ := filepath.Glob(filepath.Join(root, "intel-rapl:*")) // the pattern is sound
	out := map[string]uint64{}
	for _, dir := range dirs {
		if strings.Count(filepath.Base(dir), ":") != 1 {
			continue
		}
		if v, ok := number(filepath.Join(dir, "energy_uj")); ok {
			out[dir] = v
		}
	}
	return out
}

func number(path string) (uint64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return v, err == nil
}
