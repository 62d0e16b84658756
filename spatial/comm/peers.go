package comm

// Dissemination returns the ranks 2ᵏ after and 2ᵏ before this one for k = 0 to
// ⌈log₂P⌉−1, modulo P. If every rank that first receives a message, or has one of its own,
// sends one to all ranks after it, all ranks receive it within ⌈log₂P⌉ messages, and each
// one from each rank before it.
//
// Source: Hensgen, Finkel and Manber 1988, doi:10.1007/BF01379320.
func (c *Comm) Dissemination() (after, before []int) {
	for d := 1; d < c.size; d *= 2 {
		after, before = append(after, (c.rank+d)%c.size), append(before, (c.rank-d+c.size)%c.size)
	}
	return after, before
}

// BinomialTree returns the rank from which this one receives in a broadcast, −1 for the
// root, and those to which it then sends. Numbered relative to root, rank r receives from r
// without its lowest set bit, and then sends to r + d for each power of two d below that
// bit.
//
// Source: Thakur, Rabenseifner and Gropp 2005, doi:10.1177/1094342005051521, section 3.
func (c *Comm) BinomialTree(root int) (parent int, children []int) {
	p := c.size
	r := (c.rank - root + p) % p // rank relative to root
	low := 1                     // lowest set bit of r, the step at which it receives; ≥ P for root
	for low < p && r&low == 0 {
		low *= 2
	}
	parent = noRank
	if r != 0 {
		parent = (r - low + root) % p
	}
	for d := low / 2; d > 0; d /= 2 {
		if r+d < p {
			children = append(children, (r+d+root)%p)
		}
	}
	return parent, children
}
