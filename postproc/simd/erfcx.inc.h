// Made by erfcx.py; see there. c_0 to c_20, relative error 3e-15.
enum { ERFCX_DEGREE = 20 };
static const double erfcx_c[ERFCX_DEGREE + 1] = {0x1.3ccda0b5d5dbdp+0, -0x1.1f367683f83d8p-3, 0x1.d5f2948202360p-9, 0x1.510169d05fc72p-4, -0x1.bda9309b06a0ep-4, 0x1.7a14188f3d705p-4, -0x1.e0d0fa519bd77p-5, 0x1.d0b002c49be8ep-6, -0x1.3f603fe296925p-7, 0x1.cc3a4dfbbae7cp-10, 0x1.33fd5ac06956ap-12, -0x1.3042f294aad16p-12, 0x1.b10f658c45e81p-15, 0x1.77fae50983eebp-16, -0x1.7e70db10f2f5dp-17, -0x1.0eb5a001a69bcp-20, 0x1.c6b5ab9fa13e7p-20, -0x1.dba2d65968be2p-26, -0x1.c9df6b1fc07a0p-23, 0x1.247d43c997075p-27, 0x1.296be6980b612p-26};
static const double erfcx_k = 3.75;
