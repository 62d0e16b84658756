import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

m = [message(2, np.abs(field(k, 40.)), centre=7, discipline=0, parameterCategory=6, parameterNumber=1, typeOfFirstFixedSurface=first) for k, first in enumerate([10, 211])]
write('fc.grib2', *m)
expect('the cloud cover of the boundary layer is not the total cloud cover', variables={'tcc': dict(levels=['level0', 'surface'], fields=2, unit='1')})
