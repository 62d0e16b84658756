package spatial

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Mesh arranges ranks in a grid. Ranks are numbered in row-major order: the last
// axis varies fastest. In the mesh "data:2 lon:4" rank r has data coordinate ⌊r/4⌋
// and lon coordinate r mod 4. Axes that exchange the most data should come last,
// because launchers place consecutive ranks on one node.
type Mesh []MeshAxis

// DataAxis is the mesh axis along which ranks have different samples of a batch.
const DataAxis = "data"

// MeshAxis is one axis of a mesh. Its name is "data", "channel", "level", "lat" or
// "lon", the axis of fields [N C D H W] that it splits. MeshAxis.Overrides lists
// field sizes for which it splits another axis.
type MeshAxis struct {
	Name      string
	Size      int // number of ranks
	Overrides []Override
}

// Override makes a mesh axis split another axis than its name in fields of the
// given size: the axis To, or no axis if To is "none". The split is as even as
// possible, also if To is the axis of the same name, whose default split must suit
// all field sizes.
//
// Deep stages of a U-Net have few points and many channels. Splitting their
// channels, or leaving them whole, may cost less than halos of shards that consist
// mostly of halo.
type Override struct {
	Level, Lat, Lon int
	To              string
}

// String formats the value as ParseMesh reads it: "2x11x22=channel".
func (c Override) String() string { return fmt.Sprintf("%dx%dx%d=%s", c.Level, c.Lat, c.Lon, c.To) }

// fieldAxes maps the names of mesh axes to axes of fields [N C D H W].
var fieldAxes = map[string]int{DataAxis: 0, "channel": 1, "level": 2, "lat": 3, "lon": 4}

// noAxis is the value of Override.To for fields that stay whole.
const noAxis = "none"

// FieldAxis returns the axis of fields [N C D H W] of that name; −1 for an unknown
// name.
func (a MeshAxis) FieldAxis() int { return fieldAxis(a.Name) }

// fieldAxis returns the axis of fields of a name; −1 for an unknown one.
func fieldAxis(name string) int {
	if axis, ok := fieldAxes[name]; ok {
		return axis
	}
	return -1
}

// SplitAxis returns the axis that a mesh axis splits in fields of shape s [N C D H
// W], −1 for none. changed reports whether an entry of MeshAxis.Overrides applies.
func (a MeshAxis) SplitAxis(s graph.Shape) (axis int, changed bool) {
	for _, c := range a.Overrides {
		if len(s) == 5 && s[2] == c.Level && s[3] == c.Lat && s[4] == c.Lon {
			return fieldAxis(c.To), true
		}
	}
	return a.FieldAxis(), false
}

// String formats the value as ParseMesh reads it: "lon:4@2x11x22=channel".
func (a MeshAxis) String() string {
	text, mark := fmt.Sprintf("%s:%d", a.Name, a.Size), "@"
	for _, c := range a.Overrides {
		text += mark + c.String()
		mark = ","
	}
	return text
}

// String formats the value as ParseMesh reads it: "data:2 lon:4".
func (m Mesh) String() string {
	var parts []string
	for _, a := range m {
		parts = append(parts, a.String())
	}
	return strings.Join(parts, " ")
}

// maxMeshSize is the largest number of ranks of a mesh.
const maxMeshSize = 1 << 20

// ParseMesh parses a mesh: names of axes with their numbers of ranks, separated by
// spaces, such as "data:2 lon:4". After @ an axis may list field sizes, levels ×
// latitudes × longitudes, in which it splits another axis or none: "lat:2
// lon:4@2x22x44=channel,2x11x22=none".
//
// Errors: exit 64.
func ParseMesh(text string) (Mesh, error) {
	var m Mesh
	for _, word := range strings.Fields(text) {
		wrong := func(why string) error {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid mesh axis %q", word), At: text, Why: why,
				Fix: "write \"data:2 lon:4\", or \"lon:4@2x11x22=channel\" to split the channels of fields of that size"}
		}
		whole, changes, more := strings.Cut(word, "@")
		name, count, _ := strings.Cut(whole, ":")
		n, err := strconv.Atoi(count)
		double := slices.ContainsFunc(m, func(a MeshAxis) bool { return a.Name == name })
		if err != nil || n < 1 || fieldAxis(name) < 0 || double {
			return nil, wrong("valid axes are data, channel, level, lat and lon, each at most once, with a number of ranks")
		}
		if n > maxMeshSize/m.Size() {
			return nil, wrong(fmt.Sprintf("a mesh has %d ranks at most", maxMeshSize))
		}
		a := MeshAxis{Name: name, Size: n}
		if more {
			for _, text := range strings.Split(changes, ",") {
				c, ok := parseOverride(text)
				if !ok || slices.ContainsFunc(a.Overrides, func(d Override) bool { return c.sameSize(d) }) {
					return nil, wrong("after @ list field sizes, each once, as LEVELxLATxLON=AXIS or =none")
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
					return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s and %s split the same axis of fields of %dx%dx%d", a.Name, b.Name, c.Level, c.Lat, c.Lon),
						At: text, Why: "only one mesh axis can split an axis of a field", Fix: "set another axis or none for one of them at this size"}
				}
			}
		}
	}
	return m, nil
}

// sameSize reports whether two entries have the same field size.
func (c Override) sameSize(d Override) bool {
	return c.Level == d.Level && c.Lat == d.Lat && c.Lon == d.Lon
}

// parseOverride parses "2x11x22=channel".
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

// Meshes returns all meshes of n ranks whose axes are those of most, in that order,
// with at most as many ranks each. Axes of one rank are omitted.
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

// Size returns the number of ranks.
func (m Mesh) Size() int {
	n := 1
	for _, a := range m {
		n *= a.Size
	}
	return n
}

// sizeOver returns the number of ranks along the named axes.
func (m Mesh) sizeOver(names []string) int {
	n := 1
	for _, a := range m {
		if slices.Contains(names, a.Name) {
			n *= a.Size
		}
	}
	return n
}

// Coordinate returns the coordinate of a rank on the axis of that name; 0 if the
// mesh has no such axis.
func (m Mesh) Coordinate(rank int, name string) int {
	for i := len(m) - 1; i >= 0; i-- {
		if m[i].Name == name {
			return rank % m[i].Size
		}
		rank /= m[i].Size
	}
	return 0
}

// coordinates returns the coordinates of a rank, by mesh axis.
func (m Mesh) coordinates(rank int) []int {
	at := make([]int, len(m))
	for k := len(m) - 1; k >= 0; k-- {
		at[k], rank = rank%m[k].Size, rank/m[k].Size
	}
	return at
}

// sorted returns names of axes in mesh order without duplicates.
func (m Mesh) sorted(names []string) []string {
	var out []string
	for _, a := range m {
		if slices.Contains(names, a.Name) {
			out = append(out, a.Name)
		}
	}
	return out
}

// Group returns, in ascending order, the ranks that have the coordinates of the
// given rank on all axes except the named ones.
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

// check returns an error for a distribution over axes that the mesh does not have,
// and for one that splits two axes of a value along the same mesh axis.
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
			return fmt.Errorf("axis %d is split into %d parts along %q of the mesh %v", i, len(c.Starts), c.MeshAxis, m)
		}
		used[c.MeshAxis] = true
	}
	return nil
}

// Owned returns the box of a value of shape s that a rank owns in the distribution
// d. A replicated value is owned by every rank.
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

// Move is a box that one rank sends to another, or copies within itself.
type Move struct {
	From, To int
	// At is the box in the coordinates of the value. Into is the box in the
	// coordinates of the receiver: At, shifted by the size of the axis where a
	// periodic axis wraps.
	At, Into Box
	// Repeats are further boxes of the receiver with the same elements, where its
	// box is longer than a periodic axis.
	Repeats []Box
}

// places returns all boxes of the receiver with the elements of the move.
func (v Move) places() []Box { return append([]Box{v.Into}, v.Repeats...) }

// Redistribution describes a redistribution: the box that every rank requires of a
// value distributed over a mesh.
type Redistribution struct {
	Mesh  Mesh
	Shape graph.Shape        // of the value
	From  graph.Distribution // current distribution
	// Need is the box that each rank requires, without its holes. It may extend
	// beyond the ends of periodic axes.
	Need Boxes
	// Room is the destination box of each rank, which contains Need and is zero
	// elsewhere and in the holes; zero means Need.
	Room Boxes
}

// rooms returns the destination boxes.
func (p Redistribution) rooms() Boxes {
	if p.Room.IsZero() {
		return p.Need
	}
	return p.Room
}

// room returns the destination box of a rank.
func (p Redistribution) room(rank int) Box { return p.rooms().Of(rank) }

// Moves returns all transfers, by receiver: first those within the rank, then those
// from others in row-major order. Elements
// with several owners come from the receiver itself, or else from the owner with
// the receiver's coordinates on all mesh axes that do not split the value. So each
// element travels at most once to each receiver, and the load is spread over the
// replicas.
//
// Errors: a distribution that the mesh does not have.
func (p Redistribution) Moves() ([]Move, error) {
	if err := p.Mesh.check(p.From); err != nil {
		return nil, err
	}
	var moves []Move
	for r := range p.Mesh.Size() {
		moves = append(moves, p.movesInto(r, nil)...)
	}
	return moves, nil
}

// MovesOf returns the transfers of Moves from and to one rank, in the same order.
//
// Errors: those of Moves.
// Cost: proportional to the sizes of the mesh axes and the number of transfers, not to the number of ranks.
func (p Redistribution) MovesOf(rank int) ([]Move, error) {
	if err := p.Mesh.check(p.From); err != nil {
		return nil, err
	}
	var moves []Move
	own := p.Mesh.coordinates(rank)
	for _, r := range p.receivers(rank) {
		if r == rank {
			moves = append(moves, p.movesInto(r, nil)...)
		} else {
			moves = append(moves, p.movesInto(r, own)...)
		}
	}
	return moves, nil
}

// receivers returns, in ascending order, the ranks that may require elements from a rank, and the rank itself.
func (p Redistribution) receivers(rank int) []int {
	own := p.Mesh.coordinates(rank)
	possible := make([][]bool, len(p.Mesh)) // [mesh axis][coordinate]: nothing excludes it
	for k, a := range p.Mesh {
		possible[k] = make([]bool, a.Size)
		for c := range possible[k] {
			possible[k][c] = c == own[k] || slices.ContainsFunc(p.From.Axes, func(s graph.AxisPartition) bool { return s.MeshAxis == a.Name })
		}
	}
	for i, n := range p.Shape {
		need, cut := p.Need.axes[i], p.cut(i)
		from := slices.IndexFunc(p.Mesh, func(a MeshAxis) bool { return a.Name == cut.MeshAxis })
		if need.along == everyRank || from < 0 {
			continue
		}
		for c, v := range need.at {
			if len(sourcesOf(own[from], OwnedInterval(cut, own[from], n), v, n)) == 0 {
				possible[need.along][c] = false
			}
		}
	}
	ranks, itself := []int{0}, false
	for k, a := range p.Mesh {
		var longer []int
		for _, r := range ranks {
			for c := range a.Size {
				if possible[k][c] {
					longer = append(longer, r*a.Size+c)
				}
			}
		}
		ranks = longer
	}
	if _, itself = slices.BinarySearch(ranks, rank); !itself {
		ranks = append(ranks, rank)
		slices.Sort(ranks)
	}
	return ranks
}

// cut returns how an axis of the value is split now.
func (p Redistribution) cut(axis int) graph.AxisPartition {
	if len(p.From.Axes) == 0 {
		return graph.AxisPartition{}
	}
	return p.From.Axes[axis]
}

// movesInto returns the transfers to one rank; if from is not nil, only those from the rank with these coordinates.
// Holes apply to what other ranks send; what the rank owns itself is copied as a whole.
func (p Redistribution) movesInto(r int, from []int) []Move {
	at := p.Mesh.coordinates(r)
	if from != nil {
		for k, a := range p.Mesh { // along axes that do not split the value, elements come from the receiver's coordinate
			if !slices.ContainsFunc(p.From.Axes, func(c graph.AxisPartition) bool { return c.MeshAxis == a.Name }) && from[k] != at[k] {
				return nil
			}
		}
	}
	need, holes := p.Need.Of(r), p.Need.holes(r)
	sources := func(owner []int, exact bool) [][]Piece { // by axis, of the rank with these coordinates; nil: of all ranks
		pieces := make([][]Piece, len(p.Shape))
		for i, n := range p.Shape {
			if k := slices.IndexFunc(p.Mesh, func(a MeshAxis) bool { return a.Name == p.cut(i).MeshAxis }); owner != nil && k >= 0 {
				pieces[i] = sourcesOf(owner[k], OwnedInterval(p.cut(i), owner[k], n), need[i], n)
			} else {
				pieces[i] = Sources(p.cut(i), need[i], n)
			}
			if exact {
				pieces[i] = without(pieces[i], holes[i])
			}
			if pieces[i] = joinRepeats(pieces[i], n); len(pieces[i]) == 0 {
				return make([][]Piece, len(p.Shape))
			}
		}
		return pieces
	}
	var moves []Move
	add := func(chosen []Piece, within bool) {
		v := Move{To: r, At: make(Box, len(p.Shape)), Into: make(Box, len(p.Shape))}
		for i, c := range chosen {
			v.At[i], v.Into[i] = c.At, c.To
		}
		for k, a := range p.Mesh {
			owner := at[k]
			for i, c := range chosen {
				if p.cut(i).MeshAxis == a.Name {
					owner = c.Rank
				}
			}
			v.From = v.From*a.Size + owner
		}
		if within == (v.From == r) {
			v.Repeats = repeats(chosen)
			moves = append(moves, v)
		}
	}
	if from == nil {
		eachCombination(sources(at, false), func(chosen []Piece) { add(chosen, true) })
	}
	eachCombination(sources(from, true), func(chosen []Piece) { add(chosen, false) })
	return moves
}

// repeats returns the boxes of the receiver with the elements of a combination of
// pieces, without the first one.
func repeats(chosen []Piece) (boxes []Box) {
	if !slices.ContainsFunc(chosen, func(c Piece) bool { return len(c.Repeats) > 0 }) {
		return nil
	}
	boxes = []Box{nil}
	for _, c := range chosen {
		var longer []Box
		for _, b := range boxes {
			for _, v := range append([]Interval{c.To}, c.Repeats...) {
				longer = append(longer, append(slices.Clone(b), v))
			}
		}
		boxes = longer
	}
	return boxes[1:]
}

// eachCombination calls f with every combination of one piece from each list; the
// last list varies fastest. f must not retain its argument.
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
