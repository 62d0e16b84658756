import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# The range of unsigned shorts is written as int, which can hold 65530, and so is the missing value.
f = File('fc.nc'); f.ensemble()
raw = (np.arange(48)*1364).astype('u2').reshape(2, 1, 4, 6); raw[0, 0, 0, 0] = 65535; raw[0, 0, 0, 1] = 65531
f.add('tcwv', ('number', 'time', 'lat', 'lon'), raw.view('i2'), 'i2', attrs={'_Unsigned': 'true'}, units='kg m-2', scale_factor=0.001, valid_range=np.array([0, 65530], 'i4'), missing_value=np.int32(65535)); f.close()
expect('_Unsigned with attributes of a wider type', variables={'tcwv': variable(np.where(raw > 65530, np.nan, raw*0.001), members=[1, 2])})
