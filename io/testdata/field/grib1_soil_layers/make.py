import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

m = []
for k, (top, bottom) in enumerate([(0, 7), (7, 28), (28, 100)]):
    b = message(1, field(k), centre=98, table2Version=128, indicatorOfParameter=139)
    m.append(octets(b, 8, {10: bytes([112, top, bottom])}))
write('fc.grib1', *m)
expect('layers of soil in cm', variables={'stl1': dict(levels=['depth0-0.07m', 'depth0.07-0.28m', 'depth0.28-1m'], fields=3, **span(*m))})
