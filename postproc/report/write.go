package report

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Write writes the page as one HTML file that needs nothing from elsewhere.
func (p *Page) Write(w io.Writer) error { return pageTemplate.Execute(w, p) }
