import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

b = message(2, field(1), productDefinitionTemplateNumber=8, **T2M, numberOfTimeRange=2)
o = section(b, 4)
octets(b, o, {35: bytes([7, 232, 3, 31, 0, 0, 0]), 47: bytes([0, 2, 2, 0, 0, 0, 30, 2, 0, 0, 0, 1]), 59: bytes([2, 2, 1, 0, 0, 0, 24, 255, 0, 0, 0, 0])})
write('fc.grib2', b)
expect('mean over 30 days of maxima over 24 h', variables={'mx2t24': dict(leads=['720h'], statistic='mean of maximum', interval='720h', **span(b))})
