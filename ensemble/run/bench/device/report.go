package device

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// combinedReport is the combined result file of gpu.sh.
type combinedReport struct {
	Schema   string       `json:"schema"`
	Emulated bool         `json:"emulated"` // results are not those of a GPU
	Run      settings     `json:"run"`
	Parts    []partReport `json:"parts"`
	Ratios   []ratio      `json:"ratios"`
	Targets  []target     `json:"targets"`
}

// settings are the settings and findings of the script, by name.
type settings map[string]string

// partReport is one part of the run: its output, or why there is none.
type partReport struct {
	Name    string            `json:"name"`
	Exit    int               `json:"exit"` // 124: time limit exceeded
	Seconds float64           `json:"seconds"`
	Limit   float64           `json:"limit_s"`
	Why     string            `json:"why,omitempty"`
	Results []json.RawMessage `json:"results"`
}

// ratio compares one quantity in this program and in the other program's fastest variant.
type ratio struct {
	Case      string  `json:"case"`
	What      string  `json:"what"`
	Precision string  `json:"precision"`
	Ours      float64 `json:"ours"`
	Peer      float64 `json:"peer"`
	Form      string  `json:"peer_form"`
	Ratio     float64 `json:"ratio"` // ratio of times or bytes, the other's over ours; above 1 is better
}

// answerLine is what the answers of both programs have in common.
type answerLine struct {
	Case       string            `json:"case"`
	Peer       string            `json:"peer"`
	Form       string            `json:"form"`
	Error      any               `json:"error"` // nil: none
	Precision  string            `json:"precision"`
	Batch      int               `json:"batch"`
	Train      *benchstats.Times `json:"train_ms"`
	Predict    *benchstats.Times `json:"predict_ms"`
	Bytes      float64           `json:"device_bytes"`
	BF16       float64           `json:"bf16_gflops"`
	Conv       float64           `json:"conv_gflops"`
	Output     *float64          `json:"relative_output_error"`
	Within     *bool             `json:"within_spread"`
	Spread     float64           `json:"spread"`
	Difference float64           `json:"difference"`
	Ratio      float64           `json:"ratio"`
	Share      float64           `json:"share"`
	Complete   *bool             `json:"complete"`
	Emulated   bool              `json:"emulated"`
	Passed     int               `json:"passed"`
	Failed     int               `json:"failed"`
	Errors     *int              `json:"sanitizer_errors"`
	part       string
	exit       int
}

// report combines the parts and writes the file.
func report(_ context.Context, c *Options) (answer.Sectioned, error) {
	r, lines, err := c.collect()
	if err != nil {
		return nil, err
	}
	r.Ratios = ratios(lines)
	r.Targets = targets(lines, r.Ratios)
	if r.Emulated {
		for i := range r.Targets {
			r.Targets[i].Met, r.Targets[i].Why = nil, "emulated on the processor"
		}
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, err
	}
	if err := atomicfile.WriteFile(c.Out, append(text, '\n')); err != nil {
		return nil, err
	}
	return r, nil
}

// collect reads the folder of the parts: settings; a list with one line per part (name, exit status, seconds,
// limit and, if it was skipped, the reason, separated by tabs); and the output of each part.
func (c *Options) collect() (*combinedReport, []answerLine, error) {
	r := &combinedReport{Schema: "ensemble.gpu/1", Run: settings{}, Parts: []partReport{}}
	if err := eachLine(filepath.Join(c.Parts, "settings"), func(text string) error {
		k, v, _ := strings.Cut(text, "\t")
		r.Run[k] = v
		return nil
	}); err != nil {
		return nil, nil, err
	}
	r.Emulated = r.Run["emulated"] == "1"
	var lines []answerLine
	err := eachLine(filepath.Join(c.Parts, "list"), func(text string) error {
		f := strings.Split(text, "\t")
		if len(f) != 5 {
			return &exit.Error{Code: exit.BadData, What: "the list of parts is damaged", At: filepath.Join(c.Parts, "list"), Why: fmt.Sprintf("%q does not have five columns", text), Fix: "run gpu.sh again"}
		}
		p := partReport{Name: f[0], Why: f[4], Results: []json.RawMessage{}}
		for i, to := range []*float64{&p.Seconds, &p.Limit} {
			*to, _ = strconv.ParseFloat(f[2+i], 64) // a skipped part has none
		}
		p.Exit, _ = strconv.Atoi(f[1])
		stem := filepath.Join(c.Parts, p.Name)
		out, err := filesystem.ReadFile(stem + ".json")
		if err != nil && p.Why == "" {
			return exit.ReadError(stem+".json", err)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var raw json.RawMessage
			if err := d.Decode(&raw); err != nil {
				if err != io.EOF {
					p.Why = cmp.Or(p.Why, "its answer is truncated: "+err.Error())
				}
				break
			}
			l := answerLine{part: p.Name, exit: p.Exit}
			if err := json.Unmarshal(raw, &l); err != nil {
				p.Why = cmp.Or(p.Why, "its answer cannot be parsed: "+err.Error())
			}
			p.Results, lines = append(p.Results, raw), append(lines, l)
		}
		if p.Why == "" && p.Exit != 0 {
			p.Why = lastLines(stem + ".log")
			if p.Exit == 124 || p.Exit == 137 {
				p.Why = fmt.Sprintf("it exceeded its %g s; last: %s", p.Limit, p.Why)
			}
		}
		r.Parts = append(r.Parts, p)
		return nil
	})
	return r, lines, err
}

// eachLine calls f for each line of a file.
func eachLine(path string, f func(string) error) error {
	file, err := filesystem.Open(path)
	if err != nil {
		return exit.ReadError(path, err)
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	for s.Scan() {
		if err := f(s.Text()); err != nil {
			return err
		}
	}
	return s.Err()
}

// lastLines returns the end of a part's error output.
func lastLines(path string) string {
	const kept = 600
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return "it printed nothing"
	}
	s := strings.TrimSpace(string(text))
	if len(s) > kept {
		s = "…" + strings.ToValidUTF8(s[len(s)-kept:], "")
	}
	return s
}

// Quantities that are compared; each has a corresponding number of device bytes.
const (
	stepTime    = "training step, ms a sample"
	predictTime = "prediction, ms a sample"
)

// inBytes maps each measured time to the corresponding number of device bytes.
var inBytes = map[string]string{stepTime: "training step, bytes a sample", predictTime: "prediction, bytes a sample"}

// ratios compares every case that both programs have. Of several rounds of one variant the median counts, and
// of the other program's variants the fastest.
func ratios(lines []answerLine) []ratio {
	out := []ratio{}
	type key struct{ name, precision, form, what string }
	ms, bytes := map[key][]float64{}, map[key]float64{}
	var order []key
	for _, l := range lines {
		form := l.Form
		if l.Peer == "" {
			form = ""
		}
		for what, t := range map[string]*benchstats.Times{stepTime: l.Train, predictTime: l.Predict} {
			if t == nil || t.N == 0 || l.Error != nil {
				continue
			}
			k := key{l.Case, l.Precision, form, what}
			if _, known := ms[k]; !known {
				order = append(order, k)
			}
			per := float64(max(l.Batch, 1))
			ms[k] = append(ms[k], t.Median/per)
			bytes[k] = max(bytes[k], l.Bytes/per)
		}
	}
	for _, ours := range order {
		if ours.form != "" {
			continue
		}
		var best *key
		for _, k := range order {
			if k.form == "" || k.name != ours.name || k.what != ours.what || ours.precision != k.precision {
				continue
			}
			if best == nil || benchstats.Series(ms[k]).Median() < benchstats.Series(ms[*best]).Median() {
				best = &k
			}
		}
		if best == nil {
			continue
		}
		x, y := benchstats.Series(ms[ours]).Median(), benchstats.Series(ms[*best]).Median()
		out = append(out, ratio{ours.name, ours.what, ours.precision, x, y, best.form, y / x})
		if bx, by := bytes[ours], bytes[*best]; bx > 0 && by > 0 {
			out = append(out, ratio{ours.name, inBytes[ours.what], ours.precision, bx, by, best.form, by / bx})
		}
	}
	return out
}

// firstLine returns what fits into a table.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// Sections returns the report as text.
func (r *combinedReport) Sections() answer.Sections {
	parts := answer.Section{Columns: []answer.Column{{Name: "part"}, answer.NumberColumn("s", "", "%.1f"), {}}}
	for _, p := range r.Parts {
		parts.Rows = append(parts.Rows, []any{p.Name, p.Seconds, cmp.Or(firstLine(p.Why), "done")})
	}
	compared := answer.Section{Columns: slices.Concat(answer.TextColumns("case", "precision", "what"), answer.NumberColumns("%.4g", "ours", "peer", "ratio"), answer.TextColumns("form"))}
	for _, x := range r.Ratios {
		compared.Rows = append(compared.Rows, []any{x.Case, x.Precision, x.What, x.Ours, x.Peer, x.Ratio, x.Form})
	}
	targets := answer.Section{Columns: append(answer.TextColumns("target", "wanted"), answer.NumberColumn("got", "", "%.4g"), answer.Column{Name: "met"})}
	for _, x := range r.Targets {
		met := "not measured"
		if x.Met != nil {
			met = map[bool]string{true: "yes", false: "NO"}[*x.Met]
		}
		if x.Why != "" {
			met += ": " + firstLine(x.Why)
		}
		targets.Rows = append(targets.Rows, []any{x.Name, x.Want, x.Got, met})
	}
	if r.Emulated {
		targets.Notes = []string{"emulated on the processor: not representative of a GPU"}
	}
	if len(r.Ratios) == 0 {
		return answer.Sections{parts, targets}
	}
	return answer.Sections{parts, compared, targets}
}
