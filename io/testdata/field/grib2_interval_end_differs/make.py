import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

b = message(2, np.abs(field(1, 4.)), productDefinitionTemplateNumber=8, centre=7, discipline=0, parameterCategory=1, parameterNumber=8, typeOfFirstFixedSurface=1, typeOfStatisticalProcessing=1, stepRange='0-6')
write('fc.grib2', octets(b, section(b, 4), {35: bytes([7, 232, 3, 1, 5, 0, 0])}))
expect('the end of the interval is 5 h, forecast time plus length 6 h', warnings=['the end of the interval is not forecast time plus length'],
       variables={'tp': dict(leads=['6h'], statistic='sum', interval='6h', unit='kg m-2', **span(b))})
