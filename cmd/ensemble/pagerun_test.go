package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Pages are executed. A page has blocks, fenced or indented by four spaces:
//
//   - commands: a fence of sh, or indented lines of which the first begins with a program of pagePrograms. All of them are
//     run in order by one shell. A configuration whose first line is "# ensemble COMMAND -c FILE …" is written to that
//     file, and the command is run.
//   - output: a fence of text after commands. Its lines must occur in the output of these commands, in order; "..." matches any text.
//   - configuration: a fence of yaml, or indented lines of which the first begins with a key. It must be valid for one of
//     the files of pageSchemas.
//   - formula: indented lines with "=" or a sum.
//
// A line "<!-- not run: REASON -->" before a block exempts it, "<!-- may exit with 1: REASON -->" permits that code. testdata/pages/PAGE.sh makes the files that the commands of
// a page need, from what testdata/pages/common.sh makes; it never runs what the page states.

// block is a block of commands of a page, and the output that the page states.
type block struct {
	line int // of the page, where the commands begin
	// commands is empty for a configuration.
	commands string
	// stated are lines of the output in order; "..." matches any text.
	stated []string
	// configuration is the text of YAML.
	configuration string
	// exempt is the reason why the block is not run.
	exempt string
	mayBe1 bool // exit code 1 of its commands is no failure
}

// pagePrograms begin the first line of an indented block of commands.
var pagePrograms = regexp.MustCompile(`^(?:[A-Z_]+=\S* )*(?:ensemble|mpirun|srun|sbatch|make|curl|podman|install|python3|cylc|sed|ecflow_client|nice|kubectl|apt-get|slurm/submit\.sh|export) `)

var (
	permission      = regexp.MustCompile(`^<!-- may exit with 1: .+ -->$`)
	exemption       = regexp.MustCompile(`^<!-- not run: (.+) -->$`)
	firstKey        = regexp.MustCompile(`^[a-z_]+:[ \n]`)
	commandOfConfig = regexp.MustCompile(`^# (ensemble [a-z ]+ -c (\S+\.yaml) [^\n]*)\n`)
)

// rawBlock is a block of a page as it stands.
type rawBlock struct {
	line           int
	language, text string // language is empty for indented blocks
	exempt         string
	mayBe1         bool
}

// rawBlocks reads the blocks of a page, fenced or indented.
func rawBlocks(t *testing.T, path string) (found []rawBlock) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n, exempt, mayBe1 := 0, "", false
	fenced, indented, blank := false, false, true
	for line := range strings.Lines(string(page)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		fence, isFence := strings.CutPrefix(line, "```")
		code, isCode := strings.CutPrefix(line, "    ")
		switch m := exemption.FindStringSubmatch(line); {
		case isFence && fenced:
			fenced = false
		case isFence:
			fenced = true
			found = append(found, rawBlock{line: n + 1, language: fence, exempt: exempt, mayBe1: mayBe1})
			if fence == "" {
				found[len(found)-1].language = "none"
			}
			exempt, mayBe1 = "", false
		case fenced:
			found[len(found)-1].text += line + "\n"
		case isCode && (indented || blank):
			if !indented {
				found = append(found, rawBlock{line: n, exempt: exempt, mayBe1: mayBe1})
				exempt, mayBe1 = "", false
			}
			indented = true
			found[len(found)-1].text += code + "\n"
			continue
		case m != nil:
			exempt = m[1]
		case permission.MatchString(line):
			mayBe1 = true
		case line != "" && exempt != "":
			t.Fatalf("%s:%d: no block follows <!-- not run: %s -->", path, n, exempt)
		}
		indented, blank = false, line == "" || strings.HasPrefix(line, "<!-- ")
	}
	return found
}

// blocks reads the commands of a page with their output, and its configurations.
func blocks(t *testing.T, path string) (found []block) {
	t.Helper()
	for _, r := range rawBlocks(t, path) {
		b := block{line: r.line, exempt: r.exempt, mayBe1: r.mayBe1}
		switch {
		case r.language == "sh", r.language == "" && pagePrograms.MatchString(r.text):
			b.commands = r.text
		case r.language == "yaml", r.language == "" && firstKey.MatchString(r.text):
			b.configuration = r.text
			if m := commandOfConfig.FindStringSubmatch(r.text); m != nil {
				b.commands = fmt.Sprintf("cat > %s <<'EOF'\n%sEOF\n%s\n", m[2], r.text, m[1])
			}
		case r.exempt != "":
		case r.language == "text" && len(found) > 0 && found[len(found)-1].commands != "":
			last := &found[len(found)-1]
			last.stated = append(last.stated, strings.Split(strings.TrimSuffix(r.text, "\n"), "\n")...)
			continue
		case r.language == "" && strings.ContainsAny(r.text, "=Σ"):
			continue // a formula
		default:
			t.Errorf("%s:%d: a block of neither commands, output, configuration nor formula: mark it <!-- not run: REASON -->", path, r.line)
			continue
		}
		found = append(found, b)
	}
	return found
}

// commandBlocks reads the blocks of commands that are run.
func commandBlocks(t *testing.T, path string) []block {
	t.Helper()
	return slices.DeleteFunc(blocks(t, path), func(b block) bool { return b.commands == "" || b.exempt != "" })
}

// count is a whole number, and the plural of the word after it.
var count = regexp.MustCompile(`[0-9]+( [a-z]+s\b)?`)

// unstated returns the first line of a page that does not occur in the output after the lines before it. The width
// of columns is ignored; with anyCount whole numbers are too.
func unstated(stated []string, output string, anyCount bool) string {
	lines := strings.Split(output, "\n")
	for _, want := range stated {
		var parts []string
		for p := range strings.SplitSeq(strings.Join(strings.Fields(want), " "), "...") {
			p = regexp.QuoteMeta(p)
			if anyCount {
				p = count.ReplaceAllStringFunc(p, func(s string) string {
					if things := strings.TrimLeft(s, "0123456789"); things != "" {
						return "[0-9]+" + things + "?" // 1 has no plural
					}
					return "[0-9]+"
				})
			}
			parts = append(parts, p)
		}
		like := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
		is := func(line string) bool { return like.MatchString(strings.Join(strings.Fields(line), " ")) }
		i := slices.IndexFunc(lines, is)
		if i < 0 {
			return want
		}
		lines = lines[i+1:]
	}
	return ""
}

// follow runs the blocks of a page consecutively in one shell, which ends at the first failure, in an empty
// folder, and compares their output with that of the page. programs is the folder of the programs; small means
// that the data have fewer inits than those of the page.
func follow(t *testing.T, page string, all []block, programs string, small bool) {
	t.Helper()
	followIn(t, t.TempDir(), page, all, programs, small)
}

// followIn is follow in an existing folder.
func followIn(t *testing.T, dir, page string, all []block, programs string, small bool) {
	t.Helper()
	const mark = "\x1e"
	var script strings.Builder
	script.WriteString("set -E; trap 'code=$?; [ $code -le $allowed ] || exit $code' ERR\n")
	for _, b := range all {
		allowed := 0
		if b.mayBe1 {
			allowed = 1
		}
		fmt.Fprintf(&script, "allowed=%d\n%sprintf '%s'\n", allowed, b.commands, mark)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	printed := strings.Split(string(out), mark)
	if err != nil {
		t.Fatalf("%s:%d: %v\n%s", page, all[min(len(printed), len(all))-1].line, err, printed[len(printed)-1])
	}
	for i, b := range all {
		if line := unstated(b.stated, printed[i], small); line != "" {
			t.Errorf("%s:%d: the output has no line %q where the page states it:\n%s", page, b.line, line, printed[i])
		}
	}
}

// pagesElsewhere are pages whose commands other tests run.
var pagesElsewhere = map[string]string{"quickstart": "TestLongQuickstart"}

// pagesToRun returns the pages of docs that have commands to run, by name. Sections that TestLongMigration runs are left out.
func pagesToRun(t *testing.T) map[string][]block {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]block{}
	for _, p := range paths {
		name := strings.TrimSuffix(filepath.Base(p), ".md")
		all := commandBlocks(t, p)
		if p == migrationPage {
			first := blocksOf(t, sections[0].heading)[0].line
			all = slices.DeleteFunc(all, func(b block) bool { return b.line >= first })
		}
		if len(all) > 0 && pagesElsewhere[name] == "" {
			found[name] = all
		}
	}
	return found
}

// TestPagesBlocks: every block of the pages of docs is commands, output, a configuration or a formula, or states why it is not run; every page with
// commands has a set-up; and every configuration is valid for a command.
func TestPagesBlocks(t *testing.T) {
	for name := range pagesToRun(t) {
		if _, err := os.Stat("testdata/pages/" + name + ".sh"); err != nil {
			t.Errorf("docs/%s.md has commands and no set-up: %v", name, err)
		}
	}
	checked := 0
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range paths {
		for _, b := range blocks(t, page) {
			if b.configuration == "" || b.exempt != "" {
				continue
			}
			checked++
			if fault := faultOfConfiguration(t, b.configuration); fault != "" {
				t.Errorf("%s:%d: not valid for any command, or mark it <!-- not run: REASON -->:\n%s", page, b.line, fault)
			}
		}
	}
	if checked < 30 {
		t.Errorf("%d configurations, want over 30", checked)
	}
}

// completeConfigurations have the keys that a command requires, by the name of its schema. A part of a configuration on a page is laid
// over each of them.
var completeConfigurations = [][2]string{
	{"train", "data: {forecasts: [fc], analyses: [an], variables: [t, gh, u, v], levels: [850hPa, 500hPa], leads: [0h, 24h, 48h], target_lead: 48h, targets: [{variable: t, levels: [850hPa, 500hPa]}]}\n"},
	{"train", "data: {forecasts: [fc], analyses: [an], variables: [2t, tp], levels: [single], leads: [0h, 24h, 48h], target_lead: 48h, targets: [{variable: 2t, levels: [single]}, {variable: tp, levels: [single]}]}\n"},
	{"train", "data: {forecasts: [fc], variables: [t], levels: [850hPa], targets: [{variable: t, levels: [850hPa]}]}\n"}, // spread of members, any leads
	{"train", "data: {forecasts: [fc], analyses: [an], variables: [t], levels: [850hPa], targets: [{variable: t, levels: [850hPa]}]}\n"},
	{"predict", "run_dir: runs/a\ninput: [fc]\n"},
	{"prune", "run_dir: runs/a\n"},
	{"quantise", "run_dir: runs/a\n"},
	{"distil", "teachers: [runs/a]\n"},
}

// faultOfConfiguration returns the faults of a configuration for training if it is valid for no command. Lines may be alternatives.
func faultOfConfiguration(t *testing.T, text string) (fault string) {
	t.Helper()
	dir := t.TempDir()
	for i, complete := range completeConfigurations {
		base, file := filepath.Join(dir, fmt.Sprint(i, ".yaml")), filepath.Join(dir, "page.yaml")
		args := []string{"config", "check", "--schema", complete[0], "-c", base, "-c", file}
		if strings.HasPrefix(text, "version:") || strings.Contains(text, "\nversion:") {
			args = []string{"config", "check", "--schema", complete[0], "-c", file}
		}
		for path, content := range map[string]string{base: "version: 1\n" + complete[1], file: text} {
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		code, _, stderr := call(t, args...)
		if code == exit.OK {
			return ""
		}
		if i == 0 {
			fault = stderr
		}
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) == 1 || strings.Contains("\n"+text, "\n ") || slices.ContainsFunc(lines, func(line string) bool { return faultOfConfiguration(t, line) != "" }) {
		return fault
	}
	return ""
}

// TestBlocks: blocks of a page by their kind.
func TestBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	page := "a\n\n    ensemble x \\\n      --y\n\n```text\nout\n...\n```\n\n    model: {base: 2}\n\n    z = 2\n\n<!-- not run: a GPU -->\n    srun z\n\n" +
		"```yaml\n# ensemble prune -c p.yaml --quiet\nversion: 1\n```\n\n<!-- not run: a log -->\n\n    log\n\n<!-- may exit with 1: alarms -->\n    ensemble v\n"
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%+v", blocks(t, path))
	want := fmt.Sprintf("%+v", []block{
		{line: 3, commands: "ensemble x \\\n  --y\n", stated: []string{"out", "..."}},
		{line: 11, configuration: "model: {base: 2}\n"},
		{line: 16, commands: "srun z\n", exempt: "a GPU"},
		{line: 19, commands: "cat > p.yaml <<'EOF'\n# ensemble prune -c p.yaml --quiet\nversion: 1\nEOF\nensemble prune -c p.yaml --quiet\n", configuration: "# ensemble prune -c p.yaml --quiet\nversion: 1\n"},
		{line: 25, exempt: "a log"},
		{line: 28, commands: "ensemble v\n", mayBe1: true},
	})
	if got != want {
		t.Errorf("blocks %s\nwant   %s", got, want)
	}
	if n := len(commandBlocks(t, path)); n != 3 {
		t.Errorf("%d blocks of commands that are run, want 3", n)
	}
}

// TestUnstated: the stated lines must occur in order.
func TestUnstated(t *testing.T) {
	const output = "a 12 files\nb\n  c 3.5 s\nd 1 date\n"
	for _, c := range []struct {
		stated   []string
		anyCount bool
		want     string
	}{
		{nil, false, ""},
		{[]string{"a  12 files", "c ... s"}, false, ""},
		{[]string{"a 1 files"}, false, "a 1 files"},
		{[]string{"a 1 files"}, true, ""},
		{[]string{"a 1 file"}, true, "a 1 file"},
		{[]string{"d 12 dates"}, true, ""},
		{[]string{"d 12 dates"}, false, "d 12 dates"},
		{[]string{"a"}, false, "a"},
		{[]string{"b", "a 12 files"}, false, "a 12 files"},
	} {
		if got := unstated(c.stated, output, c.anyCount); got != c.want {
			t.Errorf("%q: %q is missing, want %q", c.stated, got, c.want)
		}
	}
}
