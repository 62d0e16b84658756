package serve

import (
	"bytes"
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
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// pageMaxAge is how old the page may be when somebody asks for it: ages in it are to the minute.
const pageMaxAge = time.Minute

// maxPanels bounds the maps of the page: rows of mean, spread and difference.
const maxPanels = 12

// mapImages is the pictures of one start.
type mapImages struct {
	init  ensemble.Init
	drawn []report.RenderedPanel
}

// drawMaps makes the pictures of a start, which takes seconds.
//
// Errors: ctx.Err(); maps that cannot be drawn, also by a bug, or as what was kept of the start was damaged.
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

// page is the page as it was drawn last.
type page struct {
	text []byte
	seq  uint64 // of the state that it shows
	at   time.Time
	busy chan struct{} // closed when the drawing under way ends; nil for none
}

// servePage answers with the page: drawn when something changed, by one request for all.
func (h *handler) servePage(w *response, r *http.Request) {
	text, err := h.pageText()
	if err != nil {
		h.log.Error("the page cannot be drawn", "error", exit.OneLine(err))
		http.Error(w, "the page cannot be drawn", http.StatusInternalServerError)
		return
	}
	plain(w, r, "text/html; charset=utf-8", text)
}

// pageText gives the page. While it is drawn anew, who asks gets the old one, if there is one.
func (s *state) pageText() ([]byte, error) {
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
		var text []byte
		var err error
		defer func() { // whatever it came to: others wait
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

// renderPage makes the page: what is issued, what is waited for, the latest maps and the scores.
func (s *state) renderPage() ([]byte, error) {
	s.mu.Lock()
	model, latest, starts, unread, lack, scores := s.model, s.maps, s.inits, s.unread, s.missingInput, string(s.options.Service.Scores)
	s.mu.Unlock()
	p := &report.Page{Title: "Ensemble forecasts", Links: []report.Link{{Name: "Products", URL: "/products/"}, {Name: "Status", URL: "/status"}, {Name: "Metrics", URL: "/metrics"}}}
	fact := func(name, format string, args ...any) {
		p.Status = append(p.Status, report.Fact{Name: name, Text: fmt.Sprintf(format, args...)})
	}
	newest := s.newest()
	if newest != nil {
		m := newest.manifest
		begun := initOf(newest.name)
		fact("latest start", "%s, %s ago", begun.Format("2006-01-02 15:04Z"), formatAge(time.Since(begun)))
		fact("status", "%s", m.Status)
		fact("members", "%d used of %d expected, control %sd", len(m.MembersUsed), m.MembersExpected, m.ControlPolicy)
		if m.Status == manifest.Degraded {
			degraded := "The latest start is degraded." // of members that the model does not use, or by damage: its own warnings say so
			if len(m.MembersUsed) < m.MembersExpected {
				degraded = fmt.Sprintf("The latest start is degraded: it has %d of %d members.", len(m.MembersUsed), m.MembersExpected)
			}
			p.Warnings = append(p.Warnings, degraded)
		}
		p.Warnings = append(p.Warnings, m.Warnings...)
	} else {
		fact("latest start", "none yet")
	}
	if model != nil {
		fact("model", "%s old, trained on %s to %s", formatAge(time.Since(model.Finished)), model.Trained.From.Format(time.DateOnly), model.Trained.To.Format(time.DateOnly))
		p.Facts = append(p.Facts, report.Fact{Name: "model", Text: model.Checksum}, report.Fact{Name: "trained by", Text: model.Version})
	} else {
		fact("model", "not ready")
	}
	switch {
	case latest != nil:
		fact("maps of", "start %s", formatMinute(latest.init.Time))
		p.Rendered = latest.drawn
	case newest != nil: // products do not hold the raw members
		fact("maps", "none yet: they are drawn when a start is issued here")
	}
	if lack != "" {
		p.Warnings = append(p.Warnings, "Some of the input is not there: "+lack)
	}
	if t := startTable(starts); len(t.Rows) > 0 {
		p.Tables = append(p.Tables, t)
	}
	if len(unread) > 0 {
		t := report.Table{Title: "Files whose start is not known", Columns: []string{"file", "why"}}
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
			p.Warnings = append(p.Warnings, "The scores cannot be read: "+exit.OneLine(err))
		}
	}
	var b bytes.Buffer
	err := p.Write(&b)
	return b.Bytes(), err
}

// startTable lists the starts of the input that are newest, and all that are not issued.
func startTable(starts []InitStatus) report.Table {
	t := report.Table{Title: "Starts of the input", Columns: []string{"start", "state", "since", "deadline", "why"}}
	for i, s := range starts {
		if s.State == issued && i >= 10 || len(t.Rows) == 60 {
			continue
		}
		deadline, why := "none", s.Why
		if s.Deadline != nil {
			deadline = formatMinute(*s.Deadline)
		}
		if s.NextAttempt != nil {
			why += ", tried again at " + formatMinute(*s.NextAttempt)
		}
		t.Rows = append(t.Rows, []string{initOf(s.Name).Format("2006-01-02 15:04Z"), s.State, formatMinute(s.Since), deadline, why})
	}
	return t
}

func formatMinute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04Z") }

// days is a duration in days.
func days(d time.Duration) string { return fmt.Sprintf("%d days", int(d.Hours()/24+0.5)) }

// trimZero leaves out the seconds and minutes that are zero: 3h0m0s is 3h.
func trimZero(s string) string {
	if t, ok := strings.CutSuffix(s, "m0s"); ok {
		s = t + "m"
	}
	if t, ok := strings.CutSuffix(s, "h0m"); ok {
		s = t + "h"
	}
	return s
}
