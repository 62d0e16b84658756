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

// field is an entry with what is needed to read it. It is made of the entry when it is
// read: an archive has millions of entries, and what is kept of each is little more.
type field struct {
	entry ensemble.Entry
	conv  unit.Conversion
	file  *file
	// slab is the variable and selection of NetCDF and Zarr, ref the GRIB message.
	slab *cf.Slab
	ref  grib.Ref
}

// fieldPosition is a field's place in its file.
type fieldPosition struct{ message, sub int }

// variableSlabs are the fields of one variable of a NetCDF file or Zarr store, which follow each other as their
// places outside the horizontal dimensions do.
type variableSlabs struct {
	first int     // number of the first field
	slab  cf.Slab // of the first field
	shape []int64 // lengths of all dimensions
}

// field is the slab of field number n.
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

// kindTable makes one Kind of equal ones whose values become SI in the same way.
type kindTable struct {
	mu          sync.Mutex
	byKey       map[kindKey]*ensemble.Kind
	conversions map[*ensemble.Kind]unit.Conversion
}

type kindKey struct {
	ensemble.Kind
	conv unit.Conversion
}

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

// indexEntries notes where the entries of each file are in the catalogue.
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

func comparePositions(a, b ensemble.Entry) int {
	return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Sub, b.Sub))
}

// find gives the field of an entry.
//
// Errors: exit 66 if it is not of this input.
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

func unknownEntry(e ensemble.Entry) error {
	return &exit.Error{Code: exit.NotYet, What: "field is not part of the input", At: fmt.Sprintf("%s, message %d", e.File, e.Message), Why: e.Key.String(), Fix: "take entries from the catalogue of the same input"}
}
