package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/internal/testnetcdf"
)

// mistake is something that a first user types or has. The fix that the message prints is applied as printed: a command
// is typed, a line of YAML written, until the command succeeds.
type mistake struct {
	name string
	edit [2]string                      // text of train.yaml, and the text in its place
	make func(t *testing.T, dir string) // what is wrong with the files; nil: nothing
	args string                         // what is typed
	code exit.Code                      // of the message
	fix  string                         // part of the first fix
	then string                         // what is typed after a line was written; default args
	// unfixed is the reason why no printed text mends it; the message must still be right.
	unfixed string
}

// mistakeConfig is a train.yaml for the files of makeMistakeData.
const mistakeConfig = `version: 1
data:
  forecasts: [fc]
  analyses: [an]
  variables: [2t]
  levels: [single]
  leads: [24h]
  target_lead: 24h
  targets: [{variable: 2t, levels: [single]}]
  members: {use: 3, full: 5}
  split:
    train: {from: 2024-01-01, to: 2024-01-12}
    validation: {from: 2024-01-14, to: 2024-01-17}
    test: {from: 2024-01-19, to: 2024-01-24}
model: {kind: unet3d, base: 2, stages: 1}
train: {epochs: 1}
baselines: [emos]
`

// mistakeInits is the number of initialisations of the data.
const mistakeInits = 24

// ownValues are smooth fields that differ from member to member, in degC or mm.
func ownValues(inits, members, ny, nx int, offset float64) []float64 {
	var out []float64
	for i := range inits {
		for m := range members {
			for j := range ny {
				for k := range nx {
					x := 5 + 3*math.Sin(float64(i)*0.7+float64(k)*0.4) + 0.5*float64(j) + 0.8*math.Sin(float64(7*m+3*i)+float64(j*k)*0.1)
					out = append(out, x+offset)
				}
			}
		}
	}
	return out
}

// ownForecast is a variable of the forecasts of 5 members on a grid of 8 by 8 points.
func ownForecast(name, unit string, offset float64) testnetcdf.Variable {
	return testnetcdf.Variable{Name: name, Dimensions: []string{"init:24", "member:5", "lat:8", "lon:8"}, Attributes: attributesOf(unit), Values: ownValues(mistakeInits, 5, 8, 8, offset)}
}

// ownAnalysis is a variable of the analyses at the valid times.
func ownAnalysis(name, unit string, offset float64) testnetcdf.Variable {
	return testnetcdf.Variable{Name: name, Dimensions: []string{"time:24", "lat:8", "lon:8"}, Attributes: attributesOf(unit), Values: ownValues(mistakeInits, 1, 8, 8, offset)}
}

// attributesOf are the attributes of a variable in a unit, "" for none.
func attributesOf(unit string) map[string]string {
	if unit == "" {
		return nil
	}
	return map[string]string{"units": unit}
}

// writeForecasts and writeAnalyses write files with the given variables.
func writeForecasts(t *testing.T, path string, all ...testnetcdf.Variable) {
	t.Helper()
	testnetcdf.Write(t, path, append(testnetcdf.Coordinates(mistakeInits, 8, 8, 24), all...)...)
}

func writeAnalyses(t *testing.T, path string, all ...testnetcdf.Variable) {
	t.Helper()
	c := testnetcdf.Coordinates(mistakeInits, 8, 8, 0)[:2]
	time := testnetcdf.Variable{Name: "time", Dimensions: []string{"time:24"}, Attributes: map[string]string{"units": "hours since 2024-01-01", "standard_name": "time"}, Values: testnetcdf.Range(24, 24, mistakeInits)}
	testnetcdf.Write(t, path, append(append(c, time), all...)...)
}

// makeMistakeData writes the files of a person and train.yaml into a folder.
func makeMistakeData(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{"fc", "an"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeForecasts(t, filepath.Join(dir, "fc", "forecasts.nc"), ownForecast("t2m", "degC", 1))
	writeAnalyses(t, filepath.Join(dir, "an", "analyses.nc"), ownAnalysis("t2m", "degC", 0))
	writeText(t, filepath.Join(dir, "train.yaml"), mistakeConfig)
}

// writeText writes a file.
func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Patterns of fixes.
var (
	fixCommand = regexp.MustCompile("`((?:ensemble|sed|mkdir) [^`]*)`")
	fixLine    = regexp.MustCompile("write line ([0-9]+) as `([^`]*)`")
	fixLines   = regexp.MustCompile("`([a-z_]+): ([^`]*)`")
	fixFlag    = regexp.MustCompile("add `(--[^`]+)`")
	fixUnder   = regexp.MustCompile("under ((?:`[a-z_]+:`(?: and )?)+)(?: of train.yaml)? (write|add) `([^`]+)`")
	fixValue   = regexp.MustCompile("(?:write(?: a list:)?|for example) `([a-z_]+): ([^`]*)`")
	fixInPlace = regexp.MustCompile("write `([^`]*)` in its place")
	fixAdd     = regexp.MustCompile("add `([a-z_]+): ([^`]*)`")
	fixRemove  = regexp.MustCompile("remove the line|leave it out|remove one of the two")
	fixPlace   = regexp.MustCompile(`at: \S*train\.yaml:([0-9]+):([0-9]+)`)
	sectionIn  = regexp.MustCompile("`([a-z_]+):`")
)

// applyFix applies the first fix of a message to train.yaml, or returns the command that it prints; ok is false if it
// prints neither.
func applyFix(t *testing.T, dir, message string) (command string, ok bool) {
	t.Helper()
	_, rest, _ := strings.Cut(message, "fix: ")
	fix, _, _ := strings.Cut(rest, "\n")
	for _, m := range fixCommand.FindAllStringSubmatch(fix, -1) {
		if !strings.Contains(fix, m[0]+" lists") && !strings.Contains(fix, m[0]+" shows") {
			command = m[1]
		}
	}
	if command != "" {
		return command, true
	}
	if m := fixFlag.FindStringSubmatch(fix); m != nil {
		return "+ " + m[1], true
	}
	path := filepath.Join(dir, "train.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	lines := strings.Split(string(text), "\n")
	line, column := 0, 0
	if m := fixPlace.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		column, _ = strconv.Atoi(m[2])
	}
	switch {
	case fixLine.MatchString(fix):
		m := fixLine.FindStringSubmatch(fix)
		n, _ := strconv.Atoi(m[1])
		lines[n-1] = m[2]
	case fixUnder.MatchString(fix):
		m := fixUnder.FindStringSubmatchIndex(fix)
		if keys := regexp.MustCompile(`unknown key`); keys.MatchString(message) && line > 0 {
			lines = slices.Delete(lines, line-1, line)
		}
		for _, one := range fixLines.FindAllStringSubmatch(fix[m[6]-1:], -1) {
			lines = setKey(lines, sectionIn.FindAllStringSubmatch(fix[m[2]:m[3]], -1), one[1], one[2])
			if !strings.Contains(fix[m[6]-1:], one[0]+", `") {
				break
			}
		}
	case fixInPlace.MatchString(fix) && line > 0:
		m := fixInPlace.FindStringSubmatch(fix)
		l := lines[line-1]
		end := column - 1 + strings.IndexAny(l[column-1:]+",", ",]}")
		lines[line-1] = l[:column-1] + m[1] + l[end:]
	case fixValue.MatchString(fix) && line > 0:
		m := fixValue.FindStringSubmatch(fix)
		// The value of the key in this line, or else the key that stands at the column.
		if own := regexp.MustCompile(m[1] + `: *(\[[^\]]*\]|\{[^}]*\}|"[^"]*"|[^,}\n]*)`); own.MatchString(lines[line-1]) {
			lines[line-1] = own.ReplaceAllLiteralString(lines[line-1], m[1]+": "+m[2])
		} else {
			wrong := regexp.MustCompile(`^([A-Za-z_0-9-]+): *(\[[^\]]*\]|\{.*\}|"[^"]*"|[^,}\n]*)`)
			lines[line-1] = lines[line-1][:column-1] + wrong.ReplaceAllLiteralString(lines[line-1][column-1:], m[1]+": "+m[2])
		}
	case fixAdd.MatchString(fix) && line > 0:
		m := fixAdd.FindStringSubmatch(fix)
		l := lines[line-1]
		lines[line-1] = l[:column] + m[1] + ": " + m[2] + ", " + l[column:]
	case fixRemove.MatchString(fix) && line > 0:
		lines = slices.Delete(lines, line-1, line)
	default:
		return "", false
	}
	writeText(t, path, strings.Join(lines, "\n"))
	return "", true
}

// setKey writes a line of a section, which may be in flow style, in place of the key's own line and what is indented below
// it.
func setKey(lines []string, sections [][]string, key, value string) []string {
	from, to, indent := 0, len(lines), ""
	for _, s := range sections {
		i := from + slices.IndexFunc(lines[from:to], func(l string) bool { return strings.HasPrefix(l, indent+s[1]+":") })
		if i < from {
			lines = slices.Insert(lines, to, indent+s[1]+":")
			i = to
		}
		if strings.HasSuffix(lines[i], "}") { // key: {…}
			own := regexp.MustCompile(key + `: *(\[[^\]]*\]|\{[^}]*\}|[^,}]*)`)
			if own.MatchString(lines[i]) {
				lines[i] = own.ReplaceAllLiteralString(lines[i], key+": "+value)
			} else {
				lines[i] = strings.TrimSuffix(lines[i], "}") + ", " + key + ": " + value + "}"
			}
			return lines
		}
		indent += "  "
		from = i + 1
		for to = from; to < len(lines) && strings.HasPrefix(lines[to], indent); to++ {
		}
	}
	i := slices.IndexFunc(lines[from:to], func(l string) bool { return strings.HasPrefix(l, indent+key+":") })
	if i < 0 {
		return slices.Insert(lines, from, indent+key+": "+value)
	}
	end := from + i + 1
	for end < to && strings.HasPrefix(lines[end], indent+" ") {
		end++
	}
	return slices.Replace(lines, from+i, end, indent+key+": "+value)
}

// shellWords splits a command line.
func shellWords(t *testing.T, line string) (words []string) {
	t.Helper()
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			for _, w := range call.Args {
				text := ""
				for _, p := range w.Parts {
					switch p := p.(type) {
					case *syntax.Lit:
						text += p.Value
					case *syntax.SglQuoted:
						text += p.Value
					case *syntax.DblQuoted:
						for _, q := range p.Parts {
							if lit, ok := q.(*syntax.Lit); ok {
								text += lit.Value
							}
						}
					}
				}
				words = append(words, text)
			}
		}
		return true
	})
	return words
}

// typeLine runs a command line of this program or of sed, with its redirection.
func typeLine(t *testing.T, dir, line string) (code exit.Code, stderr string) {
	t.Helper()
	line, to, redirected := strings.Cut(line, " > ")
	words := shellWords(t, line)
	if words[0] != "ensemble" {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return exit.No, string(out)
		}
		return exit.OK, ""
	}
	code, stdout, stderr := call(t, words[1:]...)
	if redirected {
		writeText(t, filepath.Join(dir, to), stdout)
	}
	return code, stderr
}

// check makes a mistake, and applies fixes until the command succeeds. It returns what went wrong; "" if nothing did.
func (m mistake) check(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	makeMistakeData(t, dir)
	if m.edit[0] != "" {
		if !strings.Contains(mistakeConfig, m.edit[0]) {
			return "train.yaml has no " + m.edit[0]
		}
		writeText(t, filepath.Join(dir, "train.yaml"), strings.Replace(mistakeConfig, m.edit[0], m.edit[1], 1))
	}
	if m.make != nil {
		m.make(t, dir)
	}
	again := m.then
	if again == "" {
		again = m.args
	}
	line := m.args
	for n := range 6 {
		code, message := typeLine(t, dir, line)
		switch {
		case n == 0 && code != m.code:
			return fmt.Sprintf("exit %d, want %d:\n%s", code, m.code, message)
		case n == 0 && !strings.Contains(message, m.fix):
			return fmt.Sprintf("the fix has no %q:\n%s", m.fix, message)
		case n == 0 && m.unfixed != "":
			return ""
		case code == exit.OK && line == again:
			return ""
		case code == exit.OK && strings.HasPrefix(line, "ensemble"):
			return ""
		case code == exit.OK: // sed has mended the file
			line = again
			continue
		}
		command, ok := applyFix(t, dir, message)
		if !ok {
			return "no fix can be applied as printed:\n" + message
		}
		flag, isFlag := strings.CutPrefix(command, "+ ")
		switch line = again; {
		case isFlag:
			line += " " + flag
		case command != "":
			line = command
		}
	}
	return "six fixes did not help"
}

// mistakesInShortTest are those of the normal test; TestLongMistakes makes all.
const mistakesInShortTest = 8

// TestMistakes: the fix of a message, applied as printed, works.
func TestMistakes(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	for i := range mistakesInShortTest {
		m := mistakes[i*len(mistakes)/mistakesInShortTest]
		t.Run(m.name, func(t *testing.T) {
			if wrong := m.check(t); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}
