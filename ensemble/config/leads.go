package config

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Where the leads of a sample are, for a network.
const (
	AutoLeads    = "auto"     // where the network needs them
	ChannelLeads = "channels" // beside each other
	BatchLeads   = "rows"     // one behind the other in the batch, as members of a set are
)

// Recurrent describes the cells of networks that have some, as conv_lstm.
type Recurrent struct {
	Stages        int  `key:"stages"`
	Hidden        int  `key:"hidden"`   // channels; 0 means half of those of the stage
	Truncate      int  `key:"truncate"` // leads; 0 never
	Bidirectional bool `key:"bidirectional"`
}

// Conditions of a network that is the same at all leads: what it is told of a lead beside the fields.
const (
	LeadCondition = "lead"
	DayCondition  = "day_of_year"
	HourCondition = "hour"
)

// leadKeys describe what is predicted of time, and how networks see it.
func leadKeys() []Key {
	return []Key{
		{Path: "data.target_lead", Check: AtLeast(0), Example: "48h",
			Help: "Lead that is predicted, where it is one; see data.target_leads."},
		{Path: "data.target_leads", Check: AtLeast(0), Example: "[24h, 48h]",
			Help: "Leads that are predicted, ascending, all in one pass of the network. They are among data.leads; with model.head: spread also after the last of those, which warns of a spread from fields before it."},
		{Path: "model.leads", Default: AutoLeads, Check: OneOf(AutoLeads, ChannelLeads, BatchLeads), Example: BatchLeads,
			Help: "Where a network sees leads: channels, all in one input of the network, which has an output for each target lead; rows, one behind the other in the batch with the same weights for all, told apart by model.conditions. auto is rows for networks over time, which have no other form, and channels for others."},
		{Path: "model.conditions", Check: OneOf(LeadCondition, DayCondition, HourCondition), Example: "[lead, day_of_year, hour]",
			Help: "What a network with leads in rows is told of each: the lead over the last one, and sine and cosine of the day of the year and of the hour of the day of its valid time."},
		{Path: "model.maps", Default: "false", Example: "true",
			Help: "Whether members (model.head: members) also get what is learned of each point, season and target: a shift that is the same for all members, and a factor of the member's own field. Other heads have such maps anyway."},
		{Path: "train.loss.leads", Check: Above(0), Example: "[1, 0.5]",
			Help: "Weight of each of data.target_leads in the loss, in their order; without it all are alike."},
	}
}

// recurrentKeys describe the cells of recurrent networks.
func recurrentKeys() []Key {
	return []Key{
		{Path: "model.recurrent.stages", Default: "1", Check: Between(1, 6), Example: "2",
			Help: "In how many of the deepest stages conv_lstm and conv_gru have a cell that remembers earlier leads."},
		{Path: "model.recurrent.hidden", Default: "0", Check: Between(0, 4096), Example: "16",
			Help: "Channels of a state of conv_lstm and conv_gru; 0 has half as many as its stage."},
		{Path: "model.recurrent.truncate", Default: "0", Check: Between(0, 1000), Example: "2",
			Help: "After how many leads gradients of conv_lstm and conv_gru do not go on; 0 never ends them."},
		{Path: "model.recurrent.bidirectional", Default: "true", Example: "false",
			Help: "Whether conv_lstm and conv_gru read leads in both orders: when a forecast is issued all are known."},
	}
}

// ReadLeads are those of the forecasts that a training reads: data.leads, and the target leads after them,
// of which the answers are taken.
func (d Data) ReadLeads() []ensemble.Lead {
	out := slices.Clone(d.Leads)
	for _, l := range d.TargetLeads {
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// LeadsInBatch tells whether the network sees leads one behind the other in the batch.
func (m Model) LeadsInBatch() bool {
	return m.LeadAxis == BatchLeads || m.LeadAxis == AutoLeads && m.NetworkKind().SpansLeads()
}

// mergeTargetLeads makes one list of data.target_lead and data.target_leads.
func (c *TrainConfig) mergeTargetLeads() []*exit.Error {
	d := &c.Data
	one := c.values["data.target_lead"] != nil
	switch {
	case !one && len(d.TargetLeads) == 0:
		return []*exit.Error{{Code: exit.Usage, What: `key "data.target_leads" is required`, At: c.sourceNames(), Why: "it says which leads are predicted",
			Fix: "add it, for example `data.target_leads: [48h]`"}}
	case one && len(d.TargetLeads) == 0:
		d.TargetLeads = []ensemble.Lead{d.TargetLead}
	case one && !slices.Equal(d.TargetLeads, []ensemble.Lead{d.TargetLead}):
		return []*exit.Error{c.fault("data.target_lead", fmt.Sprintf("data.target_lead %s is not what data.target_leads says", d.TargetLead), "data.target_leads are "+formatList(d.TargetLeads),
			"give one of the two")}
	}
	return nil
}

// checkLeads: what is predicted must be told by what is read, and be in a place that the network has.
func (c *TrainConfig) checkLeads() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	d, m, kind := c.Data, c.Model, c.Model.NetworkKind()
	for i := 1; i < len(d.Leads); i++ {
		if d.Leads[i] <= d.Leads[i-1] {
			add("data.leads", fmt.Sprintf("data.leads do not ascend: %s after %s", d.Leads[i], d.Leads[i-1]), "", "sort them and give each once")
			break
		}
	}
	key := "data.target_leads"
	if c.values[key] == nil {
		key = "data.target_lead"
	}
	for i := 1; i < len(d.TargetLeads); i++ {
		if d.TargetLeads[i] <= d.TargetLeads[i-1] {
			add(key, fmt.Sprintf("%s do not ascend: %s after %s", key, d.TargetLeads[i], d.TargetLeads[i-1]), "", "sort them and give each once")
			break
		}
	}
	early := false
	for _, l := range d.TargetLeads {
		switch {
		case slices.Contains(d.Leads, l):
		case len(d.Leads) > 0 && l < d.Leads[len(d.Leads)-1] || m.Head != SpreadHead || m.Method == StagesMethod:
			add(key, fmt.Sprintf("%s %s is not one of data.leads", key, l), "the leads are "+formatList(d.Leads)+"; only the spread (model.head: spread, in one stage) is predicted for leads after the last of them, of which no field is read",
				"add it to data.leads, or choose one of them")
		default:
			early = true
		}
	}
	several := len(d.TargetLeads) > 1
	switch {
	case kind.SingleField && several:
		add(key, fmt.Sprintf("%s predicts one spread field, not at %d leads", m.Kind, len(d.TargetLeads)), "", "give one target lead, or set model.kind: "+unet3d.UNetKind.Name)
	case kind.SingleField && early:
		add(key, m.Kind+" goes on from the spread at the target lead", "", "add the target lead to data.leads, or set model.kind: "+unet3d.UNetKind.Name)
	}
	rows := m.LeadsInBatch()
	switch {
	case m.LeadAxis == ChannelLeads && kind.SpansLeads():
		add("model.leads", m.Kind+" works along leads, and is to see them as channels", "", "set model.leads: "+BatchLeads+", or remove it")
	case rows && kind.Leads == unet3d.LeadsInChannels:
		add("model.leads", m.Kind+" sees leads as channels only", "", "set model.leads: "+ChannelLeads+", or model.kind: "+unet3d.UNetKind.Name)
	case rows && (m.Method == StagesMethod || m.Reference != NoReference || m.Members == MemberEncoder || m.Embedding > 0):
		add("model.leads", "leads in rows are given to a network in stages, with a reference, an encoder of members or learned fields", "these are of all leads together",
			"set model.leads: "+ChannelLeads+", or remove model.method, model.reference, model.members and model.embedding")
	case rows && early:
		add("model.leads", "leads in rows have no row of a target lead that is not read", "data.leads are "+formatList(d.Leads), "add the target lead to data.leads, or set model.leads: "+ChannelLeads)
	case !rows && len(m.Conditions) > 0:
		add("model.conditions", "model.conditions are given and leads are channels", "they tell rows apart", "remove them, or set model.leads: "+BatchLeads)
	}
	if m.Maps && m.Head != MembersHead {
		add("model.maps", "model.maps is given and head "+string(m.Head)+" has its own", "", "remove it, or set model.head: "+string(MembersHead))
	}
	if kind.NoConditions && len(m.Conditions) > 0 {
		add("model.conditions", m.Kind+" has no layer that conditions change", "its filters go over several leads", "remove them, or set another model.kind")
	}
	if kind.SpansLeads() && len(d.Leads) < 2 {
		add("data.leads", fmt.Sprintf("%s works along leads, and there is %d", m.Kind, len(d.Leads)), "", "add leads, or set another model.kind")
	}
	if w := c.Train.Train.Loss.LeadWeights; len(w) > 0 && len(w) != len(d.TargetLeads) {
		add("train.loss.leads", fmt.Sprintf("train.loss.leads has %d weights for %d target leads", len(w), len(d.TargetLeads)), "target leads are "+formatList(d.TargetLeads), "give one weight each")
	}
	return faults
}
