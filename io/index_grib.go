package fio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/unit"
)

// indexGRIB reads structure and headers of a GRIB file. The decoder describes parameters
// that are not known yet from this or another file. Faults and entries are stored in f.
// Bytes outside of messages are a warning, since bulletin headers precede messages in
// files of the GTS.
//
// Errors: ctx.Err(); exit 65 for a file without a message; exit 66 or 74 for one that
// cannot be read. Damaged messages are f.faults, not errors.
// Cost: the scanner reads the headers of all messages and skips values, so it is bound
// by seeks; the index cache avoids it.
func indexGRIB(ctx context.Context, in *Input, f *file) error {
	idx, err := in.gribIndex(func() (*grib.Index, error) { return grib.ReadIndex(ctx, f.f, f.size, &in.grids) }, f)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return unreadable(f.path, err)
	}
	f.messages = len(idx.Messages) + len(idx.Faults)
	for _, ft := range idx.Faults {
		fix := "transfer the file again"
		if ft.What == "invalid grid" { // rarely an accident on the way
			fix += "; if its source has the same message, correct it there, or predict without it (bad_messages: skip)"
		}
		f.faults = append(f.faults, &exit.Error{Code: exit.BadData, What: ft.What,
			At: fmt.Sprintf("%s, message %d, byte %d", f.path, ft.Message, ft.Offset), Why: ft.Why, Fix: fix})
		f.unused = append(f.unused, ensemble.Unused{File: f.path, Message: ft.Message, Reason: "damaged: " + ft.What + ": " + ft.Why})
	}
	if len(idx.Junk) > 0 {
		bytes := int64(0)
		for _, j := range idx.Junk {
			bytes += j.Length
		}
		f.warnings = append(f.warnings, fmt.Sprintf("%s: %d bytes in %d ranges are outside of messages, the first at byte %d", f.path, bytes, len(idx.Junk), idx.Junk[0].Offset))
	}
	if len(idx.Messages) == 0 && len(idx.Faults) == 0 {
		return unsupportedFile(f.path, "it has no GRIB message", "transfer the file again")
	}
	if len(idx.Faults) == 0 { // an index beside a damaged file cannot match
		f.checkSidecar(idx)
	}
	return in.addGRIBEntries(ctx, f, idx.Fields)
}

// descriptionCache holds the descriptions by the decoder, one for each kind of field. A
// kind has all header keys on which the description depends, so an archive of thousands
// of files needs few requests.
type descriptionCache struct {
	mu     sync.Mutex
	byKind map[grib.ID]*grib.Description
}

// describeRequest is one field to describe, and the destination of its description.
type describeRequest struct {
	field *grib.Field
	out   *grib.Description
}

// addGRIBEntries makes entries of the fields of a file. Fields whose time or member this
// program does not read are described each by ecCodes, since these differ from field to
// field; all others once by kind. Fields on a grid that is not supported are not
// described.
//
// several marks a message of more than one field (edition 2 repeats sections 2 to 7),
// whose sections must be extracted before ecCodes reads it.
func (in *Input) addGRIBEntries(ctx context.Context, f *file, fields []grib.Field) error {
	described := make([]*grib.Description, len(fields))
	var single []describeRequest
	for i := range fields {
		if fd := &fields[i]; in.grids.Get(fd.Grid).Grid != nil && (!fd.Time.Known || !fd.Member.Known) {
			described[i] = new(grib.Description)
			single = append(single, describeRequest{fd, described[i]})
		}
	}
	if err := in.describeKinds(ctx, f, fields, described); err != nil {
		return err
	}
	if err := in.describe(ctx, f, single); err != nil {
		return err
	}
	f.entries = make([]ensemble.Entry, 0, len(fields))
	for i := range fields {
		fd := &fields[i]
		several := fd.Partial || i > 0 && fields[i-1].Message == fd.Message || i+1 < len(fields) && fields[i+1].Message == fd.Message
		in.addGRIBEntry(f, fd, described[i], several)
	}
	f.warnGridRelativeWind()
	f.warnIntervalEnds(fields)
	f.warnLocalSections(fields, described)
	return nil
}

// warnLocalSections warns about local sections of edition 1 in which neither this
// program nor ecCodes finds a member, because they may hold one. Section 1 of edition 1
// has no octet for a member; centres add their own octets behind octet 40 (WMO-No. 306,
// FM 92 GRIB 1, section 1).
func (f *file) warnLocalSections(fields []grib.Field, described []*grib.Description) {
	n, first := 0, grib.Field{}
	for i, d := range described {
		if fields[i].Member.LocalOctets > 0 && d != nil && d.Error == "" && !d.NumberKnown {
			if n++; n == 1 {
				first = fields[i]
			}
		}
	}
	if n > 0 {
		f.warnings = append(f.warnings, fmt.Sprintf("%s: %d fields of %s have a local section of %d bytes without a known member number, the first in message %d; if it holds the member, use members.filename_pattern",
			f.path, n, grib.CentreName(first.Centre), first.Member.LocalOctets, first.Message))
	}
}

// warnIntervalEnds warns about intervals whose stated end is not forecast time plus
// length.
//
// Source: WMO-No. 306, templates 4.8 to 4.14, which have both; octets 35 to 41 of
// template 4.8 are the end.
func (f *file) warnIntervalEnds(fields []grib.Field) {
	n, first := 0, 0
	for i := range fields {
		if fields[i].Time.EndDiffers {
			if n++; n == 1 {
				first = fields[i].Message
			}
		}
	}
	if n > 0 {
		f.warnings = append(f.warnings, fmt.Sprintf("%s: in %d fields the end of the interval is not forecast time plus length, the first in message %d; the length is used", f.path, n, first))
	}
}

// warnGridRelativeWind warns about wind components relative to the axes of the
// grid. They are not rotated.
//
// Source: WMO-No. 306, flag table 3.3, bit 5 (edition 2) and code table 7, bit 5
// (edition 1): resolution and component flags.
func (f *file) warnGridRelativeWind() {
	n := 0
	for _, e := range f.entries {
		if v, known := ensemble.VariableNamed(e.Variable); known && v.WindComponent() && e.Grid.WindAlongAxes {
			n++
		}
	}
	if n > 0 {
		f.warnings = append(f.warnings, fmt.Sprintf("%s: %d fields of wind components are relative to the axes of their grid, not eastward and northward, and are not rotated", f.path, n))
	}
}

// describeKinds sets the missing descriptions, by kind. The decoder describes one field
// of each kind that no file had before. A kind that the scanner can describe itself
// (Field.Description) needs no request. The cache is filled only after all requests have
// succeeded.
func (in *Input) describeKinds(ctx context.Context, f *file, fields []grib.Field, described []*grib.Description) error {
	in.descriptions.mu.Lock() // until all kinds are described, so that no kind is requested twice
	defer in.descriptions.mu.Unlock()
	fresh := map[grib.ID]*grib.Description{}
	var part []describeRequest
	for i := range fields {
		fd := &fields[i]
		if described[i] != nil || in.grids.Get(fd.Grid).Grid == nil {
			continue
		}
		if described[i] = in.descriptions.byKind[fd.Kind]; described[i] == nil {
			if fresh[fd.Kind] == nil {
				d, known := fd.Description()
				if fresh[fd.Kind] = &d; !known {
					part = append(part, describeRequest{fd, &d})
				}
			}
			described[i] = fresh[fd.Kind]
		}
	}
	if err := in.describe(ctx, f, part); err != nil {
		return err
	}
	if in.descriptions.byKind == nil {
		in.descriptions.byKind = map[grib.ID]*grib.Description{}
	}
	maps.Copy(in.descriptions.byKind, fresh)
	return nil
}

// describeBatch is the number of fields per request. A crash costs a request for each
// field of the batch; a larger batch saves little.
const describeBatch = 500

// describe requests descriptions of fields of one file in batches. Without fields
// nothing is requested, and no child is started.
func (in *Input) describe(ctx context.Context, f *file, part []describeRequest) error {
	for batch := range slices.Chunk(part, describeBatch) {
		if err := in.requestDescriptions(ctx, f, batch); err != nil {
			return err
		}
	}
	return nil
}

// requestDescriptions requests one batch. If the child crashes, each field is
// requested alone, so that one damaged message does not affect the others.
func (in *Input) requestDescriptions(ctx context.Context, f *file, part []describeRequest) error {
	b := grib.Batch{Path: f.path}
	for _, a := range part {
		b.Fields = append(b.Fields, gribRef(a.field, true))
	}
	var out []grib.Description
	err := in.pool.Do(ctx, decode.Call{Kind: grib.DescribeKind, File: f.path, Args: b, Result: &out, NoRetry: len(part) > 1})
	var died *decode.DiedError
	switch {
	case errors.As(err, &died) && len(part) == 1:
		out = []grib.Description{{Error: died.Error()}}
	case errors.As(err, &died):
		for i := range part {
			if err := in.requestDescriptions(ctx, f, part[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	case err != nil:
		return err
	case len(out) != len(part):
		return fmt.Errorf("%s: %d descriptions of %d fields", f.path, len(out), len(part))
	}
	for i, a := range part {
		*a.out = out[i]
	}
	return nil
}

// gribRef returns the position of a field, with its sections if it must be extracted. several reports whether its message has more
// fields. For a field that has a message of its own, and for all of edition 1, the
// message itself is the reference.
func gribRef(fd *grib.Field, several bool) grib.Ref {
	r := grib.Ref{Offset: fd.Offset, Length: fd.Length}
	if several && fd.Edition == 2 {
		s := fd.Sections
		r.Sections = &s
	}
	return r
}

// addGRIBEntry makes an entry of a field, or adds it to f.unused. What the scanner has
// read has precedence over the description by ecCodes. The reason of an unused
// field is the first that applies: its grid, a decoding error, its time, its level.
//
// The name is that of ecCodes without what the entry states elsewhere: statistic (avg_,
// max_, …) and interval (mx2t6). Its unit is that of the message, converted by the kind.
//
// Source: WMO-No. 306, code table 4.0 (product definition templates), 4.5 (fixed
// surfaces), 4.9 (probability type), 4.10 (statistical processing).
func (in *Input) addGRIBEntry(f *file, fd *grib.Field, d *grib.Description, several bool) {
	drop := func(reason string) {
		u := ensemble.Unused{File: f.path, Message: fd.Message, Reason: reason}
		if d != nil {
			u.Name = d.Name
		}
		f.unused = append(f.unused, u)
	}
	def := in.grids.Get(fd.Grid)
	switch {
	case def.Grid == nil:
		drop(def.Reason)
		return
	case d.Error != "":
		drop("cannot be decoded: " + d.Error)
		f.faults = append(f.faults, &exit.Error{Code: exit.BadData, What: "message cannot be decoded",
			At: fmt.Sprintf("%s, message %d, byte %d", f.path, fd.Message, fd.Offset), Why: d.Error, Fix: "transfer the file again, or exclude the message"})
		return
	case fd.Time.Reason != "":
		drop(fd.Time.Reason)
		return
	case fd.LevelReason != "":
		drop(fd.LevelReason)
		return
	}
	kind := ensemble.Kind{Grid: def.Grid, LongName: d.LongName, LevelType: d.LevelType, Packing: d.Packing, Statistic: statisticOf(d.Statistic),
		Centre: grib.CentreName(fd.Centre)}
	if fd.Time.Known && (fd.Edition == 2 || fd.Time.Statistic != "") {
		kind.Statistic = fd.Time.Statistic
	}
	if kind.MemberType = fd.Member.Type.String(); fd.Edition == 2 {
		kind.Template = fd.Template
	}
	if fd.Process != 255 {
		kind.Process = strconv.Itoa(fd.Process)
	}
	e := ensemble.Entry{File: f.path, Message: fd.Message, Sub: fd.Sub, Offset: fd.Offset, Length: fd.Length, Kind: &kind}
	if reason := setTime(&e, fd, d); reason != "" {
		drop(reason)
		return
	}
	name := d.Name
	if p, ok := periodNames[name]; ok && (kind.Statistic == "" || kind.Statistic == p.Statistic) {
		name, kind.Statistic = p.variable, p.Statistic
		kind.Interval = cmp.Or(kind.Interval, p.Interval)
	} else if base, prefixed := strings.CutPrefix(name, statisticPrefixes[kind.Statistic]); prefixed {
		name = base
	}
	e.Variable = cmp.Or(aliases[name], name)
	if d.Name == "" || d.Name == "unknown" || d.Name == "~" {
		e.Variable = fd.Parameter
	}
	if fd.Product == ensemble.Probability {
		// ecCodes has separate names for some events. The quantity decides.
		if v, ok := variableByCodes(fd); ok {
			e.Variable = v
		}
	}
	e.Level = fd.Level
	if !fd.LevelKnown {
		e.Level = ensemble.Level{Kind: ensemble.OtherLevel, Value: d.Level}
	}
	if kind.LevelType == "" || kind.LevelType == "unknown" {
		kind.LevelType = fd.LevelType
	}
	nativeUnit := in.applyNaming(&e, d, fd.Parameter)
	known, ok := ensemble.VariableNamed(e.Variable)
	if ok && isOwnLevel(known, e.Level, kind.LevelType) {
		e.Level = known.Level
	}
	e.Member, kind.Members, e.Product = memberAndProduct(fd, d)
	kind.Basis = basisOf(e.Product, "", f.path)
	conv := unit.ToSI(nativeUnit, known.Unit)
	kind.Name, kind.NativeUnit = d.Name, unit.Normalise(nativeUnit)
	switch e.Product {
	case ensemble.Spread:
		conv = conv.Difference()
	case ensemble.Quantile:
		e.QuantileProbability = fd.Below
	case ensemble.Probability:
		// ecCodes returns the unit of the quantity, which is that of the limits.
		// The values are per cent.
		e.Event = eventToSI(fd.Event, conv)
		conv, kind.NativeUnit = percentToFraction, "%"
	}
	kind.Unit = conv.SI
	e.Kind = in.kinds.intern(kind, conv)
	if ref := gribRef(fd, several); ref.Sections != nil {
		if f.sections == nil {
			f.sections = map[fieldPosition]*grib.Sections{}
		}
		f.sections[fieldPosition{fd.Message, fd.Sub}] = ref.Sections
	}
	f.entries = append(f.entries, e)
}

// applyNaming sets variable and level of a field that Options.Naming states, by the short name of ecCodes or by the code
// of an unknown parameter, and returns the unit of its values. A stated unit replaces that of ecCodes, whose tables
// may lack the local ones of a centre. Without statements the field stays as ecCodes describes it.
func (in *Input) applyNaming(e *ensemble.Entry, d *grib.Description, parameter string) (native string) {
	n := in.opt.Naming
	if n.IsZero() {
		return d.Unit
	}
	in.naming.see(n, d.Name, e.Variable, parameter)
	if stated, _, ok := ensemble.Find(n, n.Names, d.Name, e.Variable, parameter); ok {
		if e.Variable = stated.Variable; stated.HasLevel {
			e.Level = stated.Level
		}
	}
	if stated, _, ok := ensemble.Find(n, n.Units, d.Name, e.Variable, parameter); ok {
		return stated
	}
	return d.Unit
}

// wholeAtmosphere lists the types of level that are the whole column.
var wholeAtmosphere = map[string]bool{"entireAtmosphere": true, "atmosphere": true, "atmosphereSingleLayer": true, "surface1-8": true}

// isOwnLevel reports whether a level is the one at which a variable exists: edition
// 1 has 2t at the surface, edition 2 at 2 m, the Met Office at 1.5 m; column water
// is of the whole atmosphere. The cloud cover of a layer is not the total one.
//
// Source: ecCodes, names of typeOfLevel; WMO-No. 306, code table 4.5: 1 (surface), 101
// (mean sea level), 103 (height above ground), 10 and 200 (entire atmosphere).
func isOwnLevel(v ensemble.Variable, l ensemble.Level, levelType string) bool {
	if v.OnManyLevels() || l.IsLayer {
		return false
	}
	switch l.Kind {
	case ensemble.Surface, ensemble.MeanSea:
		return true
	case ensemble.HeightAboveSoil:
		own := v.Level
		return l.Value == 0 || own.Kind == ensemble.HeightAboveSoil && l.Value >= own.Value/2 && l.Value <= 2*own.Value
	case ensemble.OtherLevel:
		return wholeAtmosphere[levelType] || levelType == "depthBelowSea" && l.Value == 0
	}
	return false
}

// variableByCodes returns the name of a quantity by its GRIB2 codes and its level.
//
// Source: WMO-No. 306, code tables 0.0 (discipline), 4.1 (category) and 4.2 (number).
func variableByCodes(fd *grib.Field) (string, bool) {
	for _, v := range ensemble.Variables {
		if fd.LevelKnown && grib.ParameterName(v.Discipline, v.Category, v.Number) == fd.Parameter && (v.Level == fd.Level || v.OnManyLevels() && fd.Level.Kind == ensemble.Pressure) {
			return v.Name, true
		}
	}
	return "", false
}

// percentToFraction converts probabilities, which all centres store as per cent in
// GRIB.
var percentToFraction = unit.Conversion{SI: "1", Scale: 0.01}

// eventToSI converts the limits of an event to SI. A limit that the relation does not
// use is not changed: it is 0, so that equal events compare as equal.
func eventToSI(e ensemble.Event, c unit.Conversion) ensemble.Event {
	if e.Relation.HasLower() {
		e.Lower = c.Scale*e.Lower + c.Offset
	}
	if e.Relation.HasUpper() {
		e.Upper = c.Scale*e.Upper + c.Offset
	}
	return e
}

// aliases gives the names of ensemble.Variables for other short names of ecCodes.
var aliases = map[string]string{"prmsl": "msl", "10ws": "10si", "i10fg": "10fg", "gust": "10fg", "dursun": "sund"}

// statistics gives the CF cell methods for the step types of ecCodes.
//
// Source: CF conventions 1.8, appendix E (cell methods); ecCodes, stepType; WMO-No. 306, code table 4.10.
// CF has no method difference; it is the one of GRIB (code 4), the value at the end minus that at
// the begin.
var statistics = map[string]string{"accum": "sum", "avg": "mean", "max": "maximum", "min": "minimum", "diff": "difference", "sd": "standard_deviation", "rms": "root_mean_square"}

// statisticOf returns the CF cell method of a step type of ecCodes; "" for an
// instant. Other types keep their names, so that they are not taken for instants.
func statisticOf(stepType string) string {
	if stepType == "instant" {
		return ""
	}
	return cmp.Or(statistics[stepType], stepType)
}

// statisticPrefixes are the prefixes of ecCodes' short names by cell method. NetCDF
// has one name for all statistics of a quantity, and so has the catalogue.
var statisticPrefixes = map[string]string{"mean": "avg_", "maximum": "max_", "minimum": "min_", "standard_deviation": "std_"}

// periodName is a short name that states an extreme over an interval.
type periodName struct {
	variable string
	ensemble.TimeStatistic
}

// periodNames gives the quantities of ECMWF's and NCEP's short names of extremes.
// In edition 1 only the name states the interval.
//
// Source: parameter database of ECMWF (codes.ecmwf.int/grib/param-db).
var periodNames = func() map[string]periodName {
	out := map[string]periodName{}
	for _, of := range []struct{ name, variable, statistic string }{
		{"mx2t", "2t", "maximum"}, {"mn2t", "2t", "minimum"}, {"10fg", "10fg", "maximum"}, {"tmax", "2t", "maximum"}, {"tmin", "2t", "minimum"}} {
		for suffix, hours := range map[string]int{"": 0, "3": 3, "6": 6, "24": 24} {
			out[of.name+suffix] = periodName{of.variable, ensemble.TimeStatistic{Statistic: of.statistic, Interval: ensemble.Lead(time.Duration(hours) * time.Hour)}}
		}
	}
	return out
}()

// setTime sets initialisation, lead and interval of an entry, or returns the reason why
// it cannot. The lead is the end of an interval. Steps of ecCodes are in seconds, so
// months and years, whose length varies, were read before or are rejected (DecoderStep).
func setTime(e *ensemble.Entry, fd *grib.Field, d *grib.Description) string {
	if fd.Time.Known {
		e.Init, e.Lead, e.Interval = ensemble.InitAt(fd.Time.Init), ensemble.Lead(fd.Time.Lead), ensemble.Lead(fd.Time.Interval)
		return ""
	}
	if reason := grib.DecoderStep(fd.Edition, d.StepUnit); reason != "" && d.End != 0 {
		return reason
	}
	if longest := int64(math.MaxInt64 / time.Second); !d.StepKnown || d.End < -longest || d.End > longest || d.Start > d.End {
		return "the forecast step is unknown"
	}
	day := int(d.Date)
	if day < 1_01_01 {
		return "the reference date has no year (a climatology?)"
	}
	init := time.Date(day/10000, time.Month(day/100%100), day%100, 0, 0, int(d.Seconds), 0, time.UTC)
	e.Init = ensemble.InitAt(init)
	e.Lead = ensemble.Lead(time.Duration(d.End) * time.Second)
	e.Interval = ensemble.Lead(time.Duration(d.End-d.Start) * time.Second)
	return ""
}

// productByDataType gives the product for data types of ecCodes that are statistics
// over an ensemble or a climatology.
//
// Source: MARS, keyword type (ensemble mean em, spread es, probability ep, …); an
// OtherProduct is listed and never taken for a member.
var productByDataType = map[string]ensemble.Product{
	"em": ensemble.EnsembleMean, "es": ensemble.Spread, "ses": ensemble.OtherProduct, "taem": ensemble.OtherProduct, "taes": ensemble.OtherProduct,
	"ep": ensemble.OtherProduct, "pb": ensemble.OtherProduct, "cd": ensemble.OtherProduct, "cm": ensemble.OtherProduct, "cs": ensemble.OtherProduct,
	"cr": ensemble.OtherProduct, "bf": ensemble.OtherProduct, "efi": ensemble.OtherProduct, "efic": ensemble.OtherProduct, "sot": ensemble.OtherProduct,
	"hcmean": ensemble.OtherProduct, "fp": ensemble.OtherProduct, "cl": ensemble.OtherProduct, "ppm": ensemble.OtherProduct, "si": ensemble.OtherProduct,
}

// ensembleStreams lists the ensemble streams of ECMWF. Their members are numbered
// from 0 even if the ensemble size is missing.
//
// Source: MARS, keyword stream.
var ensembleStreams = map[string]bool{"enfo": true, "enfh": true, "efhs": true, "enda": true, "elda": true, "waef": true, "ewda": true,
	"seas": true, "mmsf": true, "msmm": true, "mmsa": true, "swmm": true, "wasf": true, "mofc": true, "mnfc": true}

// memberAndProduct returns member, ensemble size and product of a field. A statistic
// over members has no member. A size of 0 means that it is not stated. A number of
// ecCodes counts only for an ensemble: deterministic forecasts have the number 0 too.
//
// Source: WMO-No. 306, templates 4.1 and 4.11 (individual member), 4.2 and 4.12 (derived
// from all members), code tables 4.6 (type of ensemble forecast) and 4.7 (derived
// forecast).
func memberAndProduct(fd *grib.Field, d *grib.Description) (ensemble.Member, int, ensemble.Product) {
	product := fd.Product
	if p, ok := productByDataType[d.DataType]; ok && product == ensemble.MemberField {
		product = p
	}
	if product != ensemble.MemberField {
		return ensemble.NoMember, max(fd.Member.EnsembleSize, 0), product
	}
	if fd.Member.Known {
		if !fd.Member.InEnsemble {
			return ensemble.NoMember, 0, product
		}
		return ensemble.Member(fd.Member.ID), fd.Member.EnsembleSize, product
	}
	if d.NumberKnown && (ensembleStreams[d.Stream] || d.EnsembleSize > 0 || d.Number > 0 || d.DataType == "cf" || d.DataType == "pf") {
		return ensemble.Member(d.Number), d.EnsembleSize, product
	}
	return ensemble.NoMember, 0, product
}
