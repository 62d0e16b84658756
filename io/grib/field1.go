package grib

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// centreECMWF is the originating centre whose local section carries members.
const centreECMWF = 98

// memberDefinitions are ECMWF's local definitions that hold the member in octet 50 and
// the size of the ensemble in octet 51 of section 1.
var memberDefinitions = map[int]bool{1: true, 26: true, 30: true, 36: true}

// hindcastDefinition is the one of them for hindcasts.
const hindcastDefinition = 26

// read1 reads the product section of edition 1.
func (f *Field) read1(w *readBuffer, m Message, g Octets) *Fault {
	o, fault := readSection(w, m, f.Sections[1])
	if fault != nil {
		return fault
	}
	// In edition 1 time and sign of the unit are in the octets 13 to 21 and 25.
	mask := o.clone()
	hide := func(from, to int) {
		for n := from; n <= min(to, len(mask)); n++ {
			mask[n-1] = 0
		}
	}
	hide(13, 17)
	hide(25, 25)
	if fault := f.time1(o); fault != nil {
		return fault
	}
	if f.Time.Known {
		hide(19, 20)
	}
	f.Parameter = fmt.Sprintf("param%d.%d", o.U1(9), o.U1(4))
	f.Centre, f.Process = o.U1(5), o.U1(6)
	if f.Centre == centreECMWF && len(o) >= 51 && memberDefinitions[o.U1(41)] {
		hide(50, 50)
		if o.U1(41) == hindcastDefinition {
			hide(52, 63) // dates of the forecast whose hindcast it is, and of its climate
		}
		of := o.U1(51)
		// Number and size are both 0 in fields of no ensemble; a control forecast
		// (type 10) or perturbed one (11) is a member in any case, and so is an
		// analysis of the ensemble of data assimilations, streams 1030 and 1249.
		kind, stream := o.U1(43), o.U2(44)
		f.Member = Member{Known: true, InEnsemble: of > 0 || kind == 10 || kind == 11 || stream == 1030 || stream == 1249, ID: o.U1(50), EnsembleSize: of}
	} else if f.Centre != centreECMWF && len(o) <= 40 {
		f.Member = Member{Known: true}
	}
	kind := 0
	if g.Has(6) {
		kind = g.U1(6)
	}
	f.Kind = digest([]byte{1, byte(kind), boolByte(f.Time.Known), boolByte(f.Member.Known)}, mask)
	f.level1(o)
	return nil
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// time1 reads reference time and forecast period of edition 1.
func (f *Field) time1(o Octets) *Fault {
	yy, month, day := o.U1(13), o.U1(14), o.U1(15)
	if yy == 255 || month == 255 || day == 255 {
		f.Time = Time{Known: true, Reason: "the reference date has no year, month or day (a climatology?)"}
		return nil
	}
	century := o.U1(25)
	if century == 0 {
		f.Time = Time{Known: true, Reason: "the reference date has no year (a climatology?)"}
		return nil
	}
	minute := o.U1(17)
	if minute == 255 {
		minute = 0
	}
	init, fault := parseDate((century-1)*100+yy, month, day, o.U1(16), minute, 0)
	if fault != nil {
		return fault
	}
	p1, p2, unit, known := int64(o.U1(19)), int64(o.U1(20)), o.U1(18), true
	t := Time{Known: true, Init: init}
	var ok bool
	switch o.U1(21) {
	case 0: // P1
		t.Lead, known = timeSpan(p1, unit)
	case 1: // initialised analysis
		known = p1 == 0
	case 2, 3, 4, 5: // from P1 to P2
		if t.Lead, known = timeSpan(p2, unit); known {
			t.Interval, ok = timeSpan(p2-p1, unit)
			known = ok && t.Interval >= 0
		}
	case 10: // P1 in two octets
		t.Lead, known = timeSpan(int64(o.U2(19)), unit)
	default:
		known = false
	}
	if reason := inexactStep(unit); reason != "" && (p1 != 0 || p2 != 0) {
		f.Time = Time{Known: true, Reason: reason}
		return nil
	}
	if !known {
		// Init is kept for the message; the decoder says the rest.
		f.Time = Time{Init: init}
		return nil
	}
	f.Time = t
	return nil
}

// level1 reads the level of edition 1, as far as it is one of ours.
func (f *Field) level1(o Octets) {
	v := float64(o.U2(11))
	f.LevelKnown = true
	switch o.U1(10) {
	case 1:
		f.Level = ensemble.Level{Kind: ensemble.Surface}
	case 100:
		f.Level = ensemble.PressureLevel(v)
	case 102:
		f.Level = ensemble.Level{Kind: ensemble.MeanSea}
	case 105:
		f.Level = ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: v}
	default:
		f.LevelKnown = false
	}
}
