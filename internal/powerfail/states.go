package powerfail

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
)

// State is what a disk may hold after a power failure.
type State struct {
	Point int    // operations that were completed before the failure
	Name  string // what was lost, for messages
	Tree  Tree
}

// String describes the state.
func (s State) String() string {
	return fmt.Sprintf("power failure after %d operations: %s", s.Point, s.Name)
}

// Sizes of the sectors that a disk writes as a whole.
var sectors = []int{512, 4096}

// States yields the states after a failure at any moment of the run: for every prefix of the operations all that was done,
// only what was synced, names without data, data without names, each change of names alone and each one missing, each file
// torn, and random ones chosen by seed. Those of one moment are different.
func (l *Log) States(seed uint64, random int) iter.Seq[State] { return l.statesFrom(0, seed, random) }

// Final yields the different states after a failure at the end of the run. What the run promised to keep must be in all of
// them.
func (l *Log) Final(seed uint64, random int) iter.Seq[State] {
	return l.statesFrom(len(l.Ops), seed, random)
}

// statesFrom yields the states of the moments from first on.
func (l *Log) statesFrom(first int, seed uint64, random int) iter.Seq[State] {
	return func(yield func(State) bool) {
		d, r := newDisk(l.Before), rand.New(rand.NewPCG(seed, 24))
		for point := range len(l.Ops) + 1 {
			if point > 0 {
				d.do(l.Ops[point-1])
			}
			if point < first {
				continue
			}
			seen := map[[sha256.Size]byte]bool{}
			for c := range d.choices(r, random) {
				s := State{point, c.name, d.tree(c.keep, c.content)}
				if key := s.Tree.digest(); !seen[key] {
					seen[key] = true
					if !yield(s) {
						return
					}
				}
			}
		}
	}
}

// Sample returns up to n different states of moments and losses chosen by seed. It is made for logs
// with more states than can be tried.
func (l *Log) Sample(seed uint64, n int) []State {
	r := rand.New(rand.NewPCG(seed, 40))
	seen := map[[sha256.Size]byte]bool{}
	var out []State
	for try := 0; len(out) < n && try < 20*n; try++ {
		point := r.IntN(len(l.Ops) + 1)
		d := newDisk(l.Before)
		for _, o := range l.Ops[:point] {
			d.do(o)
		}
		choices := slices.Collect(d.choices(r, 4))
		c := choices[r.IntN(len(choices))]
		s := State{point, c.name, d.tree(c.keep, c.content)}
		if key := s.Tree.digest(); !seen[key] {
			seen[key] = true
			out = append(out, s)
		}
	}
	return out
}

// Some yields a sample of n states, then those of the end of the run.
func (l *Log) Some(seed uint64, n int) iter.Seq[State] {
	return func(yield func(State) bool) {
		for _, s := range l.Sample(seed, n) {
			if !yield(s) {
				return
			}
		}
		for s := range l.Final(seed, 2) {
			if !yield(s) {
				return
			}
		}
	}
}

// digest identifies a tree by its content.
func (t Tree) digest() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range t.names() {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(t[name])))
		h.Write(append([]byte(name), 0))
		h.Write(size[:])
		h.Write(t[name])
	}
	h.Sum(sum[:0])
	return sum
}

// choice is what is on the disk of what was not synced: the changes of names, and the data of each file.
type choice struct {
	name    string
	keep    []bool
	content func(node int) []byte
}

// choices yields the systematic choices of this moment, then random ones.
func (d *disk) choices(r *rand.Rand, random int) iter.Seq[choice] {
	return func(yield func(choice) bool) {
		for _, c := range d.general() {
			if !yield(c) {
				return
			}
		}
		for i, p := range d.pending {
			alone, without := make([]bool, len(d.pending)), all(len(d.pending))
			alone[i], without[i] = true, false
			d.addRequired(alone)
			d.dropDependent(without)
			if !yield(choice{"of the names only " + p.op.String(), alone, d.written}) || !yield(choice{"of names and data only " + p.op.String(), alone, d.synced}) ||
				!yield(choice{"all but " + p.op.String(), without, d.written}) {
				return
			}
		}
		for i := range d.nodes {
			for _, c := range d.torn(i) {
				if !yield(c) {
					return
				}
			}
		}
		for range random {
			if !yield(d.randomChoice(r)) {
				return
			}
		}
	}
}

func all(n int) []bool { return slices.Repeat([]bool{true}, n) }

// The data of a file: those that were synced, all that were written, or zeros in place of those that were not synced.
func (d *disk) synced(i int) []byte  { return d.nodes[i].durable }
func (d *disk) written(i int) []byte { return d.nodes[i].content(len(d.nodes[i].pending)) }
func (d *disk) zeroed(i int) []byte {
	ops := slices.Clone(d.nodes[i].pending)
	for k, o := range ops {
		ops[k].Data = make([]byte, len(o.Data))
	}
	return apply(d.nodes[i].durable, ops)
}

// general returns the choices that treat all names alike, and all files.
func (d *disk) general() []choice {
	none := make([]bool, len(d.pending))
	return []choice{
		{"nothing was lost", all(len(d.pending)), d.written},
		{"all that was not synced was lost", none, d.synced},
		{"data that were not synced were lost", all(len(d.pending)), d.synced},
		{"data that were not synced became zeros", all(len(d.pending)), d.zeroed},
		{"names that were not synced were lost", none, d.written},
	}
}

// torn returns choices in which only data of one file are incomplete: lost, zeros, or the first part of its last write.
func (d *disk) torn(i int) []choice {
	f := &d.nodes[i]
	if len(f.pending) == 0 {
		return nil
	}
	of := func(name string, data []byte) choice {
		return choice{name + " of " + f.path, all(len(d.pending)), func(j int) []byte {
			if j == i {
				return data
			}
			return d.written(j)
		}}
	}
	out := []choice{of("lost data", f.durable), of("zeros as data", d.zeroed(i))}
	last := f.pending[len(f.pending)-1]
	if last.Kind != Write {
		return out
	}
	before := f.content(len(f.pending) - 1)
	for _, size := range sectors {
		cut := last
		cut.Data = cut.Data[:len(cut.Data)/2/size*size]
		out = append(out, of(fmt.Sprintf("a torn write in sectors of %d bytes", size), apply(before, []Op{cut})))
	}
	return out
}

// dirty returns the files with data that are not synced.
func (d *disk) dirty() []int {
	var out []int
	for i := range d.nodes {
		if len(d.nodes[i].pending) > 0 {
			out = append(out, i)
		}
	}
	return out
}

// randomChoice chooses changes of names, and sectors of the data of each file.
func (d *disk) randomChoice(r *rand.Rand) choice {
	keep := make([]bool, len(d.pending))
	for i := range keep {
		keep[i] = r.IntN(2) == 0
	}
	if r.IntN(2) == 0 {
		d.addRequired(keep)
	} else {
		d.dropDependent(keep)
	}
	data := map[int][]byte{}
	for _, i := range d.dirty() {
		data[i] = d.randomSectors(r, &d.nodes[i])
	}
	return choice{"random parts were lost", keep, func(i int) []byte {
		if b, ok := data[i]; ok {
			return b
		}
		return d.synced(i)
	}}
}

// randomSectors returns the data of a file whose first pending writes reached the disk in part: each sector has the new
// or the old data, or zeros where there were none, and the size is the new one or ends after any sector.
func (d *disk) randomSectors(r *rand.Rand, f *node) []byte {
	out := slices.Clone(f.content(r.IntN(len(f.pending) + 1)))
	size := sectors[r.IntN(len(sectors))]
	for from := 0; from < len(out); from += size {
		part := out[from:min(from+size, len(out))]
		if r.IntN(2) == 0 {
			clear(part)
			if from < len(f.durable) {
				copy(part, f.durable[from:])
			}
		}
	}
	if r.IntN(2) == 0 && len(out) > len(f.durable) {
		out = out[:len(f.durable)+r.IntN(len(out)-len(f.durable)+1)/size*size]
	}
	return out
}
