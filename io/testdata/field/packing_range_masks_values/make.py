import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# As a double in degC it excludes values below 5 degC, and valid_max as float32 those above 10.
f = File('fc.nc'); f.ensemble()
raw = np.rint((fields((2, 1)) - 280)/0.01).astype('i2')
f.add('t2m', ('number', 'time', 'lat', 'lon'), raw, 'i2', -32768, units='degC', scale_factor=0.01, add_offset=7., valid_min=5., valid_max=np.float32(10)); f.close()
x = raw*0.01 + 7
expect('valid_min and valid_max in the unit of the values', variables={'2t': variable(np.where((x < 5) | (x > 10), np.nan, x + 273.15), members=[1, 2])})
