package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// figures of a report that the gallery shows, by the heading of their panel or section.
var figures = []struct{ heading, caption string }{
	{"Temperature at 850\u202fhPa: mean", "Ensemble mean of five members, the calibrated mean, and the analysis."},
	{"Temperature at 850\u202fhPa: spread", "Spread of five members, of all ten, and the calibrated spread."},
	{"Temperature at 850\u202fhPa: difference", "Errors of the raw and of the calibrated mean."},
	{"Geopotential height at 500\u202fhPa: mean", "Isolines of geopotential height, the same initialisation."},
}

var (
	styles = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	shared = regexp.MustCompile(`(?s)<svg class="[a-z]*" aria-hidden="true">.*?</svg>`)
	panel  = regexp.MustCompile(`(?s)<(?:section|details) class="panel"><(?:h3|summary)>(.*?)</(?:h3|summary)>(.*?)<details><summary>Numbers`)
)

// gallery shows figures of a report, each with the report's own style, and the whole report as a page of its own.
func (s *sources) gallery(dir string) error {
	if dir == "" {
		return nil
	}
	report, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		return err
	}
	text := string(report)
	style := styles.FindStringSubmatch(text)
	if style == nil {
		return fmt.Errorf("%s: no style in the report", dir)
	}
	definitions := strings.Join(shared.FindAllString(text, -1), "")
	panels := map[string]string{}
	for _, p := range panel.FindAllStringSubmatch(text, -1) {
		if _, seen := panels[p[1]]; !seen {
			panels[p[1]] = `<section class="panel">` + p[2] + `</section>`
		}
	}
	var b strings.Builder
	b.WriteString("# Gallery\n\nFigures of the report that `ensemble demo` writes: ten-member forecasts of synthetic weather, five members used.\n" +
		"[The whole report](gallery/report.html) has all variables, scores and loss curves.\n\n")
	for _, f := range figures {
		p, ok := panels[f.heading]
		if !ok {
			return fmt.Errorf("%s: no figure %q in the report", dir, f.heading)
		}
		// A shadow root keeps the styles of figures and page apart. Its host takes the light colours.
		fmt.Fprintf(&b, "## %s\n\n%s\n\n<div class=\"figure\"><template shadowrootmode=\"open\"><style>%s :host { color: #1c2228; background: #fff; }</style>%s%s</template></div>\n\n",
			f.heading, f.caption, strings.Replace(oneLine(style[1]), ":root {", ":host {", 1), oneLine(definitions), oneLine(p))
	}
	if err := s.put("gallery.md", []byte(b.String())); err != nil {
		return err
	}
	s.added = append(s.added, section{"Gallery", []string{"gallery.md"}})
	return s.put("gallery/report.html", report)
}

// oneLine removes line breaks, because an empty line ends a block of HTML in Markdown.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
