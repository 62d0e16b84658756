package desk

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// State is the state of the service, or of an initialisation that needs attention.
type State string

// The states, the most urgent first.
const (
	Failed   State = "failed"   // initialisations failed, or nothing is issued any more
	Late     State = "late"     // initialisations have no products although the schedule expects them
	None     State = "none"     // there are no products
	Stale    State = "stale"    // the newest products are too old
	Changed  State = "changed"  // an operator has to decide about products whose input changed
	Degraded State = "degraded" // the newest products are made from less than the expected input
	Fresh    State = "fresh"
)

// Init is an initialisation of the input or the schedule.
type Init struct {
	Name  string // of its folder
	Time  time.Time
	State string // as in /status
	Why   string
	// Changed: its input changed after it was issued, and no operator decided.
	Changed bool
	// CanAccept: its new input can replace the products.
	CanAccept    bool
	Acknowledged bool
	ExpectedBy   time.Time // by the schedule; zero: not in it
	NextAttempt  time.Time // after a failure; zero: none
}

// Newest describes the newest products that are not in the future.
type Newest struct {
	Name     string
	Time     time.Time
	Degraded bool
}

// Situation describes products, input and schedule of a service.
type Situation struct {
	Now     time.Time
	Inits   []Init  // the newest first
	Newest  *Newest // nil: no products
	MaxAge  time.Duration
	Stalled bool   // no progress of issuing
	Missing string // reason for missing input; "": none
	Out     string // product directory, for commands
}

// defaultMaxAge is the age beyond which products are stale, if the service has no other limit.
const defaultMaxAge = 24 * time.Hour

// Headline is the first line of the page.
type Headline struct {
	State State
	// Word is the state, Text what it means, Do what to do next.
	Word, Text, Do string
}

// Notice is an initialisation that needs attention.
type Notice struct {
	State         State
	Init, Why, Do string
	Commands      []string // that an operator may type
}

// words are the states for display.
var words = map[State]string{Failed: "Failed", Late: "Late", None: "No products", Stale: "Stale", Changed: "Input changed", Degraded: "Degraded", Fresh: "Fresh"}

// Judge returns the most urgent state of a situation, and the initialisations that need attention, failed ones first, then
// late ones. Those that an operator has acknowledged do not count.
func Judge(s Situation) (Headline, []Notice) {
	notices := s.notices()
	of := func(state State) (names []string) {
		for _, n := range notices {
			if n.State == state {
				names = append(names, n.Init)
			}
		}
		return names
	}
	newest := "There are no products."
	if s.Newest != nil {
		newest = fmt.Sprintf("The newest products are of %s, %s old.", minute(s.Newest.Time), humanise.Duration(s.Now.Sub(s.Newest.Time)))
	}
	line := func(state State, text, do string) (Headline, []Notice) {
		return Headline{state, words[state], text, do}, notices
	}
	count := func(names []string) string {
		return humanise.Count(len(names), "initialisation") + ": " + humanise.List(names)
	}
	switch {
	case s.Stalled:
		return line(Failed, "Nothing has been issued or tried for an hour. "+newest, "Look at the log of the service, then restart it.")
	case of(Failed) != nil:
		return line(Failed, count(of(Failed))+". "+newest, "Remove the cause stated below; then retry or acknowledge it, by the commands there.")
	case of(Late) != nil:
		return line(Late, count(of(Late))+". "+newest, "Ask for the files that are named below, or look at the transfer.")
	case s.Newest == nil:
		return line(None, "Nothing has been issued yet.", "Check that files arrive: "+cmp.Or(s.Missing, "an initialisation is issued when its input is complete")+".")
	case s.Now.Sub(s.Newest.Time) > cmp.Or(s.MaxAge, defaultMaxAge):
		return line(Stale, newest+" The limit is "+humanise.Duration(cmp.Or(s.MaxAge, defaultMaxAge))+".", "Check that input arrives, and look at the log of the service.")
	case of(Changed) != nil:
		return line(Changed, count(of(Changed))+". "+newest, "Accept the new input or dismiss it, by a command below.")
	case s.Newest.Degraded && !s.acknowledged(s.Newest.Name):
		return line(Degraded, newest+" They are made from less than the expected input.", "Members that arrive later replace them. Use them with the warnings below.")
	}
	return line(Fresh, newest, s.next())
}

// acknowledged reports whether an operator has acknowledged the state of an initialisation.
func (s *Situation) acknowledged(name string) bool {
	for _, i := range s.Inits {
		if i.Name == name {
			return i.Acknowledged
		}
	}
	return false
}

// next is what happens next if nothing needs attention.
func (s *Situation) next() string {
	for i := len(s.Inits) - 1; i >= 0; i-- {
		x := s.Inits[i]
		if (x.State == "expected" || x.State == "waiting") && !x.ExpectedBy.IsZero() {
			return fmt.Sprintf("Nothing to do. The products of %s are expected by %s.", minute(x.Time), minute(x.ExpectedBy))
		}
	}
	return "Nothing to do."
}

// notices lists the initialisations that need attention.
func (s *Situation) notices() (out []Notice) {
	for _, state := range []State{Failed, Late, Changed, Degraded} {
		for _, i := range s.Inits {
			if i.Acknowledged || i.state() != state {
				continue
			}
			n := Notice{State: state, Init: minute(i.Time), Why: i.Why}
			switch command := func(action string) string { return "ensemble products " + action + " " + i.Name + " --out " + s.Out }; state {
			case Failed:
				n.Do, n.Commands = "No further attempt until its files change.", []string{command("retry"), command("acknowledge")}
				if !i.NextAttempt.IsZero() {
					n.Do = "Next attempt at " + minute(i.NextAttempt) + "."
				}
			case Late:
				n.Do, n.Commands = "Its products were expected by "+minute(i.ExpectedBy)+".", []string{command("acknowledge")}
			case Changed:
				if n.Do = "The products stay until you decide."; i.CanAccept {
					n.Commands = []string{command("accept")}
				}
				n.Commands = append(n.Commands, command("dismiss"))
			case Degraded:
				n.Do, n.Commands = "Members that arrive later replace it.", []string{command("acknowledge")}
			}
			out = append(out, n)
		}
	}
	return out
}

// state is the state of an initialisation that needs attention; "" for others.
func (i *Init) state() State {
	switch {
	case i.Changed:
		return Changed
	case i.State == string(Failed), i.State == string(Late), i.State == string(Degraded):
		return State(i.State)
	}
	return ""
}

// minute formats a time in UTC to the minute.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04Z") }
