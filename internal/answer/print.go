package answer

import (
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/ensemble-weather/ensemble/internal/terminal"
)

// WriteText prints sections for a terminal, separated by empty lines. Control
// characters are replaced, because text from files may contain terminal escapes.
func (all Sections) WriteText(w io.Writer) error {
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		if s.Title != "" {
			b.WriteString(terminal.Paint(w, terminal.Bold, Printable(s.Title)) + "\n")
		}
		for _, p := range s.Paragraphs {
			writeLines(&b, wrap(Printable(p), textWidth)...)
		}
		writeLines(&b, s.Text...)
		s.writeColumns(&b)
		writeLines(&b, s.Notes...)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeLines writes lines without control characters.
func writeLines(b *strings.Builder, lines ...string) {
	for _, l := range lines {
		b.WriteString(Printable(l))
		b.WriteByte('\n')
	}
}

// MarkError colours a word that marks an error, if w is a terminal with colours.
func MarkError(w io.Writer, text string) string { return terminal.Paint(w, terminal.Red, text) }

// MarkWarning colours a word that marks a warning, if w is a terminal with colours.
func MarkWarning(w io.Writer, text string) string { return terminal.Paint(w, terminal.Yellow, text) }

// textWidth is the number of columns at which paragraphs are wrapped.
const textWidth = 80

// wrap breaks a text at spaces into lines of at most width characters, unless a word is longer.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Printable replaces each control character except newline by a question mark.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// gap is the number of spaces between two columns.
const gap = 2

// writeColumns writes the table with columns as wide as their widest cell.
func (s Section) writeColumns(b *strings.Builder) {
	head, rows := s.Cells()
	if head != nil {
		rows = append([][]string{head}, rows...)
	}
	width := make([]int, len(s.Columns))
	for _, r := range rows {
		for i, text := range r {
			r[i] = strings.ReplaceAll(Printable(text), "\n", "?")
			width[i] = max(width[i], utf8.RuneCountInString(r[i]))
		}
	}
	for _, r := range rows {
		var line strings.Builder
		for i, text := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(text))
			if i > 0 {
				line.WriteString(strings.Repeat(" ", gap))
			}
			if s.Columns[i].Right {
				line.WriteString(pad + text)
			} else {
				line.WriteString(text + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// markup escapes the characters with a meaning in a line of Markdown.
var markup = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "#", `\#`, "\n", " ")

// WriteMarkdown prints sections as Markdown with GitHub tables.
func (all Sections) WriteMarkdown(w io.Writer) error {
	var blocks []string
	add := func(block string) {
		if block != "" {
			blocks = append(blocks, block)
		}
	}
	for _, s := range all {
		if s.Title != "" {
			add("## " + markup.Replace(Printable(s.Title)))
		}
		for _, p := range s.Paragraphs {
			add(paragraph([]string{p}))
		}
		add(paragraph(s.Text))
		add(s.markdownTable())
		add(paragraph(s.Notes))
	}
	_, err := io.WriteString(w, strings.Join(blocks, "\n\n")+"\n")
	return err
}

// paragraph joins lines by hard breaks; empty lines separate paragraphs.
func paragraph(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		l = markup.Replace(strings.TrimSpace(Printable(l)))
		if i > 0 && l != "" && b.Len() > 0 && lines[i-1] != "" {
			b.WriteString("\\\n")
		} else if l == "" && b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(l)
	}
	return strings.TrimRight(b.String(), "\n")
}

// markdownTable returns the table as GitHub Markdown; "" without columns.
func (s Section) markdownTable() string {
	if len(s.Columns) == 0 {
		return ""
	}
	head, rows := s.Cells()
	if head == nil {
		head = make([]string, len(s.Columns)) // Markdown tables need a header
	}
	line := func(texts []string) string {
		escaped := make([]string, len(texts))
		for i, t := range texts {
			escaped[i] = markup.Replace(Printable(t))
		}
		return "| " + strings.Join(escaped, " | ") + " |"
	}
	lines := []string{line(head), "|"}
	for _, c := range s.Columns {
		if c.Right {
			lines[1] += "--:|"
		} else {
			lines[1] += "---|"
		}
	}
	for _, r := range rows {
		lines = append(lines, line(r))
	}
	return strings.Join(lines, "\n")
}

// WriteHTML prints sections as parts of an HTML page. The page's style applies to
// the tables.
func (all Sections) WriteHTML(w io.Writer) error {
	var b strings.Builder
	for _, s := range all {
		if s.Title != "" {
			fmt.Fprintf(&b, "<p><b>%s</b></p>", html.EscapeString(s.Title))
		}
		for _, p := range s.Paragraphs {
			writeParagraph(&b, []string{p})
		}
		writeParagraph(&b, s.Text)
		s.writeTable(&b)
		writeParagraph(&b, s.Notes)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeParagraph writes lines as one HTML paragraph.
func writeParagraph(b *strings.Builder, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(b, "<p>%s</p>", strings.ReplaceAll(html.EscapeString(strings.Join(lines, "\n")), "\n", "<br>"))
	}
}

// writeTable writes the table as HTML.
func (s Section) writeTable(b *strings.Builder) {
	if len(s.Columns) == 0 {
		return
	}
	row := func(cell string, texts []string) {
		b.WriteString("<tr>")
		for i, t := range texts {
			side := "left"
			if s.Columns[i].Right {
				side = "right"
			}
			fmt.Fprintf(b, `<%s style="text-align: %s">%s</%[1]s>`, cell, side, html.EscapeString(t))
		}
		b.WriteString("</tr>")
	}
	head, rows := s.Cells()
	b.WriteString("<table>")
	if head != nil {
		b.WriteString("<thead>")
		row("th", head)
		b.WriteString("</thead>")
	}
	b.WriteString("<tbody>")
	for _, r := range rows {
		row("td", r)
	}
	b.WriteString("</tbody></table>")
}
