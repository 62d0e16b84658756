import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# missing_value is a double in the unit of the values, -99.9; the stored number is -999.
f = File('fc.nc'); f.ensemble()
raw = np.rint((fields((2, 1)) - 273)/0.1).astype('i2'); raw[1, 0, 3, 5] = -999
f.add('t2m', ('number', 'time', 'lat', 'lon'), raw, 'i2', units='degC', scale_factor=0.1, missing_value=-99.9); f.close()
expect('missing_value in the unit of the values', variables={'2t': variable(np.where(raw == -999, np.nan, raw*0.1 + 273.15), members=[1, 2])}, warnings=['missing_value is -99.9'])
