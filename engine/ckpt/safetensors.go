package ckpt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// maxHeader limits the JSON header to 100 MB, as the reference implementation does.
const maxHeader = 100_000_000

// Entry describes one tensor in the header.
type Entry struct {
	Name       string
	DType      DType
	Shape      []int
	begin, end int64 // byte range, relative to the end of the header
}

// Header is the header of a safetensors file: the list of its tensors.
type Header struct {
	Entries  []Entry           // in the order of their data
	Metadata map[string]string // the entry "__metadata__"; nil for none
	data     int64             // offset of the data in the file
}

// formatError is a violation of the format, with the byte or tensor where it was found.
type formatError struct{ fault, where string }

func (f *formatError) Error() string { return f.fault + " (" + f.where + ")" }

// badHeader makes a formatError. where is the byte or the tensor, format the fault.
func badHeader(where, format string, args ...any) error {
	return &formatError{fmt.Sprintf(format, args...), where}
}

// ReadHeader reads and validates the header of a safetensors file of size bytes. Element types must
// be known. Byte ranges must match the shapes and cover the data without overlap or gap.
//
// Layout: 8 bytes with the length N of the header (uint64, little-endian), N bytes of JSON, data
// (safetensors README, section "Format").
//
// The length is compared with the size of the file before memory is allocated for it, so an
// invalid file cannot request more memory than it has bytes.
//
// Memory: at most the size of the file.
// Errors: *formatError for a file that violates the format; read errors.
// Source: safetensors, README, section "Format", with its limits: a header of 100 MB, no duplicate
// keys, no holes in the data.
func ReadHeader(r io.ReaderAt, size int64) (*Header, error) {
	var prefix [9]byte
	if size < int64(len(prefix)) {
		return nil, badHeader("byte 0", "file of %d bytes, a header needs at least 9", size)
	}
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(prefix[:8])
	if n > maxHeader || int64(n) > size-8 || n < 2 {
		return nil, badHeader("byte 0", "header length %d exceeds the file of %d bytes", n, size)
	}
	if prefix[8] != '{' {
		return nil, badHeader("byte 8", "header does not begin with {")
	}
	text := make([]byte, n)
	if _, err := r.ReadAt(text, 8); err != nil {
		return nil, err
	}
	if !utf8.Valid(text) {
		return nil, badHeader("header", "header is not valid UTF-8")
	}
	h, err := parseHeader(text)
	if err != nil {
		return nil, err
	}
	h.data = 8 + int64(n)
	return h, h.check(size - h.data)
}

// parseHeader parses the JSON header token by token. encoding/json would accept the last of two
// equal keys and ignore the case of keys. It would thus accept files that other readers understand
// differently.
//
// Numbers are parsed as text (UseNumber): offsets above 2⁵³ would be rounded as float64.
func parseHeader(text []byte) (*Header, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	h := &Header{}
	seen := map[string]bool{}
	err := parseObject(d, func(name string) error {
		if seen[name] {
			return badHeader("tensor "+strconv.Quote(name), "tensor is listed twice")
		}
		seen[name] = true
		if name == "__metadata__" {
			h.Metadata = map[string]string{}
			return parseObject(d, func(key string) error {
				tok, err := d.Token()
				value, ok := tok.(string)
				if err != nil || !ok {
					return badHeader("__metadata__", "value of %q is not text", key)
				}
				if _, twice := h.Metadata[key]; twice {
					return badHeader("__metadata__", "key %q is given twice", key)
				}
				h.Metadata[key] = value
				return nil
			})
		}
		if name == "" || strings.ContainsFunc(name, unicode.IsControl) {
			return badHeader("header", "tensor name %q is empty or has control characters", name)
		}
		e := Entry{Name: name}
		err := parseEntry(d, &e)
		h.Entries = append(h.Entries, e)
		return err
	})
	if err != nil {
		var f *formatError
		if errors.As(err, &f) {
			return nil, err
		}
		return nil, badHeader("header", "header is not valid JSON: %v", err)
	}
	if rest := bytes.Trim(text[d.InputOffset():], " "); len(rest) > 0 {
		return nil, badHeader(fmt.Sprintf("byte %d", 8+d.InputOffset()), "unexpected bytes after the JSON object of the header")
	}
	return h, nil
}

// parseObject calls visit for every key of the next JSON object. visit must read the value.
//
// Errors: a value that is not an object; invalid JSON; those of visit.
func parseObject(d *json.Decoder, visit func(key string) error) error {
	tok, err := d.Token()
	if err != nil {
		return err
	}
	if tok != json.Delim('{') {
		return fmt.Errorf("got %v, want an object", tok)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if err := visit(key.(string)); err != nil { // the decoder guarantees that keys are strings
			return err
		}
	}
	_, err = d.Token()
	return err
}

// parseEntry parses {"dtype": …, "shape": […], "data_offsets": [begin, end]}. The three keys may
// have any order, each once.
//
// Errors: *formatError with the tensor.
func parseEntry(d *json.Decoder, e *Entry) error {
	where := "tensor " + strconv.Quote(e.Name)
	seen := map[string]bool{}
	err := parseObject(d, func(key string) error {
		if seen[key] {
			return badHeader(where, "%s is given twice", key)
		}
		seen[key] = true
		switch key {
		case "dtype":
			tok, err := d.Token()
			name, ok := tok.(string)
			if e.DType = DType(name); err != nil || !ok || e.DType.size() == 0 {
				return badHeader(where, "unknown element type %v", tok)
			}
		case "shape":
			list, err := parseNumbers(d)
			if err != nil {
				return badHeader(where, "shape: %v", err)
			}
			e.Shape = make([]int, len(list))
			for i, v := range list {
				e.Shape[i] = int(v)
			}
		case "data_offsets":
			list, err := parseNumbers(d)
			if err != nil || len(list) != 2 {
				return badHeader(where, "data_offsets are not two numbers")
			}
			e.begin, e.end = list[0], list[1]
		default:
			return badHeader(where, "unknown key %q", key)
		}
		return nil
	})
	if err == nil && len(seen) != 3 {
		return badHeader(where, "dtype, shape or data_offsets is missing")
	}
	return err
}

// parseNumbers parses a JSON array of integers that are not negative. A fraction, an exponent and
// a number above 2⁶³−1 are errors. An empty list is the shape of a scalar.
func parseNumbers(d *json.Decoder) ([]int64, error) {
	tok, err := d.Token()
	if err != nil || tok != json.Delim('[') {
		return nil, errors.New("not a list")
	}
	list := []int64{}
	for d.More() {
		tok, err := d.Token()
		num, ok := tok.(json.Number)
		if err != nil || !ok {
			return nil, errors.New("not a list of numbers")
		}
		v, err := strconv.ParseInt(string(num), 10, 64)
		if err != nil || v < 0 {
			return nil, fmt.Errorf("%s is not an integer of at least 0", num)
		}
		list = append(list, v)
	}
	_, err = d.Token()
	return list, err
}

// check verifies that the byte ranges match the shapes and cover size bytes without overlap or
// gap. Entries are sorted by their data first. Ranges without overlap or gap mean that each byte
// belongs to one tensor: two readers cannot differ in what a file contains, and no data are hidden
// in it.
func (h *Header) check(size int64) error {
	slices.SortStableFunc(h.Entries, func(a, b Entry) int {
		if a.begin != b.begin {
			return int(min(max(a.begin-b.begin, -1), 1))
		}
		return int(min(max(a.end-b.end, -1), 1))
	})
	at := int64(0)
	for _, e := range h.Entries {
		where := "tensor " + strconv.Quote(e.Name)
		n, err := countElements(e.Shape)
		if err != nil {
			return badHeader(where, "%v", err)
		}
		if e.end < e.begin || e.end-e.begin != n*e.DType.size() {
			return badHeader(where, "data_offsets give %d bytes, want %d for %s %v", e.end-e.begin, n*e.DType.size(), e.DType, e.Shape)
		}
		switch {
		case e.begin < at:
			return badHeader(where, "data overlap with the previous tensor")
		case e.begin > at:
			return badHeader(where, "%d unused bytes before its data", e.begin-at)
		case e.end > size:
			return badHeader(where, "the file is truncated: data end at byte %d, want %d", size, e.end)
		}
		at = e.end
	}
	if at != size {
		return badHeader(fmt.Sprintf("byte %d", h.data+at), "%d unused bytes at the end", size-at)
	}
	return nil
}

// ReadFile reads all tensors of a safetensors file, in the order of their data, and unpacks those
// of WritePacked. The map holds the metadata.
//
// Memory: all tensors.
// Errors: exit 66 if the file does not exist; exit 65, naming the byte or tensor, if it is not a
// valid safetensors file. For a pickle the error includes a command that converts it.
func ReadFile(path string) ([]Tensor, map[string]string, error) {
	var tensors []Tensor
	meta, err := eachTensor(path, func(e Entry, raw []byte) error {
		tensors = append(tensors, Tensor{Name: e.Name, Shape: e.Shape, Data: decode(e.DType, raw)})
		return nil
	})
	if err != nil {
		return tensors, meta, err
	}
	tensors, err = joinPacked(path, tensors, meta)
	return tensors, meta, err
}

// open opens a file and reads its header. The caller closes the file. Content of another known
// format is named in the error.
func open(path string) (filesystem.File, *Header, error) {
	st, err := filesystem.Stat(path)
	if err != nil {
		return nil, nil, exit.ReadError(path, err)
	}
	if !st.Mode().IsRegular() { // opening a pipe would block
		return nil, nil, &exit.Error{Code: exit.BadData, What: "not a regular file", At: path, Why: "it is a " + fileKind(st.Mode()), Fix: "give the path of a safetensors file"}
	}
	file, err := filesystem.Open(path)
	if err != nil {
		return nil, nil, exit.ReadError(path, err)
	}
	h, err := ReadHeader(file, st.Size())
	if err == nil {
		return file, h, nil
	}
	defer file.Close()
	var fault *formatError
	if !errors.As(err, &fault) {
		return nil, nil, exit.ReadError(path, err)
	}
	if e := foreignFormat(file, path); e != nil {
		return nil, nil, e
	}
	return nil, nil, &exit.Error{Code: exit.BadData, What: "not a valid safetensors file", At: path + ", " + fault.where, Why: fault.fault,
		Fix: "download or write the file again", Err: err}
}

// eachTensor calls f for every tensor of a file, in the order of the data. raw is valid during the
// call only.
//
// Memory: the largest tensor, whose buffer is reused.
func eachTensor(path string, f func(e Entry, raw []byte) error) (map[string]string, error) {
	file, h, err := open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var raw []byte
	for _, e := range h.Entries {
		n := int(e.end - e.begin)
		raw = slices.Grow(raw[:0], n)[:n]
		if _, err := file.ReadAt(raw, h.data+e.begin); err != nil {
			return nil, exit.ReadError(path, fmt.Errorf("tensor %s: %w", e.Name, err))
		}
		if err := f(e, raw); err != nil {
			return nil, err
		}
	}
	return h.Metadata, nil
}

// fileKind names the type of a file that is not regular.
func fileKind(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&os.ModeNamedPipe != 0:
		return "pipe"
	case m&os.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// foreignFormat recognises other formats that are often given as weights, by content. It returns
// nil for unknown content.
//
// Source: Python, pickletools (protocol 0 text, PROTO opcode 0x80 of protocols 2 and above);
// PKWARE APPNOTE.TXT (zip); HDF5 file format specification 3.0, section II.A; NumPy,
// numpy.lib.format; RFC 1952 (gzip); Git LFS, specification of pointers.
func foreignFormat(r io.ReaderAt, path string) *exit.Error {
	head := make([]byte, 4096)
	n, _ := r.ReadAt(head, 0) // io.EOF: the file is shorter than head
	head = head[:n]
	convert := fmt.Sprintf("convert it once on a machine with PyTorch: python3 -c \"import torch, safetensors.torch as st; "+
		"s = torch.load('%s', map_location='cpu', weights_only=True); s = s.get('state_dict', s); "+
		"st.save_file({k: v.contiguous() for k, v in s.items()}, '%s.safetensors')\"", path, strings.TrimSuffix(path, ".safetensors"))
	refuse := func(what, why, fix string) *exit.Error {
		return &exit.Error{Code: exit.BadData, What: what, At: path, Why: why, Fix: fix}
	}
	const runs = "loading such a file can execute code in it, so it is refused, whatever its name"
	switch {
	case n > 2 && head[0] == 0x80 && head[1] >= 1 && head[1] <= 5, bytes.HasPrefix(head, []byte("(dp")), bytes.HasPrefix(head, []byte("ccollections\n")):
		return refuse("the weights are a Python pickle", runs, convert)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return refuse("the weights are a zip archive, in which PyTorch stores a pickle", runs, convert)
	case bytes.HasPrefix(head, []byte("\x89HDF\r\n\x1a\n")):
		return refuse("the weights are an HDF5 file", "only safetensors files can be read", "export the weights as safetensors")
	case bytes.HasPrefix(head, []byte("\x93NUMPY")):
		return refuse("the weights are a NumPy file", "only safetensors files can be read", "save the arrays with safetensors.numpy.save_file")
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return refuse("the weights are compressed with gzip", "only uncompressed safetensors files can be read", "run gunzip on the file")
	case bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(head)), []byte("<!doctype html")), bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(head)), []byte("<html")):
		return refuse("the weights are an HTML page", "a failed download often leaves one", "download the file again")
	case bytes.HasPrefix(head, []byte("version https://git-lfs")):
		return refuse("the weights are a Git LFS pointer", "the file itself was not downloaded", "run git lfs pull")
	case n == 0:
		return refuse("the file of weights is empty", "", "download or write the file again")
	}
	return nil
}

// WriteFile writes tensors as a safetensors file, in the given order. The file is replaced
// atomically. metadata may be nil.
//
// Errors: a tensor whose data do not match its shape, a name that is used twice; exit 73 or 74.
func WriteFile(path string, tensors []Tensor, metadata map[string]string) error {
	_, err := writeFile(path, tensors, metadata)
	return err
}

// writeFile writes a file as WriteFile does, and returns entry and checksum of each tensor.
//
// Cost: each tensor is encoded in memory, then written; the checksum is taken from the same bytes.
func writeFile(path string, tensors []Tensor, metadata map[string]string) ([]tensorChecksum, error) {
	header, sums, err := buildHeader(tensors, metadata)
	if err != nil {
		return nil, err
	}
	err = atomicfile.Write(path, func(w io.Writer) error {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(header)))
		if _, err := w.Write(append(length[:], header...)); err != nil {
			return err
		}
		for i, t := range tensors {
			raw := encode(t.Data)
			sums[i].CRC32C = checksum(raw)
			if _, err := w.Write(raw); err != nil {
				return err
			}
		}
		return nil
	})
	return sums, exit.CreateError(path, err)
}

// buildHeader encodes the JSON header. It pads the header with spaces, so that the data begin at a
// multiple of eight bytes. Readers that map the file into memory can use the data in place then.
// The checksums of the result are set by the caller.
//
// Errors: a name that is empty, reserved ("__metadata__") or used twice; those of dtype.
// Source: safetensors, README, section "Format": the header may be padded with spaces (0x20).
func buildHeader(tensors []Tensor, metadata map[string]string) ([]byte, []tensorChecksum, error) {
	var b bytes.Buffer
	sums := make([]tensorChecksum, len(tensors))
	seen := map[string]bool{"__metadata__": true}
	b.WriteByte('{')
	if len(metadata) > 0 {
		text, err := json.Marshal(metadata) // sorts the keys
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&b, `"__metadata__":%s,`, text)
	}
	at := int64(0)
	for i, t := range tensors {
		d, err := t.dtype()
		if err != nil {
			return nil, nil, err
		}
		if seen[t.Name] || t.Name == "" {
			return nil, nil, fmt.Errorf("tensor name %q: empty, reserved or used twice", t.Name)
		}
		seen[t.Name] = true
		name, err := json.Marshal(t.Name)
		if err != nil {
			return nil, nil, err
		}
		shape, err := json.Marshal(append([]int{}, t.Shape...))
		if err != nil {
			return nil, nil, err
		}
		n, err := countElements(t.Shape)
		if err != nil {
			return nil, nil, err
		}
		end := at + n*d.size()
		fmt.Fprintf(&b, `%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]},`, name, d, shape, at, end)
		sums[i] = tensorChecksum{Name: t.Name, DType: d, Shape: append([]int{}, t.Shape...)}
		at = end
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte(","))
	out = append(out, '}')
	for len(out)%8 != 0 {
		out = append(out, ' ')
	}
	return out, sums, nil
}
