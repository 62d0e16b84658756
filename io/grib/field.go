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

// ID is the digest of a sequence of octets: the first 16 bytes of SHA-256. Equal
// octets have equal IDs.
type ID [16]byte

// digest hashes the parts, each with its length, so that octets cannot move between
// parts without changing the digest.
func digest(parts ...[]byte) ID {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte{byte(len(p) >> 16), byte(len(p) >> 8), byte(len(p))})
		h.Write(p)
	}
	return ID(h.Sum(nil)[:16])
}

// Field holds what the octets of a message define about one field.
type Field struct {
	Message, Sub   int   // 1-based numbers of the message in the file and of the field in the message
	Offset, Length int64 // of the message, in bytes
	Edition        int   // of GRIB, 1 or 2
	Sections       Sections
	Partial        bool // the file ends inside the message, after this field

	// Kind is the digest of all header octets except time, member and grid. All
	// fields of one Kind have the same name, unit, level and type. The decoder
	// therefore describes only one field of each Kind.
	Kind ID
	// Grid is the digest of the grid section. GridCache.Get returns the parsed
	// grid.
	Grid ID

	Time     Time
	Member   Member
	Template int // product definition template of edition 2
	Centre   int // code of the originating centre, common code table C-11
	// Process is the centre's number of the model (generating process identifier);
	// 255 is missing.
	Process int
	// Level is valid if LevelKnown, Product if ProductKnown. Otherwise the
	// description of the decoder applies. Values of kind OtherLevel are those of the
	// octets.
	Level        ensemble.Level
	LevelKnown   bool
	LevelReason  string // why the level is not usable; empty if it is
	LevelType    string // codes of the type of level, for types without a name
	Product      ensemble.Product
	ProductKnown bool
	Below        float64        // probability level of a quantile, 0 to 1
	Event        ensemble.Event // event of a probability; limits in the unit of the quantity
	// Parameter identifies the quantity by its codes, for quantities without a
	// name.
	Parameter string

	// Input of Description: discipline, category and number of the parameter; type
	// of data and packing in the words of ecCodes. packing is empty if Description
	// cannot answer.
	codes             [3]int
	dataType, packing string
}

// Time is the time of a field. Known is false for product definition templates that
// this package does not read. The decoder then describes every such field.
type Time struct {
	Known    bool
	Reason   string        // why the field has no usable time; empty if it has one
	Init     time.Time     // reference time, UTC
	Lead     time.Duration // to the end of the interval
	Interval time.Duration // length of the interval; 0 for an instant
	// EndDiffers reports that the end that edition 2 states is not forecast time
	// plus length. The length is used.
	EndDiffers bool
	// Statistic is the method over the interval, as in CF cell methods; "mean of
	// maximum" for two ranges; "" for an instant. In edition 1 it is set for sums that
	// are coded like instants only.
	Statistic string
}

// Member identifies a field in its ensemble, if the octets define it.
type Member struct {
	Known        bool // the octets define the member, or that there is none
	InEnsemble   bool // false for a field outside of any ensemble
	ID           int  // perturbation number; 0 is the control
	EnsembleSize int  // number of members; 0 if not stated
	Type         MemberType
	// LocalOctets is the length of a local section of edition 1 that this package does
	// not read, and that may hold a member.
	LocalOctets int
}

// Index holds the structure and the fields of a file.
type Index struct {
	Result
	Fields []Field
}

// GridCache holds the parsed grid sections of all files of an input, by digest. A
// grid is parsed once however many messages have it. The zero value is ready for
// use by several goroutines.
type GridCache struct {
	mu     sync.Mutex
	grids  map[ID]ParsedGrid
	faults map[ID]*Fault
}

// Get returns the parsed grid section with this digest.
func (g *GridCache) Get(id ID) ParsedGrid {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grids[id]
}

// add parses a grid section unless it is known. size is the length of the message
// in bytes, against which the number of points is checked. A nil o is an absent
// section. The fault is a copy, because the scanner completes it for each message.
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

// ReadIndex scans a file and reads the headers of all fields. Parsed grids are
// added to grids.
//
// Memory: one buffer of 128 KiB and the index.
// Errors: those of reading and ctx.Err(). Damage is reported in Index.Faults.
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

// readSection reads a complete section of a message. An absent section is nil.
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

// Restore parses the grids of an index that was saved earlier. It checks the first
// message of each grid: where it begins, its length and its end. A check of all
// messages would take as long as a new scan.
//
// Errors: those of reading; an index that does not belong to this file.
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

// verify checks that a message lies at its offset: section 0 begins with "GRIB" and
// states the length, section 5 (edition 1) or 8 (edition 2) is "7777".
func (m Message) verify(r io.ReaderAt, size int64) error {
	if m.Offset < 0 || m.Length < 20 || m.Offset > size || m.Length > size-m.Offset {
		return fmt.Errorf("message %d extends past the end of the file", m.Number)
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
	if m.Edition == 1 { // section 0 of edition 1 encodes lengths above 8 MiB differently (parseMessage1)
		stated = m.Length
	}
	if string(head[:4]) != "GRIB" || int(head[7]) != m.Edition || stated != m.Length || string(end[:]) != "7777" {
		return fmt.Errorf("message %d is no longer at byte %d", m.Number, m.Offset)
	}
	return nil
}

// gridSection returns the number of the section that holds the grid.
func gridSection(edition int) int {
	if edition == 1 {
		return 2
	}
	return 3
}

func (o Octets) clone() Octets { return append(Octets(nil), o...) }

// readField reads the headers of field k of a message.
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

// parseDate converts the parts of a reference time. A second of 60 is a leap
// second. All other values outside of the calendar are a fault.
func parseDate(year, month, day, hour, minute, second int) (time.Time, *Fault) {
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	leap := second == 60
	if !leap && (t.Month() != time.Month(month) || t.Day() != day || hour > 23 || minute > 59 || second > 59 || year < 1) {
		return t, faultf("invalid reference time", "year %d month %d day %d %02d:%02d:%02d", year, month, day, hour, minute, second)
	}
	return t, nil
}
