package grib

// Names of the most common fields are listed here, so that reading them does not
// need the tables of ecCodes, which a process loads in a quarter of a second. A
// test compares the list with ecCodes. The decoder describes all other fields, and
// fields with octets that might change the name.

// commonParameters lists quantities on pressure levels, by discipline, category and
// number.
//
// Source: FM 92 GRIB2, code table 4.2; names and units in the spelling of ecCodes.
var commonParameters = map[[3]int]Description{
	{0, 0, 0}:  {Name: "t", LongName: "Temperature", Unit: "K"},
	{0, 1, 0}:  {Name: "q", LongName: "Specific humidity", Unit: "kg kg**-1"},
	{0, 1, 1}:  {Name: "r", LongName: "Relative humidity", Unit: "%"},
	{0, 2, 2}:  {Name: "u", LongName: "U component of wind", Unit: "m s**-1"},
	{0, 2, 3}:  {Name: "v", LongName: "V component of wind", Unit: "m s**-1"},
	{0, 2, 8}:  {Name: "w", LongName: "Vertical velocity", Unit: "Pa s**-1"},
	{0, 2, 12}: {Name: "vo", LongName: "Vorticity (relative)", Unit: "s**-1"},
	{0, 2, 13}: {Name: "d", LongName: "Divergence", Unit: "s**-1"},
	{0, 3, 4}:  {Name: "z", LongName: "Geopotential", Unit: "m**2 s**-2"},
	{0, 3, 5}:  {Name: "gh", LongName: "Geopotential height", Unit: "gpm"},
}

// commonCentres lists the centres (common code table C-11) that use these names:
// ECMWF, NCEP, Exeter and Toulouse; 255 is that of the files of this program.
var commonCentres = map[int]bool{98: true, 7: true, 74: true, 85: true, 255: true}

// Types of data (code table 1.4) and packings (code table 5.0) in the words of
// ecCodes.
var (
	dataTypeNames = map[int]string{0: "an", 1: "fc", 2: "af", 3: "cf", 4: "pf", 5: "cp"}
	packingNames  = map[int]string{templateSimple: "grid_simple", templateCCSDS: "grid_ccsds"}
)

// Description returns what ecCodes would report about a field with known time and
// member. ok is false if only ecCodes can determine it.
func (f *Field) Description() (d Description, ok bool) {
	if d, ok = commonParameters[f.codes]; !ok || f.packing == "" {
		return d, false
	}
	d.LevelType, d.DataType, d.Packing, d.Statistic = "isobaricInhPa", f.dataType, f.packing, "instant"
	return d, true
}

// recordCodes records the input of Description from sections 1, 2, 4 and 5. It
// applies to fields at an instant, of a member or a deterministic forecast, on a
// pressure level of whole hPa.
func (f *Field) recordCodes(discipline int, id, local, product, rep Octets) {
	const (
		noLocal  = 255 // master tables version: only local tables are used
		research = 2   // production status: 0 operational, 1 test, 2 research; other values change names
		pressure = 100
		perHPa   = 100
	)
	template := product.U2(8)
	pascals := int(f.Level.Value)
	if template > 1 || len(local) > 5 || !commonCentres[id.U2(6)] || id.U1(10) == noLocal || id.U1(20) > research || !f.Time.Known ||
		!f.LevelKnown || f.Level.IsLayer || product.U1(23) != pressure || float64(pascals) != f.Level.Value || pascals < perHPa || pascals%perHPa != 0 {
		return
	}
	f.codes, f.dataType, f.packing = [3]int{discipline, product.U1(10), product.U1(11)}, dataTypeNames[id.U1(21)], packingNames[rep.U2(10)]
	if f.dataType == "" {
		f.packing = ""
	}
}
