package input

import (
	"cmp"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// A file that was truncated between two messages is valid by its structure. It is recognised by its missing
// fields: all of them would come after its last message in the order of the file, and other files
// or leads contain such fields.

// Coordinates by which files order the fields of one initialisation.
const (
	byLead = iota
	byMember
	byVariable
	byLevel
	axisCount
)

// coordinate is a value of one of these coordinates.
type coordinate struct {
	axis  int
	value any
}

// coordinates returns the coordinates of a key.
func coordinates(k ensemble.Key) [axisCount]any {
	return [axisCount]any{k.Lead, k.Member, k.Variable, k.Level}
}

// fileContext is evidence from other files about a truncated one.
type fileContext struct {
	seen map[coordinate]bool // coordinates that occur in some field
	ends map[string]int      // last message number of each file
}

// newFileContext collects the surroundings of a catalogue.
func newFileContext(c *ensemble.Catalogue) *fileContext {
	a := &fileContext{map[coordinate]bool{}, map[string]int{}}
	for _, e := range c.Entries {
		for axis, v := range coordinates(e.Key) {
			a.seen[coordinate{axis, v}] = true
		}
		a.ends[e.File] = max(a.ends[e.File], e.Message)
	}
	for _, u := range c.Unused {
		a.ends[u.File] = max(a.ends[u.File], u.Message)
	}
	return a
}

// truncation reports whether the missing fields are explained by a truncated file, and returns the last message
// before the truncation.
func (s *initFields) truncation(around *fileContext) (last ensemble.Entry, ok bool) {
	files := map[string][]ensemble.Entry{}
	for _, e := range s.have {
		files[e.File] = append(files[e.File], e)
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		of := files[name]
		slices.SortFunc(of, func(a, b ensemble.Entry) int {
			return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Sub, b.Sub))
		})
		if end := of[len(of)-1]; end.Length > 0 && end.Message == around.ends[name] && s.endsEarly(of, around.seen) {
			return end, true
		}
	}
	return last, false
}

// endsEarly reports whether the missing fields of a file come after all its present fields in the file's
// order, which of contains.
func (s *initFields) endsEarly(of []ensemble.Entry, seen map[coordinate]bool) bool {
	// The order of values along each axis.
	var place [axisCount]map[any]int
	for axis := range place {
		place[axis] = map[any]int{}
		for _, e := range of {
			if v := coordinates(e.Key)[axis]; place[axis][v] == 0 {
				place[axis][v] = len(place[axis]) + 1
			}
		}
	}
	at := func(k ensemble.Key) (p [axisCount]int) {
		for axis, v := range coordinates(k) {
			p[axis] = cmp.Or(place[axis][v], len(of)+1) // not reached before the truncation
		}
		return p
	}
	var missing [][axisCount]int
	for _, k := range s.missing {
		belongs, known := true, true
		for axis, v := range coordinates(k) {
			belongs = belongs && (len(place[axis]) > 1 || place[axis][v] > 0)
			known = known && seen[coordinate{axis, v}]
		}
		if belongs && !known {
			return false
		}
		if belongs {
			missing = append(missing, at(k))
		}
	}
	if missing == nil {
		return false
	}
	// The nesting of the axes in the file's order.
	return slices.ContainsFunc(axisOrders, func(nest [axisCount]int) bool {
		compare := func(a, b [axisCount]int) int {
			for _, axis := range nest {
				if c := cmp.Compare(a[axis], b[axis]); c != 0 {
					return c
				}
			}
			return 0
		}
		for i := 1; i < len(of); i++ {
			if compare(at(of[i-1].Key), at(of[i].Key)) >= 0 {
				return false
			}
		}
		last := at(of[len(of)-1].Key)
		return !slices.ContainsFunc(missing, func(p [axisCount]int) bool { return compare(p, last) <= 0 })
	})
}

// axisOrders lists all nestings of the coordinates.
var axisOrders = func() (out [][axisCount]int) {
	var nest func(done []int)
	nest = func(done []int) {
		if len(done) == axisCount {
			out = append(out, [axisCount]int(done))
			return
		}
		for axis := range axisCount {
			if !slices.Contains(done, axis) {
				nest(append(slices.Clone(done), axis))
			}
		}
	}
	nest(nil)
	return out
}()
