package notebooks

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/ensemble-weather/ensemble/internal/gonb"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// shownFolder has the pictures that are shown outside of a notebook.
const shownFolder = "shown"

// Picture is something drawn, as PNG or SVG.
type Picture struct {
	Title string
	PNG   []byte // nil if SVG is there
	SVG   []byte
	err   error
}

// Err says why there is no picture; nil if there is one.
func (p *Picture) Err() error { return p.err }

// Show adds the picture to the cell; outside of a notebook it writes a file into the
// folder "shown" and prints its path.
func (p *Picture) Show() { end(p.show()) }

func (p *Picture) show() error {
	if p.err != nil {
		return p.err
	}
	if gonb.Here() {
		if p.PNG != nil {
			return gonb.Show(gonb.Data{gonb.PNG: p.PNG, gonb.Text: p.Title})
		}
		return gonb.Show(gonb.Data{gonb.SVG: string(p.SVG), gonb.Text: p.Title})
	}
	path := filepath.Join(shownFolder, fileName(p.Title))
	if p.PNG != nil {
		path += ".png"
	} else {
		path += ".svg"
	}
	if err := p.Write(path); err != nil {
		return err
	}
	fmt.Println(path)
	return nil
}

// Write writes the picture as a file, and the folders that are missing.
//
// Errors: of the picture; 73 and 74 of the file.
func (p *Picture) Write(path string) error {
	if p.err != nil {
		return p.err
	}
	text := p.SVG
	if p.PNG != nil {
		text = p.PNG
	}
	return writeFile(path, text)
}

// drawn is a picture of the report.
func drawn(p report.Picture) *Picture { return &Picture{Title: p.Title, SVG: p.SVG} }

// Pictures are shown beside each other.
type Pictures struct {
	All []*Picture
	err error
}

// Err says why there are no pictures.
func (p *Pictures) Err() error { return p.err }

// Show adds the pictures to the cell, side by side where there is room.
func (p *Pictures) Show() {
	end(p.err)
	if !gonb.Here() || len(p.All) == 1 {
		for _, one := range p.All {
			end(one.show())
		}
		return
	}
	var b, titles strings.Builder
	for _, one := range p.All {
		end(one.err)
		kind, data := gonb.SVG, one.SVG
		if one.PNG != nil {
			kind, data = gonb.PNG, one.PNG
		}
		fmt.Fprintf(&b, `<figure style="display: inline-block; width: min-content; margin: 0 18px 12px 0; vertical-align: top"><figcaption style="font-weight: 600; min-height: 2.6em">%s</figcaption><img alt="%[1]s" style="max-width: none" src="data:%s;base64,%s"/></figure>`,
			html.EscapeString(one.Title), kind, base64.StdEncoding.EncodeToString(data))
		fmt.Fprintln(&titles, one.Title)
	}
	end(gonb.Show(gonb.Data{gonb.HTML: b.String(), gonb.Text: titles.String()}))
}

// Table is text in rows.
//
// Shape: Rows [row][column].
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
	err     error
}

// Err says why there is no table.
func (t *Table) Err() error { return t.err }

// Show adds the table to the cell; outside of a notebook it prints it.
func (t *Table) Show() { end(showTables([]*Table{t})) }

// showTables shows tables one below the other, of MaxLines rows in all at most.
func showTables(tables []*Table) error {
	var page bytes.Buffer
	var text bytes.Buffer
	lines := &limited{w: &text, left: MaxLines - 1}
	for _, t := range tables {
		if t.err != nil {
			return t.err
		}
		t.writeText(lines)
		t.writeHTML(&page)
	}
	if gonb.Here() {
		return gonb.Show(gonb.Data{gonb.HTML: page.String(), gonb.Text: text.String()})
	}
	_, err := os.Stdout.Write(text.Bytes())
	return err
}

// maxRows bounds the rows of a table that are shown.
const maxRows = MaxLines - 20

func (t *Table) writeText(w *limited) {
	if t.Title != "" {
		fmt.Fprintln(w, t.Title)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.ToUpper(strings.Join(t.Columns, "\t")))
	for _, r := range t.Rows[:min(len(t.Rows), maxRows)] {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	tw.Flush() // into memory
	if more := len(t.Rows) - maxRows; more > 0 {
		fmt.Fprintf(w, "… %d more rows\n", more)
	}
	fmt.Fprintln(w)
}

// writeHTML leaves the style of tables to the notebook.
func (t *Table) writeHTML(b *bytes.Buffer) {
	if t.Title != "" {
		fmt.Fprintf(b, "<p><b>%s</b></p>", html.EscapeString(t.Title))
	}
	row := func(cell string, texts []string) {
		b.WriteString("<tr>")
		for _, s := range texts {
			fmt.Fprintf(b, `<%s style="text-align: left">%s</%[1]s>`, cell, html.EscapeString(s))
		}
		b.WriteString("</tr>")
	}
	b.WriteString("<table><thead>")
	row("th", t.Columns)
	b.WriteString("</thead><tbody>")
	for _, r := range t.Rows[:min(len(t.Rows), maxRows)] {
		row("td", r)
	}
	b.WriteString("</tbody></table>")
	if more := len(t.Rows) - maxRows; more > 0 {
		fmt.Fprintf(b, "<p>… %d more rows</p>", more)
	}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)

// fileName makes a title the name of a file.
func fileName(title string) string {
	name := strings.ToLower(strings.Trim(notInNames.ReplaceAllString(title, "-"), "-"))
	return name[:min(len(name), 80)]
}
