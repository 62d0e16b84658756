package store

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Alignments in bytes. Bands are aligned to pages, so that they can be mapped and
// read with O_DIRECT. Parts are aligned to cache lines.
const (
	bandAlign = 4096
	partAlign = 64
)

// Bounds of the metadata, far above real ones, so that products of counts fit 64
// bits.
const (
	maxCount     = 1 << 24 // of any count
	maxInitBytes = 1 << 50 // bytes of an initialisation
)

// part is a range of a band: the fields of a member at a lead, or an analysis.
// docs/formats/store.md draws the layout.
//
// Shape: [variable][level][row][column].
type part struct {
	// lead is a position in Meta.Leads, or in Meta.Analyses.Leads.
	lead int
	// member is a position in Meta.Members; −1 for an analysis.
	member int
	// vars is the number of variables.
	vars int
	// first is the position of its first field among all fields of an
	// initialisation.
	first int
	// fields is vars times the number of levels.
	fields int
}

// layout computes the offsets in the files of a store. It follows from Meta alone.
type layout struct {
	// ny and nx are the numbers of grid rows and columns.
	ny, nx int
	// bandRows is the number of rows in a band; the last band may have fewer.
	bandRows int
	// bands is the number of bands.
	bands int
	// elem is the number of bytes per value.
	elem   int64
	levels int
	// parts lists the forecasts [lead][member], and then the analyses [lead].
	parts []part
	// fields is the number of fields of an initialisation.
	fields int
	// head is the number of bytes of a band header, padded to partAlign.
	head int64
	// initBytes is the number of bytes of an initialisation, a multiple of
	// bandAlign.
	initBytes int64
	// inits is the number of initialisations.
	inits int
	// perShard is the number of initialisations in a shard.
	perShard int
}

// layout computes all sizes and offsets.
//
// Errors: counts that are not positive or exceed the bounds.
func (m *Meta) layout() (*layout, error) {
	l := &layout{ny: m.Grid.NY, nx: m.Grid.NX, bandRows: m.BandRows, elem: m.Storage.bytes(), levels: len(m.Levels), inits: len(m.InitTimes), perShard: m.ShardInits}
	for _, c := range []struct {
		what string
		n    int
	}{{"variables", len(m.Variables)}, {"levels", l.levels}, {"leads", len(m.Leads)}, {"members", len(m.Members)}, {"initialisations", l.inits},
		{"rows of a band", l.bandRows}, {"initialisations of a shard", l.perShard}} {
		if c.n < 1 || c.n > maxCount {
			return nil, fmt.Errorf("%d %s is out of range", c.n, c.what)
		}
	}
	if (len(m.Analyses.Variables) == 0) != (len(m.Analyses.Leads) == 0) {
		return nil, fmt.Errorf("analyses of %d variables at %d leads", len(m.Analyses.Variables), len(m.Analyses.Leads))
	}
	// In float64 the products cannot overflow.
	total := float64(len(m.Leads)) * float64(len(m.Members)) * float64(len(m.Variables)) * float64(l.levels)
	total += float64(len(m.Analyses.Leads)) * float64(len(m.Analyses.Variables)) * float64(l.levels)
	if total > maxCount || total*float64(l.ny)*float64(l.nx)*float64(l.elem) > maxInitBytes {
		return nil, fmt.Errorf("%g fields of %d×%d points in an initialisation exceed the limits", total, l.ny, l.nx)
	}
	add := func(lead, member, vars int) {
		p := part{lead, member, vars, l.fields, vars * l.levels}
		l.parts = append(l.parts, p)
		l.fields += p.fields
	}
	// Parts are ordered by lead, then by member.
	for t := range m.Leads {
		for member := range m.Members {
			add(t, member, len(m.Variables))
		}
	}
	for t := range m.Analyses.Leads {
		add(t, analysis, len(m.Analyses.Variables))
	}
	// All bands but the last have bandRows rows.
	l.bands = (l.ny + l.bandRows - 1) / l.bandRows
	l.head = align(headFixed+sumBytes*int64(len(l.parts))+recordBytes*int64(l.fields), partAlign)
	l.initBytes = l.bandOffset(l.bands-1) + l.bandBytes(l.bands-1)
	if l.initBytes > maxInitBytes || float64(l.initBytes)*float64(l.inits) > math.MaxInt64/2 {
		return nil, fmt.Errorf("%d initialisations of %d bytes exceed the limits", l.inits, l.initBytes)
	}
	return l, nil
}

// analysis is the member position of analyses.
const analysis = -1

// align rounds n up to a multiple.
func align(n, to int64) int64 { return (n + to - 1) / to * to }

// rows returns the rows of a band, from lo to before hi.
func (l *layout) rows(band int) (lo, hi int) {
	return band * l.bandRows, min((band+1)*l.bandRows, l.ny)
}

// partBytes returns the length of part p in a band with a number of rows, without
// padding.
func (l *layout) partBytes(p, rows int) int64 {
	return int64(l.parts[p].fields) * int64(rows) * int64(l.nx) * l.elem
}

// fieldBytes returns the length of one field in a band with a number of rows.
func (l *layout) fieldBytes(rows int) int64 { return int64(rows) * int64(l.nx) * l.elem }

// partOffset returns the offset of part p in a band with a number of rows:
//
//	header │ part 0 │ part 1 │ …   each at a multiple of partAlign
func (l *layout) partOffset(p, rows int) int64 {
	// The parts of forecasts have one length; those of analyses follow and have one
	// length too.
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

// firstAnalysis returns the first part that is an analysis; the number of parts
// without analyses.
func (l *layout) firstAnalysis() int {
	n := len(l.parts)
	for n > 0 && l.parts[n-1].member == analysis {
		n--
	}
	return n
}

// bandBytes returns the length of a band.
func (l *layout) bandBytes(band int) int64 {
	lo, hi := l.rows(band)
	last := len(l.parts) - 1
	return align(l.partOffset(last, hi-lo)+l.partBytes(last, hi-lo), bandAlign)
}

// bandOffset returns the offset of a band in an initialisation:
//
//	offset(b) = b · length of a complete band
//
// All bands but the last have the same length.
func (l *layout) bandOffset(band int) int64 {
	if band == 0 {
		return 0
	}
	return int64(band) * l.bandBytes(0)
}

// shards returns the number of shards.
func (l *layout) shards() int { return (l.inits + l.perShard - 1) / l.perShard }

// shardInits returns the initialisations of a shard, from lo to before hi.
func (l *layout) shardInits(k int) (lo, hi int) {
	return k * l.perShard, min((k+1)*l.perShard, l.inits)
}

// shardSize returns the bytes of a shard.
func (l *layout) shardSize(k int) int64 {
	lo, hi := l.shardInits(k)
	return int64(hi-lo) * l.initBytes
}

// locate returns the shard of an initialisation and its offset in the shard.
func (l *layout) locate(start int) (shard int, at int64) {
	return start / l.perShard, int64(start%l.perShard) * l.initBytes
}

// bandRows returns the rows of a band: the least power of two for which the header is at
// most 1/headShare of the band, and which makes at most maxBands bands. So ranks that
// share the rows of a grid read little more than their own: networks are cut at
// multiples of a power of two. Reads do not become shorter, because one covers several bands.
func bandRows(g *ensemble.Grid, rowBytes, head int64) int {
	rows := int64(1)
	for rows < int64(g.NY) && (rows*rowBytes < headShare*head || rows*maxBands < int64(g.NY)) {
		rows *= 2
	}
	return int(min(rows, int64(g.NY)))
}

const (
	maxBands  = 128 // bands of an initialisation, which bounds the index
	headShare = 32
)
