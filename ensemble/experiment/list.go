package experiment

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Entry is a row of the list of experiments.
type Entry struct {
	Name       string `json:"name"`
	Dir        string `json:"dir"`
	Title      string `json:"title"`
	Data       string `json:"data"` // made by the program, here, or not here
	Trainings  int    `json:"trainings"`
	Checks     int    `json:"checks"`
	LastStatus string `json:"last_status"` // status of the record below the folder of runs; "" if there is none
}

// List lists the folders with an experiment.yaml in a folder, by name, and what became of them below a folder
// of runs.
//
// Errors: exit 66 if there is none; 64 for one that cannot be read.
func List(root, runs string) (Listing, error) {
	paths, err := filepath.Glob(filepath.Join(root, "*", config.ExperimentFileName))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, &exit.Error{Code: exit.NotYet, What: "no experiment is here", At: root, Why: "no folder in it has " + config.ExperimentFileName, Fix: "give the folder of the experiments"}
	}
	slices.Sort(paths)
	var out Listing
	for _, path := range paths {
		c, err := config.LoadExperiment(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		row := Entry{Name: c.Name, Dir: filepath.Dir(path), Title: c.Title, Trainings: len(c.Variants) * len(c.Seeds), Checks: len(c.Scores) + len(c.SkillScores), Data: "made by the program"}
		if c.Data.Source == config.FilesSource {
			o := Options{Experiment: c}
			if row.Data = "here"; func() error { _, err := o.dataDir(); return err }() != nil {
				row.Data = "not here"
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

// Sections are the list as a table.
func (l Listing) Sections() answer.Sections {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("experiment"), answer.NumberColumns("", "trainings", "checks"), answer.TextColumns("data", "last", "title"))}
	for _, e := range l {
		s.Rows = append(s.Rows, []any{e.Name, e.Trainings, e.Checks, e.Data, cmp.Or(e.LastStatus, "-"), e.Title})
	}
	return answer.Sections{s}
}
