package serve

import (
	"net/http"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// scoresFile is the name of the page of scores; its further parts have numbers.
const scoresFile = "scores.html"

// scoresMaxAge is the largest age of the cached page of scores.
const scoresMaxAge = time.Minute

// scoresPage is the cached page of the scores in serve.scores.
type scoresPage struct {
	parts []report.Part
	at    time.Time
	busy  chan struct{} // closed when the current rendering ends; nil: none
}

// serveScores responds with a part of the page of scores.
func (h *handler) serveScores(w *response, r *http.Request, name string) {
	parts, err := h.scoresText()
	if err != nil {
		h.log.Error("cannot render the scores", "error", exit.OneLine(err))
		http.Error(w, "cannot render the scores", http.StatusInternalServerError)
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

// scoresText returns the page of scores. While it is rendered, other requests get the previous one, or wait for the first.
func (s *state) scoresText() ([]report.Part, error) {
	for {
		s.mu.Lock()
		p := &s.scores
		if p.parts != nil && (p.busy != nil || time.Since(p.at) < scoresMaxAge) {
			defer s.mu.Unlock()
			return p.parts, nil
		}
		if p.busy != nil {
			busy := p.busy
			s.mu.Unlock()
			<-busy
			continue
		}
		busy, dir := make(chan struct{}), string(s.options.Service.Scores)
		p.busy = busy
		s.mu.Unlock()
		var parts []report.Part
		var err error
		defer func() { // also after a panic, since others wait
			s.mu.Lock()
			defer s.mu.Unlock()
			if p.busy = nil; err == nil && parts != nil {
				p.parts, p.at = parts, time.Now()
			}
			close(busy)
		}()
		parts, err = renderScores(dir)
		return parts, err
	}
}

// renderScores renders the page of the scores in a folder.
func renderScores(dir string) ([]report.Part, error) {
	p := &report.Page{Title: "Scores", Links: []report.Link{{Name: "Forecasts", URL: "/"}}}
	if dir == "" {
		return []report.Part{}, nil
	}
	var err error
	switch p.Scores, err = trained.ReadScores(dir); {
	case exit.CodeOf(err) == exit.NotYet:
		p.Status = []report.Fact{{Name: "scores", Text: "none yet"}}
	case err != nil:
		p.Warnings = []string{"Cannot read the scores: " + exit.OneLine(err)}
	}
	return p.Parts(scoresFile, report.FileLimit)
}
