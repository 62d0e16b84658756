package fio

import (
	"maps"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// namingUse records which keys of Options.Naming occur in the files, which patterns of its leads were needed, and the
// names of variables. A key that matches nothing is usually misspelt, and would be ignored silently. The zero value is
// empty. Files are indexed concurrently, hence the lock.
type namingUse struct {
	mu               sync.Mutex
	keys, seen, used map[string]bool
}

// use records that a file needed the lead of a pattern.
func (u *namingUse) use(pattern string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.used == nil {
		u.used = map[string]bool{}
	}
	u.used[pattern] = true
}

// UsesLead reports whether a file needed the lead that a pattern of Options.Naming states.
func (in *Input) UsesLead(pattern string) bool {
	in.naming.mu.Lock()
	defer in.naming.mu.Unlock()
	return in.naming.used[pattern]
}

// see records the names of a variable of a file, the most precise first. Without statements it records nothing.
// Names of NetCDF and Zarr are the path in its group and the name (CF conventions 1.8, section 2.7); of GRIB the
// short names of ecCodes, or discipline, category and number.
func (u *namingUse) see(n ensemble.Naming, names ...string) {
	if n.IsZero() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys, u.seen = map[string]bool{}, map[string]bool{}
	}
	u.seen[names[0]] = true
	if _, key, ok := ensemble.Find(n, n.Names, names...); ok {
		u.keys[key] = true
	}
	if _, key, ok := ensemble.Find(n, n.Units, names...); ok {
		u.keys[key] = true
	}
}

// NamingUse returns the keys of Options.Naming that match a variable of the files, and the names of all variables that
// they have; both ascending, and nil without Naming.
func (in *Input) NamingUse() (keys, names []string) {
	in.naming.mu.Lock()
	defer in.naming.mu.Unlock()
	return slices.Sorted(maps.Keys(in.naming.keys)), slices.Sorted(maps.Keys(in.naming.seen))
}
