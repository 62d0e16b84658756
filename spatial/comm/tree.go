package comm

import (
	"fmt"
	"math/bits"
)

// Tree adds up vectors, the leaves, that ranks hold in consecutive ranges, along the
// canonical binary tree over the numbers of the leaves: node (l, i) is the sum of the
// nodes (l−1, 2i) and (l−1, 2i+1), a missing right one is left out. Neither the number
// of ranks nor where their ranges end changes a bit.
//
// Source: De Sensi et al. 2021, arXiv:2106.15565, section 4 (reproducible
// aggregation).
type Tree[T Number] struct {
	c     *Comm
	cuts  []int // rank r holds the leaves from cuts[r] to before cuts[r+1]
	n     int   // values of a leaf
	next  int   // leaf
	nodes []node[T]
	free  [][]T
}

// node is the sum of a whole subtree.
type node[T Number] struct {
	level, index int
	sum          []T
}

// NewTree starts a sum of vectors of n values. Rank r gives the leaves from cuts[r] to
// before cuts[r+1]; the ranges lie in the order of ranks, and may be empty.
//
// Errors: cuts that are none.
func NewTree[T Number](c *Comm, cuts []int, n int) (*Tree[T], error) {
	if len(cuts) != c.Size()+1 || cuts[0] != 0 || cuts[c.Size()] < 1 {
		return nil, fmt.Errorf("tree sum: cuts %v of %d ranks", cuts, c.Size())
	}
	for r := range c.Size() {
		if cuts[r] > cuts[r+1] {
			return nil, fmt.Errorf("tree sum: cuts %v do not ascend", cuts)
		}
	}
	return &Tree[T]{c: c, cuts: cuts, n: n, next: cuts[c.Rank()]}, nil
}

// Add takes the next leaf of this rank. It keeps no more vectors than twice the
// number of levels.
//
// Negative zeros count as zeros, so that a leaf of zeros changes nothing.
func (t *Tree[T]) Add(leaf []T) {
	if len(leaf) != t.n || t.next >= t.cuts[t.c.Rank()+1] {
		panic(fmt.Sprintf("comm: leaf %d of %d values in a tree of %d to a leaf, cuts %v", t.next, len(leaf), t.n, t.cuts))
	}
	var sum []T
	if k := len(t.free); k > 0 {
		sum, t.free = t.free[k-1], t.free[:k-1]
	} else {
		sum = make([]T, t.n)
	}
	for i, v := range leaf {
		sum[i] = v + 0
	}
	t.push(node[T]{0, t.next, sum})
	t.next++
}

// push adds a node behind the others, and joins siblings.
func (t *Tree[T]) push(v node[T]) {
	for k := len(t.nodes); k > 0; k-- {
		left := t.nodes[k-1]
		if left.level != v.level || left.index/2 != v.index/2 {
			break
		}
		add(left.sum, left.sum, v.sum)
		t.free = append(t.free, v.sum)
		v = node[T]{v.level + 1, v.index / 2, left.sum}
		t.nodes = t.nodes[:k-1]
	}
	t.nodes = append(t.nodes, v)
}

// Sum gives all ranks the sum of all leaves, in y. Partial sums travel to the rank
// of their first leaf, the result from there.
//
// Errors: leaves that were not given; other ranks that fail.
func (t *Tree[T]) Sum(y []T) error {
	if t.next != t.cuts[t.c.Rank()+1] || len(y) != t.n {
		return fmt.Errorf("tree sum: %d values, leaves up to %d of %d", len(y), t.next, t.cuts[t.c.Rank()+1])
	}
	leaves := t.cuts[t.c.Size()]
	root := node[T]{level: bits.Len(uint(leaves - 1))}
	sum, err := t.gather(root.level, root.index, leaves)
	if err != nil {
		return fmt.Errorf("tree sum: %w", err)
	}
	owner := t.owner(0)
	if t.c.Rank() == owner {
		copy(y, sum)
	}
	return Broadcast(t.c, owner, y)
}

// owner is the rank that holds a leaf.
func (t *Tree[T]) owner(leaf int) int {
	for r := range t.c.Size() {
		if leaf < t.cuts[r+1] {
			return r
		}
	}
	return -1
}

// gather makes node (level, index) on the rank of its first leaf; other ranks send
// what they have of it, and get nil.
func (t *Tree[T]) gather(level, index, leaves int) ([]T, error) {
	first, end := index<<level, min((index+1)<<level, leaves)
	lo, hi := t.cuts[t.c.Rank()], t.cuts[t.c.Rank()+1]
	if end <= lo || first >= hi {
		return nil, nil
	}
	if first >= lo && end <= hi && t.has(level, index) {
		return t.take(), nil
	}
	left, err := t.gather(level-1, 2*index, leaves)
	if err != nil {
		return nil, err
	}
	middle := (2*index + 1) << (level - 1)
	if middle >= leaves {
		return left, nil
	}
	right, err := t.gather(level-1, 2*index+1, leaves)
	if err != nil {
		return nil, err
	}
	to, from := t.owner(first), t.owner(middle)
	switch me := t.c.Rank(); {
	case to == from && me == to:
		add(left, left, right)
		return left, nil
	case me == from:
		return nil, t.c.send(to, tagTree+level, right).Wait()
	case me == to:
		in := make([]T, t.n)
		if err := t.c.recv(from, tagTree+level, in).Wait(); err != nil {
			return nil, err
		}
		add(left, left, in)
		return left, nil
	}
	return nil, nil
}

// has tells whether the first of this rank's nodes is (level, index).
func (t *Tree[T]) has(level, index int) bool {
	return len(t.nodes) > 0 && t.nodes[0].level == level && t.nodes[0].index == index
}

func (t *Tree[T]) take() []T {
	sum := t.nodes[0].sum
	t.nodes = t.nodes[1:]
	return sum
}
