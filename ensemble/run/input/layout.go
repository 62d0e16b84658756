package input

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
)

// LayoutOf converts a configured layout for package io; its pattern has been checked.
func LayoutOf(l config.MemberLayout) fio.MemberOptions {
	out := fio.MemberOptions{Centres: l.Centres, Percentiles: l.Percentiles == config.PercentilesAsMembers,
		Unnumbered: l.Unnumbered == config.UnnumberedAsControl, Pairs: l.Pairs == config.PairsAsMembers}
	if l.FilenamePattern != "" {
		out.FromName = regexp.MustCompile(l.FilenamePattern)
	}
	return out
}

// ReaderOptions returns the options for the files of a training: forecasts with their layout, analyses without.
func ReaderOptions(c *config.TrainConfig, forecasts bool) fio.Options {
	o := fio.Options{Sparse: c.Data.AllowMissingChunks, Cache: string(c.Data.IndexCache), Naming: c.Data.Stated().In(ensemble.AnalysisFiles)}
	if forecasts {
		o.Naming = c.Data.Stated().In(ensemble.ForecastFiles)
		o.Members = LayoutOf(c.Data.Members.MemberLayout)
	}
	return o
}

// StatisticsOf returns which statistics over time a configuration requests.
func StatisticsOf(c *config.TrainConfig) StatisticRequest {
	r := StatisticRequest{Intervals: Intervals{FromStart: c.Data.Intervals == config.FromStart, Length: c.Data.Intervals.Length()}}
	for _, v := range c.Data.Variables {
		if s := c.Data.StatisticOf(v); s.Statistic != "" || s.Interval > 0 {
			r.Choices = append(r.Choices, StatisticChoice(s))
		}
	}
	return r
}

// AnalysesOf returns the analyses that a configuration needs at some valid times, with the statistics over time of the
// forecasts, which the axes have.
//
// Errors: those of TargetStatistics.
func AnalysesOf(c *config.TrainConfig, axes ensemble.Axes, valids []ensemble.Valid) (AnalysisRequest, error) {
	r := AnalysisRequest{Variables: setup.TargetVariables(c), Levels: axes.Levels, Valids: valids, Derive: c.Data.Intervals != config.AsInFiles}
	var err error
	r.Statistics, err = TargetStatistics(axes, r.Variables, c.Data.TargetLeads)
	return r, err
}

// CentreFaults finds members of several centres with the same number. entries are in order.
func CentreFaults(entries []ensemble.Entry) []Fault {
	var first [2]ensemble.Entry
	fields := 0
	members := map[string]map[ensemble.Member]bool{}
	for i, e := range entries {
		if e.Member == ensemble.NoMember {
			continue
		}
		if members[e.Centre] == nil {
			members[e.Centre] = map[ensemble.Member]bool{}
		}
		members[e.Centre][e.Member] = true
		if i == 0 || entries[i-1].Key != e.Key || entries[i-1].Centre == e.Centre {
			continue
		}
		if fields++; fields == 1 {
			first = [2]ensemble.Entry{entries[i-1], e}
		}
	}
	if fields == 0 {
		return nil
	}
	var have, names []string
	for c, m := range members {
		have = append(have, fmt.Sprintf("%s has members %s", cmp.Or(c, "an unnamed centre"), ensemble.MemberRanges(slices.Sorted(maps.Keys(m)))))
		names = append(names, c)
	}
	slices.Sort(have)
	slices.Sort(names)
	return []Fault{Fault{Kind: FaultDuplicate, Code: exit.BadData, What: "members of several centres have the same numbers", At: Location(first[0]), Why: strings.Join(have, "; "),
		Fix: fmt.Sprintf("select one or several with members.centres (in train.yaml data.members.centres): [%s]", strings.Join(names, ", ")), Fields: fields}.AtEntry(first[1])}
}

// hasOnlyPercentiles reports whether an input has quantiles where members are required.
func hasOnlyPercentiles(c *ensemble.Catalogue) bool {
	quantiles := false
	for _, e := range c.Entries {
		if e.Product == ensemble.MemberField && e.Member != ensemble.NoMember {
			return false
		}
		quantiles = quantiles || e.Product == ensemble.Quantile
	}
	return quantiles
}

// missingFileHint returns a clause with the expected name of a missing member's file; "" if unknown.
func missingFileHint(entries []ensemble.Entry, member string) string {
	if name := expectedFileName(entries, member); name != "" {
		return "; by the names of the other files it would be in " + name
	}
	return ""
}

// expectedFileName derives the name of a missing member's file from those of the others, if there is one file per
// member and the names differ in its number; "" otherwise.
func expectedFileName(entries []ensemble.Entry, absent string) string {
	of := map[string]ensemble.Member{}
	for _, e := range entries {
		if e.Product != ensemble.MemberField || e.Member == ensemble.NoMember {
			continue
		}
		if m, known := of[e.File]; known && m != e.Member {
			return ""
		}
		of[e.File] = e.Member
	}
	votes := map[string]int{}
	best := ""
	for file, m := range of {
		dir, base := filepath.Split(file)
		for _, at := range numbers.FindAllStringIndex(base, -1) {
			digits := base[at[0]:at[1]]
			if strings.TrimLeft(digits, "0") != strings.TrimLeft(m.String(), "0") {
				continue
			}
			name := dir + base[:at[0]] + strings.Repeat("0", max(0, len(digits)-len(absent))) + absent + base[at[1]:]
			votes[name]++
			if n := votes[name]; n > 1 && (n > votes[best] || n == votes[best] && name < best) {
				best = name
			}
		}
	}
	return best
}

// numbers matches the numbers in a file name.
var numbers = regexp.MustCompile(`[0-9]+`)
