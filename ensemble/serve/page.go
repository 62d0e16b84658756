package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// pageMaxAge is the largest age of the cached page; the page shows ages to the minute.
const pageMaxAge = time.Minute

// maxPanels is the largest number of map panels: mean, spread, difference and probability of four targets.
const maxPanels = 16

// mapImages are the drawn maps of one initialisation.
type mapImages struct {
	init  ensemble.Init
	drawn []report.RenderedPanel
}

// drawMaps draws the maps of an initialisation.
//
// Errors: ctx.Err(); those of drawing, panics included, since saved fields may be damaged.
// Cost: seconds.
func drawMaps(ctx context.Context, e *scoring.MapExample) (m *mapImages, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, fmt.Errorf("internal error: %v", p)
		}
	}()
	m = &mapImages{init: e.Init}
	panels := reports.Panels(e)
	for _, p := range panels[:min(len(panels), maxPanels)] {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d, err := p.Render()
		if err != nil {
			return nil, err
		}
		m.drawn = append(m.drawn, d)
	}
	return m, nil
}

// page is the cached HTML page.
type page struct {
	text []report.Part // the first at "/" and "/index.html", the others by their names
	seq  uint64        // seq of the state that it shows
	at   time.Time
	busy chan struct{} // closed when the current rendering ends; nil: none
}

// servePage responds with a part of the page. One request renders all for all after a change.
func (h *handler) servePage(w *response, r *http.Request, name string) {
	parts, err := h.pageText()
	if err != nil {
		h.log.Error("cannot render the page", "error", exit.OneLine(err))
		http.Error(w, "cannot render the page", http.StatusInternalServerError)
		return
	}
	for _, p := range parts {
		if p.Name == name {
			plain(w, r, "text/html; charset=utf-8", p.Text)
			return
		}
	}
	http.Error(w, "not found", http.StatusNotFound)
}

// pageText returns the page. While it is rendered, other requests get the previous page, or wait
// for the first.
func (s *state) pageText() ([]report.Part, error) {
	for {
		s.mu.Lock()
		p := &s.page
		if p.text != nil && (p.busy != nil || p.seq == s.seq && time.Since(p.at) < pageMaxAge) {
			defer s.mu.Unlock()
			return p.text, nil
		}
		if p.busy != nil {
			busy := p.busy
			s.mu.Unlock()
			<-busy
			continue
		}
		busy, seq := make(chan struct{}), s.seq
		p.busy = busy
		s.mu.Unlock()
		var text []report.Part
		var err error
		defer func() { // also after a panic, since others wait
			s.mu.Lock()
			defer s.mu.Unlock()
			if p.busy = nil; err == nil && text != nil {
				p.text, p.seq, p.at = text, seq, time.Now()
			}
			close(busy)
		}()
		text, err = s.renderPage()
		return text, err
	}
}

// renderPage renders the page: status, initialisations in the input, latest maps and scores.
func (s *state) renderPage() ([]report.Part, error) {
	s.mu.Lock()
	model, latest, unread, lack, scores := s.model, s.maps, s.unread, s.missingInput, string(s.options.Service.Scores)
	s.mu.Unlock()
	starts := s.statuses()
	p := &report.Page{Title: "Ensemble forecasts", Links: []report.Link{{Name: "Products", URL: "/products/"}, {Name: "Status", URL: "/status"}, {Name: "Metrics", URL: "/metrics"}}}
	fact := func(name, format string, args ...any) {
		p.Status = append(p.Status, report.Fact{Name: name, Text: fmt.Sprintf(format, args...)})
	}
	newest := s.newest()
	if newest != nil {
		m := newest.manifest
		begun := initOf(newest.name)
		fact("latest initialisation", "%s, %s ago", begun.Format("2006-01-02 15:04Z"), humanise.Duration(s.age(newest.name)))
		fact("status", "%s", m.Status)
		fact("members", "%d used; %d complete, %d expected; control %sd", len(m.MembersUsed), m.MembersComplete, m.MembersExpected, m.ControlPolicy)
		if m.Status == manifest.Degraded {
			degraded := "The latest initialisation is degraded." // by damage or unused members; its warnings have the details
			if m.MembersComplete < m.MembersExpected {
				degraded = fmt.Sprintf("The latest initialisation is degraded: it has %d of %d members", m.MembersComplete, m.MembersExpected)
				if names := ensemble.MemberRanges(newest.missing()); names != "" {
					degraded += "; missing: " + names
				}
				degraded += "."
			}
			p.Warnings = append(p.Warnings, degraded)
		}
		p.Warnings = append(p.Warnings, m.Warnings...)
	} else {
		fact("latest initialisation", "none yet")
	}
	if model != nil {
		fact("model", "%s old, trained on %s to %s", humanise.Duration(s.now().Sub(model.Finished)), model.Trained.From.Format(time.DateOnly), model.Trained.To.Format(time.DateOnly))
		p.Facts = append(p.Facts, report.Fact{Name: "model", Text: model.Checksum}, report.Fact{Name: "trained by", Text: model.Version})
	} else {
		fact("model", "not ready")
	}
	switch {
	case latest != nil && s.isShown(latest.init):
		fact("maps of", "initialisation %s", formatMinute(latest.init.Time))
		p.Rendered = latest.drawn
	case newest != nil: // maps need raw members, which products do not contain
		fact("maps", "none yet: they are drawn when the next products are published")
	}
	if names := s.future(); len(names) > 0 {
		p.Warnings = append(p.Warnings, "Products of initialisations in the future, which do not count as the latest: "+strings.Join(names[:min(len(names), humanise.MaxListed)], ", "))
	}
	if lack != "" {
		p.Warnings = append(p.Warnings, "Input is missing: "+lack)
	}
	for _, i := range starts {
		name := initOf(i.Name).Format("2006-01-02 15:04Z")
		switch {
		case i.InputChanged:
			p.Warnings = append(p.Warnings, fmt.Sprintf("Initialisation %s: %s. Accept or dismiss it: `ensemble products`", name, i.Why))
		case (i.State == late || i.State == failed) && i.Acknowledged == nil:
			p.Warnings = append(p.Warnings, fmt.Sprintf("Initialisation %s: %s: %s", name, i.State, i.Why))
		}
	}
	if t := startTable(starts); len(t.Rows) > 0 {
		p.Tables = append(p.Tables, t)
	}
	if len(unread) > 0 {
		t := report.Table{Title: "Files of unknown initialisation", Columns: []string{"file", "why"}}
		for _, u := range unread[:min(len(unread), 50)] {
			t.Rows = append(t.Rows, []string{u.Path, u.Reason})
		}
		p.Tables = append(p.Tables, t)
	}
	if scores != "" {
		var err error
		switch p.Scores, err = trained.ReadScores(scores); {
		case exit.CodeOf(err) == exit.NotYet:
			fact("scores", "none yet")
		case err != nil:
			p.Warnings = append(p.Warnings, "Cannot read the scores: "+exit.OneLine(err))
		}
	}
	return p.Parts(reports.PageFile, report.FileLimit)
}

// startTable lists the ten newest initialisations of the input and the schedule, and all that are not published.
func startTable(starts []InitStatus) report.Table {
	t := report.Table{Title: "Initialisations", Columns: []string{"initialisation", "state", "first file", "expected by", "deadline", "why"}}
	minute := func(at *time.Time) string {
		if at == nil {
			return "none"
		}
		return formatMinute(*at)
	}
	for i, s := range starts {
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
		t.Rows = append(t.Rows, []string{initOf(s.Name).Format("2006-01-02 15:04Z"), s.State, minute(s.Since), minute(s.ExpectedBy), minute(s.Deadline), why})
	}
	return t
}

// formatMinute formats a time in UTC to the minute.
func formatMinute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04Z") }
