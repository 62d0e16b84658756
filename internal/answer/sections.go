package answer

import (
	"fmt"
	"math"
	"reflect"
)

// Sections are an answer as people read it, as data: what a job found, in the order in which it is printed. WriteText,
// WriteMarkdown and WriteHTML print it.
type Sections []Section

// Sectioned is a result that has an answer for people.
type Sectioned interface{ Sections() Sections }

// Section is a part of an answer. All of its fields may be empty.
type Section struct {
	Title   string
	Text    []string // lines above the table
	Columns []Column // without a name in any, the table has no head
	Rows    [][]any  // [row][column]; a row may be shorter than Columns
	Notes   []string // lines below the table
}

// Column is what the cells of a column have in common.
type Column struct {
	Name   string
	Unit   string // printed behind the name
	Format string // of fmt, for cells that are no strings; "" means %v
	Right  bool   // aligned to the right
}

// TextColumns are columns of text.
func TextColumns(names ...string) []Column {
	out := make([]Column, len(names))
	for i, n := range names {
		out[i].Name = n
	}
	return out
}

// NumberColumn is a column of numbers, in a unit that may be "".
func NumberColumn(name, unit, format string) Column {
	return Column{Name: name, Unit: unit, Format: format, Right: true}
}

// NumberColumns are columns of numbers of one format.
func NumberColumns(format string, names ...string) []Column {
	out := make([]Column, len(names))
	for i, n := range names {
		out[i] = NumberColumn(n, "", format)
	}
	return out
}

// FactsSection is a section of names, each with what there is to say of it, such as the parts of a machine.
func FactsSection(rows ...[2]string) Section {
	s := Section{Columns: make([]Column, 2)}
	for _, r := range rows {
		s.Rows = append(s.Rows, []any{r[0], r[1]})
	}
	return s
}

// head is the name with the unit.
func (c Column) head() string {
	if c.Unit == "" {
		return c.Name
	}
	return c.Name + " " + c.Unit
}

// cell is a value as text; nil and NaN are missing ones.
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
	return fmt.Sprintf(c.Format, v.Interface())
}

// Cells are the head, nil for none, and the cells as text, a cell for each column.
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

// ListSection is a section of lines under what they have in common.
func ListSection(of string, lines ...string) Section {
	s := Section{Text: []string{of + ":"}}
	for _, l := range lines {
		s.Text = append(s.Text, "  "+l)
	}
	return s
}
