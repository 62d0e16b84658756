package check

import (
	"context"

	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/io/store"
)

// inspectStore lists the content of a sample store. With statistics it also compares all bytes with their
// checksums.
func inspectStore(ctx context.Context, o InspectOptions) (*Inspection, error) {
	s, err := store.Open(ctx, o.Files[0], store.OpenOptions{})
	if err != nil {
		return &Inspection{}, err
	}
	defer s.Close()
	if o.Stats {
		err = s.Verify(ctx)
	}
	m := *s.Meta
	if !o.Stats {
		m.Statistics = nil
	}
	return &Inspection{Data: map[string]any{"store": &m}, sections: samples.StoreSections(s, o.Stats && err == nil)}, err
}
