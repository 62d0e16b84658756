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

// part is a field's place in its file.
type part struct{ message, sub int }

// slabs are the fields of one variable of a NetCDF file or Zarr store, which follow each other as their
// places outside the horizontal dimensions do.
type slabs struct {
	first  int     // number of the first field
	whole  cf.Slab // of the first field
	counts []int64 // lengths of all dimensions
}

// at is the slab of field number n.
func (v *slabs) at(n int) cf.Slab {
	s := cf.Slab{Var: v.whole.Var, Start: slices.Clone(v.whole.Start), Count: v.whole.Count}
	rest := int64(n - v.first)
	for p := len(v.counts) - 1; p >= 0; p-- {
		if s.Count[p] == 1 {
			s.Start[p] = rest % v.counts[p]
			rest /= v.counts[p]
		}
	}
	return s
}

// kinds makes one Kind of equal ones whose values become SI in the same way.
type kinds struct {
	mu   sync.Mutex
	of   map[kind]*ensemble.Kind
	conv map[*ensemble.Kind]unit.Conversion
}

type kind struct {
	ensemble.Kind
	conv unit.Conversion
}

func (k *kinds) share(of ensemble.Kind, conv unit.Conversion) *ensemble.Kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of, k.conv = map[kind]*ensemble.Kind{}, map[*ensemble.Kind]unit.Conversion{}
	}
	p := k.of[kind{of, conv}]
	if p == nil {
		p = &of
		k.of[kind{of, conv}], k.conv[p] = p, conv
	}
	return p
}

// locate notes where the entries of each file are in the catalogue.
func (in *Input) locate() {
	for i, e := range in.cat.Entries {
		f := in.byName[e.File]
		f.at = append(f.at, int32(i))
	}
	for _, f := range in.files {
		slices.SortFunc(f.at, func(a, b int32) int {
			return comparePlaces(in.cat.Entries[a], in.cat.Entries[b])
		})
	}
}

func comparePlaces(a, b ensemble.Entry) int {
	return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Sub, b.Sub))
}

// find gives the field of an entry.
//
// Errors: exit 66 if it is not of this input.
func (in *Input) find(e ensemble.Entry) (*field, error) {
	f := in.byName[e.File]
	if f == nil {
		return nil, notOfInput(e)
	}
	i, ok := slices.BinarySearchFunc(f.at, e, func(i int32, e ensemble.Entry) int { return comparePlaces(in.cat.Entries[i], e) })
	if !ok {
		return nil, notOfInput(e)
	}
	e = in.cat.Entries[f.at[i]]
	fd := &field{entry: e, conv: in.kinds.conv[e.Kind], file: f}
	if f.slabs == nil {
		fd.ref = grib.Ref{Offset: e.Offset, Length: e.Length, Sections: f.sections[part{e.Message, e.Sub}], Points: e.Grid.Size()}
		return fd, nil
	}
	v, ok := slices.BinarySearchFunc(f.slabs, e.Message, func(v slabs, n int) int { return cmp.Compare(v.first, n) })
	if !ok {
		v--
	}
	s := f.slabs[v].at(e.Message)
	fd.slab = &s
	return fd, nil
}

func notOfInput(e ensemble.Entry) error {
	return &exit.Error{Code: exit.NotYet, What: "field is not part of the input", At: fmt.Sprintf("%s, message %d", e.File, e.Message), Why: e.Key.String(), Fix: "take entries from the catalogue of the same input"}
}
