package answer

import (
	"fmt"
	"math"
	"reflect"
	"strings"
)

// Sections is a result for display, in the order of printing. WriteText,
// WriteMarkdown and WriteHTML print it.
type Sections []Section

// Sectioned is a result that can be displayed.
type Sectioned interface{ Sections() Sections }

// Section is a part of a result. All fields are optional.
type Section struct {
	Title string
	// Paragraphs are sentences above the table, which text wraps at the width of a terminal.
	Paragraphs []string
	Text       []string // lines above the table
	Columns    []Column // if all names are empty, the table has no header
	Rows       [][]any  // [row][column]; a row may be shorter than Columns
	Notes      []string // lines below the table
}

// Column describes a column of a table.
type Column struct {
	Name   string
	Unit   string // printed after the name
	Format string // fmt verb for cells that are not strings; "" means %v
	Right  bool   // aligned to the right
}

// TextColumns returns columns of text.
func TextColumns(names ...string) []Column {
	out := make([]Column, len(names))
	for i, n := range names {
		out[i].Name = n
	}
	return out
}

// NumberColumn returns a column of numbers; unit may be "".
func NumberColumn(name, unit, format string) Column {
	return Column{Name: name, Unit: unit, Format: format, Right: true}
}

// NumberColumns returns columns of numbers with one format.
func NumberColumns(format string, names ...string) []Column {
	out := make([]Column, len(names))
	for i, n := range names {
		out[i] = NumberColumn(n, "", format)
	}
	return out
}

// FactsSection returns a section of names and values, such as the components of a
// machine.
func FactsSection(rows ...[2]string) Section {
	s := Section{Columns: make([]Column, 2)}
	for _, r := range rows {
		s.Rows = append(s.Rows, []any{r[0], r[1]})
	}
	return s
}

// head returns the name with the unit.
func (c Column) head() string {
	if c.Unit == "" {
		return c.Name
	}
	return c.Name + " " + c.Unit
}

// cell formats a value; nil and NaN are missing and give "-".
func (c Column) cell(x any) string {
	const missing = "-"
	if text, is := x.(string); is {
		return text
	}
	v := reflect.ValueOf(x)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		if _, is := v.Interface().(fmt.Stringer); is {
			break
		}
		v = v.Elem()
	}
	switch {
	case !v.IsValid(), v.Kind() == reflect.Pointer && v.IsNil(), v.CanFloat() && math.IsNaN(v.Float()):
		return missing
	case c.Format == "":
		return fmt.Sprint(v.Interface())
	}
	text := fmt.Sprintf(c.Format, v.Interface())
	if v.CanFloat() {
		return UnsignedZero(text)
	}
	return text
}

// UnsignedZero removes the sign from the text of a number, with a unit or without, that was rounded to zero.
func UnsignedZero(text string) string {
	unsigned, negative := strings.CutPrefix(text, "-")
	if negative && strings.HasPrefix(unsigned, "0") && !strings.ContainsAny(unsigned, "123456789") {
		return unsigned
	}
	return text
}

// Cells returns the header, nil for none, and the formatted cells, one per column.
func (s Section) Cells() (head []string, rows [][]string) {
	named := false
	for _, c := range s.Columns {
		head = append(head, c.head())
		named = named || c.Name != ""
	}
	if !named {
		head = nil
	}
	for _, r := range s.Rows {
		texts := make([]string, len(s.Columns))
		for i, x := range r {
			texts[i] = s.Columns[i].cell(x)
		}
		rows = append(rows, texts)
	}
	return head, rows
}

// ListSection returns a section of indented lines below a heading.
func ListSection(of string, lines ...string) Section {
	s := Section{Text: []string{of + ":"}}
	for _, l := range lines {
		s.Text = append(s.Text, "  "+l)
	}
	return s
}
