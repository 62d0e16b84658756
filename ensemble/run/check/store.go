package check

import (
	"context"
	"io"

	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/io/store"
)

// inspectStore lists what a sample store holds. With statistics all its bytes are
// compared with their checksums too.
func inspectStore(ctx context.Context, o InspectOptions, w io.Writer) error {
	s, err := store.Open(ctx, o.Files[0], store.OpenOptions{})
	if err == nil {
		defer s.Close()
		if o.Stats {
			err = s.Verify(ctx)
		}
	}
	if o.JSON {
		frame := answer.New("inspect", o.Version, err)
		if s == nil {
			return frame.Write(w, nil)
		}
		m := *s.Meta
		if !o.Stats {
			m.Statistics = nil
		}
		if werr := frame.Write(w, map[string]any{"store": &m}); werr != nil {
			return werr
		}
		return err
	}
	if s == nil {
		return err
	}
	if werr := samples.WriteStore(w, s, o.Stats && err == nil); werr != nil {
		return werr
	}
	return err
}
