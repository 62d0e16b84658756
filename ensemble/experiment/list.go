package experiment

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/dirglob"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Entry is an experiment in the list.
type Entry struct {
	Name       string `json:"name"`
	Dir        string `json:"dir"`
	Title      string `json:"title"`
	Data       string `json:"data"` // "generated", "available" or "missing"
	Trainings  int    `json:"trainings"`
	Checks     int    `json:"checks"`
	LastStatus string `json:"last_status"` // status of the record in the directory of results; "": none
}

// List lists the experiments in the subdirectories of root by name, with the status of their records
// in the directory runs.
//
// Errors: exit 66 if there is none; 64 for an invalid experiment.yaml.
func List(root, runs string) (Listing, error) {
	paths, err := dirglob.In(root, "*/"+experimentfile.FileName)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, &exit.Error{Code: exit.NotYet, What: "no experiment in " + root, At: root, Why: "no subdirectory has " + experimentfile.FileName, Fix: "give the directory of the experiments"}
	}
	slices.Sort(paths)
	var out Listing
	for _, path := range paths {
		c, err := experimentfile.Load(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		row := Entry{Name: c.Name, Dir: filepath.Dir(path), Title: c.Title, Trainings: len(c.Variants) * len(c.Seeds), Checks: len(c.Scores) + len(c.SkillScores), Data: "generated"}
		if c.Data.Source == experimentfile.FilesSource {
			o := Options{Experiment: c}
			if row.Data = "available"; func() error { _, err := o.dataDir(); return err }() != nil {
				row.Data = "missing"
			}
		}
		switch r, err := record.Read(filepath.Join(runs, c.Name, record.File)); {
		case err == nil:
			row.LastStatus = r.Status
		case !errors.Is(err, fs.ErrNotExist):
			row.LastStatus = "damaged"
		}
		out = append(out, row)
	}
	return out, nil
}

// Listing is a list of experiments.
type Listing []Entry

// Sections is the list as a table.
func (l Listing) Sections() answer.Sections {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("experiment"), answer.NumberColumns("", "trainings", "checks"), answer.TextColumns("data", "last", "title"))}
	for _, e := range l {
		s.Rows = append(s.Rows, []any{e.Name, e.Trainings, e.Checks, e.Data, cmp.Or(e.LastStatus, "-"), e.Title})
	}
	return answer.Sections{s}
}
