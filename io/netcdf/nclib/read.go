package nclib

// #include <stdlib.h>
// #include <netcdf.h>
import "C"

import (
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/fhs/go-netcdf/netcdf"

	format "github.com/ensemble-weather/ensemble/io/netcdf"
)

// File is an open file with its header. A netcdf.Dataset is the number of the file
// or of one of its groups, so that groups are read by go-netcdf as well.
type File struct {
	ds     netcdf.Dataset
	header format.Header
	vars   []located
	dims   map[C.int]int // dimension number → position in header.Dims

	path    string
	chunks  chunks
	scratch []float64 // for Float
}

// located is a variable's group and number.
type located struct {
	group C.int
	id    C.int
	rules packing
}

// maxVars bounds what a damaged header can make us list.
const maxVars = 100_000

// Open reads the header of a file.
//
// Errors: what netCDF-C says.
func Open(path string) (*File, error) {
	ds, err := netcdf.OpenFile(path, netcdf.NOWRITE)
	if err != nil {
		return nil, err
	}
	f := &File{ds: ds, dims: map[C.int]int{}, path: path}
	if err := f.group(ds, ""); err != nil {
		ds.Close()
		return nil, err
	}
	if f.header.Attrs, err = attributes(C.int(ds), C.NC_GLOBAL, ds.NAttrs, ds.AttrN); err != nil {
		ds.Close()
		return nil, err
	}
	return f, nil
}

// Close closes the file.
func (f *File) Close() error {
	f.chunks.close()
	return f.ds.Close()
}

// Header is everything but the values.
func (f *File) Header() *format.Header { return &f.header }

// group reads dimensions and variables of a group and the groups in it.
func (f *File) group(ds netcdf.Dataset, name string) error {
	id := C.int(ds)
	var n C.int
	if err := status(C.nc_inq_dimids(id, &n, nil, 0)); err != nil {
		return err
	}
	ids := make([]C.int, n+1)
	if err := status(C.nc_inq_dimids(id, &n, &ids[0], 0)); err != nil {
		return err
	}
	unlimited, err := f.unlimited(id)
	if err != nil {
		return err
	}
	for _, d := range ids[:n] {
		var buf [C.NC_MAX_NAME + 1]C.char
		var length C.size_t
		if err := status(C.nc_inq_dim(id, d, &buf[0], &length)); err != nil {
			return err
		}
		f.dims[d] = len(f.header.Dims)
		f.header.Dims = append(f.header.Dims, format.Dim{Name: C.GoString(&buf[0]), Len: int64(length), Unlimited: unlimited[d], Group: name})
	}
	count, err := ds.NVars()
	if err != nil {
		return err
	}
	if count+len(f.vars) > maxVars {
		return fmt.Errorf("%d variables, more than %d", count, maxVars)
	}
	for i := range count {
		if err := f.variable(ds, i, name); err != nil {
			return err
		}
	}
	if err := status(C.nc_inq_grps(id, &n, nil)); err != nil {
		return err
	}
	groups := make([]C.int, n+1)
	if err := status(C.nc_inq_grps(id, &n, &groups[0])); err != nil {
		return err
	}
	for _, g := range groups[:n] {
		var buf [C.NC_MAX_NAME + 1]C.char
		if err := status(C.nc_inq_grpname(g, &buf[0])); err != nil {
			return err
		}
		sub := C.GoString(&buf[0])
		if name != "" {
			sub = name + "/" + sub
		}
		if strings.Count(sub, "/") > 30 {
			return fmt.Errorf("groups nested more than 30 deep")
		}
		if err := f.group(netcdf.Dataset(g), sub); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) unlimited(id C.int) (map[C.int]bool, error) {
	var n C.int
	out := map[C.int]bool{}
	if err := status(C.nc_inq_unlimdims(id, &n, nil)); err != nil || n == 0 {
		return out, err
	}
	ids := make([]C.int, n)
	if err := status(C.nc_inq_unlimdims(id, &n, &ids[0])); err != nil {
		return nil, err
	}
	for _, d := range ids {
		out[d] = true
	}
	return out, nil
}

// typeNames are the header's words for external types.
var typeNames = map[C.nc_type]string{C.NC_BYTE: "byte", C.NC_CHAR: "char", C.NC_SHORT: "short", C.NC_INT: "int", C.NC_FLOAT: "float", C.NC_DOUBLE: "double",
	C.NC_UBYTE: "ubyte", C.NC_USHORT: "ushort", C.NC_UINT: "uint", C.NC_INT64: "int64", C.NC_UINT64: "uint64", C.NC_STRING: "string"}

func (f *File) variable(ds netcdf.Dataset, i int, group string) error {
	id := C.int(ds)
	var name [C.NC_MAX_NAME + 1]C.char
	var kind C.nc_type
	var ndims C.int
	dims := make([]C.int, C.NC_MAX_VAR_DIMS)
	if err := status(C.nc_inq_var(id, C.int(i), &name[0], &kind, &ndims, &dims[0], nil)); err != nil {
		return err
	}
	v := format.Var{Group: group, Name: C.GoString(&name[0]), Type: typeNames[kind]}
	if v.Type == "" {
		v.Type = "user"
	}
	for _, d := range dims[:ndims] {
		p, ok := f.dims[d]
		if !ok {
			return fmt.Errorf("variable %s is on a dimension that does not exist", v.Path())
		}
		v.Dims = append(v.Dims, p)
	}
	nv := ds.VarN(i)
	var err error
	if v.Attrs, err = attributes(id, C.int(i), nv.NAttrs, nv.AttrN); err != nil {
		return fmt.Errorf("attributes of %s: %w", v.Path(), err)
	}
	f.header.Vars = append(f.header.Vars, v)
	f.vars = append(f.vars, located{group: id, id: C.int(i), rules: packingOf(&v)})
	return nil
}

// attributes reads all attributes of a variable or file.
func attributes(group, id C.int, count func() (int, error), at func(int) (netcdf.Attr, error)) (map[string]format.Attr, error) {
	n, err := count()
	if err != nil || n == 0 {
		return nil, err
	}
	out := map[string]format.Attr{}
	for i := range n {
		a, err := at(i)
		if err != nil {
			return nil, err
		}
		v, err := attribute(group, id, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name(), err)
		}
		out[a.Name()] = v
	}
	return out, nil
}

func attribute(group, id C.int, a netcdf.Attr) (format.Attr, error) {
	kind, err := a.Type()
	if err != nil {
		return format.Attr{}, err
	}
	n, err := a.Len()
	if err != nil {
		return format.Attr{}, err
	}
	if n > 1<<20 {
		return format.Attr{}, fmt.Errorf("attribute of %d elements", n)
	}
	if n == 0 {
		return format.Attr{}, nil
	}
	switch kind {
	case netcdf.CHAR:
		b := make([]byte, n)
		err := a.ReadBytes(b)
		return format.Attr{Text: strings.TrimRight(string(b), "\x00")}, err
	case netcdf.STRING:
		text, err := attrText(group, id, a.Name(), int(n))
		return format.Attr{Text: text}, err
	}
	return numbers(a, kind, n)
}

// numbers reads a numeric attribute by its own type.
func numbers(a netcdf.Attr, kind netcdf.Type, n uint64) (format.Attr, error) {
	var out format.Floats
	var err error
	switch kind {
	case netcdf.BYTE:
		v := make([]int8, n)
		err, out = a.ReadInt8s(v), floats(v)
	case netcdf.SHORT:
		v := make([]int16, n)
		err, out = a.ReadInt16s(v), floats(v)
	case netcdf.INT:
		v := make([]int32, n)
		err, out = a.ReadInt32s(v), floats(v)
	case netcdf.INT64:
		v := make([]int64, n)
		err, out = a.ReadInt64s(v), floats(v)
	case netcdf.UBYTE:
		v := make([]uint8, n)
		err, out = a.ReadUint8s(v), floats(v)
	case netcdf.USHORT:
		v := make([]uint16, n)
		err, out = a.ReadUint16s(v), floats(v)
	case netcdf.UINT:
		v := make([]uint32, n)
		err, out = a.ReadUint32s(v), floats(v)
	case netcdf.UINT64:
		v := make([]uint64, n)
		err, out = a.ReadUint64s(v), floats(v)
	case netcdf.FLOAT:
		v := make([]float32, n)
		err, out = a.ReadFloat32s(v), floats(v)
	case netcdf.DOUBLE:
		v := make([]float64, n)
		err, out = a.ReadFloat64s(v), floats(v)
	default:
		return format.Attr{}, nil // a user-defined type: not one of ours
	}
	return format.Attr{Numbers: out}, err
}

func floats[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64](v []T) format.Floats {
	out := make(format.Floats, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// Double reads a slab into dst, unpacked, NaN where missing.
//
// Errors: if the slab does not fit the variable or the library cannot read it.
func (f *File) Double(dst []float64, s format.Slab) error {
	start, count, err := f.part(s, len(dst))
	if err != nil {
		return err
	}
	at := f.vars[s.Var]
	if err := status(C.nc_get_vara_double(at.group, at.id, &start[0], &count[0], (*C.double)(unsafe.Pointer(&dst[0])))); err != nil {
		return fmt.Errorf("%s: %w", f.header.Vars[s.Var].Path(), err)
	}
	return at.rules.unpack(dst)
}

// part gives a slab of n values as the library wants it.
//
// Errors: if it does not fit the variable.
func (f *File) part(s format.Slab, n int) (start, count []C.size_t, err error) {
	if s.Var < 0 || s.Var >= len(f.vars) {
		return nil, nil, fmt.Errorf("variable %d of %d", s.Var, len(f.vars))
	}
	v := &f.header.Vars[s.Var]
	if !v.Numeric() {
		return nil, nil, fmt.Errorf("%s holds no numbers but type %s", v.Path(), v.Type)
	}
	if len(s.Start) != len(v.Dims) || len(s.Count) != len(v.Dims) || s.Size() != int64(n) || n == 0 {
		return nil, nil, fmt.Errorf("%s: part %v %v does not fit", v.Path(), s.Start, s.Count)
	}
	start, count = make([]C.size_t, len(s.Start)+1), make([]C.size_t, len(s.Start)+1)
	for i := range s.Start {
		if s.Start[i] < 0 || s.Count[i] < 1 || s.Start[i]+s.Count[i] > f.header.Dims[v.Dims[i]].Len {
			return nil, nil, fmt.Errorf("%s: part %v %v is outside", v.Path(), s.Start, s.Count)
		}
		start[i], count[i] = C.size_t(s.Start[i]), C.size_t(s.Count[i])
	}
	return start, count, nil
}

// packing is how stored numbers become values.
type packing struct {
	missing      []float64
	lo, hi       float64
	scale, shift float64
	unsigned     float64 // added to negative numbers, 0 if they are signed
	err          error
}

// defaultFill is what the library writes where nobody wrote (netcdf.h); bytes have
// no such value.
var defaultFill = map[string]float64{"short": -32767, "int": -2147483647, "float": 9.9692099683868690e+36, "double": 9.9692099683868690e+36,
	"ushort": 65535, "uint": 4294967295, "int64": -9223372036854775806, "uint64": 18446744073709551614}

// packingOf reads the attributes of CF section 8.1 and 2.5.1.
func packingOf(v *format.Var) packing {
	p := packing{lo: math.Inf(-1), hi: math.Inf(1), scale: 1}
	num := func(name string) []float64 { return v.Attrs[name].Numbers }
	if fill := num("_FillValue"); len(fill) > 0 {
		p.missing = append(p.missing, fill[0])
	} else if d, ok := defaultFill[v.Type]; ok {
		p.missing = append(p.missing, d)
	}
	p.missing = append(p.missing, num("missing_value")...)
	if r := num("valid_range"); len(r) == 2 {
		p.lo, p.hi = r[0], r[1]
	}
	if r := num("valid_min"); len(r) == 1 {
		p.lo = r[0]
	}
	if r := num("valid_max"); len(r) == 1 {
		p.hi = r[0]
	}
	for _, a := range []struct {
		name string
		to   *float64
	}{{"scale_factor", &p.scale}, {"add_offset", &p.shift}} {
		if n := num(a.name); len(n) > 0 {
			*a.to = n[0]
			if math.IsNaN(n[0]) || math.IsInf(n[0], 0) || a.name == "scale_factor" && n[0] == 0 {
				p.err = fmt.Errorf("%s: %s is %v", v.Path(), a.name, n[0])
			}
		}
	}
	if strings.EqualFold(v.Text("_Unsigned"), "true") {
		p.unsigned = map[string]float64{"byte": 1 << 8, "short": 1 << 16, "int": 1 << 32}[v.Type]
	}
	return p
}

func (p packing) unpack(v []float64) error {
	if p.err != nil {
		return p.err
	}
	nan := math.NaN()
	for i, x := range v {
		bad := x < p.lo || x > p.hi
		for _, m := range p.missing {
			bad = bad || x == m
		}
		if bad {
			v[i] = nan
			continue
		}
		if x < 0 && p.unsigned != 0 {
			x += p.unsigned
		}
		v[i] = x*p.scale + p.shift
	}
	return nil
}

// attrText reads a text attribute of type NC_STRING, several strings joined by
// blanks; go-netcdf knows the type only.
func attrText(group, id C.int, name string, n int) (string, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	ptrs := make([]*C.char, n)
	if err := status(C.nc_get_att_string(group, id, cname, &ptrs[0])); err != nil {
		return "", err
	}
	defer C.nc_free_string(C.size_t(n), &ptrs[0])
	parts := make([]string, n)
	for i, p := range ptrs {
		if p != nil {
			parts[i] = C.GoString(p)
		}
	}
	return strings.Join(parts, " "), nil
}
