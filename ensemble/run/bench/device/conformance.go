package device

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// suiteResult is the result of the conformance suite.
type suiteResult struct {
	Case      string       `json:"case"`
	Program   string       `json:"program"`
	Run       string       `json:"run"` // pattern of tests
	Processes int          `json:"processes"`
	Started   int          `json:"started"`
	Passed    int          `json:"passed"`
	Failed    int          `json:"failed"`
	Skipped   int          `json:"skipped"`
	Seconds   float64      `json:"seconds"`
	Emulated  bool         `json:"emulated"` // the suite found no GPU
	Complete  bool         `json:"complete"` // the suite ran to its end
	Why       string       `json:"why,omitempty"`
	Running   string       `json:"running,omitempty"` // test that did not end
	Failures  []failedTest `json:"failures"`
	Skips     []failedTest `json:"skips,omitempty"`  // first ones, with reasons
	Output    []failedTest `json:"output,omitempty"` // output of tests in a suite that did not end, mostly failures
	Slowest   []testTime   `json:"slowest"`
}

// failedTest is a failed test with the first lines of its output.
type failedTest struct {
	Test string `json:"test"`
	Text string `json:"text"`
}

// testTime is the duration of a test.
type testTime struct {
	Test    string  `json:"test"`
	Seconds float64 `json:"seconds"`
}

// conformance runs the suite, in several processes if requested: kernels are compiled and references computed
// on the processor, and a failure of the device ends only one of the processes.
func conformance(ctx context.Context, c *Options) (answer.Sectioned, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Limit*float64(time.Second)))
	defer cancel()
	start := time.Now()
	patterns := c.patterns()
	parts := make([]*suiteResult, len(patterns))
	var all sync.WaitGroup
	for i, p := range patterns {
		all.Go(func() { parts[i] = c.suite(ctx, p) })
	}
	all.Wait()
	v := parts[0]
	for _, p := range parts[1:] {
		v.join(p)
	}
	v.Run, v.Processes, v.Seconds = c.Tests, len(parts), time.Since(start).Seconds()
	v.Slowest = v.Slowest[:min(len(v.Slowest), slowestKept)]
	if v.Failed > 0 || !v.Complete {
		return v, &exit.Error{Code: exit.No, What: "the backend does not conform", At: v.Running, Why: v.Why, Fix: "see failures"}
	}
	return v, nil
}

// Sections returns the report as text.
func (v *suiteResult) Sections() answer.Sections {
	all := answer.Sections{answer.FactsSection([2]string{"suite", fmt.Sprintf("%s, %s, %.1f s", v.Program, v.Run, v.Seconds)},
		[2]string{"tests", fmt.Sprintf("%d of %d passed, %d failed, %d skipped", v.Passed, v.Started, v.Failed, v.Skipped)})}
	for _, f := range v.Failures {
		all = append(all, answer.Section{Text: append([]string{f.Test}, strings.Split(f.Text, "\n")...)})
	}
	return all
}

// patterns returns test patterns, one per process; operations are distributed over them.
func (c *Options) patterns() []string {
	if c.Processes == 1 {
		return []string{c.Tests}
	}
	names := make([][]string, c.Processes)
	for i, o := range op.Table {
		names[i%c.Processes] = append(names[i%c.Processes], regexp.QuoteMeta(o.Name))
	}
	all := make([]string, c.Processes)
	for i, n := range names {
		all[i] = c.Tests + "/^(" + strings.Join(n, "|") + ")$"
	}
	return all
}

// join adds the result of another process.
func (v *suiteResult) join(o *suiteResult) {
	v.Started, v.Passed, v.Failed, v.Skipped = v.Started+o.Started, v.Passed+o.Passed, v.Failed+o.Failed, v.Skipped+o.Skipped
	v.Emulated, v.Complete = v.Emulated || o.Emulated, v.Complete && o.Complete
	v.Why, v.Running = joinTexts(v.Why, o.Why), joinTexts(v.Running, o.Running)
	v.Failures, v.Skips, v.Output = append(v.Failures, o.Failures...), append(v.Skips, o.Skips...), append(v.Output, o.Output...)
	v.Slowest = append(v.Slowest, o.Slowest...)
	slices.SortStableFunc(v.Slowest, func(a, b testTime) int { return cmp.Compare(b.Seconds, a.Seconds) })
}

// joinTexts joins two texts without repetition.
func joinTexts(a, b string) string {
	if a == "" || b == "" || a == b {
		return cmp.Or(a, b)
	}
	return a + "; " + b
}

// suite runs tests in one process and parses their output while they run, so that a suite that is interrupted
// or crashes is reported up to that point.
func (c *Options) suite(ctx context.Context, pattern string) *suiteResult {
	v := &suiteResult{Case: c.Case, Program: c.Program, Failures: []failedTest{}, Slowest: []testTime{}}
	cmd := exec.CommandContext(ctx, c.Program, "-test.v", "-test.run", pattern)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		v.Why = fmt.Sprintf("it did not start: %v", err)
		return v
	}
	read := make(chan struct{})
	go func() { v.read(r); close(read) }()
	err := cmd.Wait()
	w.Close()
	<-read
	switch {
	case ctx.Err() != nil:
		v.Why = "it took longer than " + strconv.FormatFloat(c.Limit, 'g', -1, 64) + " s"
	case err != nil && v.Failed == 0:
		v.Why = strings.TrimSpace(v.Why + " " + err.Error())
	case v.Passed == 0 && v.Failed == 0:
		v.Why = "no test ran"
		if len(v.Skips) > 0 {
			v.Why += ": " + v.Skips[0].Text
		}
	}
	if v.Complete = v.Why == ""; v.Complete {
		v.Running = ""
	}
	return v
}

// ended matches the line of a test that ended; subtests are indented.
var ended = regexp.MustCompile(`^( *)--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)`)

// Limits of the report.
const (
	failuresKept = 50
	skipsKept    = 5
	textKept     = 1000 // bytes of a failure
	slowestKept  = 10
)

// read parses the output of a suite and counts leaf tests.
func (v *suiteResult) read(r io.Reader) {
	parents, texts := map[string]bool{}, map[string]string{}
	var all [][]string // subtests are listed after their test
	var started []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "=== RUN   "); ok {
			v.Running = name
			started = append(started, name)
			if at := strings.LastIndexByte(name, '/'); at > 0 {
				parents[name[:at]] = true
			}
			continue
		}
		if m := ended.FindStringSubmatch(line); m != nil {
			all = append(all, m)
			continue
		}
		switch {
		case strings.Contains(line, ": emulated:"):
			v.Emulated = true
		case strings.HasPrefix(line, "panic:"), strings.HasPrefix(line, "fatal error:"), strings.HasPrefix(line, "SIG"):
			v.Why = strings.TrimSpace(v.Why + " " + line)
		}
		if s := texts[v.Running]; len(s) < textKept {
			texts[v.Running] = s + strings.TrimSpace(line) + "\n"
		}
	}
	_, _ = io.Copy(io.Discard, r) // after an overlong line: keep reading, so that the suite does not block
	for _, name := range started {
		if !parents[name] {
			v.Started++
			if len(all) == 0 && texts[name] != "" && len(v.Output) < failuresKept {
				v.Output = append(v.Output, failedTest{name, strings.TrimSpace(texts[name])})
			}
		}
	}
	for _, m := range all {
		name, kind := m[3], m[2]
		if parents[name] {
			continue
		}
		seconds, _ := strconv.ParseFloat(m[4], 64) // the pattern guarantees a number
		v.Slowest = append(v.Slowest, testTime{name, seconds})
		switch kind {
		case "PASS":
			v.Passed++
		case "SKIP":
			v.Skipped++
			if len(v.Skips) < skipsKept {
				v.Skips = append(v.Skips, failedTest{name, strings.TrimSpace(texts[name])})
			}
		default:
			v.Failed++
			if len(v.Failures) < failuresKept {
				v.Failures = append(v.Failures, failedTest{name, strings.TrimSpace(texts[name])})
			}
		}
	}
	slices.SortStableFunc(v.Slowest, func(a, b testTime) int { return cmp.Compare(b.Seconds, a.Seconds) })
}
