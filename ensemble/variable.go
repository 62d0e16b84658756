package ensemble

// Variable describes a weather quantity: its names in the supported conventions, its SI unit, and
// its codes in both editions of GRIB.
type Variable struct {
	Name         string // short name, as ecCodes: "t", "gh", "2t"
	Identifier   string // name in NetCDF, where names begin with a letter: "t2m"
	StandardName string // CF standard name; several variables may share one (t and 2t)
	LongName     string
	Unit         string // SI, UDUNITS spelling

	// Level is the level of the variable. Pressure with value 0 means any pressure level.
	Level Level

	// Discipline (GRIB2 code table 0.0), Category (4.1) and Number (4.2), and the parameter
	// number in ECMWF's GRIB1 table 128.
	Discipline, Category, Number int
	Table128                     int

	// Period is the CF cell method over the interval before the valid time: "sum" for
	// accumulations, "maximum"; "" for instantaneous values.
	Period string
}

// pressureLevels is the Level of variables on pressure levels.
var pressureLevels = Level{Kind: Pressure}

// Variables is the vocabulary. Readers look up names in it, writers take names, units and codes
// from it. A new variable is one more line.
//
// Source: CF standard name table 79; WMO FM 92 GRIB2 code table 4.2; ECMWF
// parameter table 128.
var Variables = []Variable{
	{"t", "t", "air_temperature", "temperature", "K", pressureLevels, 0, 0, 0, 130, ""},
	{"gh", "gh", "geopotential_height", "geopotential height", "m", pressureLevels, 0, 3, 5, 156, ""},
	{"z", "z", "geopotential", "geopotential", "m2 s-2", pressureLevels, 0, 3, 4, 129, ""},
	{"u", "u", "eastward_wind", "eastward wind", "m s-1", pressureLevels, 0, 2, 2, 131, ""},
	{"v", "v", "northward_wind", "northward wind", "m s-1", pressureLevels, 0, 2, 3, 132, ""},
	{"w", "w", "lagrangian_tendency_of_air_pressure", "vertical velocity", "Pa s-1", pressureLevels, 0, 2, 8, 135, ""},
	{"q", "q", "specific_humidity", "specific humidity", "kg kg-1", pressureLevels, 0, 1, 0, 133, ""},
	{"r", "r", "relative_humidity", "relative humidity", "%", pressureLevels, 0, 1, 1, 157, ""},
	{"d", "d", "divergence_of_wind", "divergence", "s-1", pressureLevels, 0, 2, 13, 155, ""},
	{"vo", "vo", "atmosphere_relative_vorticity", "relative vorticity", "s-1", pressureLevels, 0, 2, 12, 138, ""},
	{"2t", "t2m", "air_temperature", "2 metre temperature", "K", Level{Kind: HeightAboveSoil, Value: 2}, 0, 0, 0, 167, ""},
	{"2d", "d2m", "dew_point_temperature", "2 metre dew point temperature", "K", Level{Kind: HeightAboveSoil, Value: 2}, 0, 0, 6, 168, ""},
	{"10u", "u10", "eastward_wind", "10 metre eastward wind", "m s-1", Level{Kind: HeightAboveSoil, Value: 10}, 0, 2, 2, 165, ""},
	{"10v", "v10", "northward_wind", "10 metre northward wind", "m s-1", Level{Kind: HeightAboveSoil, Value: 10}, 0, 2, 3, 166, ""},
	{"10si", "si10", "wind_speed", "10 metre wind speed", "m s-1", Level{Kind: HeightAboveSoil, Value: 10}, 0, 2, 1, 207, ""},
	{"10fg", "fg10", "wind_speed_of_gust", "10 metre wind gust since the previous step", "m s-1", Level{Kind: HeightAboveSoil, Value: 10}, 0, 2, 22, 49, "maximum"},
	{"msl", "msl", "air_pressure_at_mean_sea_level", "mean sea level pressure", "Pa", Level{Kind: MeanSea}, 0, 3, 0, 151, ""},
	{"sp", "sp", "surface_air_pressure", "surface pressure", "Pa", Level{Kind: Surface}, 0, 3, 0, 134, ""},
	{"skt", "skt", "surface_temperature", "skin temperature", "K", Level{Kind: Surface}, 0, 0, 17, 235, ""},
	{"tp", "tp", "precipitation_amount", "total precipitation", "kg m-2", Level{Kind: Surface}, 0, 1, 52, 228, "sum"},
	{"cp", "cp", "convective_precipitation_amount", "convective precipitation", "kg m-2", Level{Kind: Surface}, 0, 1, 37, 143, "sum"},
	{"sst", "sst", "sea_surface_temperature", "sea surface temperature", "K", Level{Kind: Surface}, 10, 3, 0, 34, ""},
	{"tcw", "tcw", "atmosphere_mass_content_of_water", "total column water", "kg m-2", Level{Kind: Surface}, 0, 1, 51, 136, ""},
	{"tcwv", "tcwv", "atmosphere_mass_content_of_water_vapor", "total column water vapour", "kg m-2", Level{Kind: Surface}, 0, 1, 64, 137, ""},
	{"tcc", "tcc", "cloud_area_fraction", "total cloud cover", "1", Level{Kind: Surface}, 0, 6, 1, 164, ""},
	{"sund", "sund", "duration_of_sunshine", "sunshine duration", "s", Level{Kind: Surface}, 0, 6, 24, 189, "sum"},
}

// VariableNamed returns the variable with a short name.
func VariableNamed(name string) (Variable, bool) {
	for _, v := range Variables {
		if v.Name == name {
			return v, true
		}
	}
	return Variable{}, false
}

// OnManyLevels reports whether the variable has a level axis, unlike 2t or msl.
func (v Variable) OnManyLevels() bool { return v.Level == pressureLevels }

// WindComponent reports whether the variable is a component of the wind, whose values depend on the
// orientation of the axes.
func (v Variable) WindComponent() bool {
	return v.StandardName == "eastward_wind" || v.StandardName == "northward_wind"
}
