package grib

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// productTemplate gives the octets of a product definition template of edition 2
// that differ between members and times. Octets count from 1; 0 is absent.
type productTemplate struct {
	shift    int // octets that the template inserts before the unit of time
	member   int // perturbation number; the next octet holds the number of forecasts in the ensemble
	derived  int // derived forecast (code table 4.7); the next octet holds the number of forecasts
	interval int // first octet of the end of the overall time interval
	// Octets of a statistic over members: probability type and limits of an event,
	// a whole percentile, or number and value of quantiles.
	event, percentile, quantile int
	otherProduct                bool // a statistic that this program does not read
}

// productTemplates lists the product definition templates that this package reads.
//
// Source: FM 92 GRIB2, code table 4.0 and templates 4.0 to 4.87.
var productTemplates = map[int]productTemplate{
	0:  {},
	1:  {member: 36},
	2:  {derived: 35},
	3:  {otherProduct: true},
	4:  {otherProduct: true},
	5:  {event: 37},
	6:  {percentile: 35},
	8:  {interval: 35},
	9:  {event: 37, interval: 48},
	10: {percentile: 35, interval: 36},
	11: {member: 36, interval: 38},
	12: {derived: 35, interval: 37},
	15: {otherProduct: true},
	40: {shift: 2},
	41: {shift: 2, member: 38},
	42: {shift: 2, interval: 37},
	43: {shift: 2, member: 38, interval: 40},
	60: {member: 36},
	61: {member: 36, interval: 45},
	86: {quantile: 35},
	87: {quantile: 35, interval: 39},
}

// minLength returns the minimum number of octets of section 4 with this template.
func (t productTemplate) minLength() int {
	n := max(34+t.shift, t.member, t.derived, t.percentile, t.interval+6)
	if t.event > 0 {
		n = max(n, t.event+10)
	}
	if t.quantile > 0 {
		n = max(n, t.quantile+3)
	}
	return n
}

// read2 reads sections 1, 2, 4 and 5 of edition 2. g is section 3.
//
// Octets that differ between times and members are masked before Kind is computed.
//
// Source: FM 92 GRIB2, section 1 (identification), section 4 (product definition).
func (f *Field) read2(w *readBuffer, m Message, g Octets) *Fault {
	id, fault := readSection(w, m, f.Sections[1])
	if fault != nil {
		return fault
	}
	local, fault := readSection(w, m, f.Sections[2])
	if fault != nil {
		return fault
	}
	o, fault := readSection(w, m, f.Sections[4])
	if fault != nil {
		return fault
	}
	rep, fault := readSection(w, m, Span{f.Sections[5].Offset, min(f.Sections[5].Length, 64)})
	if fault != nil {
		return fault
	}
	if fault := f.checkData2(rep, g, w, m); fault != nil {
		return fault
	}
	init, fault := parseDate(id.U2(13), id.U1(15), id.U1(16), id.U1(17), id.U1(18), id.U1(19))
	if fault != nil {
		return fault
	}
	f.Centre = id.U2(6)
	template := o.U2(8)
	f.Template = template
	t, understood := productTemplates[template]
	mask, idMask := o.clone(), id.clone()
	hide := func(o Octets, from, count int) {
		for n := from; n < from+count && n <= len(o); n++ {
			o[n-1] = 0
		}
	}
	f.Parameter = ParameterName(m.discipline(w), o.U1(10), o.U1(11))
	f.Process = 255
	if !understood || len(o) < t.minLength() {
		f.Time = Time{Init: init}
	} else {
		f.time2(o, t, Time{Known: true, Init: init})
		hide(idMask, 13, 7)
		if f.Time.Known {
			hide(mask, 19+t.shift, 4)
			if t.interval > 0 {
				hide(mask, t.interval, 7)
			}
		}
		f.Member.Known, f.ProductKnown = true, true
		switch {
		case t.otherProduct:
			f.Product = ensemble.OtherProduct
		case t.event > 0:
			f.Product, f.Event = probabilityEvent(o, t.event)
		case t.percentile > 0:
			f.Product, f.Below = ensemble.Quantile, float64(o.U1(t.percentile))/100
		case t.quantile > 0:
			f.Product, f.Below = ensemble.OtherProduct, 0
			if of, at := o.U2(t.quantile), o.U2(t.quantile+2); at > 0 && at < of {
				f.Product, f.Below = ensemble.Quantile, float64(at)/float64(of)
			}
		case t.derived > 0:
			f.Product = derivedProduct(o.U1(t.derived))
			f.Member.EnsembleSize = o.U1(t.derived + 1)
		case t.member > 0:
			f.Member.InEnsemble, f.Member.ID, f.Member.EnsembleSize = true, o.U1(t.member), o.U1(t.member+1)
			if code := o.U1(t.member - 1); code < 254 {
				f.Member.Type = MemberType(code + 1)
			}
			hide(mask, t.member, 1)
		}
		f.level2(o, t.shift)
		f.recordCodes(m.discipline(w), id, local, o, rep)
		f.Process = o.U1(14 + t.shift)
	}
	f.Kind = digest([]byte{2, byte(m.discipline(w)), boolByte(f.Time.Known)}, idMask, local, mask, []byte{byte(g.U2(13) >> 8), byte(g.U2(13)), byte(rep.U2(10) >> 8), byte(rep.U2(10))})
	return nil
}

// ParameterName identifies a quantity of edition 2 by discipline, category and
// number, such as "param0.0.0" for temperature.
func ParameterName(discipline, category, number int) string {
	return fmt.Sprintf("param%d.%d.%d", discipline, category, number)
}

// discipline returns octet 7 of section 0 (code table 0.0).
func (m Message) discipline(w *readBuffer) int {
	b, err := w.bytes(m.Offset, 8)
	if err != nil {
		return 255
	}
	return int(b[6])
}

// time2 reads the forecast time, at the end of the interval if the template has
// one. out holds the reference time.
//
// Source: FM 92 GRIB2, template 4.0, octets 18 to 22 (code table 4.4); template
// 4.8, octets 35 to 58 (code tables 4.10 and 4.11).
func (f *Field) time2(o Octets, t productTemplate, out Time) {
	start, reason := addSpan(out.Init, o.S4(19+t.shift), 2, o.U1(18+t.shift))
	if reason != "" {
		f.Time = Time{Known: true, Reason: reason}
		return
	}
	out.Lead = start.Sub(out.Init)
	if t.interval > 0 {
		out.interval2(o, t.interval, start)
		out.Statistic = statistics2(o, t.interval)
	}
	f.Time = out
}

// processes gives the CF cell methods of code table 4.10 (type of statistical
// processing).
var processes = map[int]string{0: "mean", 1: "sum", 2: "maximum", 3: "minimum", 4: "difference", 5: "root_mean_square", 6: "standard_deviation", 7: "covariance", 8: "reversed_difference",
	9: "ratio", 10: "standardised_anomaly", 11: "sum", 12: "return_period", 13: "median", 100: "severity_index", 101: "mode"}

// statistics2 reads the methods of all time ranges of an interval, whose octets begin
// at e; the outermost is the first.
func statistics2(o Octets, e int) string {
	const rangeLength = 12
	var methods []string
	for k := range min(o.U1(e+7), 3) {
		at := e + 12 + k*rangeLength
		if !o.Has(at) {
			break
		}
		method := processes[o.U1(at)]
		if method == "" {
			method = fmt.Sprintf("process%d", o.U1(at))
		}
		methods = append(methods, method)
	}
	return strings.Join(methods, " of ")
}

// interval2 reads the interval of a statistic, whose octets begin at e.
func (out *Time) interval2(o Octets, e int, start time.Time) {
	stated, fault := parseDate(o.U2(e), o.U1(e+2), o.U1(e+3), o.U1(e+4), o.U1(e+5), o.U1(e+6))
	oneRange, missing := o.U1(e+7) == 1, o.U4(e+15) == missing4
	if oneRange && o.U1(e+13) == 1 {
		// Type of time increment 1: successive reference times at one forecast
		// time. The lead is the forecast time.
		return
	}
	if oneRange && !missing && o.S4(e+15) >= 0 {
		// Other decoders too use the length of a single range, in its own unit, not
		// the end that is stated.
		end, reason := addSpan(start, o.S4(e+15), 2, o.U1(e+14))
		if reason != "" {
			*out = Time{Known: true, Reason: "its interval: " + reason}
			return
		}
		out.Lead, out.Interval = end.Sub(out.Init), end.Sub(start)
		out.EndDiffers = fault == nil && !stated.Equal(end)
		return
	}
	if length := o.S4(e + 15); oneRange && !missing && fault == nil && stated.Equal(start) {
		// A negative length is an interval before the forecast time.
		begin, reason := addSpan(start, length, 2, o.U1(e+14))
		if reason != "" {
			*out = Time{Known: true, Reason: "its interval: " + reason}
			return
		}
		out.Interval = start.Sub(begin)
		return
	}
	switch {
	case fault == nil && !stated.Before(start):
		out.Lead, out.Interval = stated.Sub(out.Init), stated.Sub(start)
	case missing:
		// Length and end are missing. Only the forecast time is defined.
	default:
		*out = Time{Known: true, Reason: "its interval ends before it begins"}
	}
}

// missing4 is a missing value of four octets: all bits are 1.
const missing4 = 0xffffffff

// derivedProduct converts code table 4.7 (derived forecast): 0 and 1 are unweighted
// and weighted mean, 4 is the spread of all members.
func derivedProduct(code int) ensemble.Product {
	switch code {
	case 0, 1:
		return ensemble.EnsembleMean
	case 4:
		return ensemble.Spread
	default:
		return ensemble.OtherProduct
	}
}

// probabilityEvent reads an event from octet at: code table 4.9 (probability type)
// and the scaled lower and upper limits. Other probability types are OtherProduct.
//
// Source: FM 92 GRIB2, templates 4.5 and 4.9, octets 37 to 47.
func probabilityEvent(o Octets, at int) (ensemble.Product, ensemble.Event) {
	limit := func(at int) float64 { return float64(o.S4(at+1)) / math.Pow10(o.S1(at)) }
	lower, upper := at+1, at+6
	var e ensemble.Event
	switch o.U1(at) {
	case 0:
		e = ensemble.Event{Relation: ensemble.Below, Upper: limit(lower)}
	case 1:
		e = ensemble.Event{Relation: ensemble.Above, Lower: limit(upper)}
	case 2:
		e = ensemble.Event{Relation: ensemble.Between, Lower: limit(lower), Upper: limit(upper)}
	case 3:
		e = ensemble.Event{Relation: ensemble.Above, Lower: limit(lower)}
	case 4:
		e = ensemble.Event{Relation: ensemble.Below, Upper: limit(upper)}
	default:
		return ensemble.OtherProduct, e
	}
	return ensemble.Probability, e
}

// levelKinds gives the kinds of levels with a value, by code table 4.5 of edition 2.
var levelKinds = map[int]ensemble.LevelKind{100: ensemble.Pressure, 103: ensemble.HeightAboveSoil, 106: ensemble.DepthBelowLand}

// level2 reads the fixed surfaces (code table 4.5): a level, or a layer if the
// second has the type of the first.
//
// Source: FM 92 GRIB2, template 4.0, octets 23 to 34.
func (f *Field) level2(o Octets, shift int) {
	const none = 255
	at := 23 + shift
	first, second := o.U1(at), o.U1(at+6)
	value := func(at int) (float64, bool) {
		if o.U1(at) == none || o.U4(at+1) == missing4 {
			return 0, false
		}
		return float64(o.S4(at+1)) / math.Pow10(o.S1(at)), true
	}
	v, stated := value(at + 1)
	end, endStated := value(at + 7)
	if first == 1 && second == 106 { // from the surface down
		first, v, stated = second, 0, true
	}
	kind, hasValue := levelKinds[first]
	if second == none && first == 1 {
		f.Level, f.LevelKnown = ensemble.Level{Kind: ensemble.Surface}, true
		return
	}
	if second == none && first == 101 {
		f.Level, f.LevelKnown = ensemble.Level{Kind: ensemble.MeanSea}, true
		return
	}
	if !hasValue || second != none && second != first {
		kind, hasValue = ensemble.OtherLevel, false
	}
	f.Level = ensemble.Level{Kind: kind, Value: v}
	if second != none && (endStated || hasValue) {
		f.Level = ensemble.Layer(kind, v, end)
	}
	f.LevelType = fmt.Sprintf("surface%d", first)
	if second != none && second != first {
		f.LevelType += fmt.Sprintf("-%d", second)
	}
	if hasValue && (!stated || second != none && !endStated) {
		f.LevelReason = fmt.Sprintf("the level of type %d has no value", first)
	}
	f.LevelKnown = true
}
