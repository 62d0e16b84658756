package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// ErrLimit is wrapped by errors about a limit below the smallest workspace.
var ErrLimit = errors.New("workspace limit too small")

// Config is a configuration of a kernel: its division into pieces.
type Config struct {
	Time   time.Duration // sum over the pieces
	Bytes  int64         // largest workspace of a piece
	Pieces []Piece       // largest size first; one entry per size
}

// Piece is a micro-configuration that runs Count times.
type Piece struct {
	Micro
	Count int
}

// Count is the number of pieces.
func (c Config) Count() int {
	n := 0
	for _, p := range c.Pieces {
		n += p.Count
	}
	return n
}

// String lists the pieces: "2x 4 fft + 1 gemm".
func (c Config) String() string {
	var s []string
	for _, p := range c.Pieces {
		text := fmt.Sprintf("%d %s", p.Size, p.Algorithm)
		if p.Count > 1 {
			text = fmt.Sprintf("%dx %s", p.Count, text)
		}
		s = append(s, text)
	}
	return strings.Join(s, " + ")
}

// Front is the desirable set: the configurations for which no other takes at
// most the same time and at most the same workspace. Workspace ascends, time
// descends. The package comment defines how ties are resolved.
//
// For each workspace w that occurs it solves
//
//	T(0) = 0;  T(n) = min over pieces b ≤ n that fit into w of t(b) + T(n−b)
//
// and keeps the result if it is faster than with less workspace. This is the
// pruned set of the paper's recursion over sets, with exact ties: a prefix that
// is better by a smaller workspace there may complete to an equal configuration
// with more pieces.
//
// Errors: *exit.Error (exit.BadData) if measurements are negative or too large
// to sum, or if no sizes sum to that of the kernel.
// Cost: O(size · sizes · micros).
func (k Kernel) Front() ([]Config, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	pieces, bytes := k.nonDominated()
	var front []Config
	fits := make([]Micro, 0, len(pieces))
	table := make([]fastest, k.Size+1)
	for _, limit := range bytes {
		fits = fits[:0]
		for _, s := range pieces {
			i, found := slices.BinarySearchFunc(s, limit, func(m Micro, w int64) int { return cmp.Compare(m.Bytes, w) })
			if found {
				i++
			}
			if i > 0 {
				fits = append(fits, s[i-1])
			}
		}
		solve(table, fits)
		if b := table[k.Size]; b.pieces > 0 && (len(front) == 0 || b.time < front[len(front)-1].Time) {
			front = append(front, trace(table, fits))
		}
	}
	if len(front) == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "a kernel cannot be divided into the measured pieces", At: k.Name,
			Why: fmt.Sprintf("no measured sizes sum to %d", k.Size), Fix: "also measure the undivided kernel"}
	}
	return front, nil
}

// nonDominated drops dominated micro-configurations and groups the others by
// size, largest first; within a size bytes ascend and times descend. bytes are
// all workspaces that occur, ascending.
func (k Kernel) nonDominated() (pieces [][]Micro, bytes []int64) {
	all := slices.DeleteFunc(slices.Clone(k.Micros), func(m Micro) bool { return m.Size > k.Size })
	slices.SortStableFunc(all, func(a, b Micro) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Time, b.Time))
	})
	for _, m := range all {
		last := len(pieces) - 1
		switch {
		case last < 0 || pieces[last][0].Size != m.Size:
			pieces = append(pieces, []Micro{m})
		case m.Time < pieces[last][len(pieces[last])-1].Time:
			pieces[last] = append(pieces[last], m)
		default:
			continue
		}
		bytes = append(bytes, m.Bytes)
	}
	slices.Sort(bytes)
	return pieces, slices.Compact(bytes)
}

// fastest is the fastest division of some size.
type fastest struct {
	time   time.Duration
	pieces int // 0: there is none
	first  int // index of its first piece
}

// solve computes table[n] for every size n from pieces with one algorithm per
// size, largest first. The first of equal divisions is kept. So the piece sizes
// are lexicographically largest among equal divisions with the same number of
// pieces.
func solve(table []fastest, pieces []Micro) {
	table[0] = fastest{}
	for n := 1; n < len(table); n++ {
		table[n] = fastest{}
		for i, m := range pieces {
			rest := n - m.Size
			if rest < 0 || rest > 0 && table[rest].pieces == 0 {
				continue
			}
			b := fastest{table[rest].time + m.Time, table[rest].pieces + 1, i}
			if now := table[n]; now.pieces == 0 || b.time < now.time || b.time == now.time && b.pieces < now.pieces {
				table[n] = b
			}
		}
	}
}

// trace reconstructs the division of the whole size from table.
func trace(table []fastest, pieces []Micro) Config {
	n := len(table) - 1
	c := Config{Time: table[n].time}
	for n > 0 {
		m := pieces[table[n].first]
		c.Bytes = max(c.Bytes, m.Bytes)
		if last := len(c.Pieces) - 1; last >= 0 && c.Pieces[last].Size == m.Size {
			c.Pieces[last].Count++
		} else {
			c.Pieces = append(c.Pieces, Piece{m, 1})
		}
		n -= m.Size
	}
	return c
}

// Reuse is the best configuration whose workspace is at most limit bytes, for
// kernels that run one after the other and share one workspace (WR).
//
// Errors: *exit.Error (exit.Usage) around ErrLimit if nothing fits, with the
// smallest sufficient limit; those of Front.
func (k Kernel) Reuse(limit int64) (Config, error) {
	front, err := k.Front()
	if err != nil {
		return Config{}, err
	}
	fits := fitting(front, limit)
	if len(fits) == 0 {
		return Config{}, limitError(k.Name, limit, front[0].Bytes)
	}
	return fits[len(fits)-1], nil
}

// fitting is the part of a front that fits into limit.
func fitting(front []Config, limit int64) []Config {
	i := slices.IndexFunc(front, func(c Config) bool { return c.Bytes > limit })
	if i < 0 {
		return front
	}
	return front[:i]
}

// limitError is the error for a limit below need bytes.
func limitError(at string, limit, need int64) error {
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("workspace limit of %d bytes is too small", limit), At: at,
		Why: fmt.Sprintf("every configuration needs at least %d bytes", need),
		Fix: fmt.Sprintf("set the limit to %d bytes or more", need), Err: ErrLimit}
}
