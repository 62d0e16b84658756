package store

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Alignments in bytes: of bands, so that they can be mapped and read past the page
// cache; of parts, a cache line.
const (
	bandAlign = 4096
	partAlign = 64
)

// Bounds of what a store may say of itself, far above real ones, so that products of
// counts stay within 64 bits.
const (
	maxCount     = 1 << 24 // of a count
	maxInitBytes = 1 << 50 // of a start
)

// part is a member's fields at a lead, or an analysis: [variable][level][row][column].
type part struct {
	lead   int // position
	member int // position; −1 for an analysis
	vars   int // number of variables
	first  int // position of its first field among those of a start
	fields int
}

// layout says where things lie. It follows from a Meta alone.
type layout struct {
	ny, nx    int
	bandRows  int
	bands     int
	elem      int64
	levels    int
	parts     []part
	fields    int   // of a start
	head      int64 // bytes of a band's head
	initBytes int64 // bytes of a start
	inits     int
	perShard  int
}

// layout computes the places of everything.
//
// Errors: counts that are not positive, or beyond what a store can have.
func (m *Meta) layout() (*layout, error) {
	l := &layout{ny: m.Grid.NY, nx: m.Grid.NX, bandRows: m.BandRows, elem: m.Storage.bytes(), levels: len(m.Levels), inits: len(m.InitTimes), perShard: m.ShardInits}
	for _, c := range []struct {
		what string
		n    int
	}{{"variables", len(m.Variables)}, {"levels", l.levels}, {"leads", len(m.Leads)}, {"members", len(m.Members)}, {"starts", l.inits},
		{"rows of a band", l.bandRows}, {"starts of a shard", l.perShard}} {
		if c.n < 1 || c.n > maxCount {
			return nil, fmt.Errorf("%d %s", c.n, c.what)
		}
	}
	if (len(m.Analyses.Variables) == 0) != (len(m.Analyses.Leads) == 0) {
		return nil, fmt.Errorf("analyses of %d variables at %d leads", len(m.Analyses.Variables), len(m.Analyses.Leads))
	}
	total := float64(len(m.Leads)) * float64(len(m.Members)) * float64(len(m.Variables)) * float64(l.levels)
	total += float64(len(m.Analyses.Leads)) * float64(len(m.Analyses.Variables)) * float64(l.levels)
	if total > maxCount || total*float64(l.ny)*float64(l.nx)*float64(l.elem) > maxInitBytes {
		return nil, fmt.Errorf("%g fields of %d×%d points in a start", total, l.ny, l.nx)
	}
	add := func(lead, member, vars int) {
		p := part{lead, member, vars, l.fields, vars * l.levels}
		l.parts = append(l.parts, p)
		l.fields += p.fields
	}
	for t := range m.Leads {
		for member := range m.Members {
			add(t, member, len(m.Variables))
		}
	}
	for t := range m.Analyses.Leads {
		add(t, analysis, len(m.Analyses.Variables))
	}
	l.bands = (l.ny + l.bandRows - 1) / l.bandRows
	l.head = align(headFixed+sumBytes*int64(len(l.parts))+recordBytes*int64(l.fields), partAlign)
	l.initBytes = l.bandOffset(l.bands-1) + l.bandBytes(l.bands-1)
	if l.initBytes > maxInitBytes || float64(l.initBytes)*float64(l.inits) > math.MaxInt64/2 {
		return nil, fmt.Errorf("%d starts of %d bytes", l.inits, l.initBytes)
	}
	return l, nil
}

// analysis is the member position of analyses.
const analysis = -1

func align(n, to int64) int64 { return (n + to - 1) / to * to }

// rows are the rows of a band, from the first to before the second.
func (l *layout) rows(band int) (lo, hi int) {
	return band * l.bandRows, min((band+1)*l.bandRows, l.ny)
}

// partBytes is the length of a part in a band with so many rows, without padding.
func (l *layout) partBytes(p, rows int) int64 {
	return int64(l.parts[p].fields) * int64(rows) * int64(l.nx) * l.elem
}

// fieldBytes is that of one field.
func (l *layout) fieldBytes(rows int) int64 { return int64(rows) * int64(l.nx) * l.elem }

// partOffset is where a part lies in a band.
func (l *layout) partOffset(p, rows int) int64 {
	// Parts are forecasts, all of one length, and then analyses, likewise.
	at := l.head
	if p == 0 {
		return at
	}
	forecasts := p
	if first := l.firstAnalysis(); p > first {
		forecasts = first
		at += int64(p-first) * align(l.partBytes(first, rows), partAlign)
	}
	return at + int64(forecasts)*align(l.partBytes(0, rows), partAlign)
}

// firstAnalysis is the first part that is one; the number of parts if none is.
func (l *layout) firstAnalysis() int {
	n := len(l.parts)
	for n > 0 && l.parts[n-1].member == analysis {
		n--
	}
	return n
}

func (l *layout) bandBytes(band int) int64 {
	lo, hi := l.rows(band)
	last := len(l.parts) - 1
	return align(l.partOffset(last, hi-lo)+l.partBytes(last, hi-lo), bandAlign)
}

// bandOffset is where a band lies in a start: all before it are whole.
func (l *layout) bandOffset(band int) int64 {
	if band == 0 {
		return 0
	}
	return int64(band) * l.bandBytes(0)
}

func (l *layout) shards() int { return (l.inits + l.perShard - 1) / l.perShard }

// shardInits are the starts of a shard, from the first to before the second.
func (l *layout) shardInits(k int) (lo, hi int) {
	return k * l.perShard, min((k+1)*l.perShard, l.inits)
}

func (l *layout) shardSize(k int) int64 {
	lo, hi := l.shardInits(k)
	return int64(hi-lo) * l.initBytes
}

// locate is the shard of a start, and where it lies in it.
func (l *layout) locate(start int) (shard int, at int64) {
	return start / l.perShard, int64(start%l.perShard) * l.initBytes
}

// bandRows chooses the rows of a band: bands of about so many bytes, which is what a
// disk reads at full speed, but no more than maxBands of them, which bounds the index.
func bandRows(g *ensemble.Grid, rowBytes, size int64) int {
	rows := (size + rowBytes - 1) / max(rowBytes, 1)
	rows = max(rows, int64(g.NY+maxBands-1)/maxBands, 1)
	return int(min(rows, int64(g.NY)))
}

// maxBands is the most bands of a start.
const maxBands = 64
