package config

import (
	"regexp"
	"strings"
)

// MemberLayout says what the files of an ensemble do not say themselves, and whose members are
// taken.
type MemberLayout struct {
	FilenamePattern string   `key:"from_name"`
	Centres         []string `key:"centres"`
	Percentiles     string   `key:"percentiles"` // "refuse" or PercentilesAsMembers
}

// memberLayoutKeys are the rows of a Layout under a path.
func memberLayoutKeys(under string) []Key {
	return []Key{
		{Path: under + "from_name", Check: memberPattern, Example: `ge[cp]([0-9]+)`,
			Help: "Regular expression that finds the number of the member in the name of its file, or else in its path, by its first group. It comes before the number that the fields say. Without it names such as gep01 count where the fields say none."},
		{Path: under + "centres", Check: centreName, Example: "[ecmf]",
			Help: "Originating centres whose members are taken, by the names that `ensemble inspect` prints. Members of the first keep their numbers, those of the second count on from 1000, of the third from 2000. Without it all are taken, and two centres with the same numbers are refused."},
		{Path: under + "percentiles", Default: "refuse", Check: OneOf("refuse", PercentilesAsMembers), Example: PercentilesAsMembers,
			Help: "Whether percentiles of equal steps around 50 are members, numbered from 1; by default they are none."},
	}
}

// PercentilesAsMembers is the value of Layout.Percentiles that takes them so.
const PercentilesAsMembers = "members"

// IsMemberPattern tells whether a text can be Layout.FilenamePattern: a regular expression with a group.
func IsMemberPattern(pattern string) bool {
	p, err := regexp.Compile(pattern)
	return err == nil && p.NumSubexp() > 0
}

var memberPattern = Check{Text: "a regular expression with a group for the number, such as ge[cp]([0-9]+)", ok: func(v any) bool { return IsMemberPattern(v.(string)) }}

// centreName allows words without capitals.
var centreName = Check{Text: "the abbreviation of a centre such as ecmf, or its number", ok: func(v any) bool {
	s := v.(string)
	return s != "" && s == strings.ToLower(s) && !strings.ContainsAny(s, " ,/")
}}
