import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
raw = np.rint((fields((2, 1)) - 280)/0.01).astype('i2')
f.add('t2m', ('number', 'time', 'lat', 'lon'), raw, 'i2', units='K', scale_factor='0.01', add_offset=280.); f.close()
expect('scale_factor as a text', variables={'2t': variable(raw*0.01 + 280, members=[1, 2])}, warnings=['scale_factor is the text "0.01"'])
