package grib

import (
	"errors"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/columnfile"
)

// SavedIndex is the JSON header of an Index in a cache file. Binary columns of
// messages, fields and junk follow it (package internal/headed).
type SavedIndex struct {
	Messages int      `json:"messages"`
	Fields   int      `json:"fields"` // number of fields in all messages
	Junk     int      `json:"junk"`   // number of junk ranges
	Texts    []string `json:"texts"`  // strings that fields refer to, by position
}

// savedMessage and savedField are rows of the columns. A field repeats nothing of
// its message. All numbers have fixed width, so that a cache of a hundred thousand
// fields is read without parsing. Their meaning is that of Message and Field; texts
// are positions in SavedIndex.Texts.
type (
	savedMessage struct {
		Number, Offset, Length, Edition int64
		Fields                          int64 // number of fields; they follow those of the previous message
	}
	savedField struct {
		Sections                         [8][2]int64 // offset and length
		Partial                          bool
		Kind, Grid                       [16]byte
		TimeKnown                        bool
		Reason                           int64 // a text
		Init                             int64 // seconds since 1970
		Lead, Interval                   int64 // ns
		EndDiffers                       bool
		Statistic                        int64 // a text
		MemberKnown, IsMember            bool
		Member, Members, Centre, Process int64
		Template                         int64
		MemberType                       uint8
		LocalOctets                      int64
		LevelKnown                       bool
		LevelKind                        uint8
		Level, LevelEnd                  float64
		LevelIsLayer                     bool
		LevelReason, LevelType           int64 // texts
		ProductKnown                     bool
		Product, Relation                uint8
		Below, EventLower, EventUpper    float64
		Parameter                        int64 // a text
		Codes                            [3]int64
		DataType, Packing                int64 // texts
	}
)

// Save returns header and columns of a cache file. Faults are not saved: only the
// index of an undamaged file is cached.
func (x *Index) Save() (h SavedIndex, columns []byte) {
	h = SavedIndex{Messages: len(x.Messages), Fields: len(x.Fields), Junk: len(x.Junk)}
	places := map[string]int64{}
	// text returns the position of a string, which is stored once.
	text := func(s string) int64 {
		if _, ok := places[s]; !ok {
			places[s], h.Texts = int64(len(h.Texts)), append(h.Texts, s)
		}
		return places[s]
	}
	messages := make([]savedMessage, len(x.Messages))
	for i, m := range x.Messages {
		messages[i] = savedMessage{int64(m.Number), m.Offset, m.Length, int64(m.Edition), int64(len(m.Fields))}
	}
	fields := make([]savedField, len(x.Fields))
	for i := range x.Fields {
		f := &x.Fields[i]
		fields[i] = savedField{
			Partial: f.Partial, Kind: f.Kind, Grid: f.Grid,
			TimeKnown: f.Time.Known, Reason: text(f.Time.Reason), Init: f.Time.Init.Unix(), Lead: int64(f.Time.Lead), Interval: int64(f.Time.Interval), EndDiffers: f.Time.EndDiffers, Statistic: text(f.Time.Statistic),
			MemberKnown: f.Member.Known, IsMember: f.Member.InEnsemble, Member: int64(f.Member.ID), Members: int64(f.Member.EnsembleSize), MemberType: uint8(f.Member.Type), LocalOctets: int64(f.Member.LocalOctets), Centre: int64(f.Centre), Process: int64(f.Process), Template: int64(f.Template),
			LevelKnown: f.LevelKnown, LevelKind: uint8(f.Level.Kind), Level: f.Level.Value, LevelEnd: f.Level.End, LevelIsLayer: f.Level.IsLayer,
			LevelReason: text(f.LevelReason), LevelType: text(f.LevelType), ProductKnown: f.ProductKnown, Product: uint8(f.Product),
			Relation: uint8(f.Event.Relation), Below: f.Below, EventLower: f.Event.Lower, EventUpper: f.Event.Upper,
			Parameter: text(f.Parameter), DataType: text(f.dataType), Packing: text(f.packing),
		}
		for k, s := range f.Sections {
			fields[i].Sections[k] = [2]int64{s.Offset, s.Length}
		}
		for k, v := range f.codes {
			fields[i].Codes[k] = int64(v)
		}
	}
	junk := make([][2]int64, len(x.Junk))
	for i, j := range x.Junk {
		junk[i] = [2]int64{j.Offset, j.Length}
	}
	return h, columnfile.Append(columnfile.Append(columnfile.Append(nil, messages...), fields...), junk...)
}

// Index restores the index that Save was called on.
//
// Errors: columns that do not match the header.
func (h *SavedIndex) Index(c *columnfile.Columns) (*Index, error) {
	messages, fields, junk := columnfile.Next[savedMessage](c, h.Messages), columnfile.Next[savedField](c, h.Fields), columnfile.Next[[2]int64](c, h.Junk)
	if err := c.CheckEnd(); err != nil {
		return nil, err
	}
	// A position outside of the list gives "": the checksum of the cache file finds
	// damage before, so this only prevents a panic.
	text := func(place int64) (s string) {
		if place >= 0 && place < int64(len(h.Texts)) {
			s = h.Texts[place]
		}
		return s
	}
	x := &Index{Fields: make([]Field, 0, len(fields))}
	for _, s := range messages {
		m := Message{Number: int(s.Number), Offset: s.Offset, Length: s.Length, Edition: int(s.Edition)}
		if s.Fields < 0 || s.Fields > int64(len(fields)) {
			return nil, errors.New("messages refer to more fields than the columns hold")
		}
		for i := range fields[:s.Fields] {
			x.Fields = append(x.Fields, fields[i].field(m, i, text))
			m.Fields = append(m.Fields, x.Fields[len(x.Fields)-1].Sections)
		}
		fields, x.Messages = fields[s.Fields:], append(x.Messages, m)
	}
	for _, j := range junk {
		x.Junk = append(x.Junk, Junk{j[0], j[1]})
	}
	return x, nil
}

// field restores field k of a message.
func (s *savedField) field(m Message, k int, text func(int64) string) Field {
	f := Field{Message: m.Number, Sub: k + 1, Offset: m.Offset, Length: m.Length, Edition: m.Edition, Partial: s.Partial, Kind: s.Kind, Grid: s.Grid,
		Time:   Time{s.TimeKnown, text(s.Reason), time.Unix(s.Init, 0).UTC(), time.Duration(s.Lead), time.Duration(s.Interval), s.EndDiffers, text(s.Statistic)},
		Member: Member{s.MemberKnown, s.IsMember, int(s.Member), int(s.Members), MemberType(s.MemberType), int(s.LocalOctets)}, Centre: int(s.Centre), Process: int(s.Process), Template: int(s.Template),
		Level: ensemble.Level{Kind: ensemble.LevelKind(s.LevelKind), Value: s.Level, End: s.LevelEnd, IsLayer: s.LevelIsLayer}, LevelKnown: s.LevelKnown,
		LevelReason: text(s.LevelReason), LevelType: text(s.LevelType), Product: ensemble.Product(s.Product), ProductKnown: s.ProductKnown,
		Below: s.Below, Event: ensemble.Event{Relation: ensemble.Relation(s.Relation), Lower: s.EventLower, Upper: s.EventUpper},
		Parameter: text(s.Parameter), dataType: text(s.DataType), packing: text(s.Packing)}
	for i, v := range s.Sections {
		f.Sections[i] = Span{v[0], v[1]}
	}
	for i, v := range s.Codes {
		f.codes[i] = int(v)
	}
	return f
}
