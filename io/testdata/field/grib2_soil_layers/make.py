import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

layers = [(0, 0, 1, 1), (1, 1, 1, 4), (1, 4, 0, 1), (0, 1, 0, 2)]
m = [message(2, field(k), productDefinitionTemplateNumber=0, centre=98, discipline=2, parameterCategory=0, parameterNumber=2, typeOfFirstFixedSurface=106, scaleFactorOfFirstFixedSurface=a,
             scaledValueOfFirstFixedSurface=b, typeOfSecondFixedSurface=106, scaleFactorOfSecondFixedSurface=c, scaledValueOfSecondFixedSurface=d) for k, (a, b, c, d) in enumerate(layers)]
write('fc.grib2', *m)
expect('four layers of soil whose bounds are decimals', variables={'st': dict(levels=['depth0-0.1m', 'depth0.1-0.4m', 'depth0.4-1m', 'depth1-2m'], fields=4, unit='K', **span(*m))})
