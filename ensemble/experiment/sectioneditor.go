package experiment

import (
	"regexp"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// sectionEditor replaces lists in the text of a YAML file and leaves everything else as its author wrote it, comments
// included, which a decoded and encoded file would lose.
type sectionEditor struct {
	path, text string
	err        error // the first
}

// replace replaces the lines of a list by others, or adds it at the end of its section, or of the file. key is "" for
// a list at the top level. No lines: nothing is changed.
//
// Errors: exit 64 in err if the section is in braces.
func (y *sectionEditor) replace(section, key string, lines []string) {
	if len(lines) == 0 || y.err != nil {
		return
	}
	all := strings.SplitAfter(strings.TrimRight(y.text, "\n")+"\n", "\n")
	all = all[:len(all)-1] // the empty text after the last line
	from, to := sectionLines(all, section, 0)
	list := strings.Join(lines, "\n") + "\n"
	switch {
	case key == "" && from < 0:
		y.text = strings.Join(all, "") + section + ":\n" + list
		return
	case key == "":
		y.text = strings.Join(all[:from], "") + heading(all[from], section) + list + strings.Join(all[to:], "")
		return
	case from < 0 || strings.Contains(strings.SplitN(all[from], "#", 2)[0], "{"):
		y.err = &exit.Error{Code: exit.Usage, What: "section " + section + " is in braces", At: y.path, Why: "a list cannot be added to it", Fix: "write one key a line"}
		return
	}
	inner, end := sectionLines(all[from+1:to], key, 2)
	if inner < 0 {
		y.text = strings.Join(all[:to], "") + "  " + key + ":\n" + list + strings.Join(all[to:], "")
		return
	}
	inner, end = inner+from+1, end+from+1
	y.text = strings.Join(all[:inner], "") + heading(all[inner], "  "+key) + list + strings.Join(all[end:], "")
}

// comment matches a comment at the end of a line.
var comment = regexp.MustCompile(`\s#.*`)

// heading is the first line of a list: its key, with the comment of the line that it replaces.
func heading(line, key string) string {
	return key + ":" + strings.TrimRight(comment.FindString(line), "\n") + "\n"
}

// sectionLines returns the range of lines of a key at an indentation: from its own to the one before the next
// key, or before the comments above that. from is -1 if there is none.
func sectionLines(all []string, key string, indent int) (from, to int) {
	from = -1
	prefix := strings.Repeat(" ", indent) + key + ":"
	for i, line := range all {
		content := strings.TrimLeft(line, " ")
		own := len(line) - len(content)
		switch {
		case from < 0 && strings.HasPrefix(line, prefix):
			from, to = i, i+1
		case from < 0 || strings.TrimSpace(line) == "" || strings.HasPrefix(content, "#"):
		case own > indent || own == indent && strings.HasPrefix(content, "- "):
			to = i + 1
		default:
			return from, to
		}
	}
	return from, to
}
