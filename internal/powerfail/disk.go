package powerfail

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// rootNode is the number of the recorded folder; 0 is no file.
const rootNode = 1

// entry is a name in a folder.
type entry struct {
	dir  int
	name string
}

// change is a change of one name or two in one step.
type change struct {
	op    Op
	edits []edit
	// syncedBy has the folders whose sync makes it durable.
	syncedBy []int
}

// edit gives a name to a file or folder; to none (0) if it is removed.
type edit struct {
	entry
	node int
}

// node is a file or folder.
type node struct {
	dir     bool
	path    string // first name, for descriptions
	durable []byte // data on the disk
	pending []Op   // writes and truncations since the last sync
}

// disk is the content of the recorded folder at a moment, with what is on the disk and what is not yet.
type disk struct {
	nodes   []node
	names   map[entry]int // all changes done
	durable map[entry]int // on the disk
	pending []change      // not on the disk, in order
}

// newDisk returns a disk with a content that is durable.
func newDisk(before Tree) *disk {
	d := &disk{nodes: make([]node, rootNode+1), names: map[entry]int{}}
	d.nodes[rootNode].dir = true
	for _, name := range before.names() {
		at := d.entryOf(strings.TrimSuffix(name, "/"))
		d.names[at] = d.add(name, strings.HasSuffix(name, "/"), before[name])
	}
	d.durable = maps.Clone(d.names)
	return d
}

// add returns the number of a new file or folder.
func (d *disk) add(name string, dir bool, data []byte) int {
	d.nodes = append(d.nodes, node{dir: dir, path: name, durable: data})
	return len(d.nodes) - 1
}

// find returns the file or folder of a path, 0 if there is none.
func (d *disk) find(name string) int {
	at := rootNode
	if name == "." {
		return at
	}
	for part := range strings.SplitSeq(name, "/") {
		if at = d.names[entry{at, part}]; at == 0 {
			return 0
		}
	}
	return at
}

// entryOf returns the name of a path in its folder.
func (d *disk) entryOf(name string) entry { return entry{d.find(path.Dir(name)), path.Base(name)} }

// do carries out an operation. A log is made by a Recorder or by a test, so that all its paths exist.
func (d *disk) do(o Op) {
	at := d.entryOf(o.Path)
	switch o.Kind {
	case Create, Mkdir:
		d.change(o, []int{at.dir}, edit{at, d.add(o.Path, o.Kind == Mkdir, nil)})
	case Remove:
		d.change(o, []int{at.dir}, edit{at, 0})
	case Rename:
		to := d.entryOf(o.To)
		d.change(o, []int{to.dir}, edit{at, 0}, edit{to, d.names[at]})
	case Exchange:
		to := d.entryOf(o.To)
		d.change(o, []int{at.dir, to.dir}, edit{at, d.names[to]}, edit{to, d.names[at]})
	case Write, Truncate:
		d.nodes[o.File].pending = append(d.nodes[o.File].pending, o)
	case Sync:
		n := &d.nodes[o.File]
		n.durable, n.pending = n.content(len(n.pending)), nil
	case SyncDir:
		d.syncDir(d.find(o.Path))
	}
}

func (d *disk) change(o Op, syncedBy []int, edits ...edit) {
	d.pending = append(d.pending, change{o, edits, syncedBy})
	for _, e := range edits {
		d.names[e.entry] = e.node
	}
}

// syncDir makes the changes of a folder durable, and those before them that they depend on.
func (d *disk) syncDir(dir int) {
	keep := make([]bool, len(d.pending))
	for i, c := range d.pending {
		keep[i] = slices.Contains(c.syncedBy, dir)
	}
	d.addRequired(keep)
	var rest []change
	for i, c := range d.pending {
		if !keep[i] {
			rest = append(rest, c)
			continue
		}
		for _, e := range c.edits {
			d.durable[e.entry] = e.node
		}
	}
	d.pending = rest
}

// addRequired extends a choice of pending changes by earlier changes of the same names.
func (d *disk) addRequired(keep []bool) {
	for i := len(keep) - 1; i >= 0; i-- {
		if !keep[i] {
			continue
		}
		for j := range i {
			keep[j] = keep[j] || sameName(d.pending[i], d.pending[j])
		}
	}
}

// dropDependent removes from a choice of pending changes those that need one that is not in it.
func (d *disk) dropDependent(keep []bool) {
	for i := range keep {
		if keep[i] {
			continue
		}
		for j := i + 1; j < len(keep); j++ {
			keep[j] = keep[j] && !sameName(d.pending[i], d.pending[j])
		}
	}
}

func sameName(a, b change) bool {
	return slices.ContainsFunc(a.edits, func(x edit) bool {
		return slices.ContainsFunc(b.edits, func(y edit) bool { return x.entry == y.entry })
	})
}

// content returns the data of a file with the first n of its pending operations.
func (f *node) content(n int) []byte { return apply(f.durable, f.pending[:n]) }

// apply returns data after writes and truncations.
func apply(data []byte, ops []Op) []byte {
	if len(ops) == 0 {
		return data
	}
	out := slices.Clone(data)
	for _, o := range ops {
		end := int(o.Offset) + len(o.Data)
		if o.Kind == Truncate {
			out = out[:min(len(out), end)]
		}
		if end > len(out) {
			out = append(out, make([]byte, end-len(out))...)
		}
		copy(out[o.Offset:], o.Data)
	}
	return out
}

// tree returns the content of the folder if the chosen pending changes are on the disk, with the data of each file from
// content.
func (d *disk) tree(keep []bool, content func(node int) []byte) Tree {
	names := maps.Clone(d.durable)
	for i, c := range d.pending {
		if !keep[i] {
			continue
		}
		for _, e := range c.edits {
			names[e.entry] = e.node
		}
	}
	inside := map[int][]edit{}
	for at, n := range names {
		if n != 0 {
			inside[at.dir] = append(inside[at.dir], edit{at, n})
		}
	}
	t := Tree{}
	var walk func(dir int, prefix string)
	walk = func(dir int, prefix string) {
		for _, e := range inside[dir] {
			if d.nodes[e.node].dir {
				t[prefix+e.name+"/"] = nil
				walk(e.node, prefix+e.name+"/")
			} else {
				t[prefix+e.name] = content(e.node)
			}
		}
	}
	walk(rootNode, "")
	return t
}
