package fio

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/unit"
)

// field is an entry with everything needed to read it. It is made when the entry is
// read: an archive has millions of entries, so the catalogue keeps little more than
// the entry.
type field struct {
	entry ensemble.Entry
	conv  unit.Conversion
	file  *file
	// slab is the position in NetCDF and Zarr, ref that of a GRIB message.
	slab *cf.Slab
	ref  grib.Ref
}

// fieldPosition is the position of a field in a GRIB file.
type fieldPosition struct{ message, sub int }

// variableSlabs holds the fields of one variable of a NetCDF file or Zarr store.
// Their numbers are consecutive, in the order of the dimensions other than the
// horizontal ones.
type variableSlabs struct {
	first int     // number of the first field
	slab  cf.Slab // of the first field
	shape []int64 // lengths of all dimensions
}

// field returns the slab of field number n. It inverts the enumeration of package cf:
// the last dimension that is not horizontal is the fastest. A dimension belongs to the
// horizontal ones if the slab has more than one value along it; horizontal dimensions of
// length 1 do not count either, since their only index is 0.
func (v *variableSlabs) field(n int) cf.Slab {
	s := cf.Slab{Var: v.slab.Var, Start: slices.Clone(v.slab.Start), Count: v.slab.Count}
	rest := int64(n - v.first)
	for p := len(v.shape) - 1; p >= 0; p-- {
		if s.Count[p] == 1 {
			s.Start[p] = rest % v.shape[p]
			rest /= v.shape[p]
		}
	}
	return s
}

// kindTable interns kinds: equal kinds with equal conversions to SI share one pointer.
// Millions of entries have some hundred kinds, so an entry holds a pointer. The zero
// value is empty.
type kindTable struct {
	mu          sync.Mutex
	byKey       map[kindKey]*ensemble.Kind
	conversions map[*ensemble.Kind]unit.Conversion
}

type kindKey struct {
	ensemble.Kind
	conv unit.Conversion
}

// intern returns the shared pointer of a kind. The conversion is part of the key,
// because one unit converts in two ways: degC of a temperature has an offset, of a
// spread it has none.
func (k *kindTable) intern(of ensemble.Kind, conv unit.Conversion) *ensemble.Kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byKey == nil {
		k.byKey, k.conversions = map[kindKey]*ensemble.Kind{}, map[*ensemble.Kind]unit.Conversion{}
	}
	p := k.byKey[kindKey{of, conv}]
	if p == nil {
		p = &of
		k.byKey[kindKey{of, conv}], k.conversions[p] = p, conv
	}
	return p
}

// indexEntries records the positions of each file's entries in the catalogue. The index
// has 32 bits for each entry, and the catalogue fewer than 2³¹.
func (in *Input) indexEntries() {
	for i, e := range in.cat.Entries {
		f := in.byName[e.File]
		f.entryIndex = append(f.entryIndex, int32(i))
	}
	for _, f := range in.files {
		slices.SortFunc(f.entryIndex, func(a, b int32) int {
			return comparePositions(in.cat.Entries[a], in.cat.Entries[b])
		})
	}
}

// comparePositions orders entries of one file by position.
func comparePositions(a, b ensemble.Entry) int {
	return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Sub, b.Sub))
}

// find returns the field of an entry. File, message and subfield identify it; the
// caller's other fields are ignored and those of the catalogue used. Cost: a binary
// search among the entries of its file.
//
// Errors: exit 66 if the entry is not part of this input.
func (in *Input) find(e ensemble.Entry) (*field, error) {
	f := in.byName[e.File]
	if f == nil {
		return nil, unknownEntry(e)
	}
	i, ok := slices.BinarySearchFunc(f.entryIndex, e, func(i int32, e ensemble.Entry) int { return comparePositions(in.cat.Entries[i], e) })
	if !ok {
		return nil, unknownEntry(e)
	}
	e = in.cat.Entries[f.entryIndex[i]]
	fd := &field{entry: e, conv: in.kinds.conversions[e.Kind], file: f}
	if f.slabs == nil {
		fd.ref = grib.Ref{Offset: e.Offset, Length: e.Length, Sections: f.sections[fieldPosition{e.Message, e.Sub}], Points: e.Grid.Size()}
		return fd, nil
	}
	v, ok := slices.BinarySearchFunc(f.slabs, e.Message, func(v variableSlabs, n int) int { return cmp.Compare(v.first, n) })
	if !ok {
		v--
	}
	s := f.slabs[v].field(e.Message)
	fd.slab = &s
	return fd, nil
}

// unknownEntry returns the error for an entry of another input, or of a file that this
// input has skipped.
func unknownEntry(e ensemble.Entry) error {
	return &exit.Error{Code: exit.NotYet, What: "field is not part of the input", At: fmt.Sprintf("%s, message %d", e.File, e.Message), Why: e.Key.String(), Fix: "use entries of the catalogue of the same input"}
}
