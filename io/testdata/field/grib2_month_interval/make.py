import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

b = message(2, field(1), productDefinitionTemplateNumber=8, **T2M, typeOfStatisticalProcessing=0)
write('fc.grib2', octets(b, section(b, 4), {18: bytes([3, 0, 0, 0, 1]), 35: bytes([7, 232, 5, 1, 0, 0, 0]), 49: bytes([3, 0, 0, 0, 1])}))
expect('mean over the second month after 1 March 2024: forecast time 1 month, length 1 month', variables={'2t': dict(leads=['1464h'], statistic='mean', interval='720h', **span(b))})
