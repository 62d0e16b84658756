package serve

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/desk"
	"github.com/ensemble-weather/ensemble/ensemble/hook"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// servePage responds with the page.
func (h *handler) servePage(w *response, r *http.Request) {
	a, err := h.desk.Answer(r.Context(), h.page(), r.URL.Query())
	for _, fault := range a.Faults {
		h.log.Warn("a map or meteogram cannot be drawn", "error", exit.OneLine(fault))
	}
	switch {
	case err != nil:
		h.log.Error("cannot render the page", "error", exit.OneLine(err))
		http.Error(w, "cannot render the page", http.StatusInternalServerError)
	case a.Location != "":
		w.Header().Set("Location", a.Location)
		w.WriteHeader(a.Code)
	case a.Code == http.StatusOK:
		plain(w, r, "text/html; charset=utf-8", a.Text)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(a.Code)
		_, _ = w.Write(a.Text) // the client may have gone
	}
}

// page collects what the page states about the service.
func (s *state) page() desk.Page {
	s.mu.Lock()
	model, unread, lack, scores := s.model, s.unread, s.missingInput, string(s.options.Service.Scores)
	s.mu.Unlock()
	inits, newest := s.statuses(), s.newest()
	p := desk.Page{Links: []report.Link{{Name: "Products", URL: "/products/"}, {Name: "Status", URL: "/status"}, {Name: "Metrics", URL: "/metrics"}}}
	if scores != "" {
		p.Links = append([]report.Link{{Name: "Scores", URL: "/" + scoresFile}}, p.Links...)
	}
	p.Headline, p.Notices = desk.Judge(s.situation(inits, newest, lack))
	fact := func(name, format string, args ...any) {
		p.Facts = append(p.Facts, report.Fact{Name: name, Text: fmt.Sprintf(format, args...)})
	}
	if newest != nil {
		m := newest.manifest
		fact("newest products", "%s, %s ago", formatMinute(initOf(newest.name)), humanise.Duration(s.age(newest.name)))
		fact("status", "%s", m.Status)
		fact("members", "%d used; %d complete, %d expected; %s", len(m.MembersUsed), m.MembersComplete, m.MembersExpected, ensemble.DescribeControl(m.ControlPolicy))
		if stated := slices.ContainsFunc(p.Notices, func(n desk.Notice) bool {
			return n.State == desk.Degraded && n.Init == formatMinute(initOf(newest.name))
		}); !stated {
			p.Warnings = newestWarnings(newest)
		}
	} else {
		fact("newest products", "none yet")
	}
	if model != nil {
		fact("model", "trained on %s to %s, finished %s, version %s", model.Trained.From.Format(time.DateOnly), model.Trained.To.Format(time.DateOnly), model.Finished.UTC().Format(time.DateOnly), model.Version)
	} else {
		fact("model", "not ready")
	}
	if names := s.future(); len(names) > 0 {
		p.Warnings = append(p.Warnings, "Products of initialisations in the future, which do not count as the newest: "+strings.Join(names[:min(len(names), humanise.MaxListed)], ", "))
	}
	if lack != "" {
		p.Warnings = append(p.Warnings, "Input is missing: "+lack)
	}
	if t := initTable(inits); len(t.Rows) > 0 {
		p.Tables = append(p.Tables, t)
	}
	if h := s.hook.Status(); h != nil {
		fact("deliveries", "by %s; %d pending, %d given up", h.Calls, h.Pending, h.Abandoned)
		if h.Abandoned > 0 {
			p.Warnings = append(p.Warnings, "The hook was given up for "+humanise.Count(h.Abandoned, "initialisation")+": mend the command or the receiver, then reload the service; or `ensemble products acknowledge-delivery INIT --out "+s.tree.dir+"`.")
		}
		if len(h.Open) > 0 {
			p.Tables = append(p.Tables, deliveryTable(h.Open))
		}
	}
	if len(unread) > 0 {
		t := report.Table{Title: "Files of unknown initialisation", Columns: []string{"file", "why"}}
		for _, u := range unread[:min(len(unread), 50)] {
			t.Rows = append(t.Rows, []string{u.Path, u.Reason})
		}
		p.Tables = append(p.Tables, t)
	}
	return p
}

// situation returns what the state of the service follows from.
func (s *state) situation(inits []InitStatus, newest *initProducts, lack string) desk.Situation {
	s.mu.Lock()
	x := desk.Situation{MaxAge: s.options.Service.ReadyMaxAge, Missing: lack, Out: s.tree.dir}
	s.mu.Unlock()
	x.Now, x.Stalled = s.now(), !s.isAlive()
	if newest != nil {
		x.Newest = &desk.Newest{Name: newest.name, Time: initOf(newest.name), Degraded: newest.manifest.Status == manifest.Degraded}
	}
	for _, i := range inits {
		y := desk.Init{Name: i.Name, Time: initOf(i.Name), State: i.State, Why: i.Why, Changed: i.InputChanged, CanAccept: i.CanAccept, Acknowledged: i.Acknowledged != nil}
		if i.ExpectedBy != nil {
			y.ExpectedBy = *i.ExpectedBy
		}
		if i.NextAttempt != nil {
			y.NextAttempt = *i.NextAttempt
		}
		x.Inits = append(x.Inits, y)
	}
	return x
}

// newestWarnings are the warnings of the newest products. Degraded ones without any state what they lack.
func newestWarnings(c *initProducts) (out []string) {
	m := c.manifest
	if m.Status == manifest.Degraded && len(m.Warnings) == 0 {
		text := "The newest products are degraded"
		if m.MembersComplete < m.MembersExpected {
			text = fmt.Sprintf("The newest products are degraded: they have %d of %d members", m.MembersComplete, m.MembersExpected)
			if names := ensemble.MemberRanges(c.missing()); names != "" {
				text += "; missing: " + names
			}
		}
		out = append(out, text+".")
	}
	return append(out, m.Warnings...)
}

// initTable lists the ten newest initialisations of the input and the schedule, and all that are not published.
func initTable(inits []InitStatus) report.Table {
	t := report.Table{Title: "Initialisations", Columns: []string{"initialisation", "state", "first file", "expected by", "deadline", "why"}}
	minute := func(at *time.Time) string {
		if at == nil {
			return "none"
		}
		return formatMinute(*at)
	}
	for i, s := range inits {
		if s.State == issued && i >= 10 || len(t.Rows) == 60 {
			continue
		}
		why := s.Why
		if s.NextAttempt != nil {
			why += ", next attempt at " + formatMinute(*s.NextAttempt)
		}
		if s.Acknowledged != nil {
			why = joinReasons(why, "acknowledged "+formatMinute(*s.Acknowledged))
		}
		t.Rows = append(t.Rows, []string{formatMinute(initOf(s.Name)), s.State, minute(s.Since), minute(s.ExpectedBy), minute(s.Deadline), why})
	}
	return t
}

// deliveryTable lists deliveries that the receiver has not accepted.
func deliveryTable(open []hook.Delivery) report.Table {
	t := report.Table{Title: "Open deliveries", Columns: []string{"initialisation", "state", "since", "failed attempts", "next attempt", "why"}}
	for _, d := range open {
		next := "at once"
		switch {
		case d.NextAttempt != nil:
			next = formatMinute(*d.NextAttempt)
		case d.State != hook.Pending:
			next = "none"
		}
		t.Rows = append(t.Rows, []string{formatMinute(initOf(d.Name)), map[string]string{hook.Pending: "pending", hook.Abandoned: "given up", hook.Acknowledged: "given up, acknowledged"}[d.State], formatMinute(d.Since), strconv.Itoa(d.Attempts), next, d.Why})
	}
	return t
}

// formatMinute formats a time in UTC to the minute.
func formatMinute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04Z") }
