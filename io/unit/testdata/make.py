"""Write udunits.tsv: what libudunits2 makes of unit strings. Needs libudunits2.so.0.

Columns: text, unit to convert to, scale and offset; "-" for dimensions that differ, "?" for text that is not a unit.
"""

import ctypes
import random

lib = ctypes.CDLL("libudunits2.so.0")
for name, arguments, result in [
    ("ut_read_xml", [ctypes.c_char_p], ctypes.c_void_p),
    ("ut_parse", [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p),
    ("ut_get_converter", [ctypes.c_void_p] * 2, ctypes.c_void_p),
    ("cv_convert_double", [ctypes.c_void_p, ctypes.c_double], ctypes.c_double),
    ("ut_are_convertible", [ctypes.c_void_p] * 2, ctypes.c_int),
    ("ut_set_error_message_handler", [ctypes.c_void_p], ctypes.c_void_p),
]:
    function = getattr(lib, name)
    function.argtypes, function.restype = arguments, result
lib.ut_set_error_message_handler(ctypes.cast(lib.ut_ignore, ctypes.c_void_p))
system = lib.ut_read_xml(None)


def parse(text):
    return lib.ut_parse(system, text.strip().encode(), 2)  # UT_UTF8


def row(text, to):
    a, b = parse(text), parse(to)
    if not a:
        return f"{text}\t{to}\t?\t?"
    if not lib.ut_are_convertible(a, b):
        return f"{text}\t{to}\t-\t-"
    c = lib.ut_get_converter(a, b)
    offset = lib.cv_convert_double(c, 0.0)
    return f"{text}\t{to}\t{lib.cv_convert_double(c, 1.0) - offset!r}\t{offset!r}"


TEMPERATURE = "K kelvin Kelvin KELVIN degK deg_K degree_K degrees_K °K C degC deg_C deg_c degreeC degreesC degree_C degrees_C degree_c Celsius celsius CELSIUS degree_Celsius degrees_celsius °C oC degF Fahrenheit degree_F °F degR milliK mK k".split()
TEMPERATURE += ["deg C", "degrees C", "K @ 273.15", "degC @ 10", "K from 273.15", "0.1 K", "degrees Celsius"]
SPEED = ["m/s", "m s-1", "m s**-1", "m.s-1", "m s^-1", "m sec-1", "meters per second", "metres/second", "m/sec", "knots", "knot", "kts", "kt", "KT", "km/h", "km h-1", "cm/s", "ft/s", "mile/hour", "m·s-1", "m*s-1",
         "ms-1", "m per s", "M/S", "m/s/s", "(m)/(s)", "m (s)-1", "m/(s)", "10 m/s", "m-s-1", "nautical_mile/hour"]
PRESSURE = ["hPa", "Pa", "hectopascal", "hectopascals", "Pascals", "PASCAL", "mb", "Mb", "mbar", "millibar", "millibars", "MilliBar", "HPa", "hpa", "kPa", "dPa", "bar", "bars", "atm", "mmHg", "inHg", "N m-2", "N/m^2", "J m-3", "kg m-1 s-2", "100 Pa", "1e2 Pa"]
LENGTH = ["m", "mm", "cm", "inch", "inches", "in", "ft", "feet", "foot", "yard", "mile", "km", "dam", "dm", "um", "µm", "kilometers", "l m-2", "L/m2", "litre m-2", "liters/m^2", "m3 m-2", "m3/m2", "gpm", "m2", "mm2/mm"]
MASS = ["kg m-2", "kg/m^2", "kg/m2", "kg m**-2", "Kg m-2", "g m-2", "g/cm2", "t/ha", "mg m-2", "kg/(m2)", "kg/(m m)", "kg m^-2", "kg.m-2", "lb/ft2", "mm/6h"]
RATE = ["kg m-2 s-1", "kg m-2 h-1", "g m-2/day", "kg/(m2 s)", "kg/m2/s", "kg m-2 day-1", "kg m-2 d-1", "kg m-2 hour-1", "kg m-2 per 6 h"]
NUMBER = ["1", "%", "percent", "percents", "0.01", "g/kg", "g kg-1", "kg kg-1", "mg/kg", "kg kg**-1", "m m-1", "ppm", "ppmv", "ppb", "10^-3", "m3 m-3", "fraction", "0.5 %", "dekapercent"]
OTHER = [("m2 s-2", "m**2 s**-2 m^2/s^2 m2/s2 J/kg J·kg-1 Gy m²".split()), ("s-1", "s**-1 Hz h-1 1/s /s 1e-5/s day-1 10^-5/s min-1".split()), ("Pa s-1", "Pa/s hPa/h Pa/hour mbar/day".split()),
         ("s", "s sec secs second seconds min minute minutes h hr hour hours d day days week weeks year yr month ms us ns millisecond mins hrs".split()), ("degree", "degree degrees degrees_true degree_north ° rad radian radians mrad".split()),
         ("W m-2", "W/m2 W/m^2 J/s/m2 kW/m2".split()), ("J m-2", ["J/m2", "J m**-2", "MJ m-2", "W h m-2", "W s m-2", "cal/cm2"])]

rows = []
for to, texts in [("K", TEMPERATURE), ("m s-1", SPEED), ("Pa", PRESSURE), ("m", LENGTH), ("kg m-2", MASS), ("kg m-2 s-1", RATE), ("1", NUMBER)] + OTHER:
    rows += [row(text, to) for text in texts]

# Random products of the units above.
rng = random.Random(1)
units = "m metre kg g gram s second hour day K degC Pa bar N J W mol litre inch t ft mile min".split()
prefixes = [""] * 6 + "k m c h d da u kilo milli centi micro".split()
for _ in range(400):
    text = ""
    for k in range(rng.randint(1, 3)):
        if k:
            text += rng.choice([" ", ".", "*", "/", " per "])
        text += rng.choice(prefixes) + rng.choice(units) + rng.choice(["", "", "", "2", "-1", "^2", "**-2", "^-1"])
    rows.append(row(text, rng.choice(["m", "kg", "s", "K", "Pa", "1", "m s-1", "J", text])))

with open("udunits.tsv", "w", encoding="utf-8") as out:
    out.write("\n".join(dict.fromkeys(rows)) + "\n")
