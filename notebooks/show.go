package notebooks

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/gonb"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// shownFolder is the folder for pictures outside of a notebook.
const shownFolder = "shown"

// Picture is a drawing as PNG or SVG.
type Picture struct {
	Title string
	PNG   []byte // nil if SVG is set
	SVG   []byte
	// drawing writes PNG and PDF; nil for pictures that are SVG only.
	drawing *report.Drawing
	err     error
}

// Err returns the error of the picture, or nil.
func (p *Picture) Err() error { return p.err }

// Show adds the picture to the cell. Outside of a notebook it writes a file into the folder
// "shown" and prints its path.
func (p *Picture) Show() { exitOnError(p.show()) }

func (p *Picture) show() error {
	if p.err != nil {
		return p.err
	}
	if gonb.IsCell() {
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

// Write writes the picture to a file and creates missing folders. The ending of the path selects the format: ".png" and
// ".pdf" for maps and charts, ".svg" for charts and diagrams.
//
// Errors: the error of the picture; 64 for a format that the picture does not have; 73 and 74 for the file.
func (p *Picture) Write(path string) error {
	if p.err != nil {
		return p.err
	}
	var text []byte
	var err error
	switch ending := strings.ToLower(filepath.Ext(path)); {
	case ending == ".svg":
		text = p.SVG
	case ending == ".png" && p.PNG != nil:
		text = p.PNG
	case ending == ".png" && p.drawing != nil:
		text, err = encodePNG(p.drawing.Image())
	case ending == ".pdf" && p.drawing != nil:
		var b bytes.Buffer
		err = p.drawing.WritePDF(&b)
		text = b.Bytes()
	}
	if err != nil {
		return err
	}
	if text == nil {
		return &exit.Error{Code: exit.Usage, What: "the picture cannot be written in this format", At: path, Why: "it can be written as " + strings.Join(p.formats(), ", "), Fix: "choose one of these endings"}
	}
	return writeFile(path, text)
}

// MustWrite calls Write and ends the cell on an error.
func (p *Picture) MustWrite(path string) { exitOnError(p.Write(path)) }

// formats lists the endings of files that Write can write.
func (p *Picture) formats() (out []string) {
	if p.PNG != nil || p.drawing != nil {
		out = append(out, ".png")
	}
	if p.drawing != nil {
		out = append(out, ".pdf")
	}
	if p.SVG != nil {
		out = append(out, ".svg")
	}
	return out
}

// pictureOf converts a picture of the report.
func pictureOf(p report.Picture) *Picture { return &Picture{Title: p.Title, SVG: p.SVG} }

// chartOf draws a chart.
func chartOf(c *report.Chart) *Picture {
	d := c.Drawing()
	return &Picture{Title: c.Title, SVG: c.Picture().SVG, drawing: &d}
}

// Pictures is a group of pictures that Show adds side by side.
type Pictures struct {
	All []*Picture
	err error
}

// Err returns the error of the pictures, or nil.
func (p *Pictures) Err() error { return p.err }

// Show adds the pictures to the cell, side by side if the width suffices.
func (p *Pictures) Show() {
	exitOnError(p.err)
	if !gonb.IsCell() || len(p.All) == 1 {
		for _, one := range p.All {
			exitOnError(one.show())
		}
		return
	}
	var b, titles strings.Builder
	for _, one := range p.All {
		exitOnError(one.err)
		kind, data := gonb.SVG, one.SVG
		if one.PNG != nil {
			kind, data = gonb.PNG, one.PNG
		}
		fmt.Fprintf(&b, `<figure style="display: inline-block; width: min-content; margin: 0 18px 12px 0; vertical-align: top"><figcaption style="font-weight: 600; min-height: 2.6em">%s</figcaption><img alt="%[1]s" style="max-width: none" src="data:%s;base64,%s"/></figure>`,
			html.EscapeString(one.Title), kind, base64.StdEncoding.EncodeToString(data))
		fmt.Fprintln(&titles, one.Title)
	}
	exitOnError(gonb.Show(gonb.Data{gonb.HTML: b.String(), gonb.Text: titles.String()}))
}

// Table is a table of a result, as commands print it.
type Table struct {
	answer.Section
	err error
}

// Err returns the error of the table, or nil.
func (t *Table) Err() error { return t.err }

// Show adds the table to the cell. Outside of a notebook it prints the table.
func (t *Table) Show() {
	exitOnError(t.err)
	exitOnError(showSections(answer.Sections{t.Section}))
}

// Show adds all results of a job to the cell, as the command prints them.
func Show(found answer.Sectioned) { exitOnError(showSections(found.Sections())) }

// maxRows is the maximum number of rows of a table.
const maxRows = MaxLines - 20

// showSections adds sections to the cell, or prints them outside of a notebook. It limits each
// table to maxRows rows and the text to MaxLines lines.
func showSections(all answer.Sections) error {
	all = slices.Clone(all)
	for i, s := range all {
		if more := len(s.Rows) - maxRows; more > 0 {
			all[i].Rows, all[i].Notes = s.Rows[:maxRows], append([]string{fmt.Sprintf("… %d more rows", more)}, s.Notes...)
		}
	}
	var page, text bytes.Buffer
	if err := errors.Join(all.WriteText(&lineLimiter{w: &text, left: MaxLines - 1}), all.WriteHTML(&page)); err != nil {
		return err
	}
	if gonb.IsCell() {
		return gonb.Show(gonb.Data{gonb.HTML: page.String(), gonb.Text: text.String()})
	}
	_, err := os.Stdout.Write(text.Bytes())
	return err
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)

// fileName converts a title to a file name.
func fileName(title string) string {
	name := strings.ToLower(strings.Trim(notInNames.ReplaceAllString(title, "-"), "-"))
	return name[:min(len(name), 80)]
}
