package spatial

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Mesh is a grid of ranks. Ranks count along the last axis first.
type Mesh []MeshAxis

// MeshAxis is one axis of a mesh, by the name that cuts use: "data", "level", "lat", "lon",
// "channel". It cuts the axis of fields of that name, but for the sizes of fields that
// Changes lists.
type MeshAxis struct {
	Name      string
	Size      int
	Overrides []Override
}

// Override is a size of fields at which an axis of the mesh cuts something else than what its
// name says: the axis To of fields, or nothing if To is "none". It cuts space as evenly as it
// can, also along its own axis, where the name stands for cuts that suit all sizes.
type Override struct {
	Level, Lat, Lon int
	To              string
}

// String is the text that ParseMesh reads: "2x11x22=channel".
func (c Override) String() string { return fmt.Sprintf("%dx%dx%d=%s", c.Level, c.Lat, c.Lon, c.To) }

// Axes of fields [N C D H W] by the names of the axes of the mesh along which they
// are cut.
var fieldAxes = map[string]int{"data": 0, "channel": 1, "level": 2, "lat": 3, "lon": 4}

// noAxis in Change.To leaves fields whole.
const noAxis = "none"

// FieldAxis is the axis of fields [N C D H W] that an axis of that name cuts; −1 for a name
// that ParseMesh does not know.
func (a MeshAxis) FieldAxis() int { return fieldAxis(a.Name) }

func fieldAxis(name string) int {
	if axis, ok := fieldAxes[name]; ok {
		return axis
	}
	return -1
}

// SplitAxis is the axis of fields of shape s [N C D H W] that an axis of the mesh cuts, −1 for
// none, and whether a change says so.
func (a MeshAxis) SplitAxis(s graph.Shape) (axis int, changed bool) {
	for _, c := range a.Overrides {
		if len(s) == 5 && s[2] == c.Level && s[3] == c.Lat && s[4] == c.Lon {
			return fieldAxis(c.To), true
		}
	}
	return a.FieldAxis(), false
}

// String is the text that ParseMesh reads: "lon:4@2x11x22=channel".
func (a MeshAxis) String() string {
	text, mark := fmt.Sprintf("%s:%d", a.Name, a.Size), "@"
	for _, c := range a.Overrides {
		text += mark + c.String()
		mark = ","
	}
	return text
}

// String is the text that ParseMesh reads: "data:2 lon:4".
func (m Mesh) String() string {
	var parts []string
	for _, a := range m {
		parts = append(parts, a.String())
	}
	return strings.Join(parts, " ")
}

// ParseMesh reads axes and their numbers of ranks, between blanks: "data:2 lon:4". Behind @
// an axis may have sizes of fields, levels × latitudes × longitudes, for which it cuts
// another axis or none: "lat:2 lon:4@2x22x44=channel,2x11x22=none".
//
// Errors: exit 64.
func ParseMesh(text string) (Mesh, error) {
	var m Mesh
	for _, word := range strings.Fields(text) {
		wrong := func(why string) error {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no axis of a mesh", word), At: text, Why: why,
				Fix: "write \"data:2 lon:4\", or \"lon:4@2x11x22=channel\" for an axis that cuts channels of fields of that size"}
		}
		whole, changes, more := strings.Cut(word, "@")
		name, count, _ := strings.Cut(whole, ":")
		n, err := strconv.Atoi(count)
		double := slices.ContainsFunc(m, func(a MeshAxis) bool { return a.Name == name })
		if err != nil || n < 1 || fieldAxis(name) < 0 || double {
			return nil, wrong("the axes are data, channel, level, lat and lon, each once with its number of ranks")
		}
		a := MeshAxis{Name: name, Size: n}
		if more {
			for _, text := range strings.Split(changes, ",") {
				c, ok := parseOverride(text)
				if !ok || slices.ContainsFunc(a.Overrides, func(d Override) bool { return c.sameSize(d) }) {
					return nil, wrong("behind @ stand sizes of fields, each once, with an axis or none")
				}
				a.Overrides = append(a.Overrides, c)
			}
		}
		m = append(m, a)
	}
	for i, a := range m {
		for _, c := range a.Overrides {
			for j, b := range m {
				axis := fieldAxis(c.To)
				if other, _ := b.SplitAxis(graph.Shape{1, 1, c.Level, c.Lat, c.Lon}); i != j && axis >= 0 && axis == other {
					return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s and %s cut the same axis of fields of %dx%dx%d", a.Name, b.Name, c.Level, c.Lat, c.Lon),
						At: text, Why: "an axis of fields is cut along one axis of the mesh", Fix: "let one of them cut something else there, or none"}
				}
			}
		}
	}
	return m, nil
}

// sameSize tells whether both are about fields of one size.
func (c Override) sameSize(d Override) bool {
	return c.Level == d.Level && c.Lat == d.Lat && c.Lon == d.Lon
}

// parseOverride reads "2x11x22=channel".
func parseOverride(text string) (Override, bool) {
	size, to, _ := strings.Cut(text, "=")
	var n [3]int
	words := strings.Split(size, "x")
	if len(words) != len(n) || to != noAxis && fieldAxis(to) < 0 {
		return Override{}, false
	}
	for i, w := range words {
		var err error
		if n[i], err = strconv.Atoi(w); err != nil || n[i] < 1 {
			return Override{}, false
		}
	}
	return Override{n[0], n[1], n[2], to}, true
}

// Meshes lists the meshes of n ranks whose axes, in that order, have at most so many
// ranks; axes of one rank are left out.
func Meshes(n int, most []MeshAxis) []Mesh {
	if n == 1 {
		return []Mesh{{}}
	}
	if len(most) == 0 {
		return nil
	}
	var all []Mesh
	for size := 1; size <= min(n, most[0].Size); size++ {
		if n%size != 0 {
			continue
		}
		for _, rest := range Meshes(n/size, most[1:]) {
			if size > 1 {
				rest = append(Mesh{{Name: most[0].Name, Size: size}}, rest...)
			}
			all = append(all, rest)
		}
	}
	return all
}

// Size is the number of ranks.
func (m Mesh) Size() int {
	n := 1
	for _, a := range m {
		n *= a.Size
	}
	return n
}

// Coordinate is where a rank stands on the axis of that name; 0 if the mesh has none.
func (m Mesh) Coordinate(rank int, name string) int {
	for i := len(m) - 1; i >= 0; i-- {
		if m[i].Name == name {
			return rank % m[i].Size
		}
		rank /= m[i].Size
	}
	return 0
}

// sorted are names of axes in the order of the mesh, each once.
func (m Mesh) sorted(names []string) []string {
	var out []string
	for _, a := range m {
		if slices.Contains(names, a.Name) {
			out = append(out, a.Name)
		}
	}
	return out
}

// Group is the ranks that stand as a rank does on all axes of the mesh but those named,
// ascending.
func (m Mesh) Group(rank int, names []string) []int {
	var out []int
	for r := range m.Size() {
		same := true
		for _, a := range m {
			same = same && (slices.Contains(names, a.Name) || m.Coordinate(r, a.Name) == m.Coordinate(rank, a.Name))
		}
		if same {
			out = append(out, r)
		}
	}
	return out
}

// check refuses distributions that the mesh does not have, and those that cut two
// axes of a value along one of the mesh.
func (m Mesh) check(d graph.Distribution) error {
	used := map[string]bool{}
	for i, c := range d.Axes {
		if c.MeshAxis == "" {
			continue
		}
		size := 0
		for _, a := range m {
			if a.Name == c.MeshAxis {
				size = a.Size
			}
		}
		if size != len(c.Starts) || used[c.MeshAxis] {
			return fmt.Errorf("axis %d is cut into %d along %q of the mesh %v", i, len(c.Starts), c.MeshAxis, m)
		}
		used[c.MeshAxis] = true
	}
	return nil
}

// Box is a part of a value: an interval of each axis.
type Box []Interval

// Size is the number of elements.
func (b Box) Size() int {
	n := 1
	for _, v := range b {
		n *= v.Len()
	}
	return n
}

// Intersect is what both boxes hold.
func (b Box) Intersect(c Box) Box {
	out := make(Box, len(b))
	for i := range b {
		out[i] = b[i].Intersect(c[i])
	}
	return out
}

// Owned is the part of a value of shape s that a rank holds.
func (m Mesh) Owned(d graph.Distribution, s graph.Shape, rank int) Box {
	b := make(Box, len(s))
	for i, n := range s {
		b[i] = Interval{0, n}
		if len(d.Axes) > 0 {
			b[i] = OwnedInterval(d.Axes[i], m.Coordinate(rank, d.Axes[i].MeshAxis), n)
		}
	}
	return b
}

// Move is a part of a value that one rank gives another, or keeps.
type Move struct {
	From, To int
	// At is where the part lies in the value, Into where the receiver wants it: the same,
	// or further by the size of a periodic axis.
	At, Into Box
}

// Redistribution says what every rank gets of a value that is distributed over a mesh.
type Redistribution struct {
	Mesh  Mesh
	Shape graph.Shape // of the value
	From  graph.Distribution
	// Need is what each rank gets. It may run over the ends of periodic axes.
	Need []Box
	// Room is what each rank has room for, its Need in it and zeros around; nil for
	// the Needs themselves.
	Room []Box
}

// room is what a rank has room for.
func (p Redistribution) room(rank int) Box {
	if p.Room == nil {
		return p.Need[rank]
	}
	return p.Room[rank]
}

// Moves lists what ranks give each other, by receiver and then along the axes of the
// value. What several ranks hold comes from the receiver itself, or from the rank that
// stands as it does on the axes of the mesh along which the value is not cut.
//
// Errors: a distribution that the mesh does not have.
func (p Redistribution) Moves() ([]Move, error) {
	if err := p.Mesh.check(p.From); err != nil {
		return nil, err
	}
	var moves []Move
	for r := range p.Mesh.Size() {
		moves = append(moves, p.movesInto(r)...)
	}
	return moves, nil
}

// movesInto lists what one rank gets.
func (p Redistribution) movesInto(r int) []Move {
	cut := func(axis int) graph.AxisPartition {
		if len(p.From.Axes) == 0 {
			return graph.AxisPartition{}
		}
		return p.From.Axes[axis]
	}
	pieces := make([][]Piece, len(p.Shape))
	for i, n := range p.Shape {
		pieces[i] = Sources(cut(i), p.Need[r][i], n)
	}
	var moves []Move
	eachCombination(pieces, func(chosen []Piece) {
		v := Move{To: r, At: make(Box, len(p.Shape)), Into: make(Box, len(p.Shape))}
		along := map[string]int{}
		for i, c := range chosen {
			v.At[i], v.Into[i] = c.At, c.To
			along[cut(i).MeshAxis] = c.Rank
		}
		for _, a := range p.Mesh {
			at, ok := along[a.Name]
			if !ok {
				at = p.Mesh.Coordinate(r, a.Name)
			}
			v.From = v.From*a.Size + at
		}
		moves = append(moves, v)
	})
	return moves
}

// eachCombination calls f with every choice of one piece of each list, the last list fastest.
func eachCombination(lists [][]Piece, f func([]Piece)) {
	chosen := make([]Piece, len(lists))
	var choose func(i int)
	choose = func(i int) {
		if i == len(lists) {
			f(chosen)
			return
		}
		for _, p := range lists[i] {
			chosen[i] = p
			choose(i + 1)
		}
	}
	choose(0)
}
