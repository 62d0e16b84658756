import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# A range of stored numbers, in their type: 0 to 4600, with a negative scale.
f = File('fc.nc'); f.ensemble()
raw = (np.arange(48)*100 - 50).reshape(2, 1, 4, 6).astype('i2')
f.add('tcwv', ('number', 'time', 'lat', 'lon'), raw, 'i2', -1, units='kg m-2', scale_factor=-0.01, add_offset=60., valid_min=np.int16(0), valid_max=np.int16(4600)); f.close()
expect('valid_min and valid_max of stored numbers', variables={'tcwv': variable(np.where((raw < 0) | (raw > 4600), np.nan, 60 - raw*0.01), members=[1, 2])})
