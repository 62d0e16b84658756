package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/phrase"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/store"
)

// InspectOptions says what to look at and how to print it.
type InspectOptions struct {
	Files   []string
	Stats   bool   // also decode all values: missing, minimum, mean, maximum
	JSON    bool   // one JSON object instead of tables
	Version string // of the program, for the JSON object
	Input   fio.Options
}

// Inspect lists what files hold, or a sample store if its folder alone is given: variables, levels, members, leads and starts
// with holes, grids, and what could not be used and why. Damaged messages do not
// keep the sound ones from being listed; they are the error that is returned
// after the listing.
//
// Errors: as fio.Open; exit 65 if anything in the files is damaged or no field in
// them can be used.
func Inspect(ctx context.Context, o InspectOptions, w io.Writer) error {
	if len(o.Files) == 1 && store.Holds(o.Files[0]) {
		return inspectStore(ctx, o, w)
	}
	o.Input.SkipBad = true
	files, aside, err := input.Arguments(o.Files)
	var in *fio.Input
	if err == nil {
		in, err = fio.Open(ctx, files, o.Input)
	}
	if err != nil {
		if o.JSON {
			return errors.Join(err, writeInspectJSON(w, o, nil, nil, aside, err))
		}
		return err
	}
	defer in.Close()
	rows, err := inspectRows(ctx, in, o.Stats)
	if err == nil {
		err = in.Faults()
	}
	if o.JSON {
		if werr := writeInspectJSON(w, o, in.Catalogue(), rows, aside, err); werr != nil {
			return werr
		}
		return err
	}
	if werr := writeInspectTables(w, in, rows, aside, o.Stats); werr != nil {
		return werr
	}
	return err
}

// inspectRow is one field in the JSON form. Statistics are in Unit, the file's own.
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
	Init        string   `json:"init"`
	Lead        string   `json:"lead"`
	LeadSeconds int64    `json:"lead_seconds"`
	Valid       string   `json:"valid"`
	Statistic   string   `json:"statistic,omitempty"`
	Centre      string   `json:"centre,omitempty"`
	Process     string   `json:"process,omitempty"` // the centre's number of the forecast model
	Grid        string   `json:"grid"`
	Packing     string   `json:"packing,omitempty"`
	Missing     *int     `json:"missing,omitempty"`
	Min         *float64 `json:"min,omitempty"`
	Mean        *float64 `json:"mean,omitempty"`
	Max         *float64 `json:"max,omitempty"`

	entry ensemble.Entry
}

// inspectRows lists the entries in file order, with statistics if wanted. A field
// that cannot be decoded is left without them; the first such error is returned
// with the rows.
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
		r := inspectRow{File: e.File, Message: e.Message, Variable: e.Variable, Unit: e.NativeUnit, UnitSI: e.Unit, Level: e.Level.String(),
			LevelType: e.LevelType, Product: e.Product.String(), Init: e.Init.Format(time.RFC3339), Lead: e.Lead.String(),
			LeadSeconds: int64(time.Duration(e.Lead) / time.Second), Valid: e.Valid().Format(time.RFC3339), Statistic: e.Statistic, Centre: e.Centre, Process: e.Process,
			Grid: e.Grid.String(), Packing: e.Packing, entry: e}
		if e.Sub > 1 {
			r.Sub = e.Sub
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
		rows[i].add(f.Values, in.Native(entries[i]).ToNative)
	}, func(_ int, err error) {
		if first == nil {
			first = err
		}
	})
	return rows, errors.Join(first, err)
}

// add takes the statistics of the values in SI.
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

// inspectUnused is a message that no field was made of.
type inspectUnused struct {
	File     string `json:"file"`
	Message  int    `json:"message,omitempty"`
	Variable string `json:"variable,omitempty"`
	Reason   string `json:"reason"`
}

func writeInspectJSON(w io.Writer, o InspectOptions, cat *ensemble.Catalogue, rows []inspectRow, aside []input.Aside, err error) error {
	frame := answer.New("inspect", o.Version, err)
	out := struct {
		Messages int             `json:"messages"`
		Used     int             `json:"used"`
		Unused   int             `json:"unused"`
		Fields   []inspectRow    `json:"fields"`
		Reasons  []inspectUnused `json:"unused_messages"`
		// Holes are the first ones; archives put together at random have millions.
		Holes     []string      `json:"holes"`
		HoleCount int           `json:"hole_count"`
		Aside     []input.Aside `json:"left_aside"` // in folders that were named
	}{Fields: rows, Reasons: []inspectUnused{}, Holes: []string{}, Aside: append([]input.Aside{}, aside...)}
	if rows == nil {
		out.Fields = []inspectRow{}
	}
	if cat != nil {
		out.Messages = cat.Messages
		out.Used = input.UsedMessages(cat)
		out.Unused = out.Messages - out.Used
		frame.Warnings = append(frame.Warnings, cat.Warnings...)
		for _, u := range cat.Unused {
			out.Reasons = append(out.Reasons, inspectUnused{u.File, u.Message, u.Name, u.Reason})
		}
		for _, g := range cat.Groups() {
			for _, h := range g.Holes {
				if out.HoleCount++; out.HoleCount <= maxHoles {
					out.Holes = append(out.Holes, h.String())
				}
			}
		}
	}
	return frame.Write(w, out)
}

// maxHoles bounds the holes in the JSON form.
const maxHoles = 1000

// maxLines bounds each list of the tables.
const maxLines = 40

func writeInspectTables(w io.Writer, in *fio.Input, rows []inspectRow, aside []input.Aside, stats bool) error {
	cat := in.Catalogue()
	var b strings.Builder
	used := input.UsedMessages(cat)
	fmt.Fprintf(&b, "%d files, %d messages: %d used, %d unused; %d fields\n\n", len(in.Files()), cat.Messages, used, cat.Messages-used, len(cat.Entries))
	groups := cat.Groups()
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(groups) > 0 {
		fmt.Fprintln(tw, strings.ToUpper(strings.Join(GroupColumns, "\t")))
	}
	var grids []*ensemble.Grid
	for _, g := range groups {
		fmt.Fprintln(tw, strings.Join(GroupRow(g), "\t"))
		for _, grid := range g.Grids {
			if !slices.Contains(grids, grid) {
				grids = append(grids, grid)
			}
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, g := range grids {
		fmt.Fprintf(&b, "\ngrid: %s%s", g, input.SourceOrder(g))
	}
	b.WriteString("\n")
	if stats && len(rows) > 0 {
		b.WriteString("\n")
		fmt.Fprintln(tw, "FIELD\tUNIT\tMISSING\tMIN\tMEAN\tMAX")
		for _, r := range rows[:min(len(rows), maxLines)] {
			if r.Missing == nil {
				fmt.Fprintf(tw, "%s\t%s\tnot decoded\t\t\t\n", r.entry.Key, r.Unit)
				continue
			}
			fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%s\t%s\n", r.entry.Key, r.Unit, *r.Missing, phrase.OrDash(r.Min), phrase.OrDash(r.Mean), phrase.OrDash(r.Max))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		more(&b, len(rows), "fields; --json lists all")
	}
	var holes []string
	for _, g := range groups {
		for _, h := range g.Holes {
			holes = append(holes, h.String())
		}
	}
	list(&b, "holes", holes)
	var unused []string
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
	list(&b, "unused", unused)
	var left []string
	for _, a := range aside {
		left = append(left, a.Path+": "+a.Why)
	}
	list(&b, "left aside", left)
	list(&b, "warnings", cat.Warnings)
	_, err := io.WriteString(w, strings.Map(printable, b.String()))
	return err
}

// GroupColumns name what GroupRow tells.
var GroupColumns = []string{"variable", "product", "unit", "levels", "members", "leads", "starts", "fields", "holes", "packing", "centre"}

// GroupRow is a group of a catalogue as a row of the table that Inspect prints.
func GroupRow(g ensemble.Group) []string {
	holes := 0
	for _, h := range g.Holes {
		holes += len(h.Members)
	}
	return []string{g.Variable, g.Product.String(), g.Unit, input.Some(g.Levels), input.Members(g.Members), input.Some(g.Leads), input.Some(g.Inits),
		strconv.Itoa(g.Count), strconv.Itoa(holes), strings.Join(g.Packings, ","), cmp.Or(strings.Join(g.Centres, ","), "-")}
}

// printable replaces control characters, which names in files may hold, so that no
// terminal obeys them.
func printable(r rune) rune {
	if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
		return '?'
	}
	return r
}

func list(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, l := range lines[:min(len(lines), maxLines)] {
		fmt.Fprintf(b, "  %s\n", l)
	}
	more(b, len(lines), "")
}

func more(b *strings.Builder, n int, what string) {
	if n > maxLines {
		fmt.Fprintf(b, "  … %d more %s\n", n-maxLines, what)
	}
}
