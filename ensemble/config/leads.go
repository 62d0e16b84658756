package config

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Tensor axis along which a network receives leads.
const (
	AutoLeads    = "auto"     // BatchLeads for networks over time, else ChannelLeads
	ChannelLeads = "channels" // concatenated along the channel axis
	BatchLeads   = "batch"    // stacked along the batch axis, as members of a set are
)

// Recurrent is the section model.recurrent of networks with recurrent cells, such as conv_lstm.
type Recurrent struct {
	Stages        int  `key:"stages"`   // deepest stages that have a cell
	Hidden        int  `key:"hidden"`   // channels; 0: half of those of the stage
	Truncate      int  `key:"truncate"` // leads; 0: no truncation
	Bidirectional bool `key:"bidirectional"`
}

// Conditioning variables of a lead-conditioned network, which has the same weights at all leads.
const (
	LeadCondition = "lead"
	DayCondition  = "day_of_year"
	HourCondition = "hour"
)

// leadKeys are the rows of target leads, and of how networks receive leads.
func leadKeys() []schema.Key {
	return []schema.Key{
		{Path: "data.target_lead", Check: AtLeast(0), Example: "48h",
			Help: "Lead to predict, if there is only one; see data.target_leads."},
		{Path: "data.target_leads", Check: AtLeast(0), Example: "[24h, 48h]",
			Help: "Leads to predict, ascending, all in one pass of the network. They must be in data.leads; with model.head: spread they may also be later, to predict the spread from earlier fields."},
		{Path: "model.lead_axis", Default: AutoLeads, Check: OneOf(AutoLeads, ChannelLeads, BatchLeads), Example: BatchLeads,
			Help: "How the network receives leads. channels: concatenated along the channel axis, with one output for each target lead. rows: stacked along the batch axis with shared weights, conditioned on model.conditions. auto: rows for networks over time, which support nothing else, and channels for others."},
		{Path: "model.conditions", Check: OneOf(LeadCondition, DayCondition, HourCondition), Example: "[lead, day_of_year, hour]",
			Help: "Conditioning variables of a network with leads in rows: the lead relative to the last lead, and sine and cosine of the day of the year and of the hour of the day at the valid time."},
		{Path: "model.maps", Default: "false", Example: "true",
			Help: "Whether members (model.head: members) are also corrected by learned maps for each grid point, season and target: a shift common to all members, and a factor of the member's own field. Other heads always have such maps."},
		{Path: "train.loss.lead_weights", Check: Above(0), Example: "[1, 0.5]",
			Help: "Weights of data.target_leads in the loss, in the same order. Default: equal weights."},
	}
}

// recurrentKeys are the rows of Recurrent.
func recurrentKeys() []schema.Key {
	return []schema.Key{
		{Path: "model.recurrent.stages", Default: "1", Check: Between(1, 6), Example: "2",
			Help: "Number of the deepest stages of conv_lstm and conv_gru that have a recurrent cell over leads."},
		{Path: "model.recurrent.hidden", Default: "0", Check: Between(0, 4096), Example: "16",
			Help: "Channels of the hidden state of conv_lstm and conv_gru; 0: half of those of the stage."},
		{Path: "model.recurrent.truncate", Default: "0", Check: Between(0, 1000), Example: "2",
			Help: "Truncation of backpropagation through time in conv_lstm and conv_gru, in leads; 0: none."},
		{Path: "model.recurrent.bidirectional", Default: "true", Example: "false",
			Help: "Whether conv_lstm and conv_gru are bidirectional over leads; all leads of a forecast are known when it is processed."},
	}
}

// ReadLeads lists the leads that a training reads: data.leads, and later target leads, which are
// read as targets only.
func (d Data) ReadLeads() []ensemble.Lead {
	out := slices.Clone(d.Leads)
	for _, l := range d.TargetLeads {
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// LeadsInBatch reports whether leads are stacked along the batch axis.
func (m Model) LeadsInBatch() bool {
	return m.LeadAxis == BatchLeads || m.LeadAxis == AutoLeads && m.NetworkKind().SpansLeads()
}

// mergeTargetLeads merges data.target_lead into data.target_leads.
//
// Errors: exit 64 if neither is set, or if they differ.
func (c *TrainConfig) mergeTargetLeads() []*exit.Error {
	d := &c.Data
	one := c.values["data.target_lead"] != nil
	switch {
	case !one && len(d.TargetLeads) == 0:
		return []*exit.Error{{Code: exit.Usage, What: `key "data.target_leads" is required`, At: c.sourceNames(), Why: "it defines the leads to predict",
			Fix: "for example " + schema.UnderSection("data.target_lead", "add", d.Leads[len(d.Leads)-1].String())}}
	case one && len(d.TargetLeads) == 0:
		d.TargetLeads = []ensemble.Lead{d.TargetLead}
	case one && !slices.Equal(d.TargetLeads, []ensemble.Lead{d.TargetLead}):
		return []*exit.Error{c.Fault("data.target_lead", fmt.Sprintf("data.target_lead %s contradicts data.target_leads", d.TargetLead), "data.target_leads are "+FormatList(d.TargetLeads),
			"give one of the two")}
	}
	return nil
}

// checkLeads checks the order of leads, that target leads are read, and that the network supports
// its lead axis.
func (c *TrainConfig) checkLeads() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	d, m, kind := c.Data, c.Model, c.Model.NetworkKind()
	for i := 1; i < len(d.Leads); i++ {
		if d.Leads[i] <= d.Leads[i-1] {
			add("data.leads", fmt.Sprintf("data.leads must ascend: %s after %s", d.Leads[i], d.Leads[i-1]), "", "sort them and list each once")
			break
		}
	}
	key := "data.target_leads"
	if c.values[key] == nil {
		key = "data.target_lead"
	}
	for i := 1; i < len(d.TargetLeads); i++ {
		if d.TargetLeads[i] <= d.TargetLeads[i-1] {
			add(key, fmt.Sprintf("%s must ascend: %s after %s", key, d.TargetLeads[i], d.TargetLeads[i-1]), "", "sort them and list each once")
			break
		}
	}
	early := false
	for _, l := range d.TargetLeads {
		switch {
		case slices.Contains(d.Leads, l):
		case len(d.Leads) > 0 && l < d.Leads[len(d.Leads)-1] || m.Head != SpreadHead || m.Method == StagesMethod:
			add(key, fmt.Sprintf("%s %s is not one of data.leads", key, l), "the leads are "+FormatList(d.Leads)+"; only model.head: spread, in one stage, can predict later leads without their fields",
				"add it to data.leads, or choose one of them")
		default:
			early = true
		}
	}
	several := len(d.TargetLeads) > 1
	switch {
	case kind.SingleField && several:
		add(key, fmt.Sprintf("%s predicts one spread field, got %d target leads", m.Kind, len(d.TargetLeads)), "", "give one target lead, or set model.kind: "+unet3d.UNetKind.Name)
	case kind.SingleField && early:
		add(key, m.Kind+" needs the spread at the target lead as input", "", "add the target lead to data.leads, or set model.kind: "+unet3d.UNetKind.Name)
	}
	rows := m.LeadsInBatch()
	switch {
	case m.LeadAxis == ChannelLeads && kind.SpansLeads():
		add("model.lead_axis", m.Kind+" does not support leads as channels", "it has a lead axis", "set model.lead_axis: "+BatchLeads+", or remove it")
	case rows && kind.Leads == unet3d.LeadsInChannels:
		add("model.lead_axis", m.Kind+" supports leads as channels only", "", "set model.lead_axis: "+ChannelLeads+", or model.kind: "+unet3d.UNetKind.Name)
	case rows && (m.Method == StagesMethod || m.Reference != NoReference || m.Members == MemberEncoder || m.Embedding > 0):
		add("model.lead_axis", "leads in rows are not supported with stages, a reference, a member encoder or embeddings", "these cover all leads together",
			"set model.lead_axis: "+ChannelLeads+", or remove model.method, model.reference, model.members and model.embedding")
	case rows && early:
		add("model.lead_axis", "leads in rows need all target leads as input", "data.leads are "+FormatList(d.Leads), "add the target lead to data.leads, or set model.lead_axis: "+ChannelLeads)
	case !rows && len(m.Conditions) > 0:
		add("model.conditions", "model.conditions with leads as channels", "they condition on the lead of a row", "remove them, or set model.lead_axis: "+BatchLeads)
	}
	if m.Maps && m.Head != MembersHead {
		add("model.maps", "model.maps is not used by head "+string(m.Head), "it always has such maps", "remove it, or set model.head: "+string(MembersHead))
	}
	if kind.NoConditions && len(m.Conditions) > 0 {
		add("model.conditions", m.Kind+" does not support model.conditions", "its filters span several leads", "remove them, or set another model.kind")
	}
	if kind.SpansLeads() && len(d.Leads) < 2 {
		add("data.leads", fmt.Sprintf("%s needs several leads, got %d", m.Kind, len(d.Leads)), "it is a network over time", "add leads, or set another model.kind")
	}
	if w := c.Train.Train.Loss.LeadWeights; len(w) > 0 && len(w) != len(d.TargetLeads) {
		add("train.loss.lead_weights", fmt.Sprintf("train.loss.lead_weights has %d weights, want %d", len(w), len(d.TargetLeads)), "target leads are "+FormatList(d.TargetLeads), "give one weight for each target lead")
	}
	return faults
}
