import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# Shorts whose valid_range is a double in K, wider than the stored numbers (NUG).
f = File('fc.nc'); f.ensemble()
raw = np.rint((fields((2, 1)) - 280)/0.01).astype('i2')
f.add('t2m', ('number', 'time', 'lat', 'lon'), raw, 'i2', -32768, units='K', scale_factor=0.01, add_offset=280., valid_range=np.array([150., 350.])); f.close()
expect('valid_range in the unit of the values', variables={'2t': variable(raw*0.01 + 280, members=[1, 2], leads=['6h'], levels=['2m'], unit='K')})
