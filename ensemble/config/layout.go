package config

import (
	"regexp"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// MemberLayout defines which fields are ensemble members where file metadata do not, and which members
// are used. The zero value relies on metadata and uses all centres.
type MemberLayout struct {
	FilenamePattern string   `key:"filename_pattern"`
	Centres         []string `key:"centres"`
	Percentiles     string   `key:"percentiles"` // "refuse" or PercentilesAsMembers
	Unnumbered      string   `key:"unnumbered"`  // "ignore" or UnnumberedAsControl
	Pairs           string   `key:"pairs"`       // "refuse" or PairsAsMembers
}

// memberLayoutKeys are the rows of a Layout in the section under, which ends with a dot.
func memberLayoutKeys(under string) []schema.Key {
	return []schema.Key{
		{Path: under + "filename_pattern", Check: memberPattern, Example: `ge[cp]([0-9]+)`,
			Help: "Regular expression whose first group is the member number in the file name, or else in the path. It overrides the number in the metadata. Default: names such as gep01 are used for fields without a member number."},
		{Path: under + "centres", Check: centreName, Example: "[ecmf]",
			Help: "Originating centres whose members are used, by the names that `ensemble inspect` prints. Members of the first centre keep their numbers; those of the second are offset by 1000, of the third by 2000. Default: all centres; equal numbers of two centres are an error."},
		{Path: under + "percentiles", Default: "refuse", Check: OneOf("refuse", PercentilesAsMembers), Example: PercentilesAsMembers,
			Help: "members: equidistant percentiles around 50 are treated as members, numbered from 1. refuse: percentiles are not members."},
		{Path: under + "unnumbered", Default: "ignore", Check: OneOf("ignore", UnnumberedAsControl), Example: UnnumberedAsControl,
			Help: "control: fields without a member number are the control, member 0, as in the `oper` `fc` files of the IFS since cycle 50r1. ignore: they are not members."},
		{Path: under + "pairs", Default: "refuse", Check: OneOf("refuse", PairsAsMembers), Example: PairsAsMembers,
			Help: "members: the positive perturbation n of GRIB is member 2n-1 and the negative one 2n, for producers that give both the number n. refuse: two members of one number are an error."},
	}
}

// PercentilesAsMembers is the value of Layout.Percentiles that treats percentiles as members.
const PercentilesAsMembers = "members"

// UnnumberedAsControl is the value of Layout.Unnumbered that makes fields without a member number the control.
const UnnumberedAsControl = "control"

// PairsAsMembers is the value of Layout.Pairs that numbers positive and negative perturbations differently.
const PairsAsMembers = "members"

// IsMemberPattern reports whether pattern is a valid Layout.FilenamePattern: a regular expression with a
// group.
func IsMemberPattern(pattern string) bool {
	p, err := regexp.Compile(pattern)
	return err == nil && p.NumSubexp() > 0
}

var memberPattern = schema.Check{Text: "a regular expression with a group for the number, such as ge[cp]([0-9]+)", Allows: func(v any) bool { return IsMemberPattern(v.(string)) }}

// centreName allows lower-case abbreviations and numbers.
var centreName = schema.Check{Text: "the abbreviation of a centre such as ecmf, or its number", Allows: func(v any) bool {
	s := v.(string)
	return s != "" && s == strings.ToLower(s) && !strings.ContainsAny(s, " ,/")
}}
