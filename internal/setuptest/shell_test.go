package setuptest

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// builtins are built-in commands of shells.
var builtins = strings.Fields(". : [ alias bg break cd command compgen continue declare disown echo eval exec exit export false fg getopts hash jobs kill let " +
	"local mapfile printf pwd read readarray readonly return set shift shopt source test times trap true type typeset ulimit umask unset wait")

// before lists commands that run the command after their flags.
var before = strings.Fields("command env exec nohup setsid sudo timeout xargs")

// flag is a word between such a command and the command that it runs: a flag, its
// number, or a variable, also of ecFlow.
var flag = regexp.MustCompile(`^-|^[0-9.]+[smh]?$|^[A-Za-z_0-9]+=|^%[A-Z_]+%$`)

// shell returns the programs that a script runs by a literal name, or by a variable
// of a loop over literal words.
//
// Errors: not a script of sh or bash.
func shell(text string) ([]string, error) {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	own := builtins
	syntax.Walk(f, func(n syntax.Node) bool {
		if n, ok := n.(*syntax.FuncDecl); ok {
			own = append(own[:len(own):len(own)], n.Name.Value)
		}
		return true
	})
	var out []string
	loop := map[string][]string{} // words of the loops around
	var walk func(n syntax.Node)
	walk = func(n syntax.Node) {
		syntax.Walk(n, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.ForClause:
				words, ok := n.Loop.(*syntax.WordIter)
				if !ok {
					return true
				}
				before := loop[words.Name.Value]
				for _, w := range words.Items {
					walk(w)
					loop[words.Name.Value] = append(loop[words.Name.Value], w.Lit())
				}
				for _, s := range n.Do {
					walk(s)
				}
				loop[words.Name.Value] = before
				return false
			case *syntax.CallExpr:
				for _, name := range runs(n.Args, loop) {
					if name != "" && !slices.Contains(own, name) {
						out = append(out, name)
					}
				}
			}
			return true
		})
	}
	walk(f)
	return out, nil
}

// runs returns the programs of a command: the command itself, and those that it
// runs.
func runs(words []*syntax.Word, loop map[string][]string) (out []string) {
	at := slices.IndexFunc(words, func(w *syntax.Word) bool {
		l, ok := w.Parts[0].(*syntax.Lit)
		return !ok || !flag.MatchString(l.Value)
	})
	if at < 0 {
		return nil
	}
	w := words[at]
	parts := w.Parts
	if q, ok := parts[0].(*syntax.DblQuoted); ok {
		parts = q.Parts
	}
	if len(parts) == 1 {
		if p, ok := parts[0].(*syntax.ParamExp); ok {
			return loop[p.Param.Value]
		}
	}
	if out = []string{w.Lit()}; slices.Contains(before, w.Lit()) {
		out = append(out, runs(words[at+1:], loop)...)
	}
	return out
}

// rules returns the recipe lines of a makefile, as a shell gets them.
func rules(makefile string) string {
	var out strings.Builder
	const dollar = "\x00"
	makefile = strings.ReplaceAll(makefile, "$$", dollar)
	makefile = strings.ReplaceAll(makefile, "$(GO)", "build/go/bin/go")
	makefile = regexp.MustCompile(`\$\([^()]*\)`).ReplaceAllString(makefile, "./x")
	for line := range strings.Lines(strings.ReplaceAll(makefile, dollar, "$")) {
		if text, ok := strings.CutPrefix(line, "\t"); ok {
			out.WriteString(strings.TrimLeft(text, "@-"))
		}
	}
	return out.String()
}

// workflow returns the scripts of a Cylc workflow, without template expansions.
func workflow(text string) string {
	var out strings.Builder
	text = regexp.MustCompile(`\{\{.*?\}\}`).ReplaceAllString(text, "x")
	for _, m := range regexp.MustCompile(`(?s)script = """(.*?)"""`).FindAllStringSubmatch(text, -1) {
		out.WriteString(m[1] + "\n")
	}
	return out.String()
}

// page returns the commands of a documentation page that tests execute.
func page(text string) string {
	var out strings.Builder
	for _, m := range regexp.MustCompile("(?sm)^```sh\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		out.WriteString(m[1])
	}
	return out.String()
}
