import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# Bytes that are unsigned: valid_range 0 to 250 stored as 0, -6; fill value 255 as -1.
f = File('fc.nc'); f.ensemble()
raw = (np.arange(48)*5 + 15).astype('u1').reshape(2, 1, 4, 6); raw[0, 0, 0, 0] = 255; raw[1, 0, 0, 0] = 252
f.add('tcc', ('number', 'time', 'lat', 'lon'), raw.view('i1'), 'i1', np.int8(-1), attrs={'_Unsigned': 'true'}, units='%', scale_factor=np.float32(0.4), valid_range=np.array([0, -6], 'i1')); f.close()
expect('_Unsigned with a valid range', variables={'tcc': variable(np.where(raw > 250, np.nan, raw*np.float64(np.float32(0.4))/100), members=[1, 2], unit='1')})
