package nclib

// #include <stdlib.h>
// #include <netcdf.h>
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/fhs/go-netcdf/netcdf"

	"github.com/ensemble-weather/ensemble/io/cf"
)

// File is an open file with its header. A netcdf.Dataset is the ID of a file or of
// a group in it, so go-netcdf reads groups too.
//
// The zero value cannot be used. A file has one goroutine at a time.
type File struct {
	ds     netcdf.Dataset
	header cf.Header
	vars   []variableRef
	dims   map[C.int]int // dimension ID → position in header.Dims

	path    string
	chunks  chunkCache
	scratch []float64 // buffer of Float
}

// variableRef identifies a variable by the IDs of its group and its own. Packing is read
// once, with the header, because its rules are needed for each slab.
type variableRef struct {
	group   C.int
	id      C.int
	packing cf.Packing
}

// maxVars bounds the variables of a file, so that a damaged header cannot request
// unlimited memory.
const maxVars = 100_000

// Open opens a file and reads its header. Classic files (CDF-1, -2, -5) and NetCDF-4 are
// accepted, whichever netCDF-C was built with. Attributes of groups other than the root
// are not read, since nothing uses them.
//
// Errors: the error text of netCDF-C.
func Open(path string) (*File, error) {
	ds, err := netcdf.OpenFile(path, netcdf.NOWRITE)
	if err != nil {
		return nil, err
	}
	f := &File{ds: ds, dims: map[C.int]int{}, path: path}
	if err := f.readGroup(ds, ""); err != nil {
		ds.Close()
		return nil, err
	}
	if f.header.Attrs, err = readAttributes(C.int(ds), C.NC_GLOBAL, ds.NAttrs, ds.AttrN); err != nil {
		ds.Close()
		return nil, err
	}
	return f, nil
}

// Close closes the file. It closes the second handle of HDF5 before that of netCDF-C.
func (f *File) Close() error {
	f.chunks.close()
	return f.ds.Close()
}

// Header returns dimensions, variables and attributes. It is shared and must not be
// changed.
func (f *File) Header() *cf.Header { return &f.header }

// readGroup reads dimensions and variables of a group, and of the groups in it.
// Dimensions of a group are visible in the groups within it, so they are read before
// those. name is the path of the group, "" for the root. Nesting is bounded, because
// each level uses the stack.
//
// Each list is inquired twice, first for its length, as netCDF-C wants it; one element
// more gives an empty list an address.
//
// Errors: a status of netCDF-C; too many variables; too many levels of groups.
// Source: NUG, "Groups"; CF section 2.7.
func (f *File) readGroup(ds netcdf.Dataset, name string) error {
	id := C.int(ds)
	var n C.int
	if err := status(C.nc_inq_dimids(id, &n, nil, 0)); err != nil {
		return err
	}
	ids := make([]C.int, n+1)
	if err := status(C.nc_inq_dimids(id, &n, &ids[0], 0)); err != nil {
		return err
	}
	unlimited, err := f.unlimitedDims(id)
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
		f.header.Dims = append(f.header.Dims, cf.Dim{Name: C.GoString(&buf[0]), Len: int64(length), Unlimited: unlimited[d], Group: name})
	}
	count, err := ds.NVars()
	if err != nil {
		return err
	}
	if count+len(f.vars) > maxVars {
		return fmt.Errorf("%d variables exceed the limit of %d", count, maxVars)
	}
	for i := range count {
		if err := f.readVariable(ds, i, name); err != nil {
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
			return fmt.Errorf("groups nested more than 30 levels deep")
		}
		if err := f.readGroup(netcdf.Dataset(g), sub); err != nil {
			return err
		}
	}
	return nil
}

// unlimitedDims returns the unlimited dimensions of a group. The map is empty for a
// group without any. Classic files have one at most (NUG, "Unlimited Dimensions").
func (f *File) unlimitedDims(id C.int) (map[C.int]bool, error) {
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

// typeNames gives the names of external types in cf.Var.Type.
var typeNames = map[C.nc_type]string{C.NC_BYTE: "byte", C.NC_CHAR: "char", C.NC_SHORT: "short", C.NC_INT: "int", C.NC_FLOAT: "float", C.NC_DOUBLE: "double",
	C.NC_UBYTE: "ubyte", C.NC_USHORT: "ushort", C.NC_UINT: "uint", C.NC_INT64: "int64", C.NC_UINT64: "uint64", C.NC_STRING: "string"}

// readVariable reads name, type, dimensions and attributes of variable i of a group. A
// user-defined type (compound, enum, opaque, vlen) has the type "user", and its values
// are never read. Positions in f.vars and in f.header.Vars agree: both are appended here
// and only here.
//
// Errors: a variable on a dimension that no visible group defines; those of attributes.
func (f *File) readVariable(ds netcdf.Dataset, i int, group string) error {
	id := C.int(ds)
	var name [C.NC_MAX_NAME + 1]C.char
	var kind C.nc_type
	var ndims C.int
	dims := make([]C.int, C.NC_MAX_VAR_DIMS)
	if err := status(C.nc_inq_var(id, C.int(i), &name[0], &kind, &ndims, &dims[0], nil)); err != nil {
		return err
	}
	v := cf.Var{Group: group, Name: C.GoString(&name[0]), Type: typeNames[kind]}
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
	if v.Attrs, err = readAttributes(id, C.int(i), nv.NAttrs, nv.AttrN); err != nil {
		return fmt.Errorf("attributes of %s: %w", v.Path(), err)
	}
	f.header.Vars = append(f.header.Vars, v)
	f.vars = append(f.vars, variableRef{group: id, id: C.int(i), packing: cf.PackingOf(&v, defaultFillValues[v.Type]...)})
	return nil
}

// readAttributes reads all attributes of a variable or a group. count and at are methods
// of a dataset or of a variable. The result is nil without attributes.
func readAttributes(group, id C.int, count func() (int, error), at func(int) (netcdf.Attr, error)) (map[string]cf.Attr, error) {
	n, err := count()
	if err != nil || n == 0 {
		return nil, err
	}
	out := map[string]cf.Attr{}
	for i := range n {
		a, err := at(i)
		if err != nil {
			return nil, err
		}
		v, err := readAttribute(group, id, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name(), err)
		}
		out[a.Name()] = v
	}
	return out, nil
}

// readAttribute reads one attribute. Text of type char loses the zero bytes that C
// programs write behind it. An attribute without elements is the zero Attr.
//
// Errors: more than 2²⁰ elements, which no convention uses and a damaged header may
// state.
// Source: NUG, "Attributes": a char attribute is one string, a string attribute a list.
func readAttribute(group, id C.int, a netcdf.Attr) (cf.Attr, error) {
	kind, err := a.Type()
	if err != nil {
		return cf.Attr{}, err
	}
	n, err := a.Len()
	if err != nil {
		return cf.Attr{}, err
	}
	if n > 1<<20 {
		return cf.Attr{}, fmt.Errorf("attribute of %d elements", n)
	}
	if n == 0 {
		return cf.Attr{}, nil
	}
	switch kind {
	case netcdf.CHAR:
		b := make([]byte, n)
		err := a.ReadBytes(b)
		return cf.Attr{Text: strings.TrimRight(string(b), "\x00")}, err
	case netcdf.STRING:
		text, err := stringAttribute(group, id, a.Name(), int(n))
		return cf.Attr{Text: text}, err
	}
	return numericAttribute(a, kind, n)
}

// numericAttribute reads a numeric attribute in its own type and converts it to
// float64. int64 values above 2⁵³ are rounded.
//
// Its type is kept, since the reading of valid_range and missing_value depends on it
// (cf.PackingOf).
func numericAttribute(a netcdf.Attr, kind netcdf.Type, n uint64) (cf.Attr, error) {
	var out cf.Floats
	var err error
	switch kind {
	case netcdf.BYTE:
		v := make([]int8, n)
		err, out = a.ReadInt8s(v), toFloats(v)
	case netcdf.SHORT:
		v := make([]int16, n)
		err, out = a.ReadInt16s(v), toFloats(v)
	case netcdf.INT:
		v := make([]int32, n)
		err, out = a.ReadInt32s(v), toFloats(v)
	case netcdf.INT64:
		v := make([]int64, n)
		err, out = a.ReadInt64s(v), toFloats(v)
	case netcdf.UBYTE:
		v := make([]uint8, n)
		err, out = a.ReadUint8s(v), toFloats(v)
	case netcdf.USHORT:
		v := make([]uint16, n)
		err, out = a.ReadUint16s(v), toFloats(v)
	case netcdf.UINT:
		v := make([]uint32, n)
		err, out = a.ReadUint32s(v), toFloats(v)
	case netcdf.UINT64:
		v := make([]uint64, n)
		err, out = a.ReadUint64s(v), toFloats(v)
	case netcdf.FLOAT:
		v := make([]float32, n)
		err, out = a.ReadFloat32s(v), toFloats(v)
	case netcdf.DOUBLE:
		v := make([]float64, n)
		err, out = a.ReadFloat64s(v), toFloats(v)
	default:
		return cf.Attr{}, nil // user-defined types are ignored
	}
	return cf.Attr{Numbers: out, Type: typeNames[C.nc_type(kind)]}, err
}

// toFloats converts numbers to float64.
func toFloats[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64](v []T) cf.Floats {
	out := make(cf.Floats, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// Double reads a slab into dst.
//
// Shape: dst has the values of the slab in C order, the last dimension fastest.
// Unit: as the attributes state, after scale_factor and add_offset.
// Missing: NaN.
// Errors: a slab outside of the variable; *FilterError; what netCDF-C reports.
// Cost: netCDF-C converts each value; HDF5 inflates the chunks that the slab touches,
// again for each call if its cache of chunks is too small.
func (f *File) Double(dst []float64, s cf.Slab) error {
	start, count, err := f.slabBounds(s, len(dst))
	if err != nil {
		return err
	}
	at := f.vars[s.Var]
	if err := status(C.nc_get_vara_double(at.group, at.id, &start[0], &count[0], (*C.double)(unsafe.Pointer(&dst[0])))); err != nil {
		if missing := f.missingFilter(s.Var); missing != nil {
			return missing
		}
		return fmt.Errorf("%s: %w", f.header.Vars[s.Var].Path(), err)
	}
	return at.packing.Unpack(dst)
}

// slabBounds converts a slab of n values to the arguments of nc_get_vara. Both have one
// element more than dimensions, so that a scalar has an address too. netCDF-C checks
// bounds too, but writes count values whatever the length of dst is: the comparison with
// n protects the memory behind it. The sum of start and count cannot overflow, since
// both are at most a length.
//
// Errors: a slab outside of the variable.
func (f *File) slabBounds(s cf.Slab, n int) (start, count []C.size_t, err error) {
	if s.Var < 0 || s.Var >= len(f.vars) {
		return nil, nil, fmt.Errorf("variable %d of %d", s.Var, len(f.vars))
	}
	v := &f.header.Vars[s.Var]
	if !v.Numeric() {
		return nil, nil, fmt.Errorf("%s is of type %s, not numeric", v.Path(), v.Type)
	}
	if len(s.Start) != len(v.Dims) || len(s.Count) != len(v.Dims) || s.Size() != int64(n) || n == 0 {
		return nil, nil, fmt.Errorf("%s: slab %v %v does not match the dimensions", v.Path(), s.Start, s.Count)
	}
	start, count = make([]C.size_t, len(s.Start)+1), make([]C.size_t, len(s.Start)+1)
	for i := range s.Start {
		if s.Start[i] < 0 || s.Count[i] < 1 || s.Start[i]+s.Count[i] > f.header.Dims[v.Dims[i]].Len {
			return nil, nil, fmt.Errorf("%s: slab %v %v exceeds the dimensions", v.Path(), s.Start, s.Count)
		}
		start[i], count[i] = C.size_t(s.Start[i]), C.size_t(s.Count[i])
	}
	return start, count, nil
}

// defaultFillValues are the values that netCDF-C stores where nothing was written
// (NC_FILL_SHORT and others, netcdf.h). Bytes have none, since all values are in
// use.
//
// Files of climate models contain them where records were never written. A variable with
// its own _FillValue does not have the default (NUG, "Fill Values").
var defaultFillValues = map[string][]float64{"short": {-32767}, "int": {-2147483647}, "float": {9.9692099683868690e+36}, "double": {9.9692099683868690e+36},
	"ushort": {65535}, "uint": {4294967295}, "int64": {-9223372036854775806}, "uint64": {18446744073709551614}}

// stringAttribute reads an attribute of type NC_STRING, which go-netcdf does not read.
// Several strings are joined by blanks. netCDF-C allocates the strings and frees them by
// nc_free_string. A null pointer is an empty string.
func stringAttribute(group, id C.int, name string, n int) (string, error) {
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
