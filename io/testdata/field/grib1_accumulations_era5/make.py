import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

m = [rain_ecmwf(0, 'ea', 'oper', 6, marsType='fc')]
write('fc.grib1', *m)
expect('precipitation of ERA5 in edition 1, coded like an instant: a sum over the last hour', variables={'tp': dict(leads=['6h'], statistic='sum', interval='1h', **kilograms(*m))})
