package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/answer"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/store"
)

// InspectOptions are the inputs of [Inspect].
type InspectOptions struct {
	Files []string    // data files, or the folder of a sample store
	Stats bool        // decode all values: missing, minimum, mean, maximum
	Input fio.Options // how files are opened
}

// Inspection is the content of files or a sample store.
type Inspection struct {
	Data     any // for JSON; nil for a store that cannot be read
	Warnings []string
	sections answer.Sections
}

// Sections returns the inspection as tables.
func (i *Inspection) Sections() answer.Sections { return i.sections }

// Inspect lists the content of files, or of a sample store if its folder alone is given: variables, levels,
// members, leads, initialisations with missing fields, grids, and what could not be used with the reason.
// Damaged messages do not prevent the listing of the others. They are the error that is returned beside the
// listing, which is never nil.
//
// Reads: the index of each file; all values with Stats.
// Errors: as fio.Open; exit 65 if a file is damaged or contains no usable field; 66 for missing files.
func Inspect(ctx context.Context, o InspectOptions) (*Inspection, error) {
	if len(o.Files) == 1 && store.IsStore(o.Files[0]) {
		return inspectStore(ctx, o)
	}
	o.Input.SkipBad, o.Input.Static = true, true
	files, unrelated, err := input.ArgumentFiles(o.Files)
	var in *fio.Input
	if err == nil {
		in, err = fio.Open(ctx, files, o.Input)
	}
	if err != nil {
		return &Inspection{Data: inspectData(nil, nil, unrelated)}, err
	}
	defer in.Close()
	if err := input.CheckNaming(o.Input.Naming, "--", in); err != nil {
		return &Inspection{Data: inspectData(nil, nil, unrelated)}, err
	}
	rows, err := inspectRows(ctx, in, o.Stats)
	if err == nil {
		err = in.Faults()
	}
	cat := in.Catalogue()
	warnings := slices.Concat(cat.Warnings, input.UnitWarnings(cat.Entries))
	if err == nil && len(cat.Entries) == 0 {
		err = input.UnusableError(files, cat, "the list of unused fields has the reasons: correct the file, or give another one")
	}
	return &Inspection{Data: inspectData(cat, rows, unrelated), Warnings: warnings, sections: inspectSections(in, rows, unrelated, warnings, o.Stats)}, err
}

// inspectRow is one field in JSON. Statistics are in Unit, the unit of the file. Static fields have no Init
// and Valid.
type inspectRow struct {
	File        string   `json:"file"`
	Message     int      `json:"message"`
	Sub         int      `json:"sub_field,omitempty"`
	Variable    string   `json:"variable"`
	Unit        string   `json:"unit"`
	UnitSI      string   `json:"unit_si"`
	Level       string   `json:"level"`
	LevelType   string   `json:"level_type,omitempty"`
	Member      *int     `json:"member"`
	Product     string   `json:"product"`
	Basis       string   `json:"basis,omitempty"` // what a mean or spread is of: raw members, full ensemble
	Init        string   `json:"init"`
	Lead        string   `json:"lead"`
	LeadSeconds int64    `json:"lead_seconds"`
	Valid       string   `json:"valid"`
	Statistic   string   `json:"statistic,omitempty"`
	Interval    string   `json:"interval,omitempty"` // of the statistic, as leads: "0h-6h"
	IntervalS   int64    `json:"interval_seconds,omitempty"`
	MemberType  string   `json:"member_type,omitempty"`
	Template    int      `json:"template,omitempty"` // product definition template of GRIB 2
	Centre      string   `json:"centre,omitempty"`
	Process     string   `json:"process,omitempty"` // generating process of the forecast model, the centre's number
	Grid        string   `json:"grid"`
	Packing     string   `json:"packing,omitempty"`
	Missing     *int     `json:"missing,omitempty"`
	Min         *float64 `json:"min,omitempty"`
	Mean        *float64 `json:"mean,omitempty"`
	Max         *float64 `json:"max,omitempty"`

	entry ensemble.Entry
}

// inspectRows lists the entries in file order, with statistics if wanted. A field that cannot be decoded has
// none; the first such error is returned with the rows.
func inspectRows(ctx context.Context, in *fio.Input, stats bool) ([]inspectRow, error) {
	position := map[string]int{}
	for i, f := range in.Files() {
		position[f] = i
	}
	entries := slices.Clone(in.Catalogue().Entries)
	slices.SortFunc(entries, func(a, b ensemble.Entry) int {
		if a.File != b.File {
			return position[a.File] - position[b.File]
		}
		if a.Message != b.Message {
			return a.Message - b.Message
		}
		return a.Sub - b.Sub
	})
	rows := make([]inspectRow, len(entries))
	for i, e := range entries {
		r := inspectRow{File: e.File, Message: e.Message, Variable: e.Variable, Unit: e.NativeUnit, UnitSI: e.Unit, Level: e.LevelText(),
			LevelType: e.LevelType, Product: e.Product.String(), Basis: e.Basis, Init: e.Init.Format(time.RFC3339), Lead: e.Lead.String(),
			LeadSeconds: int64(time.Duration(e.Lead) / time.Second), Valid: e.Valid().Format(time.RFC3339), Statistic: e.Statistic, Centre: e.Centre, Process: e.Process,
			Grid: e.Grid.String(), Packing: e.Packing, MemberType: e.MemberType, Template: e.Template, entry: e}
		if e.Interval != 0 {
			r.Interval, r.IntervalS = fmt.Sprintf("%s-%s", e.Lead-e.Interval, e.Lead), int64(time.Duration(e.Interval)/time.Second)
		}
		if e.Sub > 1 {
			r.Sub = e.Sub
		}
		if e.Init.IsZero() { // a static field
			r.Init, r.Valid = "", ""
		}
		if e.Member != ensemble.NoMember {
			m := int(e.Member)
			r.Member = &m
		}
		rows[i] = r
	}
	if !stats {
		return rows, nil
	}
	var first error
	err := input.ReadEach(ctx, in, entries, func(i int, f *ensemble.Field) {
		rows[i].add(f.Values, in.Conversion(entries[i]).ToNative)
	}, func(_ int, err error) {
		if first == nil {
			first = err
		}
	})
	return rows, errors.Join(first, err)
}

// add adds statistics of values in SI units, converted by native to the unit of the file.
func (r *inspectRow) add(v []float32, native func(float64) float64) {
	lo, hi, sum, n := math.Inf(1), math.Inf(-1), 0.0, 0
	for _, x := range v {
		if x == x {
			y := float64(x)
			lo, hi = min(lo, y), max(hi, y)
			sum += y
			n++
		}
	}
	missing := len(v) - n
	r.Missing = &missing
	if n > 0 {
		lo, hi, mean := native(lo), native(hi), native(sum/float64(n))
		r.Min, r.Max, r.Mean = &lo, &hi, &mean
	}
}

// inspectUnused is a message of which no field was made.
type inspectUnused struct {
	File     string `json:"file"`
	Message  int    `json:"message,omitempty"`
	Variable string `json:"variable,omitempty"`
	Reason   string `json:"reason"`
}

// inspectData returns the JSON form; cat is nil if no file could be opened.
func inspectData(cat *ensemble.Catalogue, rows []inspectRow, unrelated []input.UnrelatedFile) any {
	out := struct {
		Messages int             `json:"messages"`
		Used     int             `json:"used"`
		Unused   int             `json:"unused"`
		Fields   []inspectRow    `json:"fields"`
		Reasons  []inspectUnused `json:"unused_messages"`
		// Only the first missing fields are listed; random collections of files lack millions.
		Holes     []string              `json:"missing_fields"`
		HoleCount int                   `json:"missing_field_count"`
		Unrelated []input.UnrelatedFile `json:"ignored_files"` // in folders that were given
	}{Fields: rows, Reasons: []inspectUnused{}, Holes: []string{}, Unrelated: append([]input.UnrelatedFile{}, unrelated...)}
	if rows == nil {
		out.Fields = []inspectRow{}
	}
	if cat == nil {
		return out
	}
	out.Messages = cat.Messages
	out.Used = input.UsedMessages(cat)
	out.Unused = out.Messages - out.Used
	for _, u := range cat.Unused {
		out.Reasons = append(out.Reasons, inspectUnused{u.File, u.Message, u.Name, u.Reason})
	}
	for _, g := range cat.Groups() {
		for _, h := range g.Missing {
			if out.HoleCount++; out.HoleCount <= maxHoles {
				out.Holes = append(out.Holes, h.String())
			}
		}
	}
	return out
}

// maxHoles limits the listed missing fields in JSON.
const maxHoles = 1000

// maxLines limits each list in the tables.
const maxLines = 40

// inspectSections returns the tables of an inspection.
func inspectSections(in *fio.Input, rows []inspectRow, unrelated []input.UnrelatedFile, warnings []string, stats bool) answer.Sections {
	cat := in.Catalogue()
	used := input.UsedMessages(cat)
	all := answer.Sections{{Text: []string{fmt.Sprintf("%d files, %d messages: %d used, %d unused; %d fields", len(in.Files()), cat.Messages, used, cat.Messages-used, len(cat.Entries))}}}
	table := answer.Section{Columns: append(slices.Clone(GroupColumns), answer.TextColumns("over time")...)}
	statistic := false // a group has a statistic over time
	var grids, holes []string
	for _, g := range cat.Groups() {
		table.Rows = append(table.Rows, append(GroupRow(g), strings.Join(g.Statistics, ",")))
		statistic = statistic || !slices.Equal(g.Statistics, []string{"instant"})
		for _, grid := range g.Grids {
			if text := fmt.Sprintf("grid: %s%s", grid, input.FormatSourceOrder(grid)); !slices.Contains(grids, text) {
				grids = append(grids, text)
			}
		}
		for _, h := range g.Missing {
			holes = append(holes, h.String())
		}
	}
	if !statistic {
		table.Columns = GroupColumns
		for i, r := range table.Rows {
			table.Rows[i] = r[:len(r)-1]
		}
	}
	if len(table.Rows) > 0 {
		all = append(all, table, answer.Section{Text: grids})
	}
	if stats && len(rows) > 0 {
		all = append(all, statistics(rows))
	}
	var unused, left []string
	for _, u := range cat.Unused {
		at := u.File
		if u.Message > 0 {
			at = fmt.Sprintf("%s, message %d", u.File, u.Message)
		}
		if u.Name != "" {
			at += " (" + u.Name + ")"
		}
		unused = append(unused, at+": "+u.Reason)
	}
	for _, a := range unrelated {
		left = append(left, a.Path+": "+a.Why)
	}
	for _, l := range []struct {
		of    string
		lines []string
	}{{"missing fields", holes}, {"unused", unused}, {"unrelated files", left}, {"warnings", warnings}} {
		if n := len(l.lines); n > 0 {
			all = append(all, answer.ListSection(l.of, slices.Concat(l.lines[:min(n, maxLines)], more(n, ""))...))
		}
	}
	return all
}

// statistics returns a table of the statistics of each field.
func statistics(rows []inspectRow) answer.Section {
	s := answer.Section{Columns: append(answer.TextColumns("field", "unit"), answer.NumberColumns("%.6g", "missing", "min", "mean", "max")...)}
	s.Columns[2].Format = "%d"
	for _, r := range rows[:min(len(rows), maxLines)] {
		if r.Missing == nil {
			s.Rows = append(s.Rows, []any{r.entry, r.Unit, "not decoded"})
			continue
		}
		s.Rows = append(s.Rows, []any{r.entry, r.Unit, r.Missing, r.Min, r.Mean, r.Max})
	}
	for _, line := range more(len(rows), "fields; --json lists all") {
		s.Notes = append(s.Notes, "  "+line)
	}
	return s
}

// GroupColumns are the columns of GroupRow.
var GroupColumns = slices.Concat(answer.TextColumns("variable", "product", "unit", "levels", "members", "leads", "inits"), answer.NumberColumns("", "fields", "missing"), answer.TextColumns("packing", "centre"))

// GroupRow returns a group of a catalogue as a table row.
func GroupRow(g ensemble.Group) []any {
	holes := 0
	for _, h := range g.Missing {
		holes += len(h.Members)
	}
	of := g.Product.String()
	if g.Basis != "" {
		of += " of the " + g.Basis
	}
	return []any{g.Variable, of, g.Unit, abbreviateTexts(g.LevelTexts), input.FormatMembers(g.Members), input.Abbreviate(g.Leads), input.Abbreviate(g.Inits),
		strconv.Itoa(g.Count), strconv.Itoa(holes), strings.Join(g.Packings, ","), cmp.Or(strings.Join(g.Centres, ","), "-")}
}

// abbreviateTexts joins texts, long lists as their ends.
func abbreviateTexts(v []string) string {
	if len(v) > 6 {
		return fmt.Sprintf("%s … %s (%d)", v[0], v[len(v)-1], len(v))
	}
	return strings.Join(v, ",")
}

// more returns a line that counts the things that are not listed; nil if all are.
func more(n int, what string) []string {
	if n <= maxLines {
		return nil
	}
	return []string{strings.TrimRight(fmt.Sprintf("… %d more %s", n-maxLines, what), " ")}
}
