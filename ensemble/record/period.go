package record

import "github.com/ensemble-weather/ensemble/postproc/score"

// AllPeriods is the Period.Origin of all test periods together.
const AllPeriods = "all"

// Period is the skill of a variant relative to a reference on one target, in the test period of one origin
// or in all of them. Scores of an initialisation are means over the seeds.
type Period struct {
	Variant   string `json:"variant"`
	Origin    string `json:"origin"` // AllPeriods: of all
	From      string `json:"from"`   // first and last initialisation, RFC 3339
	To        string `json:"to"`
	System    string `json:"system"`
	Score     string `json:"score"` // ID of its CRPS
	Reference string `json:"reference"`
	Variable  string `json:"variable"`
	Level     string `json:"level"`
	Lead      string `json:"lead"`
	Unit      string `json:"unit"`
	N         int    `json:"n"` // initialisations

	Value          score.Number `json:"value"` // CRPS
	SD             score.Number `json:"sd"`    // over seeds; null for one seed
	ReferenceValue score.Number `json:"reference_value"`
	SkillScore     score.Number `json:"skill_score"`
	CILow          score.Number `json:"ci_low"` // of the skill score
	CIHigh         score.Number `json:"ci_high"`
}

// Trend is the change per year of the skill score of a variant relative to a reference, over all test periods.
type Trend struct {
	Variant   string       `json:"variant"`
	System    string       `json:"system"`
	Reference string       `json:"reference"`
	Variable  string       `json:"variable"`
	Level     string       `json:"level"`
	Lead      string       `json:"lead"`
	PerYear   score.Number `json:"per_year"` // null: less than two years
	CILow     score.Number `json:"ci_low"`
	CIHigh    score.Number `json:"ci_high"`
}
