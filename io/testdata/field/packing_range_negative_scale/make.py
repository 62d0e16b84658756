import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# A range of values with a negative scale: the bounds of the stored numbers are exchanged.
f = File('fc.nc'); f.ensemble()
raw = (np.arange(48)*100).reshape(2, 1, 4, 6).astype('i2')
f.add('tcwv', ('number', 'time', 'lat', 'lon'), raw, 'i2', -1, units='kg m-2', scale_factor=-0.01, add_offset=60., valid_range=np.array([20., 50.])); f.close()
x = 60 - raw*0.01
expect('valid_range of values with a negative scale', variables={'tcwv': variable(np.where((x < 20) | (x > 50), np.nan, x), members=[1, 2])})
