import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

m = [message(2, np.abs(field(k, 4.)), productDefinitionTemplateNumber=8, centre=7, discipline=0, parameterCategory=1, parameterNumber=8, typeOfFirstFixedSurface=1,
             typeOfStatisticalProcessing=1, stepRange=r) for k, r in enumerate(['0-6', '5-6'])]
write('fc.grib2', *m)
expect('rain of 0 to 6 h and of 5 to 6 h are two fields', variables={'tp': dict(leads=['6h'], fields=2, statistic='sum', interval='1h', **span(*m))})
