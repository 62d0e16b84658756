import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

b = message(2, field(1), **T2M, forecastTime=2)
write('fc.grib2', octets(b, section(b, 4), {18: bytes([14])}))
expect('unit of time 14, half an hour in edition 1, is reserved in edition 2', refusal=dict(code=65, words=['unit 14,', 'edition 2']))
