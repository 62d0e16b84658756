package grib

import (
	"cmp"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// centreECMWF is the originating centre whose local section of edition 1 holds
// member numbers.
const centreECMWF = 98

// memberDefinitions lists the ECMWF local definitions (octet 41 of section 1) with
// the member number in octet 50 and the number of members in octet 51.
//
// Source: ECMWF local GRIB definitions 1, 26, 30 and 36.
var memberDefinitions = map[int]bool{1: true, 26: true, 30: true, 36: true}

// hindcastDefinition is the ECMWF local definition for hindcasts.
const hindcastDefinition = 26

// read1 reads section 1 (product definition section) of edition 1. g is section 2.
//
// Octets that differ between times and members are masked before Kind is computed.
//
// Source: FM 92 GRIB1, section 1; ECMWF local definitions.
func (f *Field) read1(w *readBuffer, m Message, g Octets) *Fault {
	o, fault := readSection(w, m, f.Sections[1])
	if fault != nil {
		return fault
	}
	// Section 1 of edition 1: reference time in octets 13 to 17 and 25, unit and
	// time range in octets 18 to 21.
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
			hide(52, 63) // dates of the reference forecast and of the model climate
		}
		of := o.U1(51)
		// Number and size are both 0 outside of an ensemble. Control (type 10) and
		// perturbed forecasts (type 11) are always members. So are analyses of the
		// ensemble of data assimilations (streams 1030 and 1249).
		kind, stream := o.U1(43), o.U2(44)
		f.Member = Member{Known: true, InEnsemble: of > 0 || kind == 10 || kind == 11 || stream == 1030 || stream == 1249, ID: o.U1(50), EnsembleSize: of}
	} else if m, product, ok := memberNCEP(o); f.Centre == centreNCEP && ok {
		f.Member, f.Product, f.ProductKnown = m, product, true
		hide(43, 43)
	} else if f.Centre != centreECMWF && len(o) <= 40 {
		f.Member = Member{Known: true}
	} else {
		f.Member.LocalOctets = len(o) - 40
	}
	kind := 0
	if g.Has(6) {
		kind = g.U1(6)
	}
	f.Kind = digest([]byte{1, byte(kind), boolByte(f.Time.Known), boolByte(f.Member.Known)}, mask)
	f.level1(o)
	return nil
}

// boolByte encodes a flag for a digest.
func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// time1 reads reference time and forecast period of edition 1.
//
// Source: FM 92 GRIB1, section 1, octets 13 to 21 and 25; code table 4 (unit of
// time) and code table 5 (time range indicator).
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
	// A missing minute is 0.
	minute := o.U1(17)
	if minute == 255 {
		minute = 0
	}
	init, fault := parseDate((century-1)*100+yy, month, day, o.U1(16), minute, 0)
	if fault != nil {
		return fault
	}
	// Octet 21, code table 5, defines how P1 and P2 (octets 19 and 20) form the
	// forecast period.
	p1, p2, unit, known := int64(o.U1(19)), int64(o.U1(20)), o.U1(18), true
	indicator, from := o.U1(21), int64(0)
	to := p1
	switch indicator {
	case 0: // P1
	case 1: // initialised analysis
		known = p1 == 0
	case 2, 3, 4, 5: // from P1 to P2
		from, to, known = p1, p2, p2 >= p1
	case 10: // P1 in two octets
		to = int64(o.U2(19))
	default:
		known = false
	}
	if !known {
		// Init serves error messages. The decoder provides the lead, if it converts
		// the unit: it counts months as 30 days.
		f.Time = Time{Init: init}
		if _, common := commonTimeUnits[unit]; p1|p2 != 0 && (!common && unit != 254 || commonTimeUnits[unit].months > 0) {
			f.Time = Time{Known: true, Reason: fmt.Sprintf("time range indicator %d with unit %d of %s is not supported", indicator, unit, timeUnitTable(1))}
		}
		return nil
	}
	t := Time{Known: true, Init: init}
	begin, reason := addSpan(init, from, 1, unit)
	end, why := addSpan(init, to, 1, unit)
	if reason = cmp.Or(reason, why); reason != "" {
		f.Time = Time{Known: true, Reason: reason}
		return nil
	}
	t.Lead = end.Sub(init)
	if indicator >= 2 && indicator <= 5 {
		t.Interval = end.Sub(begin)
	} else if t.Interval = intervalECMWF(o, t.Lead); t.Interval > 0 {
		t.Statistic = "sum"
	}
	f.Time = t
	return nil
}

// levels1 gives the kinds of levels of edition 1 in our units: the value of octets 11
// and 12 times the scale.
//
// Source: FM 92 GRIB1, code table 3.
var levels1 = map[int]struct {
	kind  ensemble.LevelKind
	scale float64 // Pa or m
	layer bool    // octets 11 and 12 are the bounds
}{
	100: {ensemble.Pressure, 100, false}, 101: {ensemble.Pressure, 1000, true}, 121: {ensemble.OtherLevel, 1, true}, 141: {ensemble.OtherLevel, 1, true},
	105: {ensemble.HeightAboveSoil, 1, false}, 106: {ensemble.HeightAboveSoil, 100, true}, 125: {ensemble.HeightAboveSoil, 0.01, false},
	111: {ensemble.DepthBelowLand, 0.01, false}, 112: {ensemble.DepthBelowLand, 0.01, true},
	104: {ensemble.OtherLevel, 1, true}, 108: {ensemble.OtherLevel, 1, true}, 110: {ensemble.OtherLevel, 1, true}, 114: {ensemble.OtherLevel, 1, true}, 116: {ensemble.OtherLevel, 1, true},
	120: {ensemble.OtherLevel, 1, true}, 128: {ensemble.OtherLevel, 1, true},
}

// level1 reads the level of edition 1.
func (f *Field) level1(o Octets) {
	code := o.U1(10)
	f.LevelKnown = true
	f.LevelType = fmt.Sprintf("level%d", code)
	switch code {
	case 1:
		f.Level = ensemble.Level{Kind: ensemble.Surface}
		return
	case 102:
		f.Level = ensemble.Level{Kind: ensemble.MeanSea}
		return
	}
	l, known := levels1[code]
	if !known {
		f.Level = ensemble.Level{Kind: ensemble.OtherLevel, Value: float64(o.U2(11))}
		return
	}
	// Short decimals: 7 cm are 0.07 m, as edition 2 has them.
	value := func(n int) float64 {
		if l.scale < 1 {
			return float64(n) / math.Round(1/l.scale)
		}
		return float64(n) * l.scale
	}
	f.Level = ensemble.Level{Kind: l.kind, Value: value(o.U2(11))}
	if l.layer {
		f.Level = ensemble.Layer(l.kind, value(o.U1(11)), value(o.U1(12)))
	}
}
