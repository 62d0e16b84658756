package grib

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// ID is the digest of some octets: equal octets, equal ID.
type ID [16]byte

func digest(parts ...[]byte) ID {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte{byte(len(p) >> 16), byte(len(p) >> 8), byte(len(p))})
		h.Write(p)
	}
	return ID(h.Sum(nil)[:16])
}

// Field is what the octets say about one field.
type Field struct {
	Message, Sub   int   // 1-based
	Offset, Length int64 // of the message
	Edition        int
	Sections       Sections
	Partial        bool // the file ends inside the message, behind this field

	// Kind is the digest of all header octets but time, member and grid. Fields
	// of one Kind have one name, unit, level and type, so that the decoder is
	// asked about one of them only.
	Kind ID
	// Grid is the digest of the grid section.
	Grid ID

	Time   Time
	Member Member
	Centre int // code of the originating centre, common code table C-11
	// Process is the centre's number of the model that made the field; 255 says nothing.
	Process int
	// Level and Product count if LevelKnown and ProductKnown; else the decoder's
	// words do.
	Level        ensemble.Level
	LevelKnown   bool
	Product      ensemble.Product
	ProductKnown bool
	Below        float64        // of a quantile
	Event        ensemble.Event // of a probability, in the unit of the quantity
	// Parameter names the quantity by its codes, for quantities without a name.
	Parameter string

	// What Description needs; packing is empty where it is not known.
	codes             [3]int
	dataType, packing string
}

// Time is the time of a field. Where Known is false the template is not one
// whose octets are read here, and the decoder is asked about every such field.
type Time struct {
	Known    bool
	Reason   string // why the field has no usable time; it cannot be used then
	Init     time.Time
	Lead     time.Duration // at the end of the interval
	Interval time.Duration // length of the interval, 0 at an instant
}

// Member is a field's place in its ensemble, where the octets say it.
type Member struct {
	Known        bool
	InEnsemble   bool // false: of no ensemble
	ID           int
	EnsembleSize int // size of the ensemble, 0 if not said
}

// Index is a file's structure and fields.
type Index struct {
	Result
	Fields []Field
}

// GridCache shares what was made of grid sections among all files of an input. It may
// be used from several goroutines.
type GridCache struct {
	mu     sync.Mutex
	grids  map[ID]ParsedGrid
	faults map[ID]*Fault
}

// Get is what was made of the grid section with this digest.
func (g *GridCache) Get(id ID) ParsedGrid {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grids[id]
}

// add parses a grid section unless it is known.
func (g *GridCache) add(id ID, edition int, o Octets, bytes int64) *Fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.grids[id]; !ok {
		if g.grids == nil {
			g.grids, g.faults = map[ID]ParsedGrid{}, map[ID]*Fault{}
		}
		if o == nil {
			g.grids[id] = ParsedGrid{Reason: "the message has no grid section; predefined grids are not supported"}
		} else {
			g.grids[id], g.faults[id] = ParseGrid(edition, o, bytes)
		}
	}
	if fault := g.faults[id]; fault != nil {
		again := *fault
		return &again
	}
	return nil
}

// ReadIndex scans a file and reads the headers of all fields.
//
// Errors: of reading, and ctx.Err(); damage is in Index.Faults.
func ReadIndex(ctx context.Context, r io.ReaderAt, size int64, grids *GridCache) (*Index, error) {
	idx := &Index{}
	var err error
	idx.Result, err = scan(ctx, r, size, func(m Message, w *readBuffer) *Fault {
		first := len(idx.Fields)
		for k := range m.Fields {
			f, fault := readField(m, k, w, grids)
			if fault != nil {
				idx.Fields = idx.Fields[:first]
				return fault
			}
			idx.Fields = append(idx.Fields, f)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return idx, nil
}

// readSection reads a section of a message whole.
func readSection(w *readBuffer, m Message, s Span) (Octets, *Fault) {
	if s.Length == 0 {
		return nil, nil
	}
	if s.Length > maxSection {
		return nil, faultf("section too long", "a header section of %d bytes", s.Length)
	}
	b, err := w.bytes(m.Offset+s.Offset, s.Length)
	if err != nil {
		return nil, faultf("section not readable", "%v", err)
	}
	return Octets(b).clone(), nil
}

// Restore learns the grids of an index that was made before, and looks at the first message
// of each grid: where it begins, its length and its end. To look at all would take as long
// as to scan the file.
//
// Errors: of reading; of an index that is not of this file.
func (g *GridCache) Restore(r io.ReaderAt, size int64, idx *Index) error {
	w := newReadBuffer(r, size)
	seen := map[ID]bool{}
	for _, f := range idx.Fields {
		if seen[f.Grid] {
			continue
		}
		seen[f.Grid] = true
		m := Message{Number: f.Message, Offset: f.Offset, Length: f.Length, Edition: f.Edition}
		if err := m.verify(r, size); err != nil {
			return err
		}
		o, fault := readSection(w, m, f.Sections[gridSection(f.Edition)])
		if fault != nil {
			return fault
		}
		if digest([]byte{byte(f.Edition)}, o) != f.Grid {
			return fmt.Errorf("message %d has another grid", f.Message)
		}
		if fault := g.add(f.Grid, f.Edition, o, f.Length); fault != nil {
			return fault
		}
	}
	return nil
}

// verify verifies that a message lies where it should: it begins with GRIB and its length,
// and ends in 7777.
func (m Message) verify(r io.ReaderAt, size int64) error {
	if m.Offset < 0 || m.Length < 20 || m.Offset > size || m.Length > size-m.Offset {
		return fmt.Errorf("message %d reaches behind the end", m.Number)
	}
	var head [16]byte
	var end [4]byte
	if _, err := r.ReadAt(head[:], m.Offset); err != nil {
		return err
	}
	if _, err := r.ReadAt(end[:], m.Offset+m.Length-4); err != nil {
		return err
	}
	stated := int64(binary.BigEndian.Uint64(head[8:]))
	if m.Edition == 1 { // large ones have a way of their own to state it
		stated = m.Length
	}
	if string(head[:4]) != "GRIB" || int(head[7]) != m.Edition || stated != m.Length || string(end[:]) != "7777" {
		return fmt.Errorf("message %d is not at byte %d", m.Number, m.Offset)
	}
	return nil
}

// gridSection is the number of the section with the grid.
func gridSection(edition int) int {
	if edition == 1 {
		return 2
	}
	return 3
}

func (o Octets) clone() Octets { return append(Octets(nil), o...) }

func readField(m Message, k int, w *readBuffer, grids *GridCache) (Field, *Fault) {
	f := Field{Message: m.Number, Sub: k + 1, Offset: m.Offset, Length: m.Length, Edition: m.Edition, Sections: m.Fields[k], Partial: m.partial}
	g, fault := readSection(w, m, f.Sections[gridSection(m.Edition)])
	if fault != nil {
		return f, fault
	}
	f.Grid = digest([]byte{byte(m.Edition)}, g)
	if fault := grids.add(f.Grid, m.Edition, g, m.Length); fault != nil {
		return f, fault
	}
	if m.Edition == 1 {
		return f, f.read1(w, m, g)
	}
	return f, f.read2(w, m, g)
}

// parseDate makes a time of its parts and refuses what is no date.
func parseDate(year, month, day, hour, minute, second int) (time.Time, *Fault) {
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	leap := second == 60
	if !leap && (t.Month() != time.Month(month) || t.Day() != day || hour > 23 || minute > 59 || second > 59 || year < 1) {
		return t, faultf("impossible reference time", "year %d month %d day %d %02d:%02d:%02d", year, month, day, hour, minute, second)
	}
	return t, nil
}

// timeUnits is code table 4 of both editions: what one unit of time is worth. Months
// and longer have no fixed length.
var timeUnits = map[int]time.Duration{0: time.Minute, 1: time.Hour, 2: 24 * time.Hour, 10: 3 * time.Hour, 11: 6 * time.Hour, 12: 12 * time.Hour, 13: time.Second}

// timeSpan is n units of time; ok is false if the unit has no fixed length or the
// product no room.
func timeSpan(n int64, unit int) (time.Duration, bool) {
	u, ok := timeUnits[unit]
	if !ok || n > int64(1<<62)/int64(u) || n < -int64(1<<62)/int64(u) {
		return 0, false
	}
	return time.Duration(n) * u, true
}

// inexactStep says why steps in a unit have no exact length; "" if they have, or if the
// decoder knows it (quarters and halves of hours, seconds of edition 1). Of a month it
// would make 30 days, and of units that do not exist anything.
func inexactStep(unit int) string {
	if _, ok := timeUnits[unit]; ok || unit == 14 || unit == 254 {
		return ""
	}
	return fmt.Sprintf("the forecast step is in unit %d of code table 4, which has no fixed length", unit)
}
